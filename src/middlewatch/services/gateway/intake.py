"""What others tell us of attempts and of what they saw: upserts and signals.

Both are hearsay. What the watcher has seen at the scheduler is not overwritten by an upsert, and
a posted signal has a source of its own kind, so that nobody who can post it gains the word of the
log, the launcher or the scheduler.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from middlewatch.contract import choices, mapping
from middlewatch.contract.errors import ApiError, Code, invalid
from middlewatch.contract.gen.heimdall.v1 import heimdall_pb2
from middlewatch.contract.gen.middlewatch.v1 import middlewatch_pb2 as wire
from middlewatch.contract.values import in_text, in_texts, in_time_after_1970, in_word
from middlewatch.model.attempt import TOLD, Attempt, AttemptEnd
from middlewatch.model.audit import AuditEvent, AuditKind
from middlewatch.model.change import Change
from middlewatch.model.identity import AttemptId, AttemptKey, ClusterId
from middlewatch.model.signal import (
    Domain,
    Severity,
    Signal,
    SignalKind,
    Source,
    SourceKind,
    signal_key,
)
from middlewatch.services.gateway.access import Caller
from middlewatch.services.gateway.service import (
    INDEX_MAX,
    Context,
    Handler,
    attempt_named,
    uuid_of,
)
from middlewatch.services.gateway.writes import until_settled

_POSTABLE = (SignalKind.EXTERNAL, SignalKind.SECOND_WITNESS)
CLOCKS_APART = timedelta(seconds=10)
"""How far a sender's clock may be ahead of ours."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def handlers(context: Context) -> dict[str, Handler]:
    """By the full name of the RPC."""
    intake = Intake(context)
    return {
        "heimdall.v1.HeimdallService.CreateOrUpdateJob": intake.upsert,
        "middlewatch.v1.MiddlewatchService.PostSignals": intake.signals,
    }


class Intake:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.store
        self._clock = context.clock

    # attempts

    def upsert(
        self, request: heimdall_pb2.CreateOrUpdateJobRequest, caller: Caller
    ) -> heimdall_pb2.CreateOrUpdateJobResponse:
        in_text(request.workflow_id, "workflowId", choices.WORKFLOW_ID_MAX, needed=True)
        told = _told(request)
        now = self._clock.now()

        def once() -> Attempt:
            known = self._find(request)
            _check_dependencies(request, known)
            if known is None:
                after = _created(request, told, self._cluster(request), now)
                self._check_watched(after)
            else:
                after = _updated(known, request, told, now)
                if _same(known, after):
                    return known
            event = _upsert_event(after, caller, now, new=known is None)
            self._store.apply(Change(attempts=(after,), audit=(event,)))
            return after

        attempt = until_settled(once)
        self._context.wake()
        return heimdall_pb2.CreateOrUpdateJobResponse(
            job=mapping.job_message(attempt, self._store.advice(attempt.id))
        )

    def _cluster(self, request: heimdall_pb2.CreateOrUpdateJobRequest) -> ClusterId:
        own = self._context.cluster
        given = request.scheduler_metadata
        return ClusterId(
            in_text(given.scheduler, "schedulerMetadata.scheduler", choices.ID_MAX)
            or own.scheduler,
            in_text(given.environment, "schedulerMetadata.environment", choices.ID_MAX)
            or own.environment,
        )

    def _find(self, request: heimdall_pb2.CreateOrUpdateJobRequest) -> Attempt | None:
        """The attempt that the request is about: by its UUID; else by number, index and (where
        given) submit time, within its cluster."""
        if request.heimdall_job_id:
            return self._store.attempt(uuid_of(request.heimdall_job_id, "heimdallJobId"))
        _need_number(request)
        index = request.attempt_index
        matching = [
            attempt
            for attempt in self._store.attempts_of_job(self._cluster(request), request.job_id)
            if attempt.attempt_index == index and not attempt.vanished
        ]
        if request.HasField("submit_time"):
            at = _submitted(request)
            matching = [attempt for attempt in matching if attempt.submitted_at == at]
        return matching[-1] if matching else None

    def _check_watched(self, attempt: Attempt) -> None:
        """Of a job that the watcher sees, the scheduler alone names the attempts: one told by
        somebody else, and newer, would pass for the job's present. Raises `ApiError`."""
        newer_than = [
            other.submitted_at
            for other in self._store.attempts_of_job(attempt.cluster, attempt.job_id)
            if not other.told
        ]
        if newer_than and attempt.submitted_at > min(newer_than):
            raise ApiError(
                Code.FAILED_PRECONDITION,
                f"job {attempt.job_id} is watched here, and its scheduler has shown no attempt "
                f"submitted at {attempt.submitted_at.isoformat()}; name one of its attempts by "
                "heimdallJobId, or by jobId and attemptIndex",
            )

    # signals

    def signals(self, request: wire.PostSignalsRequest, caller: Caller) -> wire.PostSignalsResponse:
        if len(request.signals) > choices.SIGNAL_BATCH_MAX:
            raise invalid(
                f"signals has {len(request.signals)} entries; send at most "
                f"{choices.SIGNAL_BATCH_MAX} at once"
            )
        now = self._clock.now()
        response = wire.PostSignalsResponse()
        signals: dict[str, tuple[Signal, Attempt]] = {}
        taken = 0
        for index, posted in enumerate(request.signals):
            try:
                attempt = attempt_named(self._context, posted.attempt)
                signal = _signal(posted, attempt.id, caller, now)
            except ApiError as error:
                response.rejections.add(index=index, reason=error.message)
                continue
            taken += 1
            signals.setdefault(signal.key, (signal, attempt))
        if not signals:
            return response
        change = Change(
            signals=tuple(signal for signal, _ in signals.values()),
            signal_cap=self._context.signal_cap,
            about_signals=tuple(
                (key, _signal_event(signal, attempt, now))
                for key, (signal, attempt) in signals.items()
            ),
        )
        applied = until_settled(lambda: self._store.apply(change))
        response.stored.extend(applied.new_signals)
        response.capped = applied.capped_signals
        response.duplicates = taken - len(applied.new_signals) - applied.capped_signals
        if applied.new_signals:
            self._context.wake()
        return response


