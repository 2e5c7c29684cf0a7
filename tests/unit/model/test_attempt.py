"""How rows of a listing become attempts."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from middlewatch.model.attempt import EndedBy, Sighting, ended_by, seen_again, sighting, superseded
from middlewatch.model.scheduler import JobFlag, JobState
from tests.unit.reconciliation.worlds import REQUEUED, SUBMITTED, T0, at, attempt, successor, target

FIRST = attempt(end=None, state=JobState.RUNNING)


def test_a_new_number_is_a_new_job() -> None:
    assert sighting((), target()) is Sighting.OTHER_JOB


def test_the_same_submit_time_and_count_is_the_same_attempt() -> None:
    assert sighting((FIRST,), target()) is Sighting.SAME


def test_a_greater_count_with_a_newer_submit_time_is_the_successor() -> None:
    assert sighting((FIRST,), successor()) is Sighting.SUCCESSOR


def test_the_new_count_beside_the_old_time_is_undecided() -> None:
    turning = target(restarts=1, flags=frozenset({JobFlag.COMPLETING}))
    assert sighting((FIRST,), turning) is Sighting.UNDECIDED


def test_an_unknown_job_is_not_minted_while_completing() -> None:
    assert sighting((), target(flags=frozenset({JobFlag.COMPLETING}))) is Sighting.UNDECIDED


def test_a_newer_submit_time_without_a_greater_count_is_another_job() -> None:
    again = target(submitted_at=SUBMITTED + timedelta(days=9))
    assert sighting((FIRST,), again) is Sighting.OTHER_JOB


def test_another_users_job_is_another_job_however_often_it_was_restarted() -> None:
    ours = replace(FIRST, uid=2001)
    assert sighting((ours,), successor(uid=2001)) is Sighting.SUCCESSOR
    assert sighting((ours,), successor(uid=2002)) is Sighting.OTHER_JOB
    assert sighting((ours,), successor(uid=-1)) is Sighting.SUCCESSOR


def test_an_older_submit_time_seen_again_is_a_scheduler_that_lost_time() -> None:
    second = attempt(submitted_at=REQUEUED, attempt_index=1, end=None)
    assert sighting((FIRST, second), target()) is Sighting.ROLLED_BACK
    assert sighting((second,), target()) is Sighting.ROLLED_BACK


def test_a_vanished_attempt_does_not_make_its_successor_another_job() -> None:
    vanished = attempt(submitted_at=REQUEUED, attempt_index=1, vanished=True)
    again = successor(submitted_at=REQUEUED + timedelta(minutes=5))
    assert sighting((FIRST, vanished), again) is Sighting.SUCCESSOR


def test_an_end_once_recorded_is_not_taken_back() -> None:
    ended = seen_again(FIRST, target(JobState.FAILED, exit_code=3), at(5))
    assert ended.end is not None
    assert ended.end.exit_code == 3
    again = seen_again(ended, target(JobState.COMPLETED), at(6))
    assert again.end == ended.end


def test_completing_is_no_end_yet() -> None:
    seen = seen_again(FIRST, target(JobState.FAILED, flags=frozenset({JobFlag.COMPLETING})), at(5))
    assert seen.end is None


def test_a_pending_jobs_estimated_start_is_no_start() -> None:
    fresh = replace(FIRST, started_at=None)
    assert seen_again(fresh, target(JobState.PENDING, started_at=at(99)), at(5)).started_at is None


def test_a_successor_ends_what_came_before_it() -> None:
    after = superseded(FIRST, successor(), at(5))
    assert after.end is not None
    assert after.end.by is EndedBy.REQUEUE
    assert after.end.at == REQUEUED
    known = attempt()
    assert superseded(known, successor(), at(5)) is known


@pytest.mark.parametrize(
    ("view", "by"),
    [
        (target(JobState.COMPLETED), EndedBy.COMPLETION),
        (target(JobState.FAILED, exit_code=1), EndedBy.FAILURE),
        (target(JobState.FAILED, exit_signal=53), EndedBy.LAUNCH),
        (target(JobState.NODE_FAIL), EndedBy.NODE_FAILURE),
        (target(JobState.OUT_OF_MEMORY), EndedBy.OUT_OF_MEMORY),
        (target(JobState.TIMEOUT), EndedBy.TIME_LIMIT),
        (target(JobState.CANCELLED), EndedBy.SOMEBODY),
        (target(JobState.PREEMPTED), EndedBy.PREEMPTION),
    ],
)
def test_how_the_scheduler_alone_says_that_it_ended(view: object, by: EndedBy) -> None:
    assert ended_by(view) is by  # type: ignore[arg-type]


def test_times_seen_do_not_run_backwards() -> None:
    assert seen_again(attempt(last_seen_at=at(50)), target(), T0).last_seen_at == at(50)


def test_the_partitions_that_a_job_may_run_in_are_not_forgotten_while_it_runs_in_one() -> None:
    waiting = target(JobState.PENDING, partitions=("train", "other"))
    attempt = seen_again(FIRST, waiting, at(1))
    running = seen_again(attempt, target(JobState.RUNNING, partitions=("train",)), at(2))
    assert running.partitions == ("train", "other")
    moved = seen_again(running, target(JobState.PENDING, partitions=("other",)), at(3))
    assert moved.partitions == ("other",)


@pytest.mark.parametrize("reason", ["launch_failed_requeued_held", "launch failed requeued held"])
def test_a_start_that_a_failing_prolog_broke_is_told_from_a_requeue(reason: str) -> None:
    held = successor(priority=0, reason=reason)
    end = superseded(FIRST, held, at(5)).end
    assert end is not None
    assert end.by is EndedBy.LAUNCH
    one_between = superseded(FIRST, replace(held, restarts=2), at(5)).end
    assert one_between is not None
    assert one_between.by is EndedBy.REQUEUE
