"""Dependency expressions as Slurm prints them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from middlewatch.model.attempt import LET_GO, Attempt, Dependent
from middlewatch.model.identity import AttemptId, ClusterId
from middlewatch.model.scheduler import JobFlag, JobState, JobView
from middlewatch.services.watcher.dependents import (
    Awaited,
    awaited,
    by_awaited,
    is_singleton,
    let_go_by,
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


def test_who_waited_for_a_job_is_known_though_it_was_recorded_only_after_its_end() -> None:
    memory = Awaited()
    parent = view("7", state=JobState.RUNNING)
    waits = view("8", "afternotok:7(unfulfilled)")
    memory.note((parent, waits), by_awaited((parent, waits)))
    ended = view("7", state=JobState.FAILED)
    free = view("8", state=JobState.RUNNING)
    memory.note((ended, free), by_awaited((ended, free)))
    assert memory.let_go_by(ended) == (Dependent("8", "afternotok"),)


def test_whoever_no_longer_waits_while_the_job_lives_is_forgotten() -> None:
    memory = Awaited()
    parent = view("7_2", state=JobState.RUNNING)
    waits = view("8", "afterany:7_*(unfulfilled)")
    memory.note((parent, waits), by_awaited((parent, waits)))
    memory.note((parent,), {})
    ended = view("7_2", state=JobState.FAILED)
    memory.note((ended,), {})
    assert memory.let_go_by(ended) == ()


def test_a_job_that_came_by_the_number_later_has_no_part_in_what_was_seen() -> None:
    memory = Awaited()
    parent = view("7", state=JobState.RUNNING)
    waits = view("8", "afterany:7(unfulfilled)")
    memory.note((parent, waits), by_awaited((parent, waits)))
    another = view("7", state=JobState.FAILED, submitted_at=T0 + timedelta(days=1))
    memory.note((another,), {})
    assert memory.let_go_by(another) == ()


def test_a_job_that_was_first_seen_completing_let_go_who_still_waited_for_it_then() -> None:
    memory = Awaited()
    parent = view("7", state=JobState.RUNNING, flags=frozenset({JobFlag.COMPLETING}))
    waits = view("8", "afternotok:7(unfulfilled)")
    memory.note((parent, waits), by_awaited((parent, waits)))
    free = view("8", eligible_at=T0 + timedelta(seconds=101))
    memory.note((ENDED, free), {})
    assert memory.let_go_by(ENDED) == (Dependent("8", "afternotok"),)


ENDED = view("7", state=JobState.FAILED, ended_at=T0 + timedelta(seconds=100))


@pytest.mark.parametrize(
    ("fields", "let_go"),
    [
        ({"eligible_at": T0 + timedelta(seconds=101)}, True),
        ({"eligible_at": T0 + timedelta(seconds=101), "uid": 2002}, False),
        ({"eligible_at": T0 + timedelta(seconds=101), "restarts": 1}, False),
        ({"eligible_at": T0}, False),
        ({"eligible_at": None}, False),
        ({"eligible_at": T0 + timedelta(seconds=90)}, False),
        ({"eligible_at": T0 + timedelta(seconds=200)}, False),
        (
            {
                "submitted_at": T0 + timedelta(seconds=101),
                "eligible_at": T0 + timedelta(seconds=101),
            },
            False,
        ),
    ],
)
def test_a_job_that_became_eligible_at_an_end_that_nobody_watched_was_let_go_by_it(
    fields: dict[str, object], let_go: bool
) -> None:
    other = view("8", "", **fields)
    assert let_go_by(ENDED, (ENDED, other)) == ((Dependent("8", LET_GO),) if let_go else ())


def test_the_end_of_a_job_that_was_seen_alive_let_go_only_who_was_seen_to_wait_for_it() -> None:
    memory = Awaited()
    running, other = view("7", state=JobState.RUNNING), view("9", state=JobState.RUNNING)
    free = view("8", eligible_at=T0 + timedelta(seconds=101))
    memory.note((running, other), {})
    memory.note((ENDED, other, free), {})
    assert memory.let_go_by(ENDED) == ()


def test_who_was_seen_to_wait_for_another_job_was_not_let_go_by_this_one() -> None:
    memory = Awaited()
    waits = view("8", "afternotok:9(unfulfilled)")
    memory.note((waits,), by_awaited((waits,)))
    free = view("8", eligible_at=T0 + timedelta(seconds=101))
    memory.note((ENDED, free), {})
    assert memory.let_go_by(ENDED) == ()
    unknown = view("10", eligible_at=T0 + timedelta(seconds=101))
    memory.note((ENDED, free, unknown), {})
    assert memory.let_go_by(ENDED) == (Dependent("10", LET_GO),)
