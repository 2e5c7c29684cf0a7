from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from middlewatch.model.audit import AuditEvent, AuditKind, AuditLevel
from middlewatch.model.change import Change
from middlewatch.services.gateway.access import Scope
from tests.contract.api.conftest import Api
from tests.contract.api.samples import ATTEMPT, NOW, attempt

PATH = "/v1/audit/events"
LATER = attempt("12345", 1, minute=30)


def event(number: int, **changes: Any) -> AuditEvent:
    fields: dict[str, Any] = {
        "kind": AuditKind.SEEN,
        "type": f"type-{number % 2}",
        "producer": "watcher",
        "happened_at": NOW + timedelta(seconds=number),
        "learned_at": NOW,
        "attempt_id": ATTEMPT.id,
        "job_id": "12345",
        "attempt_index": 0,
        **changes,
    }
    return AuditEvent(**fields)


def seed(api: Api, count: int = 7) -> None:
    events = [event(n) for n in range(count)]
    last = event(count, attempt_id=LATER.id, attempt_index=1, level=AuditLevel.ALARM)
    api.store.apply(Change(attempts=(ATTEMPT, LATER), audit=(*events, last)))


def numbers(body: dict[str, Any]) -> list[int]:
    return [int(item["eventNumber"]) for item in body["items"]]


def test_events_of_one_attempt_are_found_by_uuid_and_by_number_and_index(api: Api) -> None:
    seed(api)
    by_uuid = api.get(PATH, heimdallJobId=ATTEMPT.id)
    assert numbers(by_uuid) == [1, 2, 3, 4, 5, 6, 7]
    assert api.get(PATH, jobId="12345", attemptIndex=0) == by_uuid
    assert numbers(api.get(PATH, jobId="12345", attemptIndex=1)) == [8]


def test_job_without_an_index_means_all_of_its_attempts(api: Api) -> None:
    seed(api)
    assert numbers(api.get(PATH, jobId="12345")) == [1, 2, 3, 4, 5, 6, 7, 8]


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ({}, "whose events"),
        ({"attemptIndex": 0}, "needs jobId"),
        ({"heimdallJobId": ATTEMPT.id, "jobId": "1"}, "excludes"),
        ({"heimdallJobId": ATTEMPT.id, "attemptIndex": 0}, "excludes"),
        ({"heimdallJobId": "x"}, "UUID"),
        ({"jobId": "1", "attemptIndex": -1}, "count from 0"),
        ({"jobId": "1", "limit": 0}, "1 to 100"),
        ({"jobId": "1", "limit": 101}, "1 to 100"),
        ({"jobId": "1", "sortBy": "name:asc"}, "event_produced_at"),
        ({"jobId": "1", "cursor": "x"}, "cursor"),
    ],
)
def test_query_that_cannot_be_is_refused_with_its_reason(
    api: Api, query: dict[str, Any], says: str
) -> None:
    assert says in api.refused(PATH, **query)


def test_filters_match_exactly(api: Api) -> None:
    seed(api)
    assert numbers(api.get(PATH, jobId="12345", eventType="type-1")) == [2, 4, 6, 8]
    assert numbers(api.get(PATH, jobId="12345", eventLevel="alarm")) == [8]
    assert numbers(api.get(PATH, jobId="12345", eventProducer="watch")) == []


def test_time_bounds_are_inclusive_unix_microseconds(api: Api) -> None:
    seed(api)
    start = int((NOW + timedelta(seconds=2)).timestamp()) * 1_000_000
    query = {"jobId": "12345", "minEventProducedAt": start}
    assert numbers(api.get(PATH, **query, maxEventProducedAt=start + 1_000_000)) == [3, 4]
    assert numbers(api.get(PATH, **query, maxEventProducedAt=start)) == [3]


@pytest.mark.parametrize("bound", [-(2**63), 0, 2**63 - 1])
def test_bounds_beyond_the_calendar_bound_nothing_or_everything(api: Api, bound: int) -> None:
    seed(api)
    assert len(api.get(PATH, jobId="12345", minEventProducedAt=bound)["items"]) in {0, 8}