def _need_number(request: heimdall_pb2.CreateOrUpdateJobRequest) -> None:
    if not request.job_id:
        raise invalid("jobId is missing; without heimdallJobId, jobId and attemptIndex are needed")
    in_text(request.job_id, "jobId", choices.ID_MAX)
    if not 0 <= request.attempt_index <= INDEX_MAX:
        raise invalid("attemptIndex is negative; attempts count from 0")


def _submitted(request: heimdall_pb2.CreateOrUpdateJobRequest) -> datetime:
    """The submit time in whole seconds. Where nobody gave it, the attempt's index counted in
    seconds from 1970: with it the id depends on jobId and attemptIndex alone, attempts stay in
    order, and any attempt that the scheduler itself has shown is newer."""
    if request.HasField("submit_time"):
        return in_time_after_1970(request.submit_time, "submitTime").replace(microsecond=0)
    return _EPOCH + timedelta(seconds=request.attempt_index)


class _Told:
    """The parts of a request that both creating and updating need, checked once."""

    __slots__ = ("end_at", "excluded", "gpus", "name", "nodes", "started_at", "state", "user")

    def __init__(self, request: heimdall_pb2.CreateOrUpdateJobRequest) -> None:
        self.name = in_text(request.job_name, "jobName")
        self.nodes = in_texts(request.allocated_nodes, "allocatedNodes")
        self.excluded = in_texts(request.node_constraints.exclusions, "nodeConstraints.exclusions")
        self.gpus = request.gpu_count_per_node if request.HasField("gpu_count_per_node") else None
        if self.gpus is not None and self.gpus < 0:
            raise invalid("gpuCountPerNode is negative")
        self.user = in_text(request.additional_properties.user, "additionalProperties.user")
        self.started_at = (
            in_time_after_1970(request.start_time, "startTime")
            if request.HasField("start_time")
            else None
        )
        self.end_at = (
            in_time_after_1970(request.end_time, "endTime")
            if request.HasField("end_time")
            else None
        )
        self.state = mapping.job_status_of(request.state)


def _told(request: heimdall_pb2.CreateOrUpdateJobRequest) -> _Told:
    return _Told(request)


def _check_dependencies(
    request: heimdall_pb2.CreateOrUpdateJobRequest, known: Attempt | None
) -> None:
    """What a job waits for is its owner's word, and that stands in its comment. Sending back what
    was read is no declaration."""
    given = tuple(request.additional_properties.depends_on)
    stands = () if known is None else tuple(one.text for one in known.opt_in.depends_on)
    if given and given != stands:
        raise invalid(
            "additionalProperties.dependsOn cannot be told here: declare it in the job's comment "
            '("dependsOn":["afterok:123"], docs/workflows.md)'
        )


def _created(
    request: heimdall_pb2.CreateOrUpdateJobRequest,
    told: _Told,
    cluster: ClusterId,
    now: datetime,
) -> Attempt:
    _need_number(request)
    submitted = _submitted(request)
    if submitted > now + CLOCKS_APART:
        raise invalid(
            f"submitTime is {submitted.isoformat()}, which has not come yet; "
            "compare the clocks of both machines"
        )
    attempt_id = AttemptKey(cluster, request.job_id, submitted).attempt_id()
    if request.heimdall_job_id:
        attempt_id = uuid_of(request.heimdall_job_id, "heimdallJobId")
    fresh = Attempt(
        id=AttemptId(attempt_id),
        cluster=cluster,
        job_id=request.job_id,
        attempt_index=request.attempt_index,
        submitted_at=submitted,
        first_seen_at=now,
        last_seen_at=now,
        source=TOLD,
    )
    return _updated(fresh, request, told, now)


