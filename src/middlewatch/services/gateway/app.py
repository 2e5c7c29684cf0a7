"""The HTTP application: every request of the API passes through here, in this order.

Is it meant for us (Host), is there such a path, is its body of a lawful size and kind, who calls,
may he, what does he ask: then the handler, in a worker thread, because the store is synchronous.
Whatever goes wrong becomes a JSON body with a message; an unforeseen error is logged whole and
shown as a number.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import anyio
import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from middlewatch.contract import openapi
from middlewatch.contract.errors import ApiError, Code, invalid
from middlewatch.contract.http import Match, Router, WrongVerb, bind, routes, to_json
from middlewatch.ports.errors import PortError
from middlewatch.services.gateway import (
    control,
    intake,
    limits,
    own,
    reads,
    recoveries,
    writes,
)
from middlewatch.services.gateway.access import (
    ANYBODY,
    Caller,
    Peer,
    SocketOthers,
    caller_of_peer,
    check_scope,
    host_allowed,
    no_credentials,
)
from middlewatch.services.gateway.access import Scope as AccessScope
from middlewatch.services.gateway.metrics import CONTENT_TYPE, Metrics
from middlewatch.services.gateway.service import Context, Handler, from_port
from middlewatch.services.gateway.tokens import Keyring

JSON = "application/json"
BODY_SECONDS = 30.0
"""How long a client may take to send a body."""
WORKERS = 8
_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Door:
    """How callers are told apart. ``loopback_host`` is the bound address where only this machine
    can reach it (then Host headers are checked), else None."""

    insecure: bool = False
    own_uid: int = 0
    socket_others: SocketOthers = SocketOthers.NONE
    loopback_host: str | None = "127.0.0.1"
    body_limit: int = 2 * 1024 * 1024


def all_handlers(context: Context) -> Mapping[str, Handler]:
    """Every RPC's handler, by its full name."""
    found: dict[str, Handler] = {}
    for room in (reads, own, recoveries, limits, control, writes, intake):
        found |= room.handlers(context)
    return found


class Calls:
    """Authenticated calls of handlers, the same for HTTP and gRPC. Safe between threads."""

    def __init__(self, context: Context, door: Door, metrics: Metrics) -> None:
        self.context = context
        self.door = door
        self.metrics = metrics
        self.handlers = all_handlers(context)
        self._keyring = Keyring(context.store, context.clock)
        self._numbers = itertools.count(1)

    def caller(self, authorization: str | None, peer: Peer | None) -> Caller:
        """Who calls: by token where one is given, else by the socket. Raises `ApiError`."""
        if self.door.insecure:
            return ANYBODY
        if authorization:
            return self._keyring.caller(authorization)
        if peer is not None:
            return caller_of_peer(peer, self.door.own_uid, self.door.socket_others)
        raise no_credentials()

    def declined(self, error: Exception, what: str) -> ApiError:
        """An error as its caller may see it; what is not the caller's doing is logged."""
        match error:
            case ApiError():
                return error
            case PortError():
                shown = from_port(error)
                if shown.code in {Code.INTERNAL, Code.UNAVAILABLE}:
                    _log.error("call_failed", call=what, error=str(error), exc_info=error)
                return shown
            case _:
                number = next(self._numbers)
                _log.error("call_broke", call=what, number=number, exc_info=error)
                return ApiError(
                    Code.INTERNAL,
                    f"an unforeseen error; the gateway's log has it as number {number}",
                )


