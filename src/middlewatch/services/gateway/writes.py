"""The documented writes: reports of controllers, milestones, audit events, attempts.

Each is one transaction with its audit event, and each can be repeated: a report is compared with
what stands, everything else carries an idempotency key. Where a row moved between reading and
writing, it is read and judged again.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from middlewatch.contract import choices, mapping
from middlewatch.contract.errors import ApiError, Code, invalid, not_found
from middlewatch.contract.gen.heimdall.v1 import audit_pb2, heimdall_pb2
from middlewatch.contract.values import in_micros, in_text, in_time_after_1970
from middlewatch.model.advice import (
    ABANDONED_REASONS,
    CONVERGED_REASONS,
    Advice,
    Disposition,
    Reason,
    RefusedReport,
    Status,
    reported,
)
from middlewatch.model.attempt import Attempt
from middlewatch.model.audit import AuditEvent, AuditKind, AuditLevel
from middlewatch.model.change import Change
from middlewatch.model.milestone import Milestone, MilestoneSource, Operation
from middlewatch.ports.errors import Conflict
from middlewatch.services.gateway.access import Caller, Scope
from middlewatch.services.gateway.service import (
    INDEX_MAX,
    Context,
    Handler,
    clip,
    uuid_of,
)

TRIES = 8
"""How often a row that moves under us is read again before the caller is told to repeat."""

R = TypeVar("R")


def handlers(context: Context) -> dict[str, Handler]:
    """By the full name of the RPC."""
    writes = _Writes(context)
    service = "heimdall.v1.HeimdallService."
    keys = "heimdall.v1.ApiKeysService."
    return {
        service + "UpdateAdviceReconciliationStatus": writes.reconciliation_status,
        service + "RecordRecoveryMilestone": writes.milestone,
        "heimdall.v1.AuditService.CreateAuditEvents": writes.audit_events,
        keys + "ListApiKeys": _disabled,
        keys + "CreateApiKey": _disabled,
        keys + "RetrieveApiKey": _disabled,
        keys + "DeleteApiKey": _disabled,
        keys + "UpdateApiKeyAuthorizations": _disabled,
    }


def _disabled(request: object, _: Caller) -> heimdall_pb2.Job:
    """What the five key endpoints always answer, whatever they are given."""
    del request
    raise ApiError(Code.INTERNAL, choices.API_KEYS_DISABLED)


def until_settled(attempt: Callable[[], R]) -> R:
    """Read, judge and write again while rows move under us. Raises `Conflict` after `TRIES`."""
    for _ in range(TRIES - 1):
        try:
            return attempt()
        except Conflict:
            continue
    return attempt()


class _Writes:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.store
        self._clock = context.clock

    # reconciliation status

    def reconciliation_status(
        self, request: heimdall_pb2.UpdateAdviceReconciliationStatusRequest, caller: Caller
    ) -> heimdall_pb2.UpdateAdviceReconciliationStatusResponse:
        attempt_id = uuid_of(request.heimdall_job_id, "heimdallJobId")
        now = self._clock.now()
        status = mapping.status_of(request.reconciliation_status, now, caller.name)
        _check_reason(status)

        def once() -> Advice:
            advice = self._store.advice(attempt_id)
            if advice is None:
                raise not_found(f"there is no advice for the attempt {attempt_id}")
            try:
                after = reported(advice, status)
            except RefusedReport as error:
                raise ApiError(
                    Code.FAILED_PRECONDITION,
                    f"{error}; read the advice again and report what its generation shows",
                ) from None
            if after is not advice:
                self._store.apply(
                    Change(advice=(after,), audit=(_status_event(after, status, now),))
                )
            return after

        after = until_settled(once)
        if after.status is None:
            raise AssertionError("a reported advice has a status")
        return heimdall_pb2.UpdateAdviceReconciliationStatusResponse(
            reconciliation_status=mapping.status_message(after.status)
        )

    # milestones

    def milestone(
        self, request: heimdall_pb2.RecordRecoveryMilestoneRequest, caller: Caller
    ) -> heimdall_pb2.RecordRecoveryMilestoneResponse:
        sequence_id = uuid_of(request.sequence_id, "sequenceId")
        key = in_text(request.idempotency_key, "idempotencyKey", needed=True)
        action = mapping.action_of(request.action)
        kind = mapping.milestone_kind_of(request.kind)
        if action is None and kind is None:
            known = ", ".join(choices.ACTION_ON_WIRE.values())
            raise invalid(f"action is missing or not known; it can be {known}")
        sequence = self._store.sequence_by_id(sequence_id)
        if sequence is None:
            raise not_found(f"no recovery sequence {sequence_id} was recorded")
        operation = sequence.operation
        if request.operation or operation is not Operation.CONSTRAIN:
            # Constraint-only recovery has no word of its own on the wire.
            operation = mapping.operation_of(request.operation)
        if sequence.operation is not operation:
            raise invalid(
                f"sequence {sequence_id} is about {sequence.operation.value}, not {operation.value}"
            )
        now = self._clock.now()
        at = now
        if request.HasField("occurred_at"):
            at = in_time_after_1970(request.occurred_at, "occurredAt")
        milestone = Milestone(
            sequence_id=sequence_id,
            idempotency_key=key,
            at=at,
            learned_at=now,
            kind=kind,
            operation=operation,
            action=action,
            step=request.step if request.HasField("step") else None,
            detail=in_text(request.detail, "detail", choices.DETAIL_MAX),
            source=MilestoneSource.API,
        )
        what = kind.value if kind is not None else action.value if action is not None else ""
        event = AuditEvent(
            kind=AuditKind.DONE,
            type="milestone.recorded",
            producer="gateway",
            happened_at=at,
            learned_at=now,
            attempt_id=sequence.source_attempt_id,
            job_id=sequence.job_id,
            attempt_index=sequence.source_attempt_index,
            payload=_json({"milestone": what, "sequence": sequence_id, "reporter": caller.name}),
            idempotency_key=f"milestone:{sequence_id}:{key}",
        )
        until_settled(lambda: self._store.apply(Change(milestones=(milestone,), audit=(event,))))
        return heimdall_pb2.RecordRecoveryMilestoneResponse()

    # audit

    def audit_events(
        self, request: audit_pb2.CreateAuditEventsRequest, caller: Caller
    ) -> audit_pb2.CreateAuditEventsResponse:
        if len(request.items) > choices.AUDIT_BATCH_MAX:
            raise invalid(
                f"items has {len(request.items)} events; send at most {choices.AUDIT_BATCH_MAX} "
                "at once"
            )
        now = self._clock.now()
        events: list[AuditEvent] = []
        rejections: list[audit_pb2.AuditEventRejection] = []
        for index, item in enumerate(request.items):
            try:
                events.append(self._audit_event(item, caller, now))
            except ApiError as error:
                rejections.append(audit_pb2.AuditEventRejection(index=index, reason=error.message))
        if events:
            until_settled(lambda: self._store.apply(Change(audit=tuple(events))))
        response = audit_pb2.CreateAuditEventsResponse()
        if rejections:
            response.partial_success.rejected_events = len(rejections)
            response.partial_success.error_message = (
                f"{len(rejections)} of {len(request.items)} events were not taken; "
                "mend and send those alone"
            )
            response.partial_success.rejections.extend(rejections)
        return response

    def _audit_event(
        self, item: audit_pb2.ProducerAuditEvent, caller: Caller, now: datetime
    ) -> AuditEvent:
        produced = mapping.produced_event(item)
        if produced.producer in choices.RESERVED_PRODUCERS and not caller.may(Scope.CONTROLLER):
            raise invalid(
                f"eventProducer {produced.producer!r} is one of our own services; "
                "writing in its name needs the controller scope"
            )
        index = item.attempt_index if item.HasField("attempt_index") else None
        if index is not None and not item.job_id:
            raise invalid("attemptIndex needs jobId")
        if index is not None and not 0 <= index <= INDEX_MAX:
            raise invalid("attemptIndex is negative; attempts count from 0")
        job_id = in_text(item.job_id, "jobId", choices.ID_MAX)
        attempt_id = (
            uuid_of(item.heimdall_job_id, "heimdallJobId") if item.heimdall_job_id else None
        )
        attempt = self._attempt_of_event(attempt_id, job_id, index)
        if attempt is not None:
            attempt_id, job_id, index = attempt.id, attempt.job_id, attempt.attempt_index
        key = in_text(item.idempotency_key, "idempotencyKey")
        return AuditEvent(
            kind=produced.kind,
            type=produced.type,
            producer=produced.producer,
            happened_at=in_micros(item.event_produced_at)
            if item.HasField("event_produced_at")
            else now,
            learned_at=now,
            level=produced.level,
            attempt_id=attempt_id,
            job_id=job_id,
            attempt_index=index,
            payload=mapping.payload_of(item.payload),
            # Keys of one producer must not shadow those of another, nor our own.
            idempotency_key=f"ingested:{produced.producer}:{key}" if key else "",
        )

    def _attempt_of_event(
        self, attempt_id: str | None, job_id: str, index: int | None
    ) -> Attempt | None:
        if attempt_id is not None:
            return self._store.attempt(uuid_of(attempt_id, "heimdallJobId"))
        if job_id and index is not None:
            return self._store.attempt_by_index(job_id, index)
        return None


def _check_reason(status: Status) -> None:
    """A reason of the wrong kind is a mistake of the request, not a state that moved."""
    fits = {
        Disposition.CONVERGED: CONVERGED_REASONS,
        Disposition.ABANDONED: ABANDONED_REASONS,
        Disposition.PENDING: frozenset(choices.REASON_ON_WIRE) - CONVERGED_REASONS,
    }[status.disposition]
    if status.reason not in fits:
        known = ", ".join(sorted(choices.REASON_ON_WIRE[reason] for reason in fits))
        raise invalid(
            f"reason {status.reason.value} does not go with the disposition "
            f"{status.disposition.value}; it can be {known}"
        )


def _status_event(advice: Advice, status: Status, now: datetime) -> AuditEvent:
    alarm = status.reason is Reason.REVIVED_IN_ERROR
    return AuditEvent(
        kind=AuditKind.CONFIRMED if status.terminal else AuditKind.SEEN,
        type="advice.outcome" if status.terminal else "advice.waiting",
        producer="gateway",
        happened_at=status.observed_at,
        learned_at=now,
        level=AuditLevel.ALARM if alarm else AuditLevel.INFO,
        attempt_id=advice.attempt_id,
        job_id=advice.job_id,
        attempt_index=advice.attempt_index,
        payload=_json(
            {
                "generation": status.observed_generation,
                "disposition": status.disposition.value,
                "reason": status.reason.value,
                "detail": clip(status.detail),
                "reporter": status.reporter,
            }
        ),
    )


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
