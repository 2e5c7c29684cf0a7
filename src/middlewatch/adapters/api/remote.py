"""A controller's view of a gateway on another machine: advice in, outcomes out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from google.protobuf import json_format

from middlewatch.adapters.api.client import ApiClient
from middlewatch.contract import choices, mapping, records
from middlewatch.contract.gen.heimdall.v1 import audit_pb2, heimdall_pb2
from middlewatch.contract.gen.middlewatch.v1 import middlewatch_pb2
from middlewatch.contract.values import out_micros, out_text, out_time
from middlewatch.model.advice import Status
from middlewatch.model.audit import AuditEvent
from middlewatch.model.identity import AttemptId, ClusterId
from middlewatch.model.milestone import Milestone
from middlewatch.ports.errors import Unreadable
from middlewatch.ports.remote import AdvicePage


class RemoteGateway:
    """Implements `ports.remote.AdviceSource` and `ports.remote.OutcomeSink` over HTTP."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    def active_advice(self, owner: ClusterId, page: str = "", limit: int = 100) -> AdvicePage:
        answer = self._client.call(
            "GET",
            "/middlewatch/v1/advice",
            query={
                "onlyActive": True,
                "scheduler": owner.scheduler,
                "environment": owner.environment,
                "page": page or None,
                "limit": limit,
            },
        )
        try:
            message = middlewatch_pb2.ListAdviceRecordsResponse()
            json_format.ParseDict(answer, message, ignore_unknown_fields=True)
            return AdvicePage(
                tuple(records.advice_of(advice) for advice in message.advice),
                message.next_page_token,
            )
        except (json_format.ParseError, ValueError) as error:
            raise Unreadable(
                f"the gateway's advice cannot be understood: {error}; is it a newer version?"
            ) from error

    def report(self, attempt_id: AttemptId, status: Status) -> None:
        message = mapping.status_message(status)
        message.ClearField("reporter")
        self._client.call(
            "PUT",
            f"/v1/advice/{attempt_id}/reconciliation-status",
            body=json_format.MessageToDict(message),
        )

    def record(self, milestone: Milestone) -> None:
        message = heimdall_pb2.RecordRecoveryMilestoneRequest(
            sequence_id=milestone.sequence_id,
            idempotency_key=milestone.idempotency_key,
            detail=out_text(milestone.detail),
        )
        if milestone.operation is not None:
            message.operation = heimdall_pb2.RecoveryOperation.Value(
                choices.OPERATION_ON_WIRE[milestone.operation]
            )
        if milestone.action is not None:
            message.action = heimdall_pb2.RecoverySchedulerAction.Value(
                choices.ACTION_ON_WIRE[milestone.action]
            )
        if milestone.kind is not None:
            message.kind = heimdall_pb2.RecoveryMilestoneKind.Value(
                choices.MILESTONE_ON_WIRE[milestone.kind]
            )
        if milestone.step is not None:
            message.step = milestone.step
        out_time(message.occurred_at, milestone.at)
        self._client.call(
            "POST", "/v1/recovery/milestones", body=json_format.MessageToDict(message)
        )

    def trail(self, events: Sequence[AuditEvent]) -> tuple[tuple[int, str], ...]:
        refused: list[tuple[int, str]] = []
        for start in range(0, len(events), choices.AUDIT_BATCH_MAX):
            batch = events[start : start + choices.AUDIT_BATCH_MAX]
            body = {"items": [_produced(event) for event in batch]}
            answer = self._client.call("POST", "/v1/audit/events", body=body)
            message = audit_pb2.CreateAuditEventsResponse()
            try:
                json_format.ParseDict(answer, message, ignore_unknown_fields=True)
            except json_format.ParseError as error:
                raise Unreadable(f"the gateway's answer cannot be understood: {error}") from error
            refused.extend(
                (start + rejection.index, rejection.reason)
                for rejection in message.partial_success.rejections
            )
        return tuple(refused)


def _produced(event: AuditEvent) -> dict[str, Any]:
    message = audit_pb2.ProducerAuditEvent(
        heimdall_job_id=event.attempt_id or "",
        event_producer=out_text(event.producer),
        event_type=out_text(event.type),
        event_level=event.level.value,
        event_kind=event.kind.value,
        idempotency_key=out_text(event.idempotency_key),
        event_produced_at=out_micros(event.happened_at),
        job_id=out_text(event.job_id),
    )
    if event.attempt_index is not None:
        message.attempt_index = event.attempt_index
    payload = json.loads(event.payload or "{}")
    body: dict[str, Any] = json_format.MessageToDict(message)
    body["payload"] = payload if isinstance(payload, dict) else {"value": payload}
    return body
