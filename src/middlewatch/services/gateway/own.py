"""Our own reads: signals, issues, verdicts, decisions, whole advice records, one attempt's story,
leases and health."""

from __future__ import annotations

from middlewatch import __version__
from middlewatch.contract import choices, mapping, records
from middlewatch.contract.errors import invalid
from middlewatch.contract.gen.heimdall.v1 import heimdall_pb2
from middlewatch.contract.gen.middlewatch.v1 import middlewatch_pb2 as wire
from middlewatch.contract.paging import (
    Place,
    limit_of,
    next_offset,
    offset_of,
    opaque_token,
    read_opaque_token,
)
from middlewatch.contract.recoveries import recovery_message
from middlewatch.contract.values import in_text
from middlewatch.model.advice import Advice
from middlewatch.model.attempt import Attempt
from middlewatch.model.identity import AttemptId, ClusterId
from middlewatch.model.milestone import Milestone
from middlewatch.ports.store import AuditFilter
from middlewatch.services.gateway.access import Caller
from middlewatch.services.gateway.recoveries import recoveries_of
from middlewatch.services.gateway.service import Context, Handler, attempt_named


def handlers(context: Context) -> dict[str, Handler]:
    """By the full name of the RPC."""
    own = _Own(context)
    service = "middlewatch.v1.MiddlewatchService."
    return {
        service + "ListSignals": own.signals,
        service + "ListIssues": own.issues,
        service + "ListVerdicts": own.verdicts,
        service + "ListDecisions": own.decisions,
        service + "ListAdviceRecords": own.advice,
        service + "GetExplanation": own.explanation,
        service + "ListAuditTrail": own.trail,
        service + "ListLeases": own.leases,
        service + "GetHealth": own.health,
    }


def _limit(
    request: wire.ListSignalsRequest | wire.ListIssuesRequest | wire.ListAdviceRecordsRequest,
) -> int:
    given = request.limit if request.HasField("limit") else None
    return limit_of(given, choices.PAGE_DEFAULT, choices.PAGE_MAX)


