from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from middlewatch.model.attempt import EndedBy
from middlewatch.model.change import Change
from middlewatch.model.identity import AttemptKey
from middlewatch.model.scheduler import JobState
from middlewatch.ports.errors import Conflict, Refused
from middlewatch.ports.store import AttemptFilter, Store
from tests.contract.store.records import PROD, TEST, at, attempt, attempt_id, ended


def test_attempt_is_read_as_it_was_written_with_the_next_version(store: Store) -> None:
    written = attempt(1, end=ended(), workflow_id="w", vanished=True)
    store.apply(Change(attempts=(written,)))
    assert store.attempt(written.id) == replace(written, version=1)


def test_unknown_attempt_is_none(store: Store) -> None:
    assert store.attempt(attempt_id(9)) is None


def test_attempt_with_version_zero_must_not_exist(store: Store) -> None:
    store.apply(Change(attempts=(attempt(1),)))
    with pytest.raises(Conflict, match=attempt_id(1)):
        store.apply(Change(attempts=(attempt(1),)))


def test_attempt_is_replaced_when_its_version_is_the_stored_one(store: Store) -> None:
    store.apply(Change(attempts=(attempt(1),)))
    store.apply(Change(attempts=(attempt(1, version=1, reason="Resources"),)))
    found = store.attempt(attempt_id(1))
    assert found is not None
    assert (found.version, found.reason) == (2, "Resources")


@pytest.mark.parametrize("version", [1, 3, -1])
def test_attempt_with_another_version_is_a_conflict(store: Store, version: int) -> None:
    store.apply(Change(attempts=(attempt(1),)))
    store.apply(Change(attempts=(attempt(1, version=1),)))
    with pytest.raises(Conflict, match="version 2 is stored"):
        store.apply(Change(attempts=(attempt(1, version=version),)))


def test_conflict_on_one_record_leaves_nothing_of_the_others(store: Store) -> None:
    store.apply(Change(attempts=(attempt(2),)))
    with pytest.raises(Conflict):
        store.apply(Change(attempts=(attempt(1), attempt(2), attempt(3))))
    assert store.attempt(attempt_id(1)) is None
    assert store.attempt(attempt_id(3)) is None


def test_attempts_of_a_job_come_oldest_submit_time_first_and_of_that_cluster_only(
    store: Store,
) -> None:
    later = attempt(5, job_id="1001", attempt_index=1)
    elsewhere = attempt(1, TEST)
    store.apply(Change(attempts=(later, elsewhere, attempt(1))))
    assert [a.id for a in store.attempts_of_job(PROD, "1001")] == [attempt_id(1), later.id]
    assert [a.id for a in store.attempts_of_job(TEST, "1001")] == [elsewhere.id]


def test_attempt_by_index_is_the_newest_under_a_number_that_came_back(store: Store) -> None:
    newer = replace(
        attempt(1),
        id=AttemptKey(PROD, "1001", at(900)).attempt_id(),
        submitted_at=at(900),
    )
    store.apply(Change(attempts=(newer, attempt(1))))
    found = store.attempt_by_index("1001", 0)
    assert found is not None
    assert found.id == newer.id
    assert store.attempt_by_index("1001", 1) is None


def test_attempt_by_index_prefers_one_that_has_not_vanished(store: Store) -> None:
    vanished = replace(
        attempt(1),
        id=AttemptKey(PROD, "1001", at(900)).attempt_id(),
        submitted_at=at(900),
        vanished=True,
    )
    store.apply(Change(attempts=(vanished, attempt(1))))
    found = store.attempt_by_index("1001", 0)
    assert found is not None
    assert found.id == attempt_id(1)


def test_live_attempts_are_those_neither_ended_nor_vanished(store: Store) -> None:
    store.apply(
        Change(
            attempts=(
                attempt(1),
                attempt(2, end=ended()),
                attempt(3, vanished=True),
                attempt(4, TEST),
            )
        )
    )
    assert [a.id for a in store.live_attempts(PROD)] == [attempt_id(1)]


def test_ending_an_attempt_takes_it_from_the_live_ones(store: Store) -> None:
    store.apply(Change(attempts=(attempt(1),)))
    store.apply(Change(attempts=(attempt(1, version=1, end=ended()),)))
    assert store.live_attempts(PROD) == ()


def numbers(store: Store, **where: object) -> list[int]:
    found = store.attempts(AttemptFilter(**where), 0, 100)  # type: ignore[arg-type]
    return [int(a.job_id) - 1000 for a in found]


def test_attempts_are_listed_first_seen_first_and_paged_by_offset(store: Store) -> None:
    store.apply(Change(attempts=tuple(attempt(n) for n in (3, 1, 2, 5, 4))))
    assert numbers(store) == [1, 2, 3, 4, 5]
    page = store.attempts(AttemptFilter(), 1, 2)
    assert [a.job_id for a in page] == ["1002", "1003"]
    assert store.attempts(AttemptFilter(), 5, 2) == ()


