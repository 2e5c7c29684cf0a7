"""What the handlers of the API share: the store, the clock, whom we serve, and how to find things.

A handler is a plain function of a request message and a caller. HTTP and gRPC call the same ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.message import Message

from middlewatch.contract import choices
from middlewatch.contract.errors import ApiError, Code, invalid, not_found
from middlewatch.contract.values import in_text
from middlewatch.model.attempt import Attempt
from middlewatch.model.gates import Mode
from middlewatch.model.identity import (
    AttemptId,
    BadReferenceError,
    ClusterId,
    parse_attempt_reference,
)
from middlewatch.model.policy import Policy
from middlewatch.ports.clock import Clock
from middlewatch.ports.errors import Conflict, NotFound, PortError, Refused, Unreachable
from middlewatch.ports.store import Store
from middlewatch.services.gateway.access import Caller

Handler = Callable[[Any, Caller], Message]
"""A request message of the RPC's type and who sent it, to a response message. Raises `ApiError`
and, for the store's failures, `PortError`."""

Ages = Callable[[], Mapping[str, float | None]]
"""Seconds since each loop's last completed tick; None for one that has completed none."""

INDEX_MAX = 2**31 - 1
_UUID = re.compile(r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}")


def _no_loops() -> Mapping[str, float | None]:
    return {}


def _nothing() -> None:
    return None


@dataclass(frozen=True, slots=True)
class Context:
    """``wake`` is called after something was stored that the manager may want to see."""

    store: Store
    clock: Clock
    cluster: ClusterId
    mode: Mode = Mode.MONITOR
    ages: Ages = _no_loops
    stale_after_s: float = 60.0
    signal_cap: int = 100
    policy: Policy = field(default_factory=Policy)
    """As the settings have it, before any change of limits."""
    wake: Callable[[], None] = field(default=_nothing)


def uuid_of(text: str, name: str) -> AttemptId:
    """The canonical form of an attempt id. Raises `ApiError` for other text."""
    if not _UUID.fullmatch(text):
        raise invalid(f"{name} is {text[:60]!r}; give the attempt's UUID")
    return AttemptId(text.lower())


def attempt_by_reference(context: Context, text: str) -> Attempt:
    """The newest attempt that ``{jobId}-{attemptIndex}`` names. Raises `ApiError`."""
    try:
        job_id, index = parse_attempt_reference(text)
    except BadReferenceError as error:
        raise invalid(str(error)) from None
    attempt = context.store.attempt_by_index(job_id, index) if index <= INDEX_MAX else None
    if attempt is None:
        raise not_found(f"no attempt {text[:200]} is known")
    return attempt


def attempt_by_id(context: Context, text: str, name: str = "heimdallJobId") -> Attempt:
    """The attempt with that UUID. Raises `ApiError`."""
    attempt_id = uuid_of(text, name)
    attempt = context.store.attempt(attempt_id)
    if attempt is None:
        raise not_found(f"no attempt with the UUID {attempt_id} is known")
    return attempt


def attempt_named(context: Context, text: str, name: str = "attempt") -> Attempt:
    """The attempt that a UUID, ``{jobId}-{attemptIndex}`` or a job id (its newest attempt) names.

    Raises `ApiError`.
    """
    in_text(text, name, needed=True)
    if _UUID.fullmatch(text):
        return attempt_by_id(context, text, name)
    attempts = context.store.attempts_of_job(context.cluster, text)
    standing = [attempt for attempt in attempts if not attempt.vanished] or list(attempts)
    if standing:
        return standing[-1]
    job_id, hyphen, index = text.rpartition("-")
    if hyphen and job_id and index.isascii() and index.isdigit():
        return attempt_by_reference(context, text)
    raise not_found(
        f"no attempt {text[:200]!r} is known; give a UUID, {{jobId}}-{{attemptIndex}} or a job id"
    )


def from_port(error: PortError) -> ApiError:
    """A failure of the store, as a caller may see it. What names our insides stays inside."""
    match error:
        case NotFound():
            return not_found(str(error))
        case Refused():
            return invalid(str(error))
        case Conflict():
            return ApiError(
                Code.ABORTED, "something else changed this meanwhile; read it again and repeat"
            )
        case Unreachable():
            return ApiError(
                Code.UNAVAILABLE,
                "the store does not answer; what was sent may have been stored. Repeat later, "
                "with the same idempotency keys",
            )
        case _:
            return ApiError(
                Code.INTERNAL, "a stored record cannot be read; the gateway's log names it"
            )


def clip(text: str, most: int = choices.DETAIL_MAX) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
