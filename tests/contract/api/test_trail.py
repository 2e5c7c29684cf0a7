"""The trail of all jobs, read by number."""

from __future__ import annotations

from typing import Any

import pytest

from middlewatch.model.audit import AuditLevel
from middlewatch.model.change import Change
from middlewatch.services.gateway.access import Scope
from tests.contract.api.conftest import Api
from tests.contract.api.samples import ATTEMPT, attempt
from tests.contract.api.test_audit import event, numbers

PATH = "/middlewatch/v1/audit"
OTHER = attempt("777", 0)


def seed(api: Api) -> None:
    theirs = event(9, attempt_id=OTHER.id, job_id="777", level=AuditLevel.ALARM)
    events = (*(event(n) for n in range(7)), theirs)
    api.store.apply(Change(attempts=(ATTEMPT, OTHER), audit=events))


def test_without_a_bound_the_newest_lines_of_all_jobs_come_in_rising_order(api: Api) -> None:
    seed(api)
    body = api.get(PATH, limit=3)
    assert numbers(body) == [6, 7, 8]
    assert (body["count"], body["lastAuditNumber"]) == (3, "8")
    assert {item["jobId"] for item in body["items"]} == {"12345", "777"}


def test_the_trail_is_followed_behind_a_number_and_read_back_before_one(api: Api) -> None:
    seed(api)
    assert numbers(api.get(PATH, after=0, limit=3)) == [1, 2, 3]
    assert numbers(api.get(PATH, after=3, limit=3)) == [4, 5, 6]
    assert numbers(api.get(PATH, after=8)) == []
    assert numbers(api.get(PATH, before=4, limit=2)) == [2, 3]
    assert numbers(api.get(PATH, before=1)) == []
    assert numbers(api.get(PATH, before=0)) == []


def test_the_trail_is_filtered_by_type_level_and_producer(api: Api) -> None:
    seed(api)
    assert numbers(api.get(PATH, eventLevel="ALARM")) == [8]
    assert numbers(api.get(PATH, eventType="type-1", after=0)) == [2, 4, 6, 8]
    assert numbers(api.get(PATH, eventProducer="nobody")) == []


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ({"after": 1, "before": 2}, "exclude each other"),
        ({"after": -1}, "number"),
        ({"limit": 101}, "1 to 100"),
        ({"limit": 0}, "1 to 100"),
    ],
)
def test_a_question_that_cannot_be_is_refused(api: Api, query: dict[str, Any], says: str) -> None:
    assert says in api.refused(PATH, **query)


def test_the_trail_needs_the_scope_read(api: Api) -> None:
    assert api.call("GET", PATH, scope=Scope.INGEST)[0] == 403
    assert api.call("GET", PATH, scope=Scope.READ)[0] == 200
