"""Servers that are overloaded, broken, something else, or mean harm."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from middlewatch.adapters.logstores import Loki, StoreLogs, VictoriaLogs
from middlewatch.adapters.logstores import loki as loki_module
from middlewatch.adapters.web import Access
from middlewatch.ports.scanner import Block, CannotRead
from tests.contract.logsource.worlds import HandClock
from tests.webs import log_store

Answer = tuple[int, dict[str, str], bytes]


class Scripted:
    """Answers what it was told to, one after the other; the last one for ever."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.asked: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                length = int(self.headers.get("content-length", 0))
                outer.asked.append(self.path + " " + self.rfile.read(length).decode())
                status, headers, body = (
                    outer.answers.pop(0) if len(outer.answers) > 1 else outer.answers[0]
                )
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                if "Content-Length" not in headers:
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                try:
                    self.wfile.write(body)
                except OSError:
                    self.close_connection = True

            do_POST = do_GET  # noqa: N815

            def log_message(self, *_args: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[Scripted]:
    made = Scripted()
    yield made
    made.close()


class Asking:
    def __init__(self, kind: type[VictoriaLogs | Loki], url: str) -> None:
        self.clock = HandClock()
        self.store = log_store(kind, Access(url, timeout_s=60.0), self.clock)
        self.logs = StoreLogs(self.store, self.clock)
        self.path = self.logs.path("1", self.clock.now().timestamp())

    def read(self) -> Block | CannotRead | None:
        return self.logs.read(self.path, 0, None, 1 << 16)


@pytest.fixture(params=[VictoriaLogs, Loki])
def asking(request: pytest.FixtureRequest, server: Scripted) -> Iterator[Asking]:
    made = Asking(request.param, server.url)
    yield made
    made.logs.close()


NOTHING: dict[type, bytes] = {
    VictoriaLogs: b"",
    Loki: b'{"status":"success","data":{"resultType":"streams","result":[]}}',
}
NO_COUNTS = b'{"status":"success","data":{"resultType":"vector","result":[]}}'


def well(asking: Asking) -> list[Answer]:
    """An empty page, then empty counts."""
    counts = NO_COUNTS if isinstance(asking.store, Loki) else b""
    return [(200, {}, NOTHING[type(asking.store)]), (200, {}, counts)]


def test_server_that_asks_for_patience_is_left_alone_for_that_long(
    server: Scripted, asking: Asking
) -> None:
    server.answers = [(429, {"Retry-After": "25"}, b"too many"), *well(asking)]
    got = asking.read()
    assert isinstance(got, CannotRead)
    assert "429: too many" in got.reason
    asking.clock.advance(20)
    assert isinstance(asking.read(), CannotRead)
    assert len(server.asked) == 1
    asking.clock.advance(6)
    assert isinstance(asking.read(), Block)


def test_nobody_can_ask_for_patience_for_ever(server: Scripted, asking: Asking) -> None:
    server.answers = [(503, {"Retry-After": "999999"}, b""), *well(asking)]
    assert isinstance(asking.read(), CannotRead)
    asking.clock.advance(61)
    assert isinstance(asking.read(), Block)


@pytest.mark.parametrize(
    ("answer", "word"),
    [
        ((500, {}, b"oops"), "store_away"),
        ((404, {}, b"<html>\x1b[31mnothing here</html>"), "store_not_understood"),
        ((302, {"Location": "http://127.0.0.1:1/"}, b""), "store_not_understood"),
        ((400, {}, b"parse error"), "store_refused"),
        ((200, {}, b"<html>hello</html>"), "store_not_understood"),
        ((200, {}, b"[" * 100_000), "store_not_understood"),
        ((200, {}, b'{"status":"success","data":7}'), "store_not_understood"),
        ((200, {}, b'{"_time":"yesterday","_msg":"x"}'), "store_not_understood"),
        ((200, {}, b'{"_time":"2026-01-01T00:00:00.1234567890Z"}'), "store_not_understood"),
        ((200, {}, b'{"_time":"2026-99-99T00:00:00Z"}'), "store_not_understood"),
        ((200, {}, b'{"_time":"2026-01-01T00:00:00Z","_msg":1}'), "store_not_understood"),
        ((200, {"Content-Length": "1000", "Connection": "close"}, b"{"), "store_away"),
    ],
)
def test_strange_answer_is_a_sentence_and_no_line(
    server: Scripted, asking: Asking, answer: Answer, word: str
) -> None:
    server.answers = [answer]
    got = asking.read()
    assert isinstance(got, CannotRead)
    assert got.away
    assert got.reason.isprintable()
    assert got.word == word


@pytest.mark.parametrize(
    "streams",
    [
        [{"stream": {}, "values": [["1"]]}],
        [{"stream": {"node": 7}, "values": []}],
        [{"stream": {}, "values": [["x", "line"]]}],
        [{"stream": {}, "values": [["1", {"a": 1}]]}],
        [{"stream": {}}],
        ["stream"],
        {},
    ],
)
def test_odd_streams_of_loki_are_refused_whole(server: Scripted, streams: object) -> None:
    body = {"status": "success", "data": {"resultType": "streams", "result": streams}}
    server.answers = [(200, {}, json.dumps(body).encode())]
    asking = Asking(Loki, server.url)
    got = asking.read()
    asking.logs.close()
    assert isinstance(got, CannotRead)
    assert got.word == "store_not_understood"


def test_answer_without_end_is_cut(server: Scripted) -> None:
    row = b'{"_time":"2026-01-01T00:00:00Z","_msg":"' + b"x" * 1000 + b'"}\n'
    server.answers = [(200, {}, row * 20_000)]
    asking = Asking(VictoriaLogs, server.url)
    page = asking.store.page(asking_place(asking), 0, 50_000)
    asking.logs.close()
    assert page.full
    assert 10_000 < len(page.lines) < 20_000


def test_loki_is_asked_for_fewer_lines_where_they_are_too_long(server: Scripted) -> None:
    values = [["1", "x" * 1_000_000]] * 40
    streams = [{"stream": {}, "values": values}]
    body = {"status": "success", "data": {"resultType": "streams", "result": streams}}
    small = {"status": "success", "data": {"resultType": "streams", "result": []}}
    server.answers = [(200, {}, json.dumps(body).encode()), (200, {}, json.dumps(small).encode())]
    asking = Asking(Loki, server.url)
    page = asking.store.page(asking_place(asking), 0, 5000)
    asking.logs.close()
    assert not page.full
    assert "limit=5000" in server.asked[0]
    assert "limit=625" in server.asked[1]
    assert loki_module.LONGEST_ANSWER < 40_000_000


def asking_place(asking: Asking):  # type: ignore[no-untyped-def]
    from middlewatch.adapters.logstores.place import place_of

    place = place_of(asking.path)
    assert place is not None
    return place
