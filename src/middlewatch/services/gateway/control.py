"""A controller that cannot reach the store: its lease, its work and its records, over the API.

It asks, we never call it. What it sends is compared with what is stored: of advice only its status
counts, of an attempt only what a look can tell, and neither may belong to another cluster than the
one that it controls.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import TypeVar

from middlewatch import __version__
from middlewatch.contract import control
from middlewatch.contract.errors import ApiError, Code, invalid, not_found
from middlewatch.contract.gen.middlewatch.v1 import middlewatch_pb2 as wire
from middlewatch.contract.values import in_text
from middlewatch.model.advice import Advice, RefusedReport, reported
from middlewatch.model.attempt import Attempt
from middlewatch.model.change import Change, Lease
from middlewatch.model.identity import AttemptId, ClusterId
from middlewatch.model.rollback import NOTE as ROLLED_BACK
from middlewatch.reconciliation.revival import log_end
from middlewatch.reconciliation.situation import LogEnd
from middlewatch.services.gateway.access import Caller
from middlewatch.services.gateway.service import Context, Handler

R = TypeVar("R")
PAGE = 500
LOOK_EVERY_S = 0.1
WAITING_AT_ONCE = 3
"""Each occupies one of the gateway's worker threads; whoever comes beyond is answered at once."""
LEASE_MAX_S = 3600.0
_EVER = datetime(9999, 1, 1, tzinfo=UTC)
"""The end of a lease that was sent: only the stored one counts."""
_FROM_A_LOOK = (
    "last_seen_at",
    "state",
    "completing",
    "partitions",
    "node_count",
    "requeueable",
    "started_at",
    "end",
    "held",
    "reason",
    "time_limit_s",
)


def handlers(context: Context) -> dict[str, Handler]:
    """By the full name of the RPC."""
    return {"middlewatch.v1.MiddlewatchService.Control": _Control(context).call}


