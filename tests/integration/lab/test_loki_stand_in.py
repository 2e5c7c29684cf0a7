"""The stand-in for Loki does what Loki's documentation says of the part that it has."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import httpx2
import pytest
from websockets.sync.client import connect

from middlewatch.lab.loki import LokiStandIn

HOUR = 3600 * 10**9
API = "/loki/api/v1"


@pytest.fixture(scope="module")
def server() -> Iterator[LokiStandIn]:
    made = LokiStandIn()
    made.start()
    yield made
    made.stop()


@pytest.fixture
def loki(server: LokiStandIn) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=server.url, trust_env=False, timeout=60.0) as client:
        yield client


def push(loki: httpx2.Client, job: str, *values: list[Any], tenant: str = "", **labels: str) -> Any:
    streams = [{"stream": {"job_id": job, **labels}, "values": list(values)}]
    headers = {"X-Scope-OrgID": tenant} if tenant else {}
    return loki.post(f"{API}/push", json={"streams": streams}, headers=headers)


def asked(loki: httpx2.Client, query: str, now: int, **more: str) -> Any:
    given = {"query": query, "start": str(now - HOUR), "end": str(now + HOUR), **more}
    return loki.get(f"{API}/query_range", params=given)


def lines(answer: Any) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [v[1] for stream in answer.json()["data"]["result"] for v in stream["values"]]


def test_entries_come_forward_or_backward_and_are_cut_at_the_limit(loki: httpx2.Client) -> None:
    now = time.time_ns()
    assert push(loki, "a", *[[str(now + i), f"line {i}"] for i in range(10)]).status_code == 204
    query = '{job_id="a"}'
    forward = asked(loki, query, now, direction="forward", limit="3")
    assert lines(forward) == ["line 0", "line 1", "line 2"]
    assert lines(asked(loki, query, now, limit="2")) == ["line 9", "line 8"]


def test_entry_may_be_late_by_less_than_an_hour(loki: httpx2.Client) -> None:
    now = time.time_ns()
    push(loki, "b", [str(now), "new"])
    assert push(loki, "b", [str(now - HOUR // 2), "late"]).status_code == 204
    refused = push(loki, "b", [str(now - 2 * HOUR), "too late"], [str(now + 1), "newer"])
    assert (refused.status_code, "too far behind" in refused.text) == (400, True)
    found = lines(asked(loki, '{job_id="b"}', now, direction="forward"))
    assert found == ["late", "new", "newer"]


def test_equal_entries_of_one_moment_are_one(loki: httpx2.Client) -> None:
    now = time.time_ns()
    push(loki, "c", *[[str(now), "same"]] * 3, [str(now), "other"])
    assert sorted(lines(asked(loki, '{job_id="c"}', now))) == ["other", "same"]


@pytest.mark.parametrize(
    ("query", "more", "words"),
    [
        ('{job_id="d"', {}, "parse error"),
        ('{job_id="d"} | json', {}, "parse error"),
        ('{job_id=~".*"}', {}, "empty-compatible"),
        ('{job_id="d"}', {"limit": "5001"}, "max entries limit"),
        ('{job_id="d"}', {"start": "0"}, "exceeds the limit"),
        ('{job_id="d"}', {"start": "tomorrow"}, "could not parse"),
        ('{job_id="d"}', {"end": "1"}, "end timestamp"),
    ],
)
def test_what_is_wrong_with_a_question_is_said(
    loki: httpx2.Client, query: str, more: dict[str, str], words: str
) -> None:
    answer = asked(loki, query, time.time_ns(), **more)
    assert answer.status_code == 400
    assert words in answer.text


def test_filters_labels_and_counts(loki: httpx2.Client) -> None:
    now = time.time_ns()
    push(loki, "e", [str(now), "good step"], [str(now + 1), "Xid 79"], node="n1")
    push(loki, "e", [str(now), "bad step", {"rank": "3"}], node="n2")
    assert lines(asked(loki, '{job_id="e"} | node="n1" |= "Xid"', now)) == ["Xid 79"]
    assert lines(asked(loki, '{job_id="e",node=~"n.*"} | rank="3"', now)) == ["bad step"]
    assert {"job_id", "node"} <= set(loki.get(f"{API}/labels").json()["data"])
    assert {"n1", "n2"} <= set(loki.get(f"{API}/label/node/values").json()["data"])
    series = loki.get(f"{API}/series", params={"match[]": '{job_id="e"}'}).json()["data"]
    assert len(series) == 2
    query = 'sum by (node) (count_over_time({job_id="e"}[60s]))'
    vector = loki.get(f"{API}/query", params={"query": query, "time": str(now + 10)}).json()
    counted = {v["metric"]["node"]: v["value"][1] for v in vector["data"]["result"]}
    assert counted == {"n1": "2", "n2": "1"}


def test_tenants_see_their_own_entries_only(loki: httpx2.Client) -> None:
    now = time.time_ns()
    push(loki, "f", [str(now), "theirs"], tenant="them")
    assert lines(asked(loki, '{job_id="f"}', now)) == []


def test_push_may_be_compressed_and_must_be_one(loki: httpx2.Client) -> None:
    now = time.time_ns()
    body = {"streams": [{"stream": {"job_id": "g"}, "values": [[str(now), "packed"]]}]}
    packed = gzip.compress(json.dumps(body).encode())
    kind = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    assert loki.post(f"{API}/push", content=packed, headers=kind).status_code == 204
    assert lines(asked(loki, '{job_id="g"}', now)) == ["packed"]
    for wrong in (b"{", b'{"streams":7}', b'{"streams":[{"stream":{},"values":[]}]}'):
        assert loki.post(f"{API}/push", content=wrong).status_code == 400


def test_tail_tells_what_is_there_and_what_comes(server: LokiStandIn, loki: httpx2.Client) -> None:
    now = time.time_ns()
    push(loki, "h", [str(now), "there"])
    given = urlencode({"query": '{job_id="h"}', "start": str(now - 1)})
    address = server.url.replace("http://", "ws://")
    with connect(f"{address}{API}/tail?{given}", proxy=None) as tail:
        first = json.loads(tail.recv(timeout=60))
        push(loki, "h", [str(now + 5), "came"], [str(now - 5 * 10**8), "before the start"])
        push(loki, "h2", [str(now + 5), "another's"])
        second = json.loads(tail.recv(timeout=60))
    assert [v[1] for s in first["streams"] for v in s["values"]] == ["there"]
    assert [v[1] for s in second["streams"] for v in s["values"]] == ["came"]
