"""What is written of each belief and decision, as values: issues, verdicts, advice, its trail.

One evaluation of one attempt becomes one change: if anything that it rests on moved meanwhile,
nothing of it is written. Keys are made of what is told, so that telling it twice is telling it
once.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from middlewatch.attribution import same_belief
from middlewatch.model.advice import Advice, DesiredState, Intent, revised
from middlewatch.model.attempt import Attempt
from middlewatch.model.audit import AuditEvent, AuditKind, AuditLevel
from middlewatch.model.change import Change, Decision
from middlewatch.model.identity import sequence_id
from middlewatch.model.issue import NO_FAULT, Issue, IssueState, Verdict
from middlewatch.model.milestone import Milestone, MilestoneKind, MilestoneSource, Operation
from middlewatch.model.milestone import Sequence as Recovery
from middlewatch.model.signal import Signal, SourceKind
from middlewatch.remediation import WAITING, Advise, DecisionInputs, Outcome, RefrainBasis
from middlewatch.remediation.standing import let_go
from middlewatch.services.manager.frozen import (
    AnyOutcome,
    Inputs,
    frozen_inputs,
    frozen_outcome,
    result_of,
)

PRODUCER = "manager"
DECISION_NAMESPACE = uuid.UUID("5b1c6a0e-9a43-5c0c-8b1e-6a7d0f2f5f11")

OPERATIONS = {
    DesiredState.RESTARTED: Operation.RESTART,
    DesiredState.TERMINATED: Operation.TERMINATE,
    DesiredState.RELEASED: Operation.DAG_RELEASE,
    DesiredState.CONSTRAINED: Operation.CONSTRAIN,
}

ALARMING = NO_FAULT | {"silent_hang"}
"""Classes that nobody acts on by itself: a person has to be told."""

_NEED_A_PERSON = frozenset(
    {
        RefrainBasis.BUDGET_SPENT,
        RefrainBasis.NOT_REQUEUEABLE,
        RefrainBasis.SILENCE_ALONE,
        RefrainBasis.SLOW_ALONE,
        RefrainBasis.SLOW_WITHOUT_NODE,
        RefrainBasis.NUMBERS_ALONE,
        RefrainBasis.NOT_RESTARTABLE_STATE,
        RefrainBasis.HELD_AFTER_BROKEN_START,
    }
)
_NOT_WORTH_A_RECORD = WAITING | {RefrainBasis.DECIDED_ALREADY}


@dataclass(frozen=True, slots=True)
class Written:
    """One evaluation as the change that it makes, and what it came to."""

    change: Change
    advised: bool = False
    refrained: bool = False


def beliefs(
    attempt: Attempt,
    *,
    issues: Sequence[Issue],
    known: Sequence[Issue],
    verdicts: Sequence[Verdict],
    held: Sequence[Verdict],
    now: datetime,
) -> Change:
    """The issues that changed and the verdicts that say something new."""
    before = {issue.id: issue for issue in known}
    changed = tuple(issue for issue in issues if issue != before.get(issue.id))
    last = {verdict.issue_id: verdict for verdict in held}
    new = tuple(
        verdict
        for verdict in verdicts
        if verdict.issue_id not in last or not same_belief(verdict, last[verdict.issue_id])
    )
    return Change(
        issues=changed,
        verdicts=new,
        audit=(
            *(_seen(attempt, issue, before.get(issue.id), now) for issue in changed),
            *(_believed(attempt, verdict, now) for verdict in new),
        ),
    )


def decided(
    inputs: DecisionInputs, outcome: Outcome, cause: Signal | None, last: Decision | None
) -> Written:
    """What a decision adds: nothing where it says what stands already."""
    if isinstance(outcome, Advise):
        return _advised(inputs, outcome, cause)
    existing = inputs.existing
    if existing is not None and not let_go(existing) and outcome.basis in _NOT_WORTH_A_RECORD:
        return Written(Change())
    text = frozen_outcome(outcome)
    if last is not None and (last.result, last.outcome) == (result_of(outcome), text):
        return Written(Change())
    decision = decision_of(inputs, outcome, None)
    level = AuditLevel.ALARM if outcome.basis in _NEED_A_PERSON else AuditLevel.INFO
    event = event_of(
        inputs.attempt,
        AuditKind.DECIDED,
        "decision.refrained",
        inputs.now,
        {
            "decision": decision.id,
            "basis": outcome.basis.value,
            "issue": inputs.issue.id,
            "explanation": outcome.explanation,
            "budgets": _budgets(outcome),
        },
        level=level,
        key=f"decision:{decision.id}",
    )
    return Written(Change(decisions=(decision,), audit=(event,)), refrained=True)


def merged(*changes: Change, attempt: Attempt) -> Change:
    """Several changes as one, bound to the attempt as it was read."""
    return Change(
        expected=((attempt.id, attempt.version), *(e for c in changes for e in c.expected)),
        attempts=tuple(a for c in changes for a in c.attempts),
        issues=tuple(i for c in changes for i in c.issues),
        verdicts=tuple(v for c in changes for v in c.verdicts),
        decisions=tuple(d for c in changes for d in c.decisions),
        sequences=tuple(s for c in changes for s in c.sequences),
        advice=tuple(a for c in changes for a in c.advice),
        milestones=tuple(m for c in changes for m in c.milestones),
        audit=tuple(e for c in changes for e in c.audit),
    )


# -- advice -----------------------------------------------------------------------------------


def _advised(inputs: DecisionInputs, outcome: Advise, cause: Signal | None) -> Written:
    intent, now = outcome.intent, inputs.now
    before = inputs.existing
    recovery = recovery_of(inputs.attempt, intent.desired, now)
    if before is None:
        after = first_advice(inputs.attempt, intent, recovery.id, now)
    else:
        after = revised(before, intent, now, decided_anew=outcome.decided_anew)
        if after == before:
            return Written(Change())
        if after.generation == before.generation:
            return Written(Change(advice=(after,), audit=(_evidence(inputs, after),)))
        if let_go(before):
            # That it was let go is a story that has ended: this one has a sequence of its own.
            after = replace(after, sequence_id=recovery.id, issue_ids=intent.issue_ids)
    decision = decision_of(inputs, outcome, after.generation)
    event = event_of(
        inputs.attempt,
        AuditKind.DECIDED,
        "decision.advised",
        now,
        {
            "decision": decision.id,
            "generation": after.generation,
            "desired": after.desired.value,
            "exclusions": list(after.exclusions),
            "basis": after.basis.value,
            "issue": inputs.issue.id,
            "explanation": intent.explanation,
            "budgets": _budgets(outcome),
            "gates": {gate.name.value: gate.open for gate in intent.gates.gates},
            "wouldHave": not intent.gates.open,
            "policyVersion": intent.policy_version,
        },
        key=f"decision:{decision.id}",
    )
    change = Change(
        decisions=(decision,),
        sequences=(recovery,) if before is None or let_go(before) else (),
        advice=(after,),
        milestones=_milestones(inputs, after, recovery, cause),
        audit=(event,),
    )
    return Written(change, advised=True)


def first_advice(attempt: Attempt, intent: Intent, sequence: str, now: datetime) -> Advice:
    """Generation 1, as part of the operation with that id."""
    return Advice(
        attempt_id=attempt.id,
        job_id=attempt.job_id,
        attempt_index=attempt.attempt_index,
        submitted_at=attempt.submitted_at,
        owner=intent.owner,
        desired=intent.desired,
        exclusions=tuple(sorted(set(intent.exclusions))),
        generation=1,
        desired_state_changed_at=now,
        created_at=now,
        basis=intent.basis,
        gates=intent.gates,
        policy_version=intent.policy_version,
        sequence_id=sequence,
        may_end_running=intent.may_end_running,
        may_restart_after=intent.may_restart_after,
        failure_class=intent.failure_class,
        issue_ids=intent.issue_ids,
        explanation=intent.explanation,
    )


def recovery_of(attempt: Attempt, desired: DesiredState, now: datetime) -> Recovery:
    """The sequence of one operation on one attempt."""
    operation = OPERATIONS[desired]
    identity = sequence_id(attempt.cluster, attempt.job_id, attempt.id, operation.value)
    return Recovery(
        id=identity,
        scheduler=attempt.cluster.scheduler,
        environment=attempt.cluster.environment,
        job_id=attempt.job_id,
        source_attempt_index=attempt.attempt_index,
        source_attempt_id=attempt.id,
        operation=operation,
        traceparent=traceparent(identity),
        created_at=now,
    )


def traceparent(identity: str) -> str:
    """The W3C trace context of a sequence: its own UUID is the trace, so that whoever knows the
    sequence finds the trace, without a table of both."""
    span = hashlib.sha256(identity.encode()).hexdigest()[:16]
    return f"00-{uuid.UUID(identity).hex}-{span}-01"


def _milestones(
    inputs: DecisionInputs, advice: Advice, recovery: Recovery, cause: Signal | None
) -> tuple[Milestone, ...]:
    """Fault, detected, advised. A clock that ran ahead in a log must not put them out of order."""
    told_by = MilestoneSource.SCHEDULER if cause is None else _SOURCES[cause.source.kind]
    now = inputs.now
    learned = min(cause.learned_at if cause is not None else inputs.issue.learned_at, now)
    happened = min(cause.happened_at if cause is not None else inputs.issue.happened_at, learned)
    progress = inputs.progress

    def milestone(
        kind: MilestoneKind,
        at: datetime,
        learned_at: datetime,
        source: MilestoneSource,
        suffix: str = "",
    ) -> Milestone:
        of_fault = kind is MilestoneKind.FAULT
        return Milestone(
            sequence_id=advice.sequence_id,
            idempotency_key=f"{advice.attempt_id}:{kind.value}{suffix}",
            at=at,
            learned_at=learned_at,
            kind=kind,
            operation=recovery.operation,
            step=progress.last_step if progress is not None and of_fault else None,
            steps_of=progress.steps_of if progress is not None and of_fault else None,
            source=source,
        )

    # Later generations are told as well, under keys of their own.
    suffix = "" if advice.generation == 1 else f":{advice.generation}"
    return (
        milestone(MilestoneKind.FAULT, happened, learned, told_by),
        milestone(MilestoneKind.DETECTED, learned, learned, MilestoneSource.WATCHER),
        milestone(MilestoneKind.ADVISED, now, now, MilestoneSource.MANAGER, suffix),
    )


_SOURCES = {
    SourceKind.LOG: MilestoneSource.LOG,
    SourceKind.SCHEDULER: MilestoneSource.SCHEDULER,
    SourceKind.CLOCK: MilestoneSource.WATCHER,
    SourceKind.API: MilestoneSource.API,
    SourceKind.METRICS: MilestoneSource.METRICS,
    SourceKind.FILES: MilestoneSource.FILES,
}
"""By whose clock a fault is told, by the source of the signal that is its first cause."""


def decision_of(inputs: Inputs, outcome: AnyOutcome, generation: int | None) -> Decision:
    """The record of one decision, with all that it looked at."""
    name = f"{inputs.attempt.id}/{inputs.now.isoformat()}/{result_of(outcome)}"
    return Decision(
        id=str(uuid.uuid5(DECISION_NAMESPACE, name)),
        attempt_id=inputs.attempt.id,
        at=inputs.now,
        result=result_of(outcome),
        policy_version=inputs.policy.version,
        inputs=frozen_inputs(inputs),
        outcome=frozen_outcome(outcome),
        generation=generation,
    )


# -- the trail --------------------------------------------------------------------------------


def _seen(attempt: Attempt, issue: Issue, before: Issue | None, now: datetime) -> AuditEvent:
    if before is None:
        type_ = "issue.opened"
    elif issue.state is not before.state:
        type_ = f"issue.{issue.state.value}"
    else:
        type_ = "issue.changed"
    alarm = issue.failure_class in ALARMING and issue.state is IssueState.OPEN
    event = event_of(
        attempt,
        AuditKind.SEEN,
        type_,
        now,
        {
            "issue": issue.id,
            "class": issue.failure_class,
            "state": issue.state.value,
            "firstCause": issue.first_cause,
            "signals": 1 + len(issue.cascade),
            "summary": issue.summary,
        },
        level=AuditLevel.ALARM if alarm else AuditLevel.INFO,
        key=f"issue:{issue.id}:{issue.version}:{len(issue.cascade)}:{issue.state.value}",
    )
    return replace(event, happened_at=issue.happened_at)


def _believed(attempt: Attempt, verdict: Verdict, now: datetime) -> AuditEvent:
    return event_of(
        attempt,
        AuditKind.BELIEVED,
        "verdict.formed",
        now,
        {
            "issue": verdict.issue_id,
            "class": verdict.failure_class,
            "domain": verdict.domain.value,
            "nodes": list(verdict.nodes),
            "ranks": list(verdict.ranks),
            "basis": verdict.basis.value,
            "confidence": verdict.confidence.value,
            "explanation": verdict.explanation,
        },
    )


def _evidence(inputs: DecisionInputs, advice: Advice) -> AuditEvent:
    return event_of(
        inputs.attempt,
        AuditKind.BELIEVED,
        "advice.evidence",
        inputs.now,
        {"generation": advice.generation, "issues": list(advice.issue_ids)},
    )


def _budgets(outcome: Outcome) -> list[dict[str, object]]:
    return [
        {
            "name": budget.name.value,
            "used": budget.used,
            "limit": budget.limit,
            "allowed": budget.allowed,
            "applies": budget.applies,
        }
        for budget in outcome.budgets
    ]


def event_of(
    attempt: Attempt,
    kind: AuditKind,
    type_: str,
    at: datetime,
    payload: dict[str, object],
    *,
    level: AuditLevel = AuditLevel.INFO,
    key: str = "",
) -> AuditEvent:
    return AuditEvent(
        kind=kind,
        type=type_,
        producer=PRODUCER,
        happened_at=at,
        learned_at=at,
        level=level,
        attempt_id=attempt.id,
        job_id=attempt.job_id,
        attempt_index=attempt.attempt_index,
        payload=json.dumps(payload, ensure_ascii=False, sort_keys=True),
        idempotency_key=key,
    )
