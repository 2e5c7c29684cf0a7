"""What is remembered of a job's speed and numbers: bounded, whatever the job prints.

Costs are natural logarithms of time per iteration (or of its stand-in, one over the throughput),
so that a difference is a ratio and the same for a job of milliseconds and one of minutes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

RECENT = 64
"""Single costs that are kept; the older ones live on in the medians of blocks."""
BLOCK = 8
BLOCKS = 48
HELD = 64
"""Costs under suspicion that are kept out of the baseline."""
TIMERS = 10
TIMED = 24
WINNERS = 12


class Held(NamedTuple):
    """One cost under suspicion, with the place and the time of its line (seconds, UTC)."""

    cost: float
    step: int
    offset: int
    at_s: float


@dataclass(frozen=True, slots=True)
class Baseline:
    """The change-point test of one series. ``level`` and ``scale`` are the usual cost and its
    spread, ``error`` what the level may be wrong by, ``drift`` how far it goes up and down by itself
    over many lines; level is None until there are enough lines.
    ``recent`` are the last costs that belong
    to the baseline, ``blocks`` the medians of eight each, of ``joined`` lines in all. ``sums`` are
    the statistics, ``runs`` how many lines each has been above zero, ``streaks`` how many in a row
    were as slow as that, ``habits`` the longest such row that ended by itself, ``needs`` how many
    an alarm takes. ``held`` are the lines under suspicion. ``slow`` is the excess that was
    reported, 0 while the job has its usual speed; ``back`` the evidence that it has it again."""

    per_line: float = 1.0
    joined: int = 0
    iterations: int = 0
    recent: tuple[float, ...] = ()
    blocks: tuple[float, ...] = ()
    level: float | None = None
    scale: float = 0.0
    error: float = 0.0
    drift: float = 0.0
    needs: tuple[int, ...] = ()
    sums: tuple[float, ...] = ()
    runs: tuple[int, ...] = ()
    streaks: tuple[int, ...] = ()
    habits: tuple[int, ...] = ()
    held: tuple[Held, ...] = ()
    slow: float = 0.0
    back: float = 0.0


@dataclass(frozen=True, slots=True)
class Speed:
    """The speed of one attempt: ``rank`` says which quantity is followed, ``step`` is the last
    step of it. ``dropped`` counts the lines in a row that were passed over because of a pause,
    ``saves`` the saves that began, of which ``save`` is the last, ``plans`` the changes of what a
    step is.
    Where only clocks tell the speed, ``anchor_s`` is when step ``anchor`` was printed, by the
    clock ``clock``, ``at_s`` the last line's time, and ``coarse`` how sure it is that this clock
    knows whole seconds only."""

    rank: int = 0
    stream: str = ""
    step: int | None = None
    batch: float | None = None
    since_batch: int = 0
    dropped: int = 0
    save: int | None = None
    saves: int = 0
    anchor_s: float | None = None
    anchor: int = 0
    at_s: float = 0.0
    clock: str = ""
    coarse: int = 0
    baseline: Baseline = Baseline()
    slow_class: str = ""
    reports: int = 0
    plans: int = 0


@dataclass(frozen=True, slots=True)
class Timer:
    """The parts of a step as the program times them: the slowest and the fastest rank's
    milliseconds, one pair per interval, the newest last."""

    name: str
    highest: tuple[float, ...] = ()
    lowest: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Winner:
    """The slowest rank of one interval in one timer, and how many times the others' mean."""

    rank: int
    times: float
    step: int


@dataclass(frozen=True, slots=True)
class Parts:
    """Timers, and the table of ranks that is being printed: ``count`` lines and their ``total``
    milliseconds, ``top`` of them the slowest rank's."""

    timers: tuple[Timer, ...] = ()
    table: str = ""
    table_step: int = 0
    count: int = 0
    total: float = 0.0
    top: float = 0.0
    top_rank: int = -1
    last_rank: int = -1
    winners: tuple[Winner, ...] = ()
    network_s: float | None = None
    """When the last line about the network was seen, seconds."""


class Place(NamedTuple):
    """Where a series of odd numbers began."""

    stream: str
    offset: int
    path: str
    at_s: float
    step: int


@dataclass(frozen=True, slots=True)
class Odd:
    """A row of lines with odd numbers: how many lines, how many steps, where it began, whether it
    was told. ``what`` says what was odd about the first."""

    lines: int = 0
    steps: int = 0
    since: Place | None = None
    what: str = ""
    worst: float = 0.0
    told: str = ""


@dataclass(frozen=True, slots=True)
class Numbers:
    """Loss and gradient norm. ``told`` counts the step lines that carried a loss, ``untold`` those
    that did not although others did; ``losses`` and ``norms`` are the usual ones of late, and a
    value above ``loss_limit`` or ``norm_limit`` is not usual (None until enough are known).
    ``best_scale`` is the greatest loss scale seen."""

    told: int = 0
    untold: int = 0
    losses: tuple[float, ...] = ()
    norms: tuple[float, ...] = ()
    loss_usual: float = 0.0
    loss_limit: float | None = None
    norm_usual: float = 0.0
    norm_limit: float | None = None
    counted: int = 0
    best_scale: float = 0.0
    bad: Odd = Odd()
    high: Odd = Odd()
    steep: Odd = Odd()
    jumps: int = 0
