"""Access, patience and disbelief: what the adapter does with the answers of a metrics server."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from math import isnan
from pathlib import Path
from typing import Any

import pytest

from middlewatch.adapters.metrics import PromMetrics
from middlewatch.adapters.web import Access
from middlewatch.model.activity import ActivityKind, NodeSeries
from middlewatch.model.answer import Absent, Answer, Known, Unknown
from tests.contract.metrics.conftest import SetClock
from tests.integration.metrics.serving import TLS, Told, matrix, serving
from tests.webs import metrics_server

NOW = datetime(2024, 3, 1, 12, 0, tzinfo=UTC)
POWER = ActivityKind.GPU_POWER
AT = NOW.timestamp()
GOOD = matrix(({"Hostname": "n1"}, [(AT - 15, "480.5"), (AT, "NaN")]))


@pytest.fixture
def told() -> Told:
    return Told(body=GOOD)


@pytest.fixture
def url(told: Told) -> Iterator[str]:
    with serving(told) as address:
        yield address


def asked(metrics: PromMetrics) -> Answer[tuple[NodeSeries, ...]]:
    return metrics.activity(POWER, ("n1", "n2"), "42", NOW - timedelta(minutes=30), NOW)


def once(url: str, clock: SetClock | None = None, **access: Any) -> Answer[tuple[NodeSeries, ...]]:
    metrics = metrics_server(Access(url, **{"timeout_s": 60.0, **access}), clock or SetClock())
    try:
        return asked(metrics)
    finally:
        metrics.close()


def why(answer: object) -> str:
    assert isinstance(answer, Unknown), answer
    return answer.why


def test_samples_are_read_as_they_are_written(url: str) -> None:
    answer = once(url)
    assert isinstance(answer, Known)
    ((at, watts), (last, odd)) = answer.value[0].samples
    assert (at, watts, last) == (AT - 15, 480.5, AT)
    assert isnan(odd)


def test_path_before_the_api_is_kept(url: str, told: Told) -> None:
    once(f"{url}/select/0/prometheus/")
    assert told.asked[0][0] == "/select/0/prometheus/api/v1/query_range"


def test_tenant_and_token_are_sent_and_the_token_may_change(
    url: str, told: Told, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    access = Access(url, (("X-Scope-OrgID", "team-a"),), token_file=str(token), timeout_s=60.0)
    metrics = metrics_server(access, SetClock())
    asked(metrics)
    token.write_text("second\n")
    asked(metrics)
    metrics.close()
    sent = [headers for _, headers, _ in told.asked]
    assert [headers["authorization"] for headers in sent] == ["Bearer first", "Bearer second"]
    assert {headers["x-scope-orgid"] for headers in sent} == {"team-a"}


def test_name_and_password_are_sent_as_basic_authentication(
    url: str, told: Told, tmp_path: Path
) -> None:
    (tmp_path / "password").write_text("geheim\n")
    once(url, username="mw", password_file=str(tmp_path / "password"))
    wanted = "Basic " + base64.b64encode(b"mw:geheim").decode()
    assert told.asked[0][1]["authorization"] == wanted


@pytest.mark.parametrize("content", [None, b"", b"two\nlines", b"\xff\xfe"])
def test_secret_that_cannot_be_read_is_told_and_nothing_is_sent(
    url: str, told: Told, tmp_path: Path, content: bytes | None
) -> None:
    token = tmp_path / "token"
    if content is not None:
        token.write_bytes(content)
    assert str(token) in why(once(url, token_file=str(token)))
    assert told.asked == []


def test_own_authority_is_trusted_where_it_is_named_and_not_elsewhere(told: Told) -> None:
    with serving(told, tls=True) as url:
        assert isinstance(once(url, ca_file=str(TLS / "certificate.pem")), Known)
        assert "certificate" in why(once(url)).lower()
        assert "metrics.ca_file" in why(once(url, ca_file="/nowhere.pem"))


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (401, "metrics.token_file"),
        (403, "metrics.tenant"),
        (400, "[metrics]"),
        (422, "[metrics]"),
        (404, "metrics.url"),
        (302, "metrics.url"),
        (500, "answered 500"),
    ],
)
def test_refusals_say_what_to_mend(url: str, told: Told, status: int, words: str) -> None:
    told.status, told.body = status, b"\x1b[31mno such\nthing" + b"x" * 5000
    said = why(once(url))
    assert words in said
    assert "no such thing" in said
    assert said.isprintable()
    assert len(said) < 700


@pytest.mark.parametrize("after", ["30", "Fri, 01 Mar 2024 12:00:30 GMT"])
def test_server_that_asks_for_patience_is_left_alone_for_as_long(
    url: str, told: Told, after: str
) -> None:
    clock = SetClock(at=NOW)
    metrics = metrics_server(Access(url, timeout_s=60.0), clock)
    told.status, told.headers = 429, {"Retry-After": after}
    assert "429" in why(asked(metrics))
    told.status, told.headers = 200, {}
    clock.sleep(29)
    assert "429" in why(asked(metrics))
    clock.sleep(2)
    assert isinstance(asked(metrics), Known)
    metrics.close()
    assert len(told.asked) == 2


def test_server_in_trouble_is_asked_less_and_less(url: str, told: Told) -> None:
    clock = SetClock(at=NOW)
    metrics = metrics_server(Access(url, timeout_s=60.0), clock)
    told.status = 500
    for _ in range(600):
        assert "500" in why(asked(metrics))
        clock.sleep(1)
    metrics.close()
    assert 10 <= len(told.asked) <= 20


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>Sign in</html>",
        b"[]",
        b'{"status":"error","error":"bad"}',
        b'{"status":"success"}',
        b'{"status":"success","data":{"resultType":"scalar","result":[]}}',
        GOOD.replace(b'"480.5"', b'"many"'),
        GOOD.replace(b'"480.5"', b"480.5"),
        GOOD.replace(b"matrix", b"vector"),
        b"[" * 100_000,
        b"\xff\xfe\x00",
    ],
)
def test_answer_that_is_none_is_unknown(url: str, told: Told, body: bytes) -> None:
    told.body = body
    said = why(once(url))
    assert said.isprintable()


def test_series_without_the_label_or_of_other_nodes_are_passed_over(url: str, told: Told) -> None:
    told.body = matrix(({}, [(AT, "1")]), ({"Hostname": "n9"}, [(AT, "1")]))
    assert isinstance(once(url), Absent)


def test_two_series_of_one_node_count_as_the_busier_one(url: str, told: Told) -> None:
    told.body = matrix(
        ({"Hostname": "n1:9400"}, [(AT - 15, "90"), (AT, "NaN")]),
        ({"Hostname": "n1.cluster.local"}, [(AT - 15, "400"), (AT, "95")]),
    )
    answer = once(url)
    assert isinstance(answer, Known)
    assert answer.value == (NodeSeries("n1", ((AT - 15, 400.0), (AT, 95.0))),)


def test_endless_answer_is_cut_off(url: str, told: Told) -> None:
    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        piece = b" " * (1 << 20)
        try:
            while True:
                handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        except OSError:
            pass

    told.write = endless
    assert "more than" in why(once(url))


def test_answer_that_drips_is_given_up_at_its_deadline(url: str, told: Told) -> None:
    clock = SetClock(at=NOW)

    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        try:
            for _ in range(100):
                handler.wfile.write(b"1\r\n \r\n")
                clock.sleep(1)
            # Not enough to fill any buffer: whoever waits for one to be full waits here.
            handler.rfile.read(1)
        except OSError:
            pass

    told.write = drip
    assert "did not finish its answer" in why(once(url, clock))


def test_server_that_hangs_up_on_a_new_connection_is_asked_but_once(url: str, told: Told) -> None:
    def hang_up(handler: BaseHTTPRequestHandler) -> None:
        handler.close_connection = True

    told.write = hang_up
    assert "broke off its answer" in why(once(url))
    assert len(told.asked) == 1


def test_connection_that_was_closed_meanwhile_is_made_anew(url: str, told: Told) -> None:
    metrics = metrics_server(Access(url, timeout_s=60.0), SetClock())
    told.headers = {"Connection": "keep-alive"}
    assert isinstance(asked(metrics), Known)

    def hang_up(handler: BaseHTTPRequestHandler) -> None:
        told.write = None
        handler.close_connection = True

    told.write = hang_up
    assert isinstance(asked(metrics), Known)
    metrics.close()


@pytest.mark.parametrize("bad", ["http://[", "http://x y/", "ftp://x"])
def test_url_that_is_none_is_told(bad: str) -> None:
    assert why(once(bad))