def test_attempts_are_filtered_by_everything_at_once(store: Store) -> None:
    failed = attempt(2, state=JobState.FAILED, end=ended(when=100), workflow_id="a")
    done = attempt(
        3,
        end=ended(JobState.COMPLETED, EndedBy.COMPLETION, when=200),
        workflow_id="b",
    )
    store.apply(Change(attempts=(attempt(1), failed, done, attempt(4, TEST))))
    assert numbers(store, cluster=PROD) == [1, 2, 3]
    assert numbers(store, job_ids=("1001", "1003")) == [1, 3]
    assert numbers(store, workflow_ids=("a", "b")) == [2, 3]
    assert numbers(store, states=("FAILED", "COMPLETED")) == [2, 3]
    assert numbers(store, states=("RUNNING",)) == [1, 4]
    assert numbers(store, final=True) == [2, 3]
    assert numbers(store, final=False, cluster=PROD) == [1]
    assert numbers(store, workflow_ids=("a",), job_ids=("1003",)) == []


def test_bounds_of_the_end_time_are_inclusive(store: Store) -> None:
    store.apply(Change(attempts=tuple(attempt(n, end=ended(when=n)) for n in range(1, 6))))
    assert numbers(store, ended_from=at(2), ended_to=at(4)) == [2, 3, 4]
    assert numbers(store, ended_from=at(5)) == [5]


def test_eligible_are_live_attempts_and_failures_but_neither_completed_nor_requeued(
    store: Store,
) -> None:
    store.apply(
        Change(
            attempts=(
                attempt(1),
                attempt(2, end=ended()),
                attempt(3, end=ended(JobState.COMPLETED, EndedBy.COMPLETION)),
                attempt(4, end=ended(JobState.FAILED, EndedBy.REQUEUE)),
                attempt(5, end=ended(JobState.CANCELLED, EndedBy.OWNER)),
                attempt(6, end=ended(JobState.TIMEOUT, EndedBy.TIME_LIMIT)),
                attempt(7, vanished=True),
            )
        )
    )
    assert numbers(store, reconciliation_eligible=True) == [1, 2, 6]


def test_workflow_is_the_sum_of_its_attempts(store: Store) -> None:
    store.apply(
        Change(
            attempts=(
                attempt(
                    1, workflow_id="w", job_name="train", started_at=at(10), end=ended(when=20)
                ),
                attempt(2, workflow_id="w", job_name="later", started_at=at(30)),
                attempt(3, workflow_id="v", job_name="other"),
                attempt(4),
            )
        )
    )
    first, second = store.workflows(0, 10)
    assert (first.workflow_id, first.scheduler_workflow_id, first.name) == ("w", "1001", "train")
    assert (first.started_at, first.ended_at) == (at(10), None)
    assert (second.workflow_id, second.started_at) == ("v", None)
    assert store.workflows(1, 10) == (second,)
    assert store.workflow("w") == first
    assert store.workflow("nobody's") is None
    assert store.workflow("") is None


def test_workflow_has_ended_when_all_its_attempts_have(store: Store) -> None:
    store.apply(
        Change(
            attempts=(
                attempt(1, workflow_id="w", end=ended(when=20)),
                attempt(2, workflow_id="w", end=ended(when=40)),
            )
        )
    )
    found = store.workflow("w")
    assert found is not None
    assert found.ended_at == at(40)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"job_id": "9" * 300}, "job_id"),
        ({"submitted_at": at(1).replace(tzinfo=None)}, "zone"),
        ({"last_seen_at": at(1).replace(tzinfo=None)}, "Attempt.last_seen_at"),
        ({"end": replace(ended(), at=at(1).replace(tzinfo=None))}, "Attempt.end.at"),
        ({"attempt_index": 2**63}, "64 bits"),
        ({"stdout": "/home/\udcff"}, "Attempt"),
        ({"job_id": "\udcff"}, "Attempt"),
    ],
)
def test_what_could_not_be_read_again_is_refused_and_named(
    store: Store, changed: dict[str, Any], said: str
) -> None:
    with pytest.raises(Refused, match=said):
        store.apply(Change(attempts=(attempt(1, **changed),)))
    assert store.attempts(AttemptFilter(), 0, 10) == ()


def test_job_ids_that_differ_in_case_are_different(store: Store) -> None:
    store.apply(Change(attempts=(attempt(1, job_id="a"), attempt(2, job_id="A"))))
    assert [a.id for a in store.attempts_of_job(PROD, "A")] == [attempt_id(2)]
