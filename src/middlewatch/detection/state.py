"""What is remembered of one attempt between two rounds of looking.

One value per attempt, replaced once per round and stored together with the file cursors and the
signals that came of it: whoever reads it back goes on exactly where it was written. Everything is
bounded, however long the job runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from middlewatch.detection.series import Numbers, Parts, Speed
from middlewatch.model.identity import AttemptId
from middlewatch.model.signal import Progress

RECENT_INTERVALS = 64
RECENT_STEP_TIMES = 31
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


@dataclass(frozen=True, slots=True)
class DetectionState:
    """Times are by the watcher's clock (``Progress`` holds the log's own where it has any).

    ``advanced_at``: the last step forward; ``alive_at``: the last line that only a living program
    prints (a step, the start of an evaluation or a save); ``zone_s``: what must be added to the
    log's own time stamps to make them UTC; ``stamp_s``: the last progress line's stamp, seconds.
    ``resume_above``: the last step of the attempt before this one.
    """

    attempt_id: AttemptId
    progress: Progress
    resume_above: int | None = None
    resumed_step: int | None = None
    counting: str = ""
    """Id of the pattern whose steps are counted."""
    counting_rank: int = 0
    advanced_at: datetime | None = None
    alive_at: datetime | None = None
    output_at: datetime | None = None
    started_at: datetime | None = None
    zone_s: int | None = None
    stamp_s: float | None = None
    intervals: tuple[float, ...] = ()
    longest_interval_s: float = 0.0
    step_times: tuple[float, ...] = ()
    startup_s: float | None = None
    phase_at: datetime | None = None
    phase_lengths: tuple[tuple[str, float], ...] = ()
    """The longest seen of each announced phase, seconds: evaluations, saves."""
    saving_step: int | None = None
    saving_unconfirmed: bool = False
    suspicion: Suspicion | None = None
    tracebacks: tuple[OpenTraceback, ...] = ()
    silence_reported: bool = False
    paused: bool = False
    end_reported: str = ""
    vanished_reported: bool = False
    unreadable_reported: tuple[str, ...] = ()
    unread_since: datetime | None = None
    """Since when nothing of its output could be read; None while something can."""
    speed: Speed = Speed()
    parts: Parts = Parts()
    numbers: Numbers = Numbers()


def fresh(attempt_id: AttemptId, resume_above: int | None = None) -> DetectionState:
    """The state before anything was seen of an attempt: nothing is carried over from another."""
    return DetectionState(attempt_id, Progress(attempt_id), resume_above=resume_above)
