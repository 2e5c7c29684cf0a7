"""Advice: the recorded decision about what should happen next to one attempt, and its rules.

Written before anybody acts and readable for ever. The rules of its change are functions here, so
that every store only compares and swaps: a generation grows when the intent changes, a report
closes only the generation that it saw, the same report twice is one report.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from middlewatch.model.gates import Gates
from middlewatch.model.identity import AttemptId, ClusterId


class DesiredState(StrEnum):
    RESTARTED = "RESTARTED"
    TERMINATED = "TERMINATED"
    RELEASED = "RELEASED"
    CONSTRAINED = "CONSTRAINED"
    """Constraint-only: no desired state, the attempt shall carry the exclusions."""


DURABLE = frozenset({DesiredState.RELEASED, DesiredState.TERMINATED})


class Disposition(StrEnum):
    PENDING = "PENDING"
    CONVERGED = "CONVERGED"
    ABANDONED = "ABANDONED"


class Reason(StrEnum):
    """Why a status is what it is. The last two belong to PENDING reports."""

    DESIRED_STATE_OBSERVED = "DESIRED_STATE_OBSERVED"
    ALREADY_SATISFIED = "ALREADY_SATISFIED"
    STALE_ATTEMPT = "STALE_ATTEMPT"
    ADVICE_EXPIRED = "ADVICE_EXPIRED"
    NOT_PERMITTED = "NOT_PERMITTED"
    TARGET_ENDED = "TARGET_ENDED"
    TARGET_GONE = "TARGET_GONE"
    TARGET_REPLACED = "TARGET_REPLACED"
    TARGET_RUNNING = "TARGET_RUNNING"
    SUCCEEDED_BY_DEPENDENT = "SUCCEEDED_BY_DEPENDENT"
    OPERATOR_HOLD = "OPERATOR_HOLD"
    REVIVED_IN_ERROR = "REVIVED_IN_ERROR"
    OTHER = "OTHER"
    """Abandoned for a reason that only its reporter (another implementation) has a word for."""
    IN_PROGRESS = "IN_PROGRESS"
    UNKNOWN_STATE = "UNKNOWN_STATE"


CONVERGED_REASONS = frozenset({Reason.DESIRED_STATE_OBSERVED, Reason.ALREADY_SATISFIED})
ABANDONED_REASONS = frozenset(
    {
        Reason.STALE_ATTEMPT,
        Reason.ADVICE_EXPIRED,
        Reason.NOT_PERMITTED,
        Reason.TARGET_ENDED,
        Reason.TARGET_GONE,
        Reason.TARGET_REPLACED,
        Reason.TARGET_RUNNING,
        Reason.SUCCEEDED_BY_DEPENDENT,
        Reason.OPERATOR_HOLD,
        Reason.REVIVED_IN_ERROR,
        Reason.OTHER,
    }
)


@dataclass(frozen=True, slots=True)
class Status:
    """One report about one generation. ``detail`` is a sentence for people."""

    observed_generation: int
    disposition: Disposition
    reason: Reason
    observed_at: datetime
    detail: str = ""
    reporter: str = ""

    @property
    def terminal(self) -> bool:
        return self.disposition is not Disposition.PENDING


class DecisionBasis(StrEnum):
    """The one ground that a decision stands on."""

    ATTEMPT_ENDED_IN_FAILURE = "attempt_ended_in_failure"
    NODE_FAILURE = "node_failure"
    LAUNCHER_REPORTED_END = "launcher_reported_end"
    FAILURE_LINE_AND_NO_PROGRESS = "failure_line_and_no_progress"
    WATCHDOG_AND_NO_PROGRESS = "watchdog_and_no_progress"
    SECOND_WITNESS = "second_witness"
    SILENCE = "silence"
    """No progress and nothing else; only where the policy lets silence act."""
    SLOW_NODE = "slow_node"
    """A lasting loss of speed with a node to blame; only where policy and job let slowness act."""
    NUMBERS = "numbers"
    """Numbers that are none any more; only where the policy lets numbers act."""
    PERSON = "person"
    DAG = "dag"


@dataclass(frozen=True, slots=True)
class Advice:
    """One decision about one immutable target.

    Target: ``owner`` (scheduler + environment: who may act), ``job_id``, ``attempt_index``,
    ``attempt_id``, ``submitted_at``. ``exclusions`` are single node names, sorted.
    ``may_end_running`` says that the evidence permits ending a running attempt.
    ``status`` is the current generation's latest report. ``version`` is the row's, for
    compare-and-swap: it also grows with reports.
    """

    attempt_id: AttemptId
    job_id: str
    attempt_index: int
    submitted_at: datetime
    owner: ClusterId
    desired: DesiredState
    exclusions: tuple[str, ...]
    generation: int
    desired_state_changed_at: datetime
    created_at: datetime
    basis: DecisionBasis
    gates: Gates
    policy_version: str
    sequence_id: str
    may_end_running: bool = False
    may_restart_after: tuple[str, ...] = ()
    """Job states beyond the plain failures that the policy lets us restart (TIMEOUT, ...)."""
    failure_class: str = ""
    issue_ids: tuple[str, ...] = ()
    explanation: str = ""
    status: Status | None = None
    version: int = 0

    @property
    def active(self) -> bool:
        """Still needs work: the current generation has no terminal outcome."""
        return self.status is None or not self.status.terminal


class RefusedReport(ValueError):
    """A report that must not be recorded; the message says why."""


def reported(advice: Advice, status: Status) -> Advice:
    """The advice after a report. The same object comes back where the report changes nothing.

    Raises `RefusedReport` for a generation that is not the current one, for a second, different
    terminal outcome, for a PENDING report after a terminal one, and for a reason that does not go
    with the disposition.
    """
    if status.observed_generation != advice.generation:
        raise RefusedReport(
            f"the report is about generation {status.observed_generation}, "
            f"the current one is {advice.generation}"
        )
    allowed = {
        Disposition.CONVERGED: CONVERGED_REASONS,
        Disposition.ABANDONED: ABANDONED_REASONS,
        Disposition.PENDING: frozenset(Reason) - CONVERGED_REASONS,
    }[status.disposition]
    if status.reason not in allowed:
        raise RefusedReport(f"{status.reason} is no reason for {status.disposition}")
    current = advice.status
    if current is not None:
        same = (current.disposition, current.reason) == (status.disposition, status.reason)
        if same and (current.terminal or current.detail == status.detail):
            # The first report of an outcome is the record of it, whatever its detail says later;
            # while work goes on, what it waits for is told as it is now.
            return advice
        if current.terminal:
            raise RefusedReport(
                f"generation {advice.generation} already ended as "
                f"{current.disposition} {current.reason}"
            )
    return replace(advice, status=status)


@dataclass(frozen=True, slots=True)
class Intent:
    """What a new decision wants of a target, before it is compared with what stands."""

    desired: DesiredState
    exclusions: tuple[str, ...]
    owner: ClusterId
    basis: DecisionBasis
    gates: Gates
    policy_version: str
    may_end_running: bool
    may_restart_after: tuple[str, ...] = ()
    failure_class: str = ""
    issue_ids: tuple[str, ...] = ()
    explanation: str = ""


def revised(advice: Advice, intent: Intent, now: datetime, *, decided_anew: bool = False) -> Advice:
    """The advice after a new decision about the same target.

    The generation grows when the desired state, the constraints or the routing change, or when
    ``decided_anew`` (a generation that was not permitted is decided again under open gates).
    More evidence alone is attached and changes neither generation nor age.
    """
    wanted = tuple(sorted(set(intent.exclusions)))
    same = (
        advice.desired is intent.desired
        and advice.exclusions == wanted
        and advice.owner == intent.owner
    )
    issues = tuple(dict.fromkeys(advice.issue_ids + intent.issue_ids))
    if same and not decided_anew:
        return replace(advice, issue_ids=issues)
    return replace(
        advice,
        desired=intent.desired,
        exclusions=wanted,
        owner=intent.owner,
        basis=intent.basis,
        gates=intent.gates,
        policy_version=intent.policy_version,
        may_end_running=intent.may_end_running,
        may_restart_after=intent.may_restart_after,
        failure_class=intent.failure_class,
        issue_ids=issues,
        explanation=intent.explanation,
        generation=advice.generation + 1,
        desired_state_changed_at=now,
        status=None,
    )
