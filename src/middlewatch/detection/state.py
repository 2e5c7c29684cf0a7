"""What is remembered of one attempt between two rounds of looking.

One value per attempt, replaced once per round and stored together with the file cursors and the
signals that came of it: whoever reads it back goes on exactly where it was written. Everything is
bounded, however long the job runs and whatever it prints.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from middlewatch.detection.series import Numbers, Parts, Speed
from middlewatch.model.identity import AttemptId
from middlewatch.model.signal import Progress
from middlewatch.model.steps import Reached, StepCounter

RECENT_INTERVALS = 64
RECENT_STEP_TIMES = 31
RECENT_PAUSES = 8
RECENT_BOUNDARIES = 4
OPEN_TRACEBACKS = 32


@dataclass(frozen=True, slots=True)
class Suspicion:
    """A failure line was seen and the program has not shown since that it goes on.

    ``since`` is when we learnt of it; ``advances`` counts steps seen afterwards, the newest being
    ``step``. ``restarting``: a launcher said that it starts its workers again by itself.
    """

    key: str
    failure_class: str
    since: datetime
    watchdog: bool = False
    restarting: bool = False
    advances: int = 0
    step: int | None = None
    reported: bool = False


@dataclass(frozen=True, slots=True)
class OpenTraceback:
    """A traceback whose last line has not been seen; ``writer`` is the rank prefix before it."""

    writer: str
    stream: str
    offset: int
    harmless: bool = False
    about: str = ""
    """The failure class that one of its frames speaks of."""


@dataclass(frozen=True, slots=True)
class Boundary:
    """Another attempt begins here in the same file: at the byte ``offset`` of ``stream``."""

    stream: str
    offset: int
    how: str


@dataclass(frozen=True, slots=True)
class Counter:
    """The counter that is followed, of all that a program prints.

    ``pattern`` is the id of the pattern whose steps count and ``rank`` how explicit it is;
    ``writer`` the prefix of the process that printed the last step. ``per_epoch`` is the number of
    steps of an epoch where steps are counted anew in each, ``zero_based`` says that a step 0 was
    printed, ``taken`` how many steps lie between two lines. ``lower`` is a step below the last
    one that was seen ``lower_times`` times going up: one process that lags, or the count went back.
    ``other`` is the counter that went up ``other_times`` times since the followed one moved.
    ``epochs`` is how many the training has, ``ticks`` the lines without a step that were counted.
    ``instead_of`` is the counter that was followed before, where it was printed no more.
    """

    pattern: str = ""
    rank: int = 0
    writer: str = ""
    per_epoch: int | None = None
    zero_based: bool = False
    epochs: int | None = None
    epoch: int | None = None
    """The epoch that a line of its own told of: the counts that follow are within it."""
    first_epoch: int = 0
    """1 where a fresh training was seen to begin with epoch 1: then no epoch 0 lies behind it."""
    taken: int = 0
    ticks: int = 0
    lower: int | None = None
    lower_times: int = 0
    other: str = ""
    other_step: int = 0
    other_times: int = 0
    instead_of: str = ""


@dataclass(frozen=True, slots=True)
class DetectionState:
    """Times are by the watcher's clock (``Progress`` holds the log's own where it has any).

    ``advanced_at``: the last step forward; ``alive_at``: the last line that only a living program
    prints (a step, the start of an evaluation or a save); ``zone_s``: what must be added to the
    log's own time stamps to make them UTC; ``stamp_s``: the own time of the last line that showed
    life, seconds, by the clock ``stamp_of`` (the printed stamp, or the log store's), ``step_s`` and
    ``step_of`` that of the last step. ``intervals``:
    the seconds between two step lines; ``pauses``: (step, seconds) of the longer ones that nothing
    announced. ``resume_above``: the last step of the attempt before this one; ``reached``: the
    last step before the count began anew inside this one.
    """

    attempt_id: AttemptId
    progress: Progress
    resume_above: int | None = None
    resumed_step: int | None = None
    reached: int | None = None
    counter: Counter = Counter()
    advanced_at: datetime | None = None
    alive_at: datetime | None = None
    output_at: datetime | None = None
    started_at: datetime | None = None
    unread_since: datetime | None = None
    """Since when none of the attempt's files could be read."""
    zone_s: int | None = None
    stamp_s: float | None = None
    stamp_of: str = ""
    step_s: float | None = None
    step_of: str = ""
    intervals: tuple[float, ...] = ()
    step_times: tuple[float, ...] = ()
    pauses: tuple[tuple[int, float], ...] = ()
    startup_s: float | None = None
    phase_at: datetime | None = None
    interrupted: bool = False
    """Something other than steps was done since the last one: what lies between is no interval."""
    phase_gap_s: float = 0.0
    """The longest silence in the phase that goes on, seconds."""
    phase_habits: tuple[tuple[str, float, int], ...] = ()
    """Of each announced phase the longest silence that was seen in it, seconds, and how often it
    was seen to end."""
    saving_step: int | None = None
    saving_unconfirmed: bool = False
    suspicion: Suspicion | None = None
    seen_since: datetime | None = None
    """Since when the job can be judged again after it stood still by somebody's will, or after its
    output could not be read: what lay between is no silence of its own."""
    tracebacks: tuple[OpenTraceback, ...] = ()
    silence_reported: bool = False
    overdue: bool = False
    """The silence that was reported does not count for anything yet."""
    paused: bool = False
    end_reported: str = ""
    vanished_reported: bool = False
    unreadable_reported: tuple[str, ...] = ()
    ended: bool = False
    """A launcher or the scheduler said in the log that this run of the program is over."""
    after_end: Boundary | None = None
    """The first line behind that: where another attempt would have begun."""
    boundaries: tuple[Boundary, ...] = ()
    """The beginnings of later attempts in the same files; the last one is the present attempt's."""
    speed: Speed = Speed()
    parts: Parts = Parts()
    numbers: Numbers = Numbers()
    witnessed: tuple[str, ...] = ()
    """The witnesses that were heard in the silence that lasts."""
    save_intervals: tuple[float, ...] = ()
    """Seconds between the last completed saves."""
    resume_by: int | None = None
    """How explicit the counter was that told of ``resume_above``; None where that is not known."""
    epochs_from: int = 0
    """What the attempt before called its first epoch: a training that goes on counts from there."""
    saved_in: str = ""
    """The directory in which its checkpoints are, as its save lines tell."""
    resume_of: StepCounter | None = None
    """The counter of ``resume_above``; None where that is not known: then any counter's step counts."""


def fresh(attempt_id: AttemptId, resume_above: int | None = None) -> DetectionState:
    """The state before anything was seen of an attempt: nothing is carried over from another."""
    return DetectionState(attempt_id, Progress(attempt_id), resume_above=resume_above)


def furthest(state: DetectionState) -> int | None:
    """The last step that the attempt came to, where its count began anew the one before that."""
    last = state.progress.last_step
    return state.reached if last is None else last


def came_to(state: DetectionState) -> Reached:
    """`furthest`, with the counter that it is of."""
    return Reached(furthest(state), state.progress.steps_of)


def aim(state: DetectionState) -> Reached:
    """What the attempt is to pass: the step that was lost before it."""
    return Reached(state.resume_above, state.resume_of)