class _Own:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.store

    def _attempt_id(self, text: str) -> AttemptId | None:
        return attempt_named(self._context, text).id if text else None

    def signals(self, request: wire.ListSignalsRequest, _: Caller) -> wire.ListSignalsResponse:
        limit = _limit(request)
        attempt_id = self._attempt_id(request.attempt)
        filters = (attempt_id,)
        after = 0
        if request.page:
            after = read_opaque_token("signals", filters, request.page, "page").position
        found = (
            self._store.signals_after(after, limit + 1)
            if attempt_id is None
            else self._store.signals(attempt_id, after, limit + 1)
        )
        shown = found[:limit]
        more = len(found) > limit
        return wire.ListSignalsResponse(
            signals=[records.signal_message(row, signal) for row, signal in shown],
            count=len(shown),
            next_page_token=opaque_token("signals", filters, Place(shown[-1][0])) if more else "",
        )

    def issues(self, request: wire.ListIssuesRequest, _: Caller) -> wire.ListIssuesResponse:
        limit = _limit(request)
        offset = offset_of(request.page, "page")
        found = self._store.issues(self._attempt_id(request.attempt), offset, limit + 1)
        return wire.ListIssuesResponse(
            issues=[records.issue_message(issue) for issue in found[:limit]],
            count=len(found[:limit]),
            next_page_token=next_offset(offset, limit, len(found) > limit),
        )

    def verdicts(self, request: wire.ListVerdictsRequest, _: Caller) -> wire.ListVerdictsResponse:
        attempt = attempt_named(self._context, request.attempt)
        return wire.ListVerdictsResponse(
            verdicts=[records.verdict_message(v) for v in self._store.verdicts(attempt.id)]
        )

    def decisions(
        self, request: wire.ListDecisionsRequest, _: Caller
    ) -> wire.ListDecisionsResponse:
        attempt = attempt_named(self._context, request.attempt)
        return wire.ListDecisionsResponse(
            decisions=[records.decision_message(d) for d in self._store.decisions(attempt.id)]
        )

    def advice(
        self, request: wire.ListAdviceRecordsRequest, _: Caller
    ) -> wire.ListAdviceRecordsResponse:
        limit = _limit(request)
        scheduler = in_text(request.scheduler, "scheduler")
        environment = in_text(request.environment, "environment")
        if bool(scheduler) is not bool(environment):
            raise invalid("scheduler and environment name an owner together; give both or neither")
        owner = ClusterId(scheduler, environment) if scheduler else None
        filters = (request.only_active, scheduler, environment)
        after = 0
        if request.page:
            after = read_opaque_token("records", filters, request.page, "page").position
        found = self._store.advice_page(request.only_active, after, limit + 1, owner)
        shown = found[:limit]
        more = len(found) > limit
        return wire.ListAdviceRecordsResponse(
            advice=[records.advice_message(advice) for _, advice in shown],
            count=len(shown),
            next_page_token=opaque_token("records", filters, Place(shown[-1][0])) if more else "",
        )

    def explanation(
        self, request: wire.GetExplanationRequest, _: Caller
    ) -> wire.GetExplanationResponse:
        attempt = attempt_named(self._context, request.attempt)
        store = self._store
        advice = store.advice(attempt.id)
        generations = store.generations(attempt.id)
        siblings = self._siblings(attempt)
        siblings_advice = store.advice_of([sibling.id for sibling in siblings])
        message = wire.GetExplanationResponse(
            job=mapping.job_message(attempt, advice),
            signals=[
                records.signal_message(row, signal)
                for row, signal in store.signals(attempt.id, 0, choices.EXPLAINED_SIGNALS_MAX)
            ],
            capped=records.capped_messages(store.capped_counts(attempt.id)),
            issues=[
                records.issue_message(issue)
                for issue in store.issues(attempt.id, 0, choices.EXPLAINED_SIGNALS_MAX)
            ],
            verdicts=[records.verdict_message(v) for v in store.verdicts(attempt.id)],
            decisions=[records.decision_message(d) for d in store.decisions(attempt.id)],
            generations=[records.advice_message(generation) for generation in generations],
            statuses=[records.status_message(status) for status in store.statuses(attempt.id)],
            actions=[records.action_message(action) for action in store.actions(attempt.id)],
            milestones=[
                records.milestone_message(m) for m in self._milestones(advice, generations)
            ],
            siblings=[
                mapping.job_message(sibling, siblings_advice.get(sibling.id))
                for sibling in siblings
            ],
            recoveries=[recovery_message(r) for r in recoveries_of(store, attempt)],
        )
        progress = store.progress(attempt.id)
        if progress is not None:
            message.progress.CopyFrom(records.progress_message(progress))
        if advice is not None:
            message.advice.CopyFrom(records.advice_message(advice))
        return message

    def _milestones(
        self, advice: Advice | None, generations: tuple[Advice, ...]
    ) -> tuple[Milestone, ...]:
        """Of every sequence that this attempt's advice started, in the order of time."""
        sequences = [generation.sequence_id for generation in generations]
        if advice is not None:
            sequences.append(advice.sequence_id)
        found = [m for s in dict.fromkeys(sequences) for m in self._store.milestones(s)]
        return tuple(sorted(found, key=lambda milestone: milestone.at))

    def _siblings(self, attempt: Attempt) -> tuple[Attempt, ...]:
        attempts = self._store.attempts_of_job(attempt.cluster, attempt.job_id)
        return tuple(other for other in attempts if other.id != attempt.id)[-choices.PAGE_MAX :]

    def trail(self, request: wire.ListAuditTrailRequest, _: Caller) -> wire.ListAuditTrailResponse:
        given = request.limit if request.HasField("limit") else None
        limit = limit_of(given, choices.AUDIT_PAGE_DEFAULT, choices.AUDIT_PAGE_MAX)
        if request.HasField("after") and request.HasField("before"):
            raise invalid("after and before exclude each other; give one of them")
        rising = request.HasField("after")
        place = request.after if rising else request.before
        if not 0 <= place <= choices.OFFSET_MAX:
            raise invalid(f"{'after' if rising else 'before'} is {place}; give an event's number")
        where = AuditFilter(
            type=in_text(request.event_type, "eventType") or None,
            level=in_text(request.event_level, "eventLevel").casefold() or None,
            producer=in_text(request.event_producer, "eventProducer") or None,
        )
        # Nothing lies before the first line, and to the store 0 means the newest one.
        nothing = request.HasField("before") and place <= 1
        found = () if nothing else self._store.audit(where, place, limit, descending=not rising)
        shown = found if rising else found[::-1]
        return wire.ListAuditTrailResponse(
            items=[mapping.audit_message(event) for event in shown],
            count=len(shown),
            last_audit_number=self._store.last_audit_number(),
        )

    def leases(self, _: wire.ListLeasesRequest, __: Caller) -> wire.ListLeasesResponse:
        return wire.ListLeasesResponse(
            leases=[records.lease_message(lease) for lease in self._store.leases()]
        )

    def health(self, _: wire.GetHealthRequest, __: Caller) -> wire.GetHealthResponse:
        context = self._context
        healthy = self._store.healthy()
        loops = loop_messages(context)
        return wire.GetHealthResponse(
            version=__version__,
            ready=healthy and all(loop.fresh for loop in loops),
            store_healthy=healthy,
            loops=loops,
            cluster=heimdall_pb2.SchedulerMetadata(
                scheduler=context.cluster.scheduler, environment=context.cluster.environment
            ),
            mode=context.mode.value,
            last_audit_number=self._store.last_audit_number() if healthy else 0,
        )


def loop_messages(context: Context) -> list[wire.LoopHealth]:
    """The loops of this process; one is fresh if it has completed a tick lately."""
    found = []
    for name, age in sorted(context.ages().items()):
        loop = wire.LoopHealth(name=name, fresh=age is not None and age <= context.stale_after_s)
        if age is not None:
            loop.age_seconds = age
        found.append(loop)
    return found
