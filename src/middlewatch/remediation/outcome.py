"""What a decision can be: advice with all it weighed, or a refusal to advise with its one ground."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from middlewatch.model.advice import Intent


class BudgetName(StrEnum):
    WITHOUT_CHECKPOINT = "restarts_without_checkpoint"
    """Our restarts in a row that brought no new complete checkpoint."""
    RESTARTS = "restarts_of_job"
    """All our restarts of this job."""
    SAME_FAILURE = "same_failure_at_same_step"
    """Our restarts in a row that ended in the same failure of the program at the same step."""
    BROKEN_STARTS = "starts_broken_by_scheduler"
    """Restarts in a row that the scheduler itself broke: they cost the job nothing, but end."""
    WITHOUT_PROGRESS = "restarts_without_progress"
    """Our restarts in a row, ended alike, of which none passed the step that was lost."""


@dataclass(frozen=True, slots=True)
class Budget:
    """One budget as it was weighed. ``used`` does not count the restart being decided.

    ``applies`` is False where the budget says nothing about this case; ``note`` says why.
    """

    name: BudgetName
    used: int
    limit: int
    allowed: bool
    applies: bool = True
    note: str = ""


class Dropped(StrEnum):
    """Why a node that evidence names is not excluded all the same."""

    REQUIRED = "required_by_job"
    EXCLUDED_BY_USER = "excluded_by_user_already"
    TOO_MANY = "more_than_policy_allows"
    NOT_SPARED = "partition_cannot_spare_it"
    PARTITIONS_UNKNOWN = "partitions_unknown"


@dataclass(frozen=True, slots=True)
class DroppedNode:
    node: str
    why: Dropped


@dataclass(frozen=True, slots=True)
class Exclusions:
    """The nodes to exclude, sorted, and those that evidence named but that are left alone."""

    nodes: tuple[str, ...] = ()
    dropped: tuple[DroppedNode, ...] = ()
    note: str = ""


class RefrainBasis(StrEnum):
    """The one ground for not advising."""

    NOT_OPTED_IN = "not_opted_in"
    NO_FAILURE = "no_failure"
    NOT_RUNNING = "not_running"
    WAITING_FOR_WITNESS = "waiting_for_witness"
    WAITING_FOR_END = "waiting_for_end"
    WAITING_FOR_PARTITIONS = "waiting_for_partitions"
    WAITING_FOR_SCHEDULER = "waiting_for_scheduler"
    WAITING_FOR_OUTCOME = "waiting_for_outcome"
    SILENCE_ALONE = "silence_alone"
    SLOW_WITHOUT_NODE = "slow_without_node"
    SLOW_ALONE = "slow_alone"
    NUMBERS_ALONE = "numbers_alone"
    COMPLETED = "completed"
    CANCELLED_BY_PERSON = "cancelled_by_person"
    PREEMPTED = "preempted"
    TIME_LIMIT = "time_limit"
    DEADLINE = "deadline"
    NOT_RESTARTABLE_STATE = "not_restartable_state"
    HELD_AFTER_BROKEN_START = "held_after_broken_start"
    END_UNKNOWN = "end_unknown"
    NOT_REQUEUEABLE = "not_requeueable"
    SUCCEEDED_BY_DEPENDENT = "succeeded_by_dependent"
    ENDED_BEFORE_SEEN = "ended_before_seen"
    REQUEUED_ALREADY = "requeued_already"
    APPLICATION_FAILURE = "application_failure"
    BUDGET_SPENT = "budget_spent"
    VANISHED = "vanished"
    ANOTHER_DECISION_STANDS = "another_decision_stands"
    DECIDED_ALREADY = "decided_already"


WAITING = frozenset(
    {
        RefrainBasis.WAITING_FOR_WITNESS,
        RefrainBasis.WAITING_FOR_END,
        RefrainBasis.WAITING_FOR_PARTITIONS,
        RefrainBasis.WAITING_FOR_SCHEDULER,
        RefrainBasis.WAITING_FOR_OUTCOME,
        RefrainBasis.SILENCE_ALONE,
        RefrainBasis.SLOW_WITHOUT_NODE,
        RefrainBasis.SLOW_ALONE,
        RefrainBasis.NUMBERS_ALONE,
        RefrainBasis.NOT_RUNNING,
        RefrainBasis.END_UNKNOWN,
    }
)
"""Grounds that the next facts may remove: such an attempt is looked at again."""


@dataclass(frozen=True, slots=True)
class Advise:
    """Advice shall stand for the attempt. ``decided_anew``: the standing generation ended without
    having been permitted, and new trouble came after it, so that a new generation is due."""

    intent: Intent
    budgets: tuple[Budget, ...]
    exclusions: Exclusions
    decided_anew: bool = False


@dataclass(frozen=True, slots=True)
class Refrain:
    """No advice, or none beyond what stands."""

    basis: RefrainBasis
    explanation: str
    budgets: tuple[Budget, ...] = ()


Outcome = Advise | Refrain
