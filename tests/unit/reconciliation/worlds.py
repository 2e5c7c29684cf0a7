"""Small builders of situations, so that each test names only what it is about."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from middlewatch.model.action import Action, ActionKind, ActionRecord, Answered
from middlewatch.model.advice import Advice, DecisionBasis, DesiredState
from middlewatch.model.answer import Answer, Known
from middlewatch.model.attempt import Attempt, AttemptEnd, EndedBy
from middlewatch.model.gates import Gate, GateName, Gates
from middlewatch.model.identity import AttemptKey, ClusterId
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import (
    AccountingRecord,
    ClusterFacts,
    JobDetail,
    JobState,
    JobView,
    Snapshot,
)
from middlewatch.model.signal import Progress
from middlewatch.reconciliation.situation import Situation

T0 = datetime(2026, 11, 30, 3, 0, 0, tzinfo=UTC)
CLUSTER = ClusterId("slurm", "prod")
SUBMITTED = T0 - timedelta(hours=1)
REQUEUED = T0 + timedelta(seconds=1)
KEY = AttemptKey(CLUSTER, "123", SUBMITTED)
OPEN = Gates((Gate(GateName.DEPLOYMENT_MODE, True, "action"),))
CLOSED = Gates((Gate(GateName.PARTITION_ALLOWLIST, False, "partition train is not allowed"),))
FACTS = ClusterFacts("lab", "24.11.5", 121.0, 10.0, 300.0, 30.0)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def target(state: JobState = JobState.FAILED, **changes: Any) -> JobView:
    """The scheduler's row while it still shows attempt 0."""
    view = JobView(
        job_id="123",
        state=state,
        flags=frozenset(),
        reason="NonZeroExitCode",
        priority=4294901750,
        restarts=0,
        submitted_at=SUBMITTED,
        eligible_at=SUBMITTED,
        started_at=SUBMITTED,
        ended_at=T0,
        node_count=2,
        partitions=("train",),
    )
    return replace(view, **changes)


def successor(state: JobState = JobState.PENDING, **changes: Any) -> JobView:
    """The row once the job was requeued: attempt 1, kept back by Slurm's begin time."""
    pending = state is JobState.PENDING
    view = target(
        state,
        reason="BeginTime" if pending else "None",
        restarts=1,
        submitted_at=REQUEUED,
        eligible_at=REQUEUED + timedelta(seconds=121),
        started_at=None if pending else at(4),
        ended_at=None,
    )
    return replace(view, **changes)


def detail(**changes: Any) -> Answer[JobDetail]:
    value = JobDetail(
        job_id="123",
        submitted_at=None,
        comment="",
        name="train",
        work_dir="/scratch",
        stdout="/scratch/log",
        stderr="/scratch/log",
        excluded_nodes=(),
        required_nodes=(),
        requeueable=True,
        held_by_operator=False,
    )
    return Known(replace(value, **changes), T0)


def advice(desired: DesiredState = DesiredState.RESTARTED, **changes: Any) -> Advice:
    value = Advice(
        attempt_id=KEY.attempt_id(),
        job_id="123",
        attempt_index=0,
        submitted_at=SUBMITTED,
        owner=CLUSTER,
        desired=desired,
        exclusions=("gpu-001",),
        generation=1,
        desired_state_changed_at=T0,
        created_at=T0,
        basis=DecisionBasis.ATTEMPT_ENDED_IN_FAILURE,
        gates=OPEN,
        policy_version="p1",
        sequence_id="s",
    )
    return replace(value, **changes)


def attempt(**changes: Any) -> Attempt:
    value = Attempt(
        id=KEY.attempt_id(),
        cluster=CLUSTER,
        job_id="123",
        attempt_index=0,
        submitted_at=SUBMITTED,
        first_seen_at=SUBMITTED,
        last_seen_at=T0,
        state=JobState.FAILED,
        partitions=("train",),
        nodes=("gpu-001", "gpu-002"),
        end=AttemptEnd(JobState.FAILED, EndedBy.FAILURE, 1, 0, T0, T0),
    )
    return replace(value, **changes)


def record(
    kind: ActionKind, seconds: float, answered: Answered = Answered.DONE, **changes: Any
) -> ActionRecord:
    """A command of ours, sent ``seconds`` after T0 and answered a tenth later."""
    action = Action(kind, "123", changes.pop("why", "test"), **changes)
    ended = None if answered is Answered.IN_FLIGHT else at(seconds + 0.1)
    return ActionRecord(
        id=f"r{seconds}",
        attempt_id=KEY.attempt_id(),
        generation=1,
        action=action,
        answered=answered,
        started_at=at(seconds),
        ended_at=ended,
        text="refused for a test" if answered is Answered.REFUSED else "",
    )


def accounting(**changes: Any) -> Known[tuple[AccountingRecord, ...]]:
    value = AccountingRecord(
        job_id="123",
        submitted_at=SUBMITTED,
        state=JobState.CANCELLED,
        requeued=True,
        exit_code=None,
        exit_signal=None,
        started_at=SUBMITTED,
        ended_at=REQUEUED,
        node_list="gpu-[001-002]",
        cancelled_by=None,
        batch_completed=False,
    )
    return Known((replace(value, **changes),), T0)


def situation(view: JobView | None, **changes: Any) -> Situation:
    """A restart with open gates whose log was read, unless told otherwise."""
    jobs = () if view is None else (view,)
    value = Situation(
        advice=advice(),
        gates=OPEN,
        look=Known(Snapshot("lab", T0, jobs), T0),
        facts=FACTS,
        policy=Policy(),
        attempt=attempt(),
        progress=Progress(KEY.attempt_id(), log_drained_at=REQUEUED + timedelta(seconds=1)),
        detail=detail(),
        accounting=accounting(),
    )
    return replace(value, **changes)