@pytest.mark.parametrize("sort", ["event_produced_at:asc", "event_produced_at:desc"])
def test_cursors_lead_through_all_pages_and_back(api: Api, sort: str) -> None:
    seed(api)
    query = {"jobId": "12345", "limit": 3, "sortBy": sort}
    expected = list(range(1, 9)) if sort.endswith("asc") else list(range(8, 0, -1))
    first = api.get(PATH, **query)
    assert numbers(first) == expected[:3]
    assert first["cursor"]["previous"] == ""
    second = api.get(PATH, **query, cursor=first["cursor"]["next"])
    assert numbers(second) == expected[3:6]
    third = api.get(PATH, **query, cursor=second["cursor"]["next"])
    assert numbers(third) == expected[6:]
    assert third["cursor"]["next"] == ""
    back = api.get(PATH, **query, cursor=third["cursor"]["previous"])
    assert numbers(back) == expected[3:6]
    start = api.get(PATH, **query, cursor=back["cursor"]["previous"])
    assert numbers(start) == expected[:3]
    assert start["cursor"]["previous"] == ""
    assert start["cursor"]["next"] != ""


def test_cursor_is_bound_to_its_query(api: Api) -> None:
    seed(api)
    cursor = api.get(PATH, jobId="12345", limit=3)["cursor"]["next"]
    assert "other filters" in api.refused(
        PATH, jobId="12345", limit=3, attemptIndex=0, cursor=cursor
    )
    other = {"jobId": "12345", "sortBy": "event_produced_at:desc"}
    assert "other filters" in api.refused(PATH, **other, cursor=cursor)


PRODUCED = {
    "heimdallJobId": ATTEMPT.id,
    "eventProducer": "site-detector",
    "eventType": "disk.slow",
    "eventLevel": "WARN",
    "payload": {"disk": "sda", "ms": 12},
    "eventProducedAt": "1790000000000000",
    "idempotencyKey": "k1",
}


def ingest(api: Api, *items: dict[str, Any], scope: Scope = Scope.INGEST) -> Any:
    status, body = api.call("POST", PATH, {"items": list(items)}, scope=scope)
    assert status == 200, body
    return body


def test_ingested_event_can_be_read_with_the_attempt_filled_in(api: Api) -> None:
    api.store.apply(Change(attempts=(ATTEMPT,)))
    assert ingest(api, PRODUCED) == {}
    (item,) = api.get(PATH, jobId="12345", attemptIndex=0)["items"]
    assert item["heimdallJobId"] == ATTEMPT.id
    assert item["eventProducedAt"] == "1790000000000000"
    assert item["eventLevel"] == "warning"
    assert item["payload"] == {"disk": "sda", "ms": 12}


def test_same_key_of_the_same_producer_is_one_event(api: Api) -> None:
    api.store.apply(Change(attempts=(ATTEMPT,)))
    ingest(api, PRODUCED, PRODUCED)
    ingest(api, PRODUCED)
    ingest(api, {**PRODUCED, "eventProducer": "other"})
    producers = [item["eventProducer"] for item in api.get(PATH, jobId="12345")["items"]]
    assert producers == ["site-detector", "other"]


def test_wrong_events_are_named_and_the_rest_is_taken(api: Api) -> None:
    api.store.apply(Change(attempts=(ATTEMPT,)))
    body = ingest(
        api,
        PRODUCED,
        {**PRODUCED, "eventType": ""},
        {**PRODUCED, "eventLevel": "purple"},
        {**PRODUCED, "jobId": "", "heimdallJobId": "", "attemptIndex": 0},
        {**PRODUCED, "payload": {"x": "y" * 70_000}},
        {**PRODUCED, "eventProducer": "controller"},
    )["partialSuccess"]
    assert body["rejectedEvents"] == "5"
    assert [rejection["index"] for rejection in body["rejections"]] == [1, 2, 3, 4, 5]
    assert "eventType is missing" in body["rejections"][0]["reason"]
    assert "controller scope" in body["rejections"][4]["reason"]
    assert len(api.get(PATH, jobId="12345")["items"]) == 1


def test_controllers_may_write_in_their_own_name(api: Api) -> None:
    api.store.apply(Change(attempts=(ATTEMPT,)))
    assert ingest(api, {**PRODUCED, "eventProducer": "controller"}, scope=Scope.CONTROLLER) == {}


def test_event_of_a_job_that_nobody_knows_is_kept(api: Api) -> None:
    ingest(api, {**PRODUCED, "heimdallJobId": "", "jobId": "999"})
    assert len(api.get(PATH, jobId="999")["items"]) == 1


def test_batches_are_bounded(api: Api) -> None:
    small = {"eventProducer": "p", "eventType": "t"}
    status, body = api.call("POST", PATH, {"items": [small] * 501})
    assert status == 400
    assert "at most 500" in body["message"]
    assert ingest(api) == {}
