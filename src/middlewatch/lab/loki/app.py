"""The HTTP side of the stand-in, and what can be made to go wrong with it."""

from __future__ import annotations

import asyncio
import gzip
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from middlewatch.lab.loki.entries import Entries, Rejected
from middlewatch.lab.loki.logql import CountQuery, LogQuery, ParseError, parse

TAIL_EVERY_S = 0.05
DEFAULT_LIMIT = 100
HOUR = 3600 * 10**9


@dataclass(slots=True)
class Trouble:
    """What the server does instead of answering questions: the statuses and headers in
    ``answers``, one after the other. ``authorization`` is a header that must be given (Loki leaves
    that to a proxy before it), ``tenant_needed`` that a tenant must be named."""

    answers: list[tuple[int, Mapping[str, str], bytes]] = field(default_factory=list)
    authorization: str = ""
    tenant_needed: bool = False


def application(entries: Entries, trouble: Trouble, now: Any) -> Starlette:
    """The ASGI application. ``now`` gives nanoseconds since the epoch: the default end of ranges."""
    api = _Api(entries, trouble, now)
    root = "/loki/api/v1"
    routes = [
        Route("/ready", api.ready),
        Route(f"{root}/push", api.push, methods=["POST"]),
        Route(f"{root}/labels", api.labels),
        Route(f"{root}/label/{{name}}/values", api.values),
        Route(f"{root}/series", api.series, methods=["GET", "POST"]),
        Route(f"{root}/query_range", api.query_range, methods=["GET", "POST"]),
        Route(f"{root}/query", api.query, methods=["GET", "POST"]),
        WebSocketRoute(f"{root}/tail", api.tail),
    ]
    return Starlette(routes=routes)