class _Control:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.store
        self._places = threading.BoundedSemaphore(WAITING_AT_ONCE)

    def call(self, request: wire.ControlRequest, _: Caller) -> wire.ControlResponse:
        cluster = ClusterId(
            in_text(request.scheduler, "scheduler", needed=True),
            in_text(request.environment, "environment", needed=True),
        )
        if request.version and request.version != __version__:
            raise ApiError(
                Code.FAILED_PRECONDITION,
                f"this gateway is of release {__version__}, the controller of "
                f"{request.version[:40]!r}: give both the same",
            )
        match request.call:
            case control.LEASE:
                answer: object = self._lease(cluster, _read(request, control.LeaseAsked))
            case control.RESIGN:
                answer = self._resign(cluster, _read(request, control.Resigned))
            case control.WORK:
                answer = self._work(cluster, _read(request, control.WorkAsked))
            case control.CHANGE:
                answer = self._change(cluster, _read(request, control.ControlChange))
            case control.NAME:
                answer = self._name(cluster, _read(request, control.NameSeen))
            case _:
                raise invalid(
                    f"call is {request.call[:40]!r}; give lease, resign, work, change or name"
                )
        return wire.ControlResponse(body=control.encode(answer), version=__version__)

    def _lease(self, cluster: ClusterId, asked: control.LeaseAsked) -> control.LeaseGiven:
        in_text(asked.holder, "holder", needed=True)
        if not 0 < asked.ttl_s <= LEASE_MAX_S:
            raise invalid(f"ttl_s is {asked.ttl_s}; give up to {LEASE_MAX_S:.0f} seconds")
        now = self._context.clock.now()
        given = self._store.acquire_lease(_lease_of(cluster), asked.holder, asked.ttl_s, now)
        if given is None or given.taken_over_at is None:
            return control.LeaseGiven(given)
        return control.LeaseGiven(given, (now - given.taken_over_at).total_seconds())

    def _resign(self, cluster: ClusterId, resigned: control.Resigned) -> control.LeaseGiven:
        lease = resigned.lease
        if lease.name != _lease_of(cluster):
            raise invalid(f"lease {lease.name[:80]!r} is not that of this cluster's controller")
        self._store.release_lease(lease)
        return control.LeaseGiven(None)

    def _name(self, cluster: ClusterId, seen: control.NameSeen) -> control.NameSeen:
        note = f"cluster_name/{cluster.environment}"
        known = self._store.note(note)
        if not known and seen.name:
            in_text(seen.name, "name")
            self._store.put_notes(((note, seen.name),))
            known = seen.name
        return control.NameSeen(known or "")

    # ---------------------------------------------------------------------------------- the work

    def _work(self, cluster: ClusterId, asked: control.WorkAsked) -> control.WorkGiven:
        if asked.only:
            found = [self._store.advice(attempt_id) for attempt_id in asked.only[:PAGE]]
            ours = [advice for advice in found if advice is not None and advice.owner == cluster]
            return control.WorkGiven(tuple(map(self._one, ours)), "", self._rolled_back())
        active = self._active(cluster)
        wait_s = min(asked.wait_s, control.LONGEST_WAIT_S)
        if wait_s > 0 and _digest(active) == asked.known and self._places.acquire(blocking=False):
            try:
                active = self._awaited(cluster, asked.known, wait_s)
            finally:
                self._places.release()
        if asked.wait_s > 0:
            # Whoever waits wants to know that there is something; the work itself is asked for.
            return control.WorkGiven((), _digest(active))
        work = tuple(map(self._one, active))
        return control.WorkGiven(work, _digest(active), self._rolled_back())

    def _rolled_back(self) -> str:
        return self._store.note(ROLLED_BACK) or ""

    def _awaited(self, cluster: ClusterId, known: str, wait_s: float) -> tuple[Advice, ...]:
        clock = self._context.clock
        until = clock.monotonic() + wait_s
        while True:
            clock.sleep(LOOK_EVERY_S)
            active = self._active(cluster)
            if _digest(active) != known or clock.monotonic() >= until:
                return active

    def _active(self, cluster: ClusterId) -> tuple[Advice, ...]:
        found: list[Advice] = []
        after = 0
        while page := self._store.advice_page(True, after, PAGE, cluster):
            found.extend(advice for _, advice in page)
            after = page[-1][0]
            if len(page) < PAGE:
                break
        return tuple(found)

    def _one(self, advice: Advice) -> control.Work:
        store = self._store
        ends = []
        after = 0
        while page := store.signals(advice.attempt_id, after):
            ends += [s for _, s in page if log_end((s,)) is not LogEnd.NOTHING]
            after = page[-1][0]
        return control.Work(
            advice=advice,
            attempt=store.attempt(advice.attempt_id),
            progress=store.progress(advice.attempt_id),
            actions=store.actions(advice.attempt_id),
            ends=tuple(ends),
            placed=store.placed(advice.attempt_id),
        )

    # ------------------------------------------------------------------------------- the records

    def _change(self, cluster: ClusterId, sent: control.ControlChange) -> control.Changed:
        lease = sent.lease
        if lease is not None and lease.name != _lease_of(cluster):
            raise invalid(f"lease {lease.name[:80]!r} is not that of this cluster's controller")
        if lease is None and (sent.advice or sent.attempts):
            raise invalid("a status, or what a look showed, is written under a lease only")
        for attempt_id in {record.attempt_id for record in sent.actions}:
            self._own(cluster, attempt_id)
        for event in sent.audit:
            if event.attempt_id:
                self._own(cluster, event.attempt_id)
        for sequence_id in {milestone.sequence_id for milestone in sent.milestones}:
            sequence = self._store.sequence_by_id(sequence_id)
            if sequence is None or (sequence.scheduler, sequence.environment) != (
                cluster.scheduler,
                cluster.environment,
            ):
                raise not_found(f"no sequence {sequence_id[:60]!r} of this cluster is known")
        applied = self._store.apply(
            Change(
                lease=None
                if lease is None
                else Lease(lease.name, lease.holder, lease.token, _EVER),
                now=self._context.clock.now() if lease is not None else None,
                attempts=tuple(self._looked(cluster, attempt) for attempt in sent.attempts),
                advice=tuple(self._reported(cluster, advice) for advice in sent.advice),
                actions=sent.actions,
                milestones=sent.milestones,
                audit=sent.audit,
            )
        )
        return control.Changed(applied.last_audit_number, self._rolled_back())

    def _own(self, cluster: ClusterId, attempt_id: AttemptId) -> Attempt | None:
        """The attempt, where there is one. Raises `ApiError` where it is another cluster's, or
        where neither it nor advice for it is known."""
        attempt = self._store.attempt(attempt_id)
        advice = self._store.advice(attempt_id)
        known = [*([attempt.cluster] if attempt else []), *([advice.owner] if advice else [])]
        if not known or any(other != cluster for other in known):
            raise not_found(f"no attempt {attempt_id[:60]!r} of this cluster is known")
        return attempt

    def _looked(self, cluster: ClusterId, sent: Attempt) -> Attempt:
        stored = self._own(cluster, sent.id)
        if stored is None:
            raise not_found(f"no attempt {sent.id[:60]!r} of this cluster is known")
        told = {name: getattr(sent, name) for name in _FROM_A_LOOK}
        return replace(stored, **told, version=sent.version)

    def _reported(self, cluster: ClusterId, sent: Advice) -> Advice:
        stored = self._store.advice(sent.attempt_id)
        if stored is None or stored.owner != cluster:
            raise not_found(f"no advice for {sent.attempt_id[:60]!r} of this cluster is known")
        if sent.status is None:
            raise invalid("advice without a status reports nothing")
        try:
            return replace(reported(stored, sent.status), version=sent.version)
        except RefusedReport as error:
            raise ApiError(Code.ABORTED, str(error)) from error


def _lease_of(cluster: ClusterId) -> str:
    return f"controller/{cluster.environment}"


def _digest(active: Iterable[Advice]) -> str:
    text = "\n".join(f"{advice.attempt_id} {advice.generation}" for advice in active)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _read(request: wire.ControlRequest, kind: type[R]) -> R:
    try:
        return control.decode(request.body or "{}", kind)
    except ValueError as error:
        raise invalid(f"body is no {kind.__name__}: {error}"[:300]) from None
