"""What a line pattern is: data that names a line, and what finding it means.

Patterns are written by people who read logs, in files, without Python. The scanner finds them, the
detection room says what a find means; this record is what the two share.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from middlewatch.model.signal import Domain, Phase, Severity


class PatternKind(StrEnum):
    """What a find means, before anything else is known."""

    FAILURE = "failure"
    WATCHDOG = "watchdog"
    CASCADE = "cascade"
    LAUNCHER_END = "launcher_end"
    TRACEBACK = "traceback"
    """A traceback begins: no failure yet, its last line is."""
    EXCEPTION = "exception"
    """A line of the form of a traceback's last one: a failure where a traceback is open."""
    HINT = "hint"
    """Means nothing by itself and explains a failure that follows: arms nothing, ends nothing."""
    HARMLESS = "harmless"
    """Looks like a failure and is none; with ``opens`` the traceback that follows it, too."""
    RESTARTING = "restarting"
    """A launcher says that it starts its workers again by itself."""
    PROGRESS = "progress"
    TOTAL = "total"
    """Says how many steps there will be, or which one training starts from."""
    CHECKPOINT_SAVING = "checkpoint_saving"
    CHECKPOINT_SAVED = "checkpoint_saved"
    CHECKPOINT_LOADED = "checkpoint_loaded"
    EVALUATION = "evaluation"
    PLAN = "plan"
    """The program changes by plan what a step is: its length, its batch."""
    PHASE = "phase"
    METRIC = "metric"
    """A number that belongs to the step printed before it (loss, throughput, a part's time)."""
    PLACEMENT = "placement"
    """Says which rank runs where."""
    STACK = "stack"
    """A line of a stack or flight-recorder dump: where a process stood."""
    ATTEMPT = "attempt"
    """A launcher or a batch script begins: the first such line, or the beginning of another try."""


LOOP = "loop."
"""How the ids of patterns begin that fit a loop of any kind: they are searched for, and what they
find is followed, only where no better pattern finds steps."""


class ProgressForm(StrEnum):
    """How a progress line counts."""

    STEP = "step"
    """It prints the step."""
    BAR = "bar"
    """A tqdm bar: repainted in place, and once more when its process dies."""
    TICK = "tick"
    """It is printed at each logging interval, without the step."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """One pattern. ``regex`` is RE2 syntax, matched against one line at a time (bytes read as
    Latin-1); its named groups are listed in ``docs/patterns.md``.

    Where several failure patterns match a line, the one with the greatest ``priority`` counts.
    ``confirmed_by_progress``: this save prints no end; it counts once the next step is seen.
    """

    id: str
    kind: PatternKind
    regex: str
    failure_class: str = ""
    domain: Domain = Domain.UNKNOWN
    severity: Severity = Severity.ERROR
    scope: str = "job"
    priority: int = 50
    form: ProgressForm = ProgressForm.STEP
    phase: Phase | None = None
    confirmed_by_progress: bool = False
    opens: bool = False
    source: str = ""
    examples: tuple[str, ...] = ()
    near_misses: tuple[str, ...] = ()
