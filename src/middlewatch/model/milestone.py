"""Recorded facts on the way from a fault to training that goes on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from middlewatch.model.identity import AttemptId
from middlewatch.model.steps import StepCounter


class MilestoneKind(StrEnum):
    FAULT = "fault"
    DETECTED = "detected"
    ADVISED = "advised"
    HELD = "held"
    CONSTRAINED = "constrained"
    RELEASED = "released"
    RUNNING = "running"
    RESUMED = "resumed"
    """The successor's first step beyond the last one before the fault."""


class MilestoneSource(StrEnum):
    """Who told of a milestone, and by whose clock its ``at`` is."""

    LOG = "log"
    """The job's own output: the time that it printed, or else the time at which it was read."""
    SCHEDULER = "scheduler"
    """The scheduler's clock, in whole seconds."""
    METRICS = "metrics"
    FILES = "files"
    API = "api"
    """A client's word, by its clock."""
    WATCHER = "watcher"
    MANAGER = "manager"
    CONTROLLER = "controller"


OUR_CLOCK = frozenset(
    {MilestoneSource.WATCHER, MilestoneSource.MANAGER, MilestoneSource.CONTROLLER}
)
"""Sources whose clock is ours: what they tell can be put in order without a doubt."""


class Operation(StrEnum):
    RESTART = "RESTART"
    TERMINATE = "TERMINATE"
    DAG_RELEASE = "DAG_RELEASE"
    CONSTRAIN = "CONSTRAIN"


class SchedulerAction(StrEnum):
    """Scheduler command occurrences, as the wire names them (without their prefix)."""

    SLURM_REQUEUE_HOLD = "SLURM_REQUEUE_HOLD"
    SLURM_UPDATE_CONSTRAINTS = "SLURM_UPDATE_CONSTRAINTS"
    SLURM_RELEASE = "SLURM_RELEASE"
    SLURM_CANCEL = "SLURM_CANCEL"


@dataclass(frozen=True, slots=True)
class Sequence:
    """One recovery operation: its key parts and its W3C trace context."""

    id: str
    scheduler: str
    environment: str
    job_id: str
    source_attempt_index: int
    source_attempt_id: AttemptId
    operation: Operation
    traceparent: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Milestone:
    """One fact of one sequence; ``idempotency_key`` folds repeated reports of it.

    ``at`` is when it happened, by the clock of ``source``; ``learned_at`` when we learnt it, by
    ours. ``step``: of a fault the last step before it, of *resumed* the first one beyond
    ``past_step``, the furthest step that was lost.
    """

    sequence_id: str
    idempotency_key: str
    at: datetime
    learned_at: datetime
    kind: MilestoneKind | None = None
    operation: Operation | None = None
    action: SchedulerAction | None = None
    step: int | None = None
    detail: str = ""
    source: MilestoneSource | None = None
    """None in records of versions that did not write it down."""
    past_step: int | None = None
    steps_of: StepCounter | None = None
    """The counter of ``step``, of a fault; None where it is not known."""
