"""The documented reads: attempts, workflows, advice, recovery sequences, the audit trail."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from google.protobuf.timestamp_pb2 import Timestamp

from middlewatch.contract import choices, mapping
from middlewatch.contract.errors import invalid, not_found
from middlewatch.contract.gen.heimdall.v1 import audit_pb2, heimdall_pb2
from middlewatch.contract.paging import (
    Place,
    limit_of,
    next_offset,
    offset_of,
    opaque_token,
    read_opaque_token,
    start_of,
)
from middlewatch.contract.values import in_micros, in_text, in_texts, in_time
from middlewatch.model.attempt import Attempt
from middlewatch.ports.store import AttemptFilter, AuditFilter
from middlewatch.services.gateway.access import Caller
from middlewatch.services.gateway.service import (
    INDEX_MAX,
    Context,
    Handler,
    attempt_by_id,
    attempt_by_reference,
    uuid_of,
)


def handlers(context: Context) -> dict[str, Handler]:
    """By the full name of the RPC."""
    reads = _Reads(context)
    service = "heimdall.v1.HeimdallService."
    return {
        service + "GetJobs": reads.jobs,
        service + "GetJob": reads.job,
        service + "GetJobsBySchedulerId": reads.jobs_by_scheduler_id,
        service + "GetWorkflows": reads.workflows,
        service + "GetWorkflow": reads.workflow,
        service + "ListAdvice": reads.advice,
        service + "GetRecoverySequence": reads.sequence,
        "heimdall.v1.AuditService.QueryAuditEvents": reads.audit,
    }


def _page_limit(request: heimdall_pb2.GetJobsRequest | heimdall_pb2.GetWorkflowsRequest) -> int:
    given = request.limit if request.HasField("limit") else None
    return limit_of(given, choices.PAGE_DEFAULT, choices.PAGE_MAX)


class _Reads:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.store

    # jobs

    def jobs(self, request: heimdall_pb2.GetJobsRequest, _: Caller) -> heimdall_pb2.GetJobsResponse:
        limit = _page_limit(request)
        number = request.page_number if request.HasField("page_number") else None
        offset = start_of(request.page_token, number, limit)
        found = self._store.attempts(_attempt_filter(request), offset, limit + 1)
        return heimdall_pb2.GetJobsResponse(
            jobs=self._jobs(found[:limit]),
            count=len(found[:limit]),
            next_page_token=next_offset(offset, limit, len(found) > limit),
        )

    def job(self, request: heimdall_pb2.GetJobRequest, _: Caller) -> heimdall_pb2.GetJobResponse:
        name = in_text(request.heimdall_job_id, "heimdallJobId", needed=True)
        attempt = (
            attempt_by_id(self._context, name)
            if request.use_heimdall_id
            else attempt_by_reference(self._context, name)
        )
        return heimdall_pb2.GetJobResponse(job=self._jobs([attempt])[0])

    def jobs_by_scheduler_id(
        self, request: heimdall_pb2.GetJobsBySchedulerIdRequest, _: Caller
    ) -> heimdall_pb2.GetJobsBySchedulerIdResponse:
        given = request.limit if request.HasField("limit") else None
        limit = limit_of(given, choices.PAGE_DEFAULT, choices.PAGE_MAX)
        offset = offset_of(request.page, "page")
        job_id = in_text(request.scheduler_job_id, "schedulerJobId", needed=True)
        found = self._store.attempts(AttemptFilter(job_ids=(job_id,)), offset, limit + 1)
        return heimdall_pb2.GetJobsBySchedulerIdResponse(
            jobs=self._jobs(found[:limit]),
            count=len(found[:limit]),
            next_page_token=next_offset(offset, limit, len(found) > limit),
        )

    def _jobs(self, attempts: Sequence[Attempt]) -> list[heimdall_pb2.Job]:
        """A page of attempts, with two questions to the store for all of them."""
        ids = [attempt.id for attempt in attempts]
        advice, progress = self._store.advice_of(ids), self._store.progress_of(ids)
        return [mapping.job_message(a, advice.get(a.id), progress.get(a.id)) for a in attempts]

    # workflows

    def workflows(
        self, request: heimdall_pb2.GetWorkflowsRequest, _: Caller
    ) -> heimdall_pb2.GetWorkflowsResponse:
        limit = _page_limit(request)
        number = request.page_number if request.HasField("page_number") else None
        offset = start_of(request.page_token, number, limit)
        found = self._store.workflows(offset, limit + 1)
        return heimdall_pb2.GetWorkflowsResponse(
            workflows=[
                mapping.workflow_message(
                    workflow.workflow_id,
                    workflow.scheduler_workflow_id,
                    workflow.name,
                    workflow.started_at,
                    workflow.ended_at,
                )
                for workflow in found[:limit]
            ],
            count=len(found[:limit]),
            next_page_token=next_offset(offset, limit, len(found) > limit),
        )

    def workflow(
        self, request: heimdall_pb2.GetWorkflowRequest, _: Caller
    ) -> heimdall_pb2.GetWorkflowResponse:
        name = in_text(request.workflow_id, "workflowId", choices.WORKFLOW_ID_MAX, needed=True)
        workflow = self._store.workflow(name)
        if workflow is None:
            raise not_found(f"no workflow {name!r} is known")
        return heimdall_pb2.GetWorkflowResponse(
            workflow=mapping.workflow_message(
                workflow.workflow_id,
                workflow.scheduler_workflow_id,
                workflow.name,
                workflow.started_at,
                workflow.ended_at,
            )
        )

    # advice and recovery

    def advice(
        self, request: heimdall_pb2.ListAdviceRequest, _: Caller
    ) -> heimdall_pb2.ListAdviceResponse:
        given = request.limit if request.HasField("limit") else None
        limit = limit_of(given, choices.PAGE_DEFAULT, choices.PAGE_MAX)
        filters = (request.only_active,)
        after = 0
        if request.page:
            after = read_opaque_token("advice", filters, request.page, "page").position
        found = self._store.advice_page(request.only_active, after, limit + 1)
        shown = found[:limit]
        more = len(found) > limit
        return heimdall_pb2.ListAdviceResponse(
            advice=[mapping.advice_message(advice) for _, advice in shown],
            count=len(shown),
            next_page_token=opaque_token("advice", filters, Place(shown[-1][0])) if more else "",
        )

    def sequence(
        self, request: heimdall_pb2.GetRecoverySequenceRequest, _: Caller
    ) -> heimdall_pb2.GetRecoverySequenceResponse:
        system = in_text(request.scheduler_system, "schedulerSystem", needed=True)
        scope = in_text(request.scheduler_scope, "schedulerScope", needed=True)
        job_id = in_text(request.job_id, "jobId", needed=True)
        if not request.HasField("source_attempt_index"):
            raise invalid("sourceAttemptIndex is missing; the first attempt is 0")
        if request.source_attempt_index < 0:
            raise invalid("sourceAttemptIndex is negative; attempts count from 0")
        operation = mapping.operation_of(request.operation)
        found = self._store.sequence(system, scope, job_id, request.source_attempt_index, operation)
        if found is None:
            raise not_found(
                f"no recovery sequence {operation.value} of {system}/{scope} job {job_id} attempt "
                f"{request.source_attempt_index} was recorded"
            )
        return heimdall_pb2.GetRecoverySequenceResponse(
            recovery_context=mapping.context_message(found)
        )

    # audit

    def audit(
        self, request: audit_pb2.QueryAuditEventsRequest, _: Caller
    ) -> audit_pb2.QueryAuditEventsResponse:
        given = request.limit if request.HasField("limit") else None
        limit = limit_of(given, choices.AUDIT_PAGE_DEFAULT, choices.AUDIT_PAGE_MAX)
        where = _audit_filter(request)
        sort = request.sort_by or choices.SORT_DEFAULT
        if sort not in {choices.SORT_ASCENDING, choices.SORT_DESCENDING}:
            raise invalid(
                f"sortBy is {sort[:60]!r}; it can be {choices.SORT_ASCENDING} or "
                f"{choices.SORT_DESCENDING}"
            )
        filters = (where, sort)
        place: Place | None = None
        if request.cursor:
            place = read_opaque_token("audit", filters, request.cursor, "cursor")
        backwards = place is not None and place.backwards
        found = self._store.audit(
            where,
            0 if place is None else place.position,
            limit + 1,
            descending=sort == choices.SORT_DESCENDING,
            backwards=backwards,
        )
        more = len(found) > limit
        shown = (found[-limit:] if backwards else found[:limit]) if more else found
        message = audit_pb2.QueryAuditEventsResponse(
            items=[mapping.audit_message(event) for event in shown]
        )
        message.cursor.SetInParent()
        if shown:
            # A page reached by a cursor has, on the side it was reached from, the page before.
            has_next = backwards or more
            has_previous = more if backwards else place is not None
            if has_next:
                message.cursor.next = opaque_token("audit", filters, Place(shown[-1].number))
            if has_previous:
                message.cursor.previous = opaque_token(
                    "audit", filters, Place(shown[0].number, backwards=True)
                )
        return message


def _attempt_filter(request: heimdall_pb2.GetJobsRequest) -> AttemptFilter:
    final = request.completed_jobs if request.HasField("completed_jobs") else None
    if request.jm_state and request.reconciliation_eligible_jobs:
        raise invalid("jmState and reconciliationEligibleJobs exclude each other; give one of them")
    if request.jm_state and final is not None:
        raise invalid("jmState and completedJobs exclude each other; give one of them")
    if final is not None and request.reconciliation_eligible_jobs:
        raise invalid(
            "completedJobs and reconciliationEligibleJobs=true exclude each other; give one of them"
        )
    state = request.jm_state.removeprefix("JOB_STATUS_")
    if state and state not in choices.JM_STATES:
        known = ", ".join(sorted(choices.JM_STATES))
        raise invalid(f"jmState is {request.jm_state[:60]!r}; it can be {known}")
    earliest = _bound(request.end_time_from, "endTimeFrom", request.HasField("end_time_from"))
    latest = _bound(request.end_time_to, "endTimeTo", request.HasField("end_time_to"))
    return AttemptFilter(
        job_ids=in_texts(request.job_ids, "jobIds"),
        workflow_ids=in_texts(request.workflow_ids, "workflowIds"),
        states=(state,) if state else (),
        final=final,
        reconciliation_eligible=request.reconciliation_eligible_jobs,
        ended_from=earliest,
        ended_to=latest,
    )


def _bound(value: Timestamp, name: str, given: bool) -> datetime | None:
    return in_time(value, name) if given else None


def _audit_filter(request: audit_pb2.QueryAuditEventsRequest) -> AuditFilter:
    index = request.attempt_index if request.HasField("attempt_index") else None
    if request.heimdall_job_id and (request.job_id or index is not None):
        raise invalid("heimdallJobId excludes jobId and attemptIndex; name the attempt in one way")
    if index is not None and not request.job_id:
        raise invalid("attemptIndex needs jobId")
    if index is not None and not 0 <= index <= INDEX_MAX:
        raise invalid("attemptIndex is negative; attempts count from 0")
    if not request.heimdall_job_id and not request.job_id:
        raise invalid("whose events? Give heimdallJobId, or jobId (with or without attemptIndex)")
    oldest = newest = None
    if request.HasField("min_event_produced_at"):
        oldest = in_micros(request.min_event_produced_at)
    if request.HasField("max_event_produced_at"):
        newest = in_micros(request.max_event_produced_at)
    return AuditFilter(
        attempt_id=uuid_of(request.heimdall_job_id, "heimdallJobId")
        if request.heimdall_job_id
        else None,
        job_id=in_text(request.job_id, "jobId") or None,
        attempt_index=index,
        type=in_text(request.event_type, "eventType") or None,
        level=in_text(request.event_level, "eventLevel").casefold() or None,
        producer=in_text(request.event_producer, "eventProducer") or None,
        from_=oldest,
        to=newest,
    )
