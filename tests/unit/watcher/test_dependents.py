"""Dependency expressions as Slurm prints them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from middlewatch.model.attempt import Attempt, Dependent
from middlewatch.model.identity import AttemptId, ClusterId
from middlewatch.model.scheduler import JobState, JobView
from middlewatch.services.watcher.dependents import (
    awaited,
    by_awaited,
    is_singleton,
    singletons_behind,
)

T0 = datetime(2026, 3, 1, tzinfo=UTC)


def view(job_id: str, dependency: str = "", **fields: object) -> JobView:
    plain: dict[str, object] = {
        "state": JobState.PENDING,
        "flags": frozenset(),
        "reason": "Dependency",
        "priority": 1,
        "restarts": 0,
        "submitted_at": T0,
        "uid": 2001,
    }
    return JobView(job_id=job_id, dependency=dependency, **{**plain, **fields})  # type: ignore[arg-type]


def attempt(job_id: str = "7", name: str = "chain", uid: int = 2001) -> Attempt:
    return Attempt(
        id=AttemptId("a"),
        cluster=ClusterId("slurm", "prod"),
        job_id=job_id,
        attempt_index=0,
        submitted_at=T0,
        first_seen_at=T0,
        last_seen_at=T0,
        job_name=name,
        uid=uid,
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("(null)", ()),
        ("afterany:123(unfulfilled)", (("123", "afterany"),)),
        ("afternotok:123", (("123", "afternotok"),)),
        (
            "afterok:12(unfulfilled),afterany:13(unfulfilled)",
            (("12", "afterok"), ("13", "afterany")),
        ),
        ("afterok:12?afternotok:13", (("12", "afterok"), ("13", "afternotok"))),
        ("afterany:12:13:14", (("12", "afterany"), ("13", "afterany"), ("14", "afterany"))),
        ("afterok:12_3(failed)", (("12_3", "afterok"),)),
        ("afterany:12_*(unfulfilled)", (("12", "afterany"),)),
        ("after:12+5(unfulfilled)", (("12", "after"),)),
        ("singleton(unfulfilled)", ()),
    ],
)
def test_awaited_jobs_are_read(text: str, expected: tuple[tuple[str, str], ...]) -> None:
    assert awaited(text) == expected


def test_all_who_wait_for_a_job_are_gathered() -> None:
    found = by_awaited([view("8", "afterany:7"), view("9", "afterok:7,afterok:6")])
    assert found["7"] == (Dependent("8", "afterany"), Dependent("9", "afterok"))
    assert found["6"] == (Dependent("9", "afterok"),)


def test_job_that_is_over_waits_for_nobody() -> None:
    assert by_awaited([view("8", "afterany:7", state=JobState.CANCELLED)]) == {}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("singleton", True),
        ("singleton(unfulfilled)", True),
        ("afterok:7,singleton(unfulfilled)", True),
        ("afterok:7", False),
        ("", False),
    ],
)
def test_singletons_are_told(text: str, expected: bool) -> None:
    assert is_singleton(view("8", text)) is expected


def test_singleton_waits_behind_the_job_of_its_user_and_name() -> None:
    waiting = [(view("8", "singleton"), "chain")]
    assert singletons_behind(attempt(), waiting) == [Dependent("8", "singleton")]


def test_singleton_of_another_user_or_name_does_not() -> None:
    waiting = [(view("8", "singleton", uid=9), "chain"), (view("9", "singleton"), "other")]
    assert singletons_behind(attempt(), waiting) == []


def test_singleton_does_not_wait_behind_itself() -> None:
    assert singletons_behind(attempt("8"), [(view("8", "singleton"), "chain")]) == []
