"""Observed facts about one attempt, and what was seen of its progress.

A signal is a fact, never an opinion: a line was printed, a job ended, nothing was printed for so
long. Its key is derived from where it was found, so that reading the same place twice makes the
same signal, and storing it twice makes one.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from middlewatch.model.identity import AttemptId
from middlewatch.model.steps import Reached, StepCounter


class Domain(StrEnum):
    HARDWARE = "hardware"
    NETWORK = "network"
    STORAGE = "storage"
    SYSTEM_SOFTWARE = "system_software"
    APPLICATION = "application"
    SCHEDULER = "scheduler"
    USER = "user"
    UNKNOWN = "unknown"


class SignalKind(StrEnum):
    FAILURE_LINE = "failure_line"
    """A line that a failure pattern names."""
    WATCHDOG_LINE = "watchdog_line"
    """A communication watchdog's own message that a collective hangs."""
    CASCADE_LINE = "cascade_line"
    """A consequence printed by launchers and by Slurm: never a first cause."""
    LAUNCHER_END = "launcher_end"
    """The launcher's own word that the workers have ended (torchrun's report, srun's)."""
    HINT = "hint"
    """A line that explains a failure that follows, and means nothing without one."""
    SILENCE = "silence"
    """No progress for longer than the limit beyond which a silence may count against the job."""
    OVERDUE = "overdue"
    """No sign of life for longer than such a phase should take, and not yet for longer than it may:
    an alarm that nothing is done upon, whatever the policy."""
    NO_PROGRESS_AFTER_FAILURE = "no_progress_after_failure"
    """A failure line, and then no progress for the learnt grace: the program did not recover."""
    RECOVERED = "recovered"
    """Progress went on after a failure line: the program healed itself."""
    SCHEDULER_END = "scheduler_end"
    """The scheduler's word that the attempt has ended, and how."""
    CANNOT_READ = "cannot_read"
    """The log cannot be read, with the reason."""
    VANISHED = "vanished"
    """The scheduler came back from an older state and no longer knows this attempt."""
    SECOND_WITNESS = "second_witness"
    """A witness of another kind than the log, posted by a collector."""
    EXTERNAL = "external"
    """Posted over the API by a site's own detector."""
    SLOW = "slow"
    """A lasting drop of speed below the job's own recent baseline."""
    NUMERIC = "numeric"
    """A loss or gradient norm that is no number any more, or has jumped."""
    BLIND = "blind"
    """The job runs and what is needed to judge it cannot be seen."""
    SEEN_AGAIN = "seen_again"
    """A job that could not be seen can be seen again."""
    DEPENDENCY = "dependency"
    """The job's owner declares which jobs must be done before it is let go: no trouble."""


SILENT = frozenset({SignalKind.SILENCE, SignalKind.OVERDUE})
"""Kinds that say that nothing is heard of the job."""


class Severity(StrEnum):
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    FATAL = "fatal"


class SourceKind(StrEnum):
    LOG = "log"
    SCHEDULER = "scheduler"
    CLOCK = "clock"
    """Derived from the absence of something by the watcher's own clock."""
    API = "api"
    METRICS = "metrics"
    """A time series that the job's user cannot write (power, activity, CPU time, I/O)."""
    FILES = "files"
    """The file system itself: a checkpoint directory that grows or does not."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a fact was found. ``identity`` names the source (a file's device and inode, the
    scheduler, an API client); ``position`` is the place in it (a byte offset, a time)."""

    kind: SourceKind
    identity: str
    position: str
    path: str = ""


@dataclass(frozen=True, slots=True)
class Signal:
    """One observed fact. ``excerpt`` is at most 2,000 characters of the evidence itself;
    ``nodes`` and ``ranks`` are what the evidence names, not yet believed."""

    key: str
    attempt_id: AttemptId
    kind: SignalKind
    source: Source
    happened_at: datetime
    learned_at: datetime
    pattern_id: str = ""
    failure_class: str = ""
    domain: Domain = Domain.UNKNOWN
    severity: Severity = Severity.ERROR
    excerpt: str = ""
    nodes: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    step: int | None = None
    value: float | None = None
    detail: str = ""


def signal_key(attempt: AttemptId, source: Source, pattern: str) -> str:
    """The idempotency key: (attempt, source identity, position, pattern)."""
    parts = (attempt, source.kind.value, source.identity, source.position, pattern)
    return hashlib.sha256("\x1f".join(parts).encode("utf-8", "surrogatepass")).hexdigest()[:40]


class Phase(StrEnum):
    STARTING = "starting"
    COMPILE = "compile"
    FIRST_STEP = "first_step"
    TRAINING = "training"
    EVALUATION = "evaluation"
    CHECKPOINT = "checkpoint"
    SHUTDOWN = "shutdown"


@dataclass(frozen=True, slots=True)
class Unseen:
    """Something that is needed to judge a live job and cannot be seen. ``what`` is ``log``
    (nothing of its output can be read), ``progress`` (no line of it is recognised as
    progress), ``lines`` (some came too late to be read) or ``metrics`` (the site's metrics server
    has nothing of its nodes); ``since`` is when it was last seen, when the lines were found to be
    lost, or when the attempt started."""

    what: str
    since: datetime
    why: str


@dataclass(frozen=True, slots=True)
class Pause:
    """One silence of an attempt, with what its limit was made of: the policy's ``limit`` (the
    name of a field) ``times`` a factor, or ``learnt_s`` from the job's own habit, whichever is
    longer. Enough to say what another limit would have meant."""

    since: datetime
    length_s: float
    phase: Phase
    limit_s: float
    """The limit that was in force, seconds."""
    limit: str
    times: float = 1.0
    learnt_s: float = 0.0
    lasts: bool = False


@dataclass(frozen=True, slots=True)
class Progress:
    """How far one attempt has come, as its log tells. Steps count as the program counts them.

    ``checkpoint_step`` is the newest step whose checkpoint is known to be complete;
    ``loaded_step`` the one that this attempt resumed from; ``step_time_s`` a typical step.
    """

    attempt_id: AttemptId
    phase: Phase = Phase.STARTING
    first_step: int | None = None
    last_step: int | None = None
    total_steps: int | None = None
    last_step_at: datetime | None = None
    first_step_at: datetime | None = None
    checkpoint_step: int | None = None
    checkpoint_at: datetime | None = None
    loaded_step: int | None = None
    step_time_s: float | None = None
    throughput: float | None = None
    """As the program prints it, in its own unit."""
    loss: float | None = None
    grad_norm: float | None = None
    silence_limit_s: float | None = None
    last_output_at: datetime | None = None
    log_drained_at: datetime | None = None
    """When the watcher had last read the attempt's files to their end."""
    unseen: tuple[Unseen, ...] = ()
    pauses: tuple[Pause, ...] = ()
    """The silences that came nearest to their limits or went beyond them; at most eight."""
    updated_at: datetime | None = None
    steps_of: StepCounter | None = None
    """The counter of ``last_step``, or of the last one that was seen where the count began anew; None
    in records of versions that did not write it down."""

    @property
    def reached(self) -> Reached:
        return Reached(self.last_step, self.steps_of)
