"""Records that the tests of the API start from; the advice is the one of the documentation."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from middlewatch.model.advice import Advice, DecisionBasis, DesiredState
from middlewatch.model.attempt import Attempt, AttemptEnd, EndedBy
from middlewatch.model.gates import Gate, GateName, Gates
from middlewatch.model.identity import AttemptKey, ClusterId, sequence_id
from middlewatch.model.milestone import Operation, Sequence
from middlewatch.model.scheduler import JobState

NOW = datetime(2026, 9, 23, 14, 0, 0, tzinfo=UTC)
CLUSTER = ClusterId("slurm", "customer-slurm")
GATES = Gates((Gate(GateName.DEPLOYMENT_MODE, True, "deployment mode is action"),))


def attempt(
    job_id: str = "12345",
    index: int = 0,
    *,
    state: JobState = JobState.FAILED,
    by: EndedBy | None = EndedBy.FAILURE,
    workflow: str = "wf",
    minute: int = 0,
    ended: datetime | None = None,
) -> Attempt:
    """An attempt that ended (unless ``by`` is None), submitted ``minute`` minutes before NOW."""
    submitted = NOW - timedelta(hours=1) + timedelta(minutes=minute)
    return Attempt(
        id=AttemptKey(CLUSTER, job_id, submitted).attempt_id(),
        cluster=CLUSTER,
        job_id=job_id,
        attempt_index=index,
        submitted_at=submitted,
        first_seen_at=submitted,
        last_seen_at=NOW,
        state=state,
        workflow_id=workflow,
        job_name="train",
        user="alice",
        uid=1000,
        partitions=("main",),
        nodes=("gpu-001", "gpu-002"),
        node_count=2,
        started_at=submitted,
        end=None
        if by is None
        else AttemptEnd(state, by, 1, None, ended or NOW - timedelta(minutes=1), NOW),
    )


ATTEMPT = attempt()
SEQUENCE = Sequence(
    id=sequence_id(CLUSTER, "12345", ATTEMPT.id, Operation.RESTART.value),
    scheduler="slurm",
    environment="customer-slurm",
    job_id="12345",
    source_attempt_index=0,
    source_attempt_id=ATTEMPT.id,
    operation=Operation.RESTART,
    traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    created_at=NOW,
)


def advice(of: Attempt = ATTEMPT, **changes: object) -> Advice:
    fields: dict[str, object] = {
        "attempt_id": of.id,
        "job_id": of.job_id,
        "attempt_index": of.attempt_index,
        "submitted_at": of.submitted_at,
        "owner": CLUSTER,
        "desired": DesiredState.RESTARTED,
        "exclusions": ("gpu-001",),
        "generation": 1,
        "desired_state_changed_at": NOW,
        "created_at": NOW,
        "basis": DecisionBasis.ATTEMPT_ENDED_IN_FAILURE,
        "gates": GATES,
        "policy_version": "default",
        "sequence_id": SEQUENCE.id,
        "issue_ids": ("issue-1",),
        **changes,
    }
    return Advice(**fields)  # type: ignore[arg-type]


ADVICE = advice()
