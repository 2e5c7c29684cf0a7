"""Between the model's records and the messages of the documented API (``heimdall.v1``).

Words and limits that the documentation leaves open are in `choices`; this module only places them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime

from google.protobuf import json_format
from google.protobuf.descriptor import EnumDescriptor
from google.protobuf.struct_pb2 import Struct

from middlewatch.contract import choices
from middlewatch.contract.errors import invalid
from middlewatch.contract.gen.heimdall.v1 import audit_pb2, heimdall_pb2
from middlewatch.contract.values import (
    in_text,
    in_time,
    out_int32,
    out_int64,
    out_micros,
    out_text,
    out_texts,
    out_time,
)
from middlewatch.model.advice import Advice, Reason, Status
from middlewatch.model.attempt import Attempt, EndedBy
from middlewatch.model.audit import AuditEvent, AuditKind, AuditLevel
from middlewatch.model.milestone import MilestoneKind, Operation, SchedulerAction, Sequence
from middlewatch.model.scheduler import JobState
from middlewatch.model.signal import Progress

# ------------------------------------------------------------------------------------------ jobs


def job_message(
    attempt: Attempt, advice: Advice | None, progress: Progress | None = None
) -> heimdall_pb2.Job:
    """An attempt as the API's ``Job``: observed, and (with advice) desired."""
    message = heimdall_pb2.Job(
        workflow_id=out_text(attempt.workflow_id),
        heimdall_job_id=attempt.id,
        job_run_id=out_text(attempt.reference),
        job_id=out_text(attempt.job_id),
        attempt_index=out_int32(attempt.attempt_index),
        nodes=out_texts(attempt.nodes),
        job_name=out_text(attempt.job_name),
        state=heimdall_pb2.JobStatus.Value(_status_word(attempt)),
        gpu_count_per_node=out_int32(attempt.gpus_per_node),
        node_constraints=heimdall_pb2.NodeConstraints(exclusions=out_texts(attempt.excluded_nodes)),
        additional_properties=_properties(attempt),
        scheduler_metadata=heimdall_pb2.SchedulerMetadata(
            scheduler=attempt.cluster.scheduler, environment=attempt.cluster.environment
        ),
    )
    out_time(message.submit_time, attempt.submitted_at)
    out_time(message.start_time, attempt.started_at)
    out_time(message.end_time, attempt.end.at if attempt.end else None)
    out_time(message.create_time, attempt.first_seen_at)
    out_time(message.update_time, attempt.last_seen_at)
    if advice is not None:
        message.desired_state = _advice_state(advice)
        if advice.status is not None:
            message.reconciliation_status.CopyFrom(status_message(advice.status))
    if progress is not None:
        message.progress.phase = progress.phase.value
        for name in ("last_step", "total_steps", "checkpoint_step"):
            step = getattr(progress, name)
            if step is not None:
                setattr(message.progress, name, out_int64(step))
        out_time(message.progress.last_step_at, progress.last_step_at)
        out_time(message.progress.last_output_at, progress.last_output_at)
        message.progress.unseen.extend(out_texts(unseen.what for unseen in progress.unseen))
        # Of a job that is blind the time of that counts, not that its nodes were never measured.
        blind = [unseen.since for unseen in progress.unseen if unseen.what in {"log", "progress"}]
        since = min(blind or (unseen.since for unseen in progress.unseen), default=None)
        out_time(message.progress.unseen_since, since)
    return message


def _status_word(attempt: Attempt) -> str:
    end = attempt.end
    if end is not None:
        if end.by is EndedBy.REQUEUE:
            return choices.STATUS_REQUEUED
        if end.by is EndedBy.UNKNOWN:
            return choices.STATUS_STOPPED
        return choices.STATUS_ON_WIRE[end.state]
    return choices.STATUS_ON_WIRE[attempt.state]


def _properties(attempt: Attempt) -> heimdall_pb2.JobAdditionalProperties:
    opt_in = attempt.opt_in
    message = heimdall_pb2.JobAdditionalProperties(
        user=out_text(attempt.user),
        partitions=out_texts(attempt.partitions),
        requeueable=attempt.requeueable,
        stdout_path=out_text(attempt.stdout),
        stderr_path=out_text(attempt.stderr),
        required_nodes=out_texts(attempt.required_nodes),
        opt_in_mode=opt_in.effective(attempt.cluster.environment).value,
        opt_in_problems=out_texts(opt_in.problems_in(attempt.cluster.environment)),
        opt_in_suggestion=out_text(opt_in.suggestion or ""),
        held=attempt.held,
        reason=out_text(attempt.reason),
        completing=attempt.completing,
        vanished=attempt.vanished,
        node_count=out_int32(attempt.node_count),
        source=out_text(attempt.source),
        depends_on=out_texts(one.text for one in opt_in.depends_on),
        waits_for=out_text(attempt.waits_for),
    )
    if attempt.time_limit_s is not None:
        message.time_limit_seconds = out_int32(attempt.time_limit_s)
    end = attempt.end
    if end is not None:
        message.ended_by = end.by.value
        if end.exit_code is not None:
            message.exit_code = out_int32(end.exit_code)
        if end.exit_signal is not None:
            message.exit_signal = out_int32(end.exit_signal)
    return message


