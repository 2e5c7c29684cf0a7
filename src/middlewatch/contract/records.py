"""Between the model's records and the messages that are only ours (``middlewatch.v1``).

Words are those of the model's enums. Advice and statuses go both ways: a controller on another
machine works from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from google.protobuf.timestamp_pb2 import Timestamp

from middlewatch.contract.gen.heimdall.v1 import heimdall_pb2
from middlewatch.contract.gen.middlewatch.v1 import middlewatch_pb2 as wire
from middlewatch.contract.values import (
    out_int32,
    out_int64,
    out_text,
    out_texts,
    out_time,
)
from middlewatch.model.action import ActionRecord
from middlewatch.model.advice import (
    Advice,
    DecisionBasis,
    DesiredState,
    Disposition,
    Reason,
    Status,
)
from middlewatch.model.change import Decision, Lease
from middlewatch.model.gates import Gate, GateName, Gates
from middlewatch.model.identity import AttemptId, ClusterId
from middlewatch.model.issue import Issue, Verdict
from middlewatch.model.milestone import Milestone
from middlewatch.model.signal import Pause, Progress, Signal


def signal_message(row: int, signal: Signal) -> wire.Signal:
    message = wire.Signal(
        key=signal.key,
        attempt_id=signal.attempt_id,
        kind=signal.kind.value,
        source=wire.Source(
            kind=signal.source.kind.value,
            identity=out_text(signal.source.identity),
            position=out_text(signal.source.position),
            path=out_text(signal.source.path),
        ),
        pattern_id=out_text(signal.pattern_id),
        failure_class=out_text(signal.failure_class),
        domain=signal.domain.value,
        severity=signal.severity.value,
        excerpt=out_text(signal.excerpt),
        nodes=out_texts(signal.nodes),
        ranks=[out_int32(rank) for rank in signal.ranks],
        detail=out_text(signal.detail),
        row=row,
    )
    out_time(message.happened_at, signal.happened_at)
    out_time(message.learned_at, signal.learned_at)
    if signal.step is not None:
        message.step = out_int64(signal.step)
    if signal.value is not None:
        message.value = signal.value
    return message


def issue_message(issue: Issue) -> wire.Issue:
    message = wire.Issue(
        id=issue.id,
        attempt_id=issue.attempt_id,
        failure_class=out_text(issue.failure_class),
        state=issue.state.value,
        first_cause=issue.first_cause,
        cascade=out_texts(issue.cascade),
        summary=out_text(issue.summary),
    )
    out_time(message.happened_at, issue.happened_at)
    out_time(message.learned_at, issue.learned_at)
    return message


def verdict_message(verdict: Verdict) -> wire.Verdict:
    message = wire.Verdict(
        issue_id=verdict.issue_id,
        attempt_id=verdict.attempt_id,
        domain=verdict.domain.value,
        failure_class=out_text(verdict.failure_class),
        nodes=out_texts(verdict.nodes),
        ranks=[out_int32(rank) for rank in verdict.ranks],
        basis=verdict.basis.value,
        confidence=verdict.confidence.value,
        explanation=out_text(verdict.explanation),
    )
    out_time(message.at, verdict.at)
    return message


def decision_message(decision: Decision) -> wire.Decision:
    message = wire.Decision(
        id=decision.id,
        attempt_id=decision.attempt_id,
        result=out_text(decision.result),
        policy_version=out_text(decision.policy_version),
        inputs=out_text(decision.inputs),
        outcome=out_text(decision.outcome),
    )
    out_time(message.at, decision.at)
    if decision.generation is not None:
        message.generation = decision.generation
    return message


def status_message(status: Status) -> wire.Status:
    message = wire.Status(
        observed_generation=status.observed_generation,
        disposition=status.disposition.value,
        reason=status.reason.value,
        detail=out_text(status.detail),
        reporter=out_text(status.reporter),
    )
    out_time(message.observed_at, status.observed_at)
    return message


def advice_message(advice: Advice) -> wire.AdviceRecord:
    message = wire.AdviceRecord(
        attempt_id=advice.attempt_id,
        job_id=out_text(advice.job_id),
        attempt_index=out_int32(advice.attempt_index),
        owner=heimdall_pb2.SchedulerMetadata(
            scheduler=advice.owner.scheduler, environment=advice.owner.environment
        ),
        desired=advice.desired.value,
        exclusions=out_texts(advice.exclusions),
        generation=advice.generation,
        basis=advice.basis.value,
        gates=[
            wire.Gate(name=gate.name.value, open=gate.open, detail=out_text(gate.detail))
            for gate in advice.gates.gates
        ],
        policy_version=out_text(advice.policy_version),
        sequence_id=advice.sequence_id,
        may_end_running=advice.may_end_running,
        may_restart_after=out_texts(advice.may_restart_after),
        failure_class=out_text(advice.failure_class),
        issue_ids=out_texts(advice.issue_ids),
        explanation=out_text(advice.explanation),
        version=advice.version,
        active=advice.active,
    )
    out_time(message.submitted_at, advice.submitted_at)
    out_time(message.desired_state_changed_at, advice.desired_state_changed_at)
    out_time(message.created_at, advice.created_at)
    if advice.status is not None:
        message.status.CopyFrom(status_message(advice.status))
    return message


def advice_of(message: wire.AdviceRecord) -> Advice:
    """The record that `advice_message` wrote. Raises ValueError for words that are not ours."""
    return Advice(
        attempt_id=AttemptId(message.attempt_id),
        job_id=message.job_id,
        attempt_index=message.attempt_index,
        submitted_at=_time(message.submitted_at),
        owner=ClusterId(message.owner.scheduler, message.owner.environment),
        desired=DesiredState(message.desired),
        exclusions=tuple(message.exclusions),
        generation=message.generation,
        desired_state_changed_at=_time(message.desired_state_changed_at),
        created_at=_time(message.created_at),
        basis=DecisionBasis(message.basis),
        gates=Gates(
            tuple(Gate(GateName(gate.name), gate.open, gate.detail) for gate in message.gates)
        ),
        policy_version=message.policy_version,
        sequence_id=message.sequence_id,
        may_end_running=message.may_end_running,
        may_restart_after=tuple(message.may_restart_after),
        failure_class=message.failure_class,
        issue_ids=tuple(message.issue_ids),
        explanation=message.explanation,
        status=status_of(message.status) if message.HasField("status") else None,
        version=message.version,
    )


def status_of(message: wire.Status) -> Status:
    """The record that `status_message` wrote. Raises ValueError for words that are not ours."""
    return Status(
        observed_generation=message.observed_generation,
        disposition=Disposition(message.disposition),
        reason=Reason(message.reason),
        observed_at=_time(message.observed_at),
        detail=message.detail,
        reporter=message.reporter,
    )


def progress_message(progress: Progress) -> wire.Progress:
    message = wire.Progress(phase=progress.phase.value)
    for name in ("first_step", "last_step", "total_steps", "checkpoint_step", "loaded_step"):
        step = getattr(progress, name)
        if step is not None:
            setattr(message, name, out_int64(step))
    if progress.step_time_s is not None:
        message.step_time_seconds = progress.step_time_s
    if progress.silence_limit_s is not None:
        message.silence_limit_seconds = progress.silence_limit_s
    for name in ("throughput", "loss", "grad_norm"):
        number = getattr(progress, name)
        if number is not None:
            setattr(message, name, number)
    for unseen in progress.unseen:
        told = message.unseen.add(what=out_text(unseen.what), why=out_text(unseen.why))
        out_time(told.since, unseen.since)
    message.pauses.extend(pause_message(pause) for pause in progress.pauses)
    out_time(message.last_step_at, progress.last_step_at)
    out_time(message.first_step_at, progress.first_step_at)
    out_time(message.checkpoint_at, progress.checkpoint_at)
    out_time(message.last_output_at, progress.last_output_at)
    out_time(message.log_drained_at, progress.log_drained_at)
    return message


def pause_message(pause: Pause) -> wire.Pause:
    message = wire.Pause(
        seconds=pause.length_s,
        phase=pause.phase.value,
        limit_seconds=pause.limit_s,
        lasts=pause.lasts,
    )
    out_time(message.since, pause.since)
    return message


def action_message(record: ActionRecord) -> wire.ActionRecord:
    message = wire.ActionRecord(
        id=record.id,
        generation=record.generation,
        kind=record.action.kind.value,
        why=out_text(record.action.why),
        answered=record.answered.value,
        argv=out_texts(record.argv),
        text=out_text(record.text),
        saw_restarts=out_int32(record.saw_restarts),
    )
    out_time(message.started_at, record.started_at)
    out_time(message.ended_at, record.ended_at)
    if record.exit_code is not None:
        message.exit_code = out_int32(record.exit_code)
    return message


def milestone_message(milestone: Milestone) -> wire.Milestone:
    message = wire.Milestone(
        sequence_id=milestone.sequence_id,
        idempotency_key=out_text(milestone.idempotency_key),
        kind=milestone.kind.value if milestone.kind else "",
        operation=milestone.operation.value if milestone.operation else "",
        action=milestone.action.value if milestone.action else "",
        detail=out_text(milestone.detail),
        source=milestone.source.value if milestone.source else "",
    )
    out_time(message.at, milestone.at)
    out_time(message.learned_at, milestone.learned_at)
    for name in ("step", "past_step"):
        step = getattr(milestone, name)
        if step is not None:
            setattr(message, name, out_int64(step))
    return message


def capped_messages(counts: Mapping[str, int]) -> list[wire.CappedCount]:
    return [
        wire.CappedCount(pattern_id=out_text(pattern), count=count)
        for pattern, count in sorted(counts.items())
    ]


def lease_message(lease: Lease) -> wire.Lease:
    message = wire.Lease(
        name=out_text(lease.name), holder=out_text(lease.holder), token=lease.token
    )
    out_time(message.expires_at, lease.expires_at)
    return message


def _time(value: Timestamp) -> datetime:
    return value.ToDatetime(tzinfo=UTC)