class Application:
    """The ASGI application."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._router = Router(routes())
        self._limiter: anyio.CapacityLimiter | None = None
        self._openapi: bytes | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _live(receive, send)
            return
        if scope["type"] != "http":
            return
        request = Request(scope, receive)
        try:
            response = await self._answer(request)
        except ClientDisconnect:
            return
        except Exception as error:  # noqa: BLE001 - the last line of defence; it is logged whole
            shown = self._calls.declined(error, f"{request.method} {request.url.path[:200]}")
            response = _declined(shown)
        await response(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        peer: Peer | None = request.scope.get("state", {}).get("middlewatch.peer")
        door = self._calls.door
        if peer is None and door.loopback_host is not None:
            hosts = request.headers.getlist("host")
            if len(hosts) != 1 or not host_allowed(hosts[0], door.loopback_host):
                raise ApiError(
                    Code.PERMISSION_DENIED,
                    "the Host header names another machine; use 127.0.0.1 or localhost",
                    421,
                )
        if "transfer-encoding" in request.headers and "content-length" in request.headers:
            # Whoever forwarded this may see another request in it than we do.
            ambiguous = _declined(
                invalid("Content-Length and Transfer-Encoding together are ambiguous; send one")
            )
            ambiguous.headers["Connection"] = "close"
            return ambiguous
        path = _raw_path(request)
        special = await self._special(request, path, peer)
        if special is not None:
            return special
        found = self._router.match(request.method, path)
        if found is None:
            raise ApiError(
                Code.NOT_FOUND, f"no such path: {path[:200]}; /openapi.json lists those there are"
            )
        if isinstance(found, WrongVerb):
            return _wrong_verb(request, found.allowed)
        body = await self._body(request)
        return await self._in_thread(partial(self._call, request, found, body, peer))

    async def _special(self, request: Request, path: str, peer: Peer | None) -> Response | None:
        """The paths that are no RPCs."""
        if path not in {"/healthz", "/livez", "/readyz", "/metrics", "/openapi.json"}:
            return None
        if request.method != "GET":
            return _wrong_verb(request, ("GET",))
        match path:
            case "/readyz":
                return await self._in_thread(self._ready)
            case "/metrics":
                return await self._in_thread(partial(self._metrics, request, peer))
            case "/openapi.json":
                if self._openapi is None:
                    self._openapi = openapi.text().encode("utf-8")
                return Response(self._openapi, media_type=JSON, headers=_HEADERS)
            case _:
                return Response(b'{"status":"ok"}', media_type=JSON, headers=_HEADERS)

    async def _in_thread(self, function: Callable[[], Response]) -> Response:
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(WORKERS)
        return await anyio.to_thread.run_sync(function, limiter=self._limiter)

    async def _body(self, request: Request) -> bytes:
        limit = self._calls.door.body_limit
        too_large = ApiError(
            Code.INVALID_ARGUMENT, f"the body is larger than {limit} bytes; send less at once", 413
        )
        announced = request.headers.get("content-length", "")
        if announced.isdigit() and int(announced) > limit:
            raise too_large
        chunks: list[bytes] = []
        size = 0
        try:
            with anyio.fail_after(BODY_SECONDS):
                async for chunk in request.stream():
                    size += len(chunk)
                    if size > limit:
                        raise too_large
                    chunks.append(chunk)
        except TimeoutError:
            raise ApiError(
                Code.DEADLINE_EXCEEDED, f"the body did not arrive within {BODY_SECONDS:.0f} s", 408
            ) from None
        body = b"".join(chunks)
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if body and kind != JSON:
            raise ApiError(
                Code.INVALID_ARGUMENT, f"the body must be JSON: send Content-Type: {JSON}", 415
            )
        return body

    def _call(self, request: Request, match: Match, body: bytes, peer: Peer | None) -> Response:
        calls = self._calls
        rpc = match.route.rpc
        began = calls.context.clock.monotonic()
        code = 0
        try:
            caller = calls.caller(_authorization(request), peer)
            check_scope(caller, rpc)
            query = request.scope["query_string"].decode("latin-1")
            message = bind(match, query, body)
            return Response(
                to_json(calls.handlers[rpc](message, caller)), media_type=JSON, headers=_HEADERS
            )
        except Exception as error:  # noqa: BLE001 - the last line of defence; it is logged whole
            shown = calls.declined(error, rpc)
            code = int(shown.code)
            return _declined(shown)
        finally:
            calls.metrics.called(rpc, code, calls.context.clock.monotonic() - began)

    def _ready(self) -> Response:
        context = self._calls.context
        healthy = context.store.healthy()
        loops = own.loop_messages(context)
        ready = healthy and all(loop.fresh for loop in loops)
        missing = [f"loop {loop.name} has not ticked lately" for loop in loops if not loop.fresh]
        if not healthy:
            missing.insert(0, "the store cannot be written")
        body = json.dumps({"status": "ok" if ready else "not ready", "missing": missing})
        return Response(body, status_code=200 if ready else 503, media_type=JSON, headers=_HEADERS)

    def _metrics(self, request: Request, peer: Peer | None) -> Response:
        caller = self._calls.caller(_authorization(request), peer)
        if not caller.may(AccessScope.READ):
            raise ApiError(Code.PERMISSION_DENIED, "/metrics needs a token with the scope read")
        return Response(
            self._calls.metrics.text(), headers={**_HEADERS, "Content-Type": CONTENT_TYPE}
        )


async def _live(receive: Receive, send: Send) -> None:
    """Nothing is opened with the first request or closed with the last; servers ask all the same."""
    while True:
        kind = (await receive())["type"]
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return


def _raw_path(request: Request) -> str:
    """The path as it was sent, so that an encoded slash stays within its part."""
    raw: bytes | None = request.scope.get("raw_path")
    if raw is None:
        return str(request.scope["path"])
    try:
        return raw.partition(b"?")[0].decode("ascii")
    except UnicodeDecodeError:
        raise invalid("the path has bytes outside ASCII; percent-encode them") from None


def _authorization(request: Request) -> str | None:
    headers = request.headers.getlist("authorization")
    if len(headers) > 1:
        raise ApiError(Code.UNAUTHENTICATED, "more than one Authorization header; send one")
    return headers[0] if headers else None


def _wrong_verb(request: Request, allowed: tuple[str, ...]) -> Response:
    error = ApiError(
        Code.UNIMPLEMENTED,
        f"{request.method[:20]} is not possible here; {', '.join(allowed)} is",
        405,
    )
    response = _declined(error)
    response.headers["Allow"] = ", ".join(allowed)
    return response


def _declined(error: ApiError) -> Response:
    response = Response(
        json.dumps(error.body(), ensure_ascii=False).encode("utf-8", "replace"),
        status_code=error.http_status,
        media_type=JSON,
        headers=_HEADERS,
    )
    if error.http_status == 401:
        response.headers["WWW-Authenticate"] = 'Bearer realm="middlewatch"'
    return response
