"""Recorded facts on the way from a fault to training that goes on."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from middlewatch.model.identity import AttemptId


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
    """One fact of one sequence; ``idempotency_key`` folds repeated reports of it."""

    sequence_id: str
    idempotency_key: str
    at: datetime
    learned_at: datetime
    kind: MilestoneKind | None = None
    operation: Operation | None = None
    action: SchedulerAction | None = None
    step: int | None = None
    detail: str = ""
