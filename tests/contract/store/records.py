"""Sample records. Every one can be told apart by a number."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from middlewatch.model.action import Action, ActionKind, ActionRecord, Answered
from middlewatch.model.advice import (
    Advice,
    DecisionBasis,
    DesiredState,
    Disposition,
    Reason,
    Status,
)
from middlewatch.model.attempt import Attempt, AttemptEnd, Dependent, EndedBy
from middlewatch.model.audit import AuditEvent, AuditKind
from middlewatch.model.gates import Gate, GateName, Gates
from middlewatch.model.identity import AttemptId, AttemptKey, ClusterId, sequence_id
from middlewatch.model.issue import Confidence, Issue, IssueState, Verdict, VerdictBasis
from middlewatch.model.milestone import Milestone, MilestoneKind, Operation, Sequence
from middlewatch.model.optin import JobMode, OptIn
from middlewatch.model.scheduler import JobState
from middlewatch.model.signal import Domain, Signal, SignalKind, Source, SourceKind, signal_key

T0 = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
PROD = ClusterId("slurm", "prod")
TEST = ClusterId("slurm", "test")


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def attempt_id(n: int = 1, cluster: ClusterId = PROD) -> AttemptId:
    return AttemptKey(cluster, str(1000 + n), at(n)).attempt_id()


def attempt(n: int = 1, cluster: ClusterId = PROD, **changed: Any) -> Attempt:
    made = Attempt(
        id=attempt_id(n, cluster),
        cluster=cluster,
        job_id=str(1000 + n),
        attempt_index=0,
        submitted_at=at(n),
        first_seen_at=at(n + 1),
        last_seen_at=at(n + 2),
        state=JobState.RUNNING,
        partitions=("gpu", "long"),
        nodes=("n1", "n2"),
        opt_in=OptIn(JobMode.ACTION, "prod", "middlewatch", problems=("ünusual “text”",)),
        dependents=(Dependent("77", "afterany"),),
    )
    return replace(made, **changed)


def ended(
    state: JobState = JobState.FAILED, by: EndedBy = EndedBy.FAILURE, when: float = 100
) -> AttemptEnd:
    return AttemptEnd(state, by, 1, None, at(when), at(when + 1), final=True)


def signal(n: int = 1, of: int = 1, pattern: str = "cuda_error", **changed: Any) -> Signal:
    source = Source(SourceKind.LOG, "8:1:77", str(n), "/home/u/slurm.out")
    made = Signal(
        key=signal_key(attempt_id(of), source, pattern),
        attempt_id=attempt_id(of),
        kind=SignalKind.FAILURE_LINE,
        source=source,
        happened_at=at(n),
        learned_at=at(n + 1),
        pattern_id=pattern,
        domain=Domain.HARDWARE,
        excerpt="CUDA error: \x00 uncorrectable \U0001f4a5",
        nodes=("n1",),
        ranks=(0, 3),
        value=0.5,
    )
    return replace(made, **changed)


def issue(n: int = 1, of: int = 1, **changed: Any) -> Issue:
    made = Issue(
        id=f"issue-{of}-{n}",
        attempt_id=attempt_id(of),
        failure_class="cuda",
        state=IssueState.OPEN,
        first_cause="k1",
        cascade=("k2", "k3"),
        happened_at=at(n),
        learned_at=at(n + 1),
    )
    return replace(made, **changed)


def verdict(n: int = 1, of: int = 1) -> Verdict:
    return Verdict(
        issue_id=f"issue-{of}-{n}",
        attempt_id=attempt_id(of),
        domain=Domain.HARDWARE,
        failure_class="cuda",
        nodes=("n1",),
        ranks=(3,),
        basis=VerdictBasis.LINE_NAMES_NODE,
        confidence=Confidence.MEDIUM,
        explanation=f"number {n}",
        at=at(n),
    )


def advice(n: int = 1, owner: ClusterId = PROD, **changed: Any) -> Advice:
    made = Advice(
        attempt_id=attempt_id(n, owner),
        job_id=str(1000 + n),
        attempt_index=0,
        submitted_at=at(n),
        owner=owner,
        desired=DesiredState.RESTARTED,
        exclusions=("n1",),
        generation=1,
        desired_state_changed_at=at(n + 5),
        created_at=at(n + 5),
        basis=DecisionBasis.ATTEMPT_ENDED_IN_FAILURE,
        gates=Gates((Gate(GateName.DEPLOYMENT_MODE, True, "deployment mode is action"),)),
        policy_version="p1",
        sequence_id=sequence_id(owner, str(1000 + n), attempt_id(n, owner), "RESTART"),
        may_end_running=True,
        issue_ids=("issue-1-1",),
    )
    return replace(made, **changed)


def status(
    generation: int = 1,
    disposition: Disposition = Disposition.CONVERGED,
    reason: Reason = Reason.DESIRED_STATE_OBSERVED,
    when: float = 50,
) -> Status:
    return Status(generation, disposition, reason, at(when), "seen running", "controller")


def action(n: int = 1, of: int = 1, **changed: Any) -> ActionRecord:
    made = ActionRecord(
        id=f"action-{of}-{n}",
        attempt_id=attempt_id(of),
        generation=1,
        action=Action(ActionKind.UPDATE, "1001", "to exclude n1", exclusions=("n1",)),
        answered=Answered.IN_FLIGHT,
        started_at=at(n),
    )
    return replace(made, **changed)


def sequence(n: int = 1, **changed: Any) -> Sequence:
    made = Sequence(
        id=sequence_id(PROD, str(1000 + n), attempt_id(n), "RESTART"),
        scheduler=PROD.scheduler,
        environment=PROD.environment,
        job_id=str(1000 + n),
        source_attempt_index=0,
        source_attempt_id=attempt_id(n),
        operation=Operation.RESTART,
        traceparent="00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        created_at=at(n),
    )
    return replace(made, **changed)


def milestone(n: int = 1, of: int = 1, **changed: Any) -> Milestone:
    made = Milestone(
        sequence_id=sequence(of).id,
        idempotency_key=f"milestone-{n}",
        at=at(n),
        learned_at=at(n + 1),
        kind=MilestoneKind.FAULT,
        step=n,
    )
    return replace(made, **changed)


def event(n: int = 1, **changed: Any) -> AuditEvent:
    made = AuditEvent(
        kind=AuditKind.SEEN,
        type="attempt.seen",
        producer="watcher",
        happened_at=at(n),
        learned_at=at(n + 1),
        attempt_id=attempt_id(n),
        job_id=str(1000 + n),
        attempt_index=0,
        payload=f'{{"n": {n}}}',
    )
    return replace(made, **changed)