class _Api:
    def __init__(self, entries: Entries, trouble: Trouble, now: Any) -> None:
        self._entries = entries
        self._trouble = trouble
        self._now = now

    async def ready(self, _request: Request) -> Response:
        return PlainTextResponse("ready\n")

    async def push(self, request: Request) -> Response:
        tenant = self._let_in(request.headers)
        if isinstance(tenant, Response):
            return tenant
        raw = await request.body()
        try:
            if request.headers.get("content-encoding") == "gzip":
                raw = gzip.decompress(raw)
            # A pusher's broken UTF-8 becomes the replacement character, as in Go's decoder.
            self._entries.push(tenant, json.loads(raw.decode("utf-8", "replace")))
        except Rejected as error:
            return PlainTextResponse(str(error), error.status)
        except (ValueError, OSError, EOFError, RecursionError) as error:
            return PlainTextResponse(f"couldn't parse push request: {error}", 400)
        return Response(status_code=204)

    async def labels(self, request: Request) -> Response:
        tenant = self._asked(request.headers)
        if isinstance(tenant, Response):
            return tenant
        return JSONResponse({"status": "success", "data": self._entries.labels(tenant)})

    async def values(self, request: Request) -> Response:
        tenant = self._asked(request.headers)
        if isinstance(tenant, Response):
            return tenant
        found = self._entries.values(tenant, request.path_params["name"])
        return JSONResponse({"status": "success", "data": found})

    async def series(self, request: Request) -> Response:
        tenant = self._asked(request.headers)
        if isinstance(tenant, Response):
            return tenant
        given = await request.form() if request.method == "POST" else request.query_params
        try:
            queries = [_log(str(text)) for text in given.getlist("match[]")]
        except ParseError as error:
            return PlainTextResponse(str(error), 400)
        return JSONResponse({"status": "success", "data": self._entries.series(tenant, queries)})

    async def query_range(self, request: Request) -> Response:
        tenant = self._asked(request.headers)
        if isinstance(tenant, Response):
            return tenant
        given = await _given(request)
        try:
            end = _moment(given.get("end", ""), self._now())
            start = _moment(given.get("start", ""), end - HOUR)
            limit = _limit(given)
            forward = given.get("direction", "backward").lower() == "forward"
            found = self._entries.range(
                tenant, _log(given.get("query", "")), start, end, limit, forward=forward
            )
        except (Rejected, ParseError) as error:
            return PlainTextResponse(str(error), 400)
        return JSONResponse(_success("streams", found))

    async def query(self, request: Request) -> Response:
        tenant = self._asked(request.headers)
        if isinstance(tenant, Response):
            return tenant
        given = await _given(request)
        try:
            asked = _metric(given.get("query", ""))
            found = self._entries.count(tenant, asked, _moment(given.get("time", ""), self._now()))
        except (Rejected, ParseError) as error:
            return PlainTextResponse(str(error), 400)
        return JSONResponse(_success("vector", found))

    async def tail(self, socket: WebSocket) -> None:
        """What arrives from now on (or from ``start``), each once, as it arrives."""
        tenant = self._let_in(socket.headers)
        given = dict(socket.query_params)
        try:
            query = _log(given.get("query", ""))
            start = _moment(given.get("start", ""), self._now() - HOUR)
            limit = _limit(given)
        except (Rejected, ParseError):
            await socket.close(1008)
            return
        if isinstance(tenant, Response):
            await socket.close(1008)
            return
        await socket.accept()
        told: set[tuple[str, str, str]] = set()
        version = -1
        gone = asyncio.ensure_future(socket.receive())
        try:
            while not gone.done():
                if version != self._entries.version:
                    version = self._entries.version
                    fresh = self._untold(tenant, query, start, limit, told)
                    if fresh:
                        await socket.send_json({"streams": fresh, "dropped_entries": None})
                await asyncio.sleep(TAIL_EVERY_S)
        except WebSocketDisconnect:
            pass
        finally:
            gone.cancel()

    def _untold(
        self, tenant: str, query: LogQuery, start: int, limit: int, told: set[tuple[str, str, str]]
    ) -> list[dict[str, Any]]:
        end = self._now() + HOUR
        found = []
        for stream in self._entries.range(tenant, query, start, end, limit, forward=True):
            name = json.dumps(stream["stream"], sort_keys=True)
            values = [v for v in stream["values"] if (name, v[0], v[1]) not in told]
            told.update((name, v[0], v[1]) for v in values)
            if values:
                found.append({"stream": stream["stream"], "values": values})
        return found

    def _asked(self, headers: Mapping[str, str]) -> str | Response:
        """The tenant of a question, or what is answered instead."""
        if self._trouble.answers:
            status, more, body = self._trouble.answers.pop(0)
            return Response(body, status, dict(more))
        return self._let_in(headers)

    def _let_in(self, headers: Mapping[str, str]) -> str | Response:
        wanted = self._trouble.authorization
        if wanted and headers.get("authorization") != wanted:
            return PlainTextResponse("authorization required\n", 401)
        tenant = headers.get("x-scope-orgid", "")
        if not tenant and self._trouble.tenant_needed:
            return PlainTextResponse("no org id\n", 401)
        return tenant or "fake"


async def _given(request: Request) -> dict[str, str]:
    given = dict(request.query_params)
    if request.method == "POST":
        given.update({name: str(value) for name, value in (await request.form()).items()})
    return given


def _log(text: str) -> LogQuery:
    asked = parse(text)
    if isinstance(asked, CountQuery):
        raise ParseError("parse error : only log queries are supported here")
    return asked


def _metric(text: str) -> CountQuery:
    asked = parse(text)
    if isinstance(asked, LogQuery):
        raise ParseError("log queries are not supported as an instant query type")
    return asked


def _limit(given: Mapping[str, str]) -> int:
    text = given.get("limit", str(DEFAULT_LIMIT))
    if not text.isdigit() or int(text) < 1:
        raise Rejected(f"limit must be a positive value, not {text!r}")
    return int(text)


def _moment(text: str, default: int) -> int:
    """Nanoseconds since the epoch, from nanoseconds, seconds with a point, or RFC 3339."""
    if not text:
        return default
    try:
        if text.isdigit():
            # Ten digits are seconds, as in Loki; more are nanoseconds.
            return int(text) * 10**9 if len(text) <= 10 else int(text)
        if "-" not in text and "." in text:
            return math.floor(float(text) * 1e9)
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise Rejected(f"could not parse {text!r} as a time") from error
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1e9)


def _success(kind: str, result: list[dict[str, Any]]) -> dict[str, Any]:
    return {"status": "success", "data": {"resultType": kind, "result": result, "stats": {}}}