def job_status_of(number: int) -> tuple[JobState, EndedBy | None] | None:
    """State and (for an ended attempt) who ended it; None where no status was given."""
    word = _word(heimdall_pb2.JobStatus.DESCRIPTOR, number)
    return choices.STATE_AND_END_OF_STATUS.get(word)


def workflow_message(
    workflow_id: str,
    scheduler_workflow_id: str,
    name: str,
    started_at: datetime | None,
    ended_at: datetime | None,
) -> heimdall_pb2.Workflow:
    """A workflow; times that are not known stay absent."""
    message = heimdall_pb2.Workflow(
        workflow_id=out_text(workflow_id),
        scheduler_workflow_id=out_text(scheduler_workflow_id),
        name=out_text(name),
    )
    out_time(message.start_time, started_at)
    out_time(message.end_time, ended_at)
    return message


# ---------------------------------------------------------------------------------------- advice


def _advice_state(advice: Advice) -> heimdall_pb2.AdviceState.ValueType:
    return heimdall_pb2.AdviceState.Value(choices.DESIRED_ON_WIRE[advice.desired])


def advice_message(advice: Advice) -> heimdall_pb2.Advice:
    """Advice with the current generation's status, where one was reported."""
    message = heimdall_pb2.Advice(
        heimdall_job_id=advice.attempt_id,
        job_id=out_text(advice.job_id),
        attempt_index=out_int32(advice.attempt_index),
        scheduler_metadata=heimdall_pb2.SchedulerMetadata(
            scheduler=advice.owner.scheduler, environment=advice.owner.environment
        ),
        advice=heimdall_pb2.AdviceRecommendation(
            state=_advice_state(advice),
            node_constraints=heimdall_pb2.NodeConstraints(exclusions=out_texts(advice.exclusions)),
        ),
        generation=advice.generation,
        issues=[heimdall_pb2.AdviceIssue(issue_id=issue) for issue in advice.issue_ids],
    )
    out_time(message.desired_state_changed_at, advice.desired_state_changed_at)
    if advice.status is not None:
        message.reconciliation_status.CopyFrom(status_message(advice.status))
    return message


def status_message(status: Status) -> heimdall_pb2.AdviceReconciliationStatus:
    message = heimdall_pb2.AdviceReconciliationStatus(
        observed_generation=out_int64(status.observed_generation),
        disposition=heimdall_pb2.AdviceReconciliationDisposition.Value(
            choices.DISPOSITION_ON_WIRE[status.disposition]
        ),
        reason=heimdall_pb2.AdviceReconciliationReason.Value(choices.REASON_ON_WIRE[status.reason]),
        detail=out_text(status.detail),
        reporter=out_text(status.reporter),
    )
    out_time(message.observed_at, status.observed_at)
    return message


_DISPOSITIONS = {word: disposition for disposition, word in choices.DISPOSITION_ON_WIRE.items()}
_REASONS: dict[str, Reason] = {
    word: reason for reason, word in choices.REASON_ON_WIRE.items() if "UNSPEC" not in word
}
_OPERATIONS = {word: o for o, word in choices.OPERATION_ON_WIRE.items() if "UNSPEC" not in word}
_ACTIONS = {word: action for action, word in choices.ACTION_ON_WIRE.items()}
_KINDS = {word: kind for kind, word in choices.MILESTONE_ON_WIRE.items()}


def _word(enum: EnumDescriptor, number: int) -> str:
    """The name of an enum's member; empty for a number that this version does not know."""
    value = enum.values_by_number.get(number)
    return "" if value is None else value.name


