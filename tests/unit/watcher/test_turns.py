"""How often the cluster is listed: by what is live, by how slowly it answers, and by hints."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from middlewatch.model.attempt import Attempt, AttemptEnd, EndedBy
from middlewatch.model.identity import AttemptKey, ClusterId
from middlewatch.model.scheduler import JobState
from middlewatch.services.watcher.turns import Liveliness, Turns, liveliness, pause_after

START = datetime(2026, 11, 30, tzinfo=UTC)
CLUSTER = ClusterId("slurm", "test")


def attempt(state: JobState, index: int = 0, end: AttemptEnd | None = None) -> Attempt:
    return Attempt(
        id=AttemptKey(CLUSTER, "7", START).attempt_id(),
        cluster=CLUSTER,
        job_id="7",
        attempt_index=index,
        submitted_at=START,
        first_seen_at=START,
        last_seen_at=START,
        state=state,
        end=end,
    )


def ended(ago_s: float, *, final: bool) -> Attempt:
    at = START - timedelta(seconds=ago_s)
    end = AttemptEnd(JobState.FAILED, EndedBy.FAILURE, 1, None, at, at, final)
    return attempt(JobState.FAILED, end=end)


@pytest.mark.parametrize(
    ("attempts", "expected"),
    [
        ([], Liveliness.NOBODY),
        ([attempt(JobState.PENDING)], Liveliness.WAITING),
        ([attempt(JobState.RUNNING)], Liveliness.LIVE),
        ([attempt(JobState.SUSPENDED)], Liveliness.LIVE),
        ([attempt(JobState.PENDING, index=1)], Liveliness.LIVE),
        ([replace(attempt(JobState.PENDING), completing=True)], Liveliness.LIVE),
        ([attempt(JobState.PENDING), attempt(JobState.RUNNING)], Liveliness.LIVE),
        ([ended(5, final=True)], Liveliness.LIVE),
        ([ended(500, final=False)], Liveliness.LIVE),
        ([ended(500, final=True)], Liveliness.NOBODY),
        ([ended(500, final=True), attempt(JobState.PENDING)], Liveliness.WAITING),
    ],
)
def test_whatever_runs_or_is_being_restarted_is_live(
    attempts: list[Attempt], expected: Liveliness
) -> None:
    assert liveliness(attempts, START) is expected


def test_an_idle_cluster_is_listed_ever_more_rarely_up_to_the_longest_pause() -> None:
    pauses, pause = [], 1.0
    for _ in range(8):
        pause = pause_after(pause, Liveliness.NOBODY, 0.0, 1.0, 45.0)
        pauses.append(pause)
    assert pauses == [2.0, 4.0, 8.0, 16.0, 32.0, 45.0, 45.0, 45.0]
    assert pause_after(45.0, Liveliness.LIVE, 0.0, 1.0, 45.0) == 1.0
    assert pause_after(45.0, Liveliness.WAITING, 0.0, 1.0, 45.0) == 10.0


def test_a_slow_scheduler_is_asked_less_often_though_somebody_runs() -> None:
    assert pause_after(1.0, Liveliness.LIVE, 0.5, 1.0, 45.0) == 5.0
    assert pause_after(1.0, Liveliness.LIVE, 30.0, 1.0, 45.0) == 45.0


@given(
    before=st.floats(0, 1000),
    alive=st.sampled_from(Liveliness),
    took=st.floats(0, 1000),
    shortest=st.floats(0.05, 600),
    longest=st.floats(0.05, 600),
)
def test_a_pause_always_lies_between_its_bounds(
    before: float, alive: Liveliness, took: float, shortest: float, longest: float
) -> None:
    pause = pause_after(before, alive, took, shortest, longest)
    assert shortest <= pause <= max(shortest, longest)


class Rounds:
    """Rounds a second apart. ``listed`` holds the seconds at which there was a listing."""

    def __init__(self, shortest: float = 1.0, longest: float = 45.0, members: int = 1) -> None:
        self.turns = Turns(shortest, longest)
        self.members = members
        self.second = 0.0
        self.listed: list[float] = []

    def go(
        self,
        seconds: int,
        alive: Liveliness | None = Liveliness.NOBODY,
        *,
        took: float = 0.01,
        hinted: bool = False,
        every: float = 1.0,
        rank: int = 0,
    ) -> list[float]:
        before = len(self.listed)
        for _ in range(int(seconds / every)):
            now = START + timedelta(seconds=self.second)
            if self.turns.due(now, hinted=hinted, came=False, members=self.members, rank=rank):
                self.listed.append(self.second)
                self.turns.listed(now, took, alive)
            self.second += every
        return self.listed[before:]


def test_while_somebody_runs_each_round_lists() -> None:
    assert len(Rounds().go(30, Liveliness.LIVE)) == 30


def test_an_idle_hour_takes_not_more_than_a_hundred_listings() -> None:
    assert 79 <= len(Rounds().go(3600)) <= 100


def test_five_thousand_who_wait_are_listed_six_times_a_minute() -> None:
    assert 6 <= len(Rounds().go(60, Liveliness.WAITING)) <= 7


def test_a_hint_makes_the_next_round_list() -> None:
    rounds = Rounds()
    rounds.go(300)
    assert rounds.go(3) == []
    assert len(rounds.go(1, hinted=True)) == 1


def test_a_hint_that_comes_too_early_is_not_lost() -> None:
    rounds = Rounds(shortest=30.0)
    rounds.go(1, every=0.2)
    rounds.second = 0.2
    assert rounds.go(1, hinted=True, every=1.0) == []
    assert len(rounds.go(10)) == 1


def test_a_storm_of_hints_makes_one_listing_a_second_at_most() -> None:
    rounds = Rounds()
    assert len(rounds.go(60, hinted=True, every=0.05)) <= 67


def test_a_slow_scheduler_is_not_pressed_by_hints() -> None:
    rounds = Rounds()
    rounds.go(60, took=2.0)
    assert len(rounds.go(60, took=2.0, hinted=True)) <= 4


def test_one_slow_answer_among_quick_ones_is_no_slow_scheduler() -> None:
    rounds = Rounds()
    rounds.go(10, Liveliness.LIVE)
    rounds.go(1, Liveliness.LIVE, took=4.0)
    assert len(rounds.go(10, Liveliness.LIVE)) == 10


def test_a_silent_scheduler_is_tried_every_ten_seconds_at_most_and_soon_again() -> None:
    rounds = Rounds()
    assert 6 <= len(rounds.go(60, None, took=10.0)) <= 9
    assert len(rounds.go(12, Liveliness.LIVE)) >= 2


def test_several_watchers_together_ask_as_often_as_one() -> None:
    three = [Rounds(members=3) for _ in range(3)]
    assert sum(len(one.go(60, Liveliness.LIVE)) for one in three) <= 66


def test_without_a_shortest_pause_the_rounds_are_shared_out() -> None:
    rounds = Rounds(shortest=0.0, longest=0.0, members=2)
    assert rounds.go(4) in ([0.0, 2.0], [1.0, 3.0])


def test_jobs_that_came_from_another_watcher_are_looked_at_at_once() -> None:
    turns = Turns(1.0, 45.0)
    now = START
    assert turns.due(now, hinted=False, came=False, members=1, rank=0)
    turns.listed(now, 0.0, Liveliness.NOBODY)
    assert not turns.due(now, hinted=False, came=False, members=1, rank=0)
    assert turns.due(now, hinted=False, came=True, members=1, rank=0)


def test_a_clock_that_was_set_back_stops_no_listing() -> None:
    turns = Turns(1.0, 45.0)
    turns.listed(START, 0.0, Liveliness.NOBODY)
    back = START - timedelta(hours=1)
    assert turns.due(back, hinted=False, came=False, members=1, rank=0)
