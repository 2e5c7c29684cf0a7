"""Recoveries over the API: all of them, page by page, and those that one attempt belongs to."""

from __future__ import annotations

from middlewatch.contract import choices
from middlewatch.contract.errors import invalid
from middlewatch.contract.gen.middlewatch.v1 import middlewatch_pb2 as wire
from middlewatch.contract.paging import Place, limit_of, opaque_token, read_opaque_token
from middlewatch.contract.recoveries import recovery_message
from middlewatch.contract.values import in_text
from middlewatch.model.attempt import Attempt
from middlewatch.model.recovery import Recovery, RecoveryState
from middlewatch.ports.store import RecoveryFilter, Store
from middlewatch.services.gateway.access import Caller
from middlewatch.services.gateway.service import Context, Handler

OF_ONE_JOB = 100


def handlers(context: Context) -> dict[str, Handler]:
    """By the full name of the RPC."""
    store = context.store

    def recoveries(request: wire.ListRecoveriesRequest, _: Caller) -> wire.ListRecoveriesResponse:
        given = request.limit if request.HasField("limit") else None
        limit = limit_of(given, choices.PAGE_DEFAULT, choices.PAGE_MAX)
        job_id = in_text(request.job_id, "jobId")
        state = _state(in_text(request.state, "state"))
        filters = (job_id, state.value if state else "")
        before = 0
        if request.page:
            before = read_opaque_token("recoveries", filters, request.page, "page").position
        where = RecoveryFilter(job_id=job_id or None, state=state)
        found = store.recoveries(where, before, limit + 1)
        shown = found[:limit]
        more = len(found) > limit
        return wire.ListRecoveriesResponse(
            recoveries=[recovery_message(recovery) for _, recovery in shown],
            count=len(shown),
            next_page_token=(
                opaque_token("recoveries", filters, Place(shown[-1][0])) if more else ""
            ),
        )

    return {"middlewatch.v1.MiddlewatchService.ListRecoveries": recoveries}


def _state(text: str) -> RecoveryState | None:
    if not text:
        return None
    try:
        return RecoveryState(text.casefold())
    except ValueError:
        words = ", ".join(state.value for state in RecoveryState)
        raise invalid(f"state is {text[:60]!r}; it can be {words}") from None


def recoveries_of(store: Store, attempt: Attempt) -> tuple[Recovery, ...]:
    """Those that the attempt's fault began, or that it was to make good; oldest first."""
    where = RecoveryFilter(attempt.cluster, attempt.job_id)
    found = store.recoveries(where, 0, OF_ONE_JOB)
    return tuple(
        recovery
        for _, recovery in reversed(found)
        if recovery.attempt_id == attempt.id
        or (attempt.attempt_index in recovery.attempts and _before(store, recovery, attempt))
    )


def _before(store: Store, recovery: Recovery, attempt: Attempt) -> bool:
    """Whether it is of the same job: another one may have had the number."""
    first = store.attempt(recovery.attempt_id)
    return first is not None and first.submitted_at < attempt.submitted_at