def status_of(
    message: heimdall_pb2.AdviceReconciliationStatus, now: datetime, reporter: str
) -> Status:
    """A report from a client. Raises `ApiError` where generation or disposition is missing."""
    if message.observed_generation < 1:
        raise invalid(
            "observedGeneration is missing or below 1; name the generation that was looked at, "
            "as GET /v1/advice shows it"
        )
    disposition = _DISPOSITIONS.get(
        _word(heimdall_pb2.AdviceReconciliationDisposition.DESCRIPTOR, message.disposition)
    )
    if disposition is None:
        known = ", ".join(choices.DISPOSITION_ON_WIRE.values())
        raise invalid(f"disposition is missing or not known; it can be {known}")
    reason = _REASONS.get(_word(heimdall_pb2.AdviceReconciliationReason.DESCRIPTOR, message.reason))
    if reason is None:
        reason = choices.REASON_WHERE_NONE_WAS_GIVEN[disposition]
    return Status(
        observed_generation=message.observed_generation,
        disposition=disposition,
        reason=reason,
        observed_at=in_time(message.observed_at, "observedAt")
        if message.HasField("observed_at")
        else now,
        detail=in_text(message.detail, "detail", choices.DETAIL_MAX),
        reporter=reporter,
    )


# -------------------------------------------------------------------------------------- recovery


def operation_of(number: int) -> Operation:
    """The operation that a request names. Raises `ApiError` for none."""
    operation = _OPERATIONS.get(_word(heimdall_pb2.RecoveryOperation.DESCRIPTOR, number))
    if operation is None:
        raise invalid(f"operation is missing or not known; it can be {', '.join(_OPERATIONS)}")
    return operation


def action_of(number: int) -> SchedulerAction | None:
    return _ACTIONS.get(_word(heimdall_pb2.RecoverySchedulerAction.DESCRIPTOR, number))


def milestone_kind_of(number: int) -> MilestoneKind | None:
    return _KINDS.get(_word(heimdall_pb2.RecoveryMilestoneKind.DESCRIPTOR, number))


def context_message(sequence: Sequence) -> heimdall_pb2.RecoveryContext:
    return heimdall_pb2.RecoveryContext(
        sequence_id=sequence.id, traceparent=sequence.traceparent, tracestate=""
    )


# ----------------------------------------------------------------------------------------- audit


def audit_message(event: AuditEvent) -> audit_pb2.AuditEvent:
    message = audit_pb2.AuditEvent(
        event_number=out_int64(event.number),
        heimdall_job_id=event.attempt_id or "",
        job_id=out_text(event.job_id),
        event_producer=out_text(event.producer),
        event_type=out_text(event.type),
        event_level=event.level.value,
        event_produced_at=out_micros(event.happened_at),
        event_learned_at=out_micros(event.learned_at),
        event_kind=event.kind.value,
        idempotency_key=out_text(event.idempotency_key),
    )
    if event.attempt_index is not None:
        message.attempt_index = out_int32(event.attempt_index)
    message.payload.CopyFrom(payload_message(event.payload))
    return message


def payload_message(text: str) -> Struct:
    """JSON text as an object; what is no object stands under ``value``, what is no JSON under
    ``text``: an event of the trail can always be read."""
    message = Struct()
    try:
        value = json.loads(text or "{}", parse_constant=str)
        json_format.ParseDict(value if isinstance(value, dict) else {"value": value}, message)
    except (ValueError, RecursionError, json_format.ParseError):
        message.Clear()
        message["text"] = out_text(text)
    return message


def payload_of(message: Struct) -> str:
    """The JSON text of an object. Raises `ApiError` where it is too large."""
    text = json.dumps(
        json_format.MessageToDict(message),
        ensure_ascii=False,
        separators=(",", ":"),
        sort_keys=True,
    )
    size = len(text.encode("utf-8"))
    if size > choices.PAYLOAD_MAX:
        raise invalid(f"payload has {size} bytes; at most {choices.PAYLOAD_MAX} are taken")
    return text


@dataclass(frozen=True, slots=True)
class ProducedEvent:
    """The words of an ingested event, checked; whom it is about is resolved by who stores it."""

    producer: str
    type: str
    level: AuditLevel
    kind: AuditKind


def produced_event(message: audit_pb2.ProducerAuditEvent) -> ProducedEvent:
    """Raises `ApiError` with what is wrong with this one event."""
    level = choices.AUDIT_LEVEL_WORDS.get(message.event_level.casefold().rpartition("_")[2])
    if level is None:
        known = ", ".join(word for word in choices.AUDIT_LEVEL_WORDS if word)
        raise invalid(f"eventLevel is {message.event_level[:60]!r}; it can be {known}")
    word = message.event_kind.casefold()
    kind = next((kind for kind in AuditKind if kind.value == (word or "seen")), None)
    if kind is None:
        known = ", ".join(kind.value for kind in AuditKind)
        raise invalid(f"eventKind is {message.event_kind[:60]!r}; it can be {known}")
    return ProducedEvent(
        producer=in_text(message.event_producer, "eventProducer", needed=True),
        type=in_text(message.event_type, "eventType", needed=True),
        level=level,
        kind=kind,
    )