def _updated(
    attempt: Attempt,
    request: heimdall_pb2.CreateOrUpdateJobRequest,
    told: _Told,
    now: datetime,
) -> Attempt:
    """The attempt after the request. Of one that the watcher has seen, only what a scheduler does
    not know can be told; an end, once recorded, is not taken back."""
    after = replace(
        attempt,
        workflow_id=request.workflow_id,
        gpus_per_node=attempt.gpus_per_node if told.gpus is None else told.gpus,
    )
    if not attempt.told:
        return after
    end = attempt.end
    state = attempt.state
    if told.state is not None:
        state, by = told.state
        if end is None and by is not None:
            end = AttemptEnd(
                state=state,
                by=by,
                exit_code=None,
                exit_signal=None,
                at=told.end_at,
                learned_at=now,
            )
    return replace(
        after,
        job_name=told.name or attempt.job_name,
        nodes=told.nodes or attempt.nodes,
        node_count=len(told.nodes) or attempt.node_count,
        excluded_nodes=told.excluded or attempt.excluded_nodes,
        user=told.user or attempt.user,
        started_at=told.started_at or attempt.started_at,
        state=end.state if end is not None else state,
        end=end,
        last_seen_at=max(now, attempt.last_seen_at),
    )


def _same(before: Attempt, after: Attempt) -> bool:
    return replace(after, last_seen_at=before.last_seen_at) == before


def _upsert_event(attempt: Attempt, caller: Caller, now: datetime, *, new: bool) -> AuditEvent:
    return AuditEvent(
        kind=AuditKind.SEEN,
        type="attempt.told" if new else "attempt.updated",
        producer="gateway",
        happened_at=now,
        learned_at=now,
        attempt_id=attempt.id,
        job_id=attempt.job_id,
        attempt_index=attempt.attempt_index,
        payload=json.dumps(
            {"by": caller.name, "state": attempt.state.value, "workflow": attempt.workflow_id},
            ensure_ascii=False,
        ),
    )


def _signal(
    posted: wire.PostedSignal, attempt_id: AttemptId, caller: Caller, now: datetime
) -> Signal:
    kind = in_word(posted.kind, SignalKind, "kind", SignalKind.EXTERNAL)
    if kind not in _POSTABLE:
        known = ", ".join(each.value for each in _POSTABLE)
        raise invalid(f"kind {kind.value} is only ours to see; a posted signal can be {known}")
    value = posted.value if posted.HasField("value") else None
    if value is not None and not math.isfinite(value):
        raise invalid("value is not a finite number")
    at = (
        in_time_after_1970(posted.happened_at, "happenedAt")
        if posted.HasField("happened_at")
        else now
    )
    if at > now + CLOCKS_APART:
        raise invalid(
            f"happenedAt is {at.isoformat()}, which has not come yet; "
            "compare the clocks of both machines"
        )
    position = in_text(posted.position, "position") or at.isoformat()
    source = Source(SourceKind.API, caller.name, position)
    pattern = in_text(posted.pattern_id, "patternId", choices.ID_MAX)
    return Signal(
        key=signal_key(attempt_id, source, pattern or kind.value),
        attempt_id=attempt_id,
        kind=kind,
        source=source,
        happened_at=at,
        learned_at=now,
        pattern_id=pattern,
        failure_class=in_text(posted.failure_class, "failureClass", choices.ID_MAX),
        domain=in_word(posted.domain, Domain, "domain", Domain.UNKNOWN),
        severity=in_word(posted.severity, Severity, "severity", Severity.ERROR),
        excerpt=in_text(posted.excerpt, "excerpt", choices.EXCERPT_MAX),
        nodes=in_texts(posted.nodes, "nodes"),
        ranks=tuple(posted.ranks)[: choices.LIST_MAX],
        step=posted.step if posted.HasField("step") else None,
        value=value,
        detail=in_text(posted.detail, "detail", choices.DETAIL_MAX),
    )


def _signal_event(signal: Signal, attempt: Attempt, now: datetime) -> AuditEvent:
    return AuditEvent(
        kind=AuditKind.SEEN,
        type="signal.posted",
        producer="gateway",
        happened_at=signal.happened_at,
        learned_at=now,
        attempt_id=attempt.id,
        job_id=attempt.job_id,
        attempt_index=attempt.attempt_index,
        payload=json.dumps(
            {
                "signal": signal.key,
                "kind": signal.kind.value,
                "pattern": signal.pattern_id,
                "by": signal.source.identity,
            },
            ensure_ascii=False,
        ),
        idempotency_key=f"signal:{signal.key}",
    )
