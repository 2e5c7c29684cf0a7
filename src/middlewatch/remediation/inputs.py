"""Everything that a decision may look at, frozen into one record.

A decision must be arguable months later, so nothing is fetched while deciding: the caller gathers
all of it first, and the very same record is stored with what came of it and can be decided again.
What could not be seen is absent with a reason, never a zero.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from middlewatch.model.advice import Advice
from middlewatch.model.attempt import Attempt, EndedBy
from middlewatch.model.gates import Gates
from middlewatch.model.identity import AttemptId
from middlewatch.model.issue import Issue, Verdict
from middlewatch.model.optin import JobMode
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import JobState, PartitionView
from middlewatch.model.signal import Domain, Progress, Signal, SignalKind, SourceKind
from middlewatch.model.steps import Reached, StepCounter


@dataclass(frozen=True, slots=True)
class Witnesses:
    """What the signals of one issue amount to. ``second`` names the witnesses that are not the
    job's own log; ``news_at`` is when the newest telling fact happened."""

    failure_lines: int = 0
    watchdog_lines: int = 0
    silence: bool = False
    overdue: bool = False
    """It is silent, and not for long enough to count."""
    no_progress_after_failure: bool = False
    launcher_end_in_log: bool = False
    launcher_end_elsewhere: bool = False
    scheduler_end: bool = False
    second: tuple[str, ...] = ()
    news_at: datetime | None = None
    slow: str = ""
    """What was measured of a lasting loss of speed; empty where there is none."""
    numbers: str = ""
    """What is wrong with the numbers for good; empty where nothing is."""

    @property
    def something_failed(self) -> bool:
        """A crash line, a communication watchdog's message or a launcher's report: more than
        silence."""
        return bool(self.failure_lines or self.watchdog_lines or self.launcher_end_in_log)


_FROM_ELSEWHERE = frozenset({SignalKind.SECOND_WITNESS, SignalKind.EXTERNAL})
_NOT_THE_LOG = frozenset({SourceKind.API, SourceKind.METRICS, SourceKind.SCHEDULER})
"""Sources that whoever writes the job's log does not write."""
_FAILED = frozenset({SignalKind.FAILURE_LINE, SignalKind.WATCHDOG_LINE, SignalKind.LAUNCHER_END})
_NEWS = frozenset(
    {
        SignalKind.FAILURE_LINE,
        SignalKind.WATCHDOG_LINE,
        SignalKind.LAUNCHER_END,
        SignalKind.NO_PROGRESS_AFTER_FAILURE,
        SignalKind.SILENCE,
        SignalKind.OVERDUE,
        SignalKind.SCHEDULER_END,
        SignalKind.SECOND_WITNESS,
        SignalKind.EXTERNAL,
        SignalKind.SLOW,
        SignalKind.NUMERIC,
    }
)


def witnesses_of(signals: Iterable[Signal]) -> Witnesses:
    """Count the witnesses among the signals of one issue.

    Whoever may write the job's log may write every line of it: a witness counts as a second one
    only if its source is not the log.
    """
    seen = tuple(signals)
    kinds = [signal.kind for signal in seen]
    # A program that does not step does not save: beside mere silence that is the same silence.
    failed = any(kind in _FAILED for kind in kinds)
    return Witnesses(
        failure_lines=kinds.count(SignalKind.FAILURE_LINE),
        watchdog_lines=kinds.count(SignalKind.WATCHDOG_LINE),
        silence=SignalKind.SILENCE in kinds,
        overdue=SignalKind.OVERDUE in kinds,
        no_progress_after_failure=SignalKind.NO_PROGRESS_AFTER_FAILURE in kinds,
        launcher_end_in_log=any(
            s.kind is SignalKind.LAUNCHER_END and s.source.kind is SourceKind.LOG for s in seen
        ),
        launcher_end_elsewhere=any(
            s.kind is SignalKind.LAUNCHER_END and s.source.kind is not SourceKind.LOG for s in seen
        ),
        scheduler_end=SignalKind.SCHEDULER_END in kinds,
        second=tuple(
            dict.fromkeys(
                s.source.identity or s.source.kind.value
                for s in seen
                if s.kind in _FROM_ELSEWHERE
                and (
                    s.source.kind in _NOT_THE_LOG or (s.source.kind is SourceKind.FILES and failed)
                )
            )
        ),
        slow=next((s.detail for s in reversed(seen) if s.kind is SignalKind.SLOW), ""),
        numbers=next(
            (s.detail for s in seen if s.kind is SignalKind.NUMERIC and s.failure_class), ""
        ),
        news_at=max((s.happened_at for s in seen if s.kind in _NEWS), default=None),
    )


@dataclass(frozen=True, slots=True)
class PastAttempt:
    """One earlier attempt of the same job, as far as budgets and the node ledger need it.

    ``restarted_by_us``: our RESTARTED advice for it converged, so that the next attempt is ours.
    ``blamed_nodes``: nodes that its verdicts implicated on grounds that permit excluding them.
    ``checkpoint_step`` and ``loaded_step`` are None where its log told nothing.
    """

    attempt_id: AttemptId
    attempt_index: int
    restarted_by_us: bool = False
    ended_by: EndedBy | None = None
    failure_class: str = ""
    domain: Domain = Domain.UNKNOWN
    blamed_nodes: tuple[str, ...] = ()
    excluded_by_us: tuple[str, ...] = ()
    last_step: int | None = None
    checkpoint_step: int | None = None
    loaded_step: int | None = None
    steps_of: StepCounter | None = None
    """The counter of ``last_step``; None in what versions froze that did not write it down."""

    @property
    def reached(self) -> Reached:
        return Reached(self.last_step, self.steps_of)


@dataclass(frozen=True, slots=True)
class History:
    """The earlier attempts of the same job, oldest first. ``unknown_before`` says that the job
    had run before we first saw it: what those attempts came to is not known and counts nothing."""

    attempts: tuple[PastAttempt, ...] = ()
    unknown_before: int = 0
    weighs_progress: bool = False
    """Whether restarts in vain count. False in what versions froze that did not know of them."""


@dataclass(frozen=True, slots=True)
class Successor:
    """The next attempt of the same job, where the scheduler already shows one."""

    attempt_index: int
    state: JobState
    vanished: bool = False


@dataclass(frozen=True, slots=True)
class DecisionInputs:
    """The frozen inputs of one decision about one attempt.

    ``partitions`` is None where the scheduler could not be asked, with the reason beside it.
    ``existing`` is the advice that stands for this attempt, whatever became of it.
    """

    attempt: Attempt
    mode: JobMode
    issue: Issue
    verdict: Verdict
    witnesses: Witnesses
    progress: Progress | None
    history: History
    policy: Policy
    gates: Gates
    partitions: tuple[PartitionView, ...] | None
    partitions_unknown: str
    successor: Successor | None
    existing: Advice | None
    now: datetime
    cluster_seen: bool = True
    """Whether the scheduler said what it calls itself: without that, ownership looks closed."""
    successor_lost: bool = False
    """Whether a successor was seen and the scheduler then came back from a state without it."""
