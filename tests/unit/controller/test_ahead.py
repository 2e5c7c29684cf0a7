"""Many advices in one round: who is handled when, what is asked together, and what must wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from middlewatch.model.action import Action, ActionKind
from middlewatch.model.advice import Advice, DecisionBasis, DesiredState
from middlewatch.model.answer import Absent, Answer, Known, Unknown
from middlewatch.model.gates import Gates
from middlewatch.model.identity import AttemptKey, ClusterId
from middlewatch.model.scheduler import JobDetail, Snapshot
from middlewatch.reconciliation.situation import Act, Fact, Need, Step, Wait
from middlewatch.services.controller.ahead import FEWEST, MOST, Pace, Recall, work_on
from middlewatch.services.controller.gather import Asked

NOW = datetime(2026, 11, 30, tzinfo=UTC)
CLUSTER = ClusterId("slurm", "test")


def advice(number: int) -> Advice:
    key = AttemptKey(CLUSTER, str(number), NOW)
    return Advice(
        attempt_id=key.attempt_id(),
        job_id=key.job_id,
        attempt_index=0,
        submitted_at=NOW,
        owner=CLUSTER,
        desired=DesiredState.RESTARTED,
        exclusions=(),
        generation=1,
        desired_state_changed_at=NOW,
        created_at=NOW,
        basis=DecisionBasis.ATTEMPT_ENDED_IN_FAILURE,
        gates=Gates(()),
        policy_version="1",
        sequence_id=str(number),
    )


@dataclass
class Began:
    """Stands for a situation: whether we have acted for it."""

    actions: tuple[int, ...]


@dataclass
class ScriptedHand:
    """Steps by job; each handling of a job takes ``cost_s``. Looks are fresh for a second."""

    steps: dict[str, Step]
    cost_s: float = 0.01
    now_s: float = 0.0
    handled: list[tuple[str, bool]] = field(default_factory=list)
    given: dict[str, Asked | None] = field(default_factory=dict)
    ages: list[float] = field(default_factory=list)
    looks: list[int] = field(default_factory=list)
    waiting: int = 0

    def look(self, job_ids: Sequence[str] = ()) -> Known[Snapshot]:
        """At these jobs alone, or all; it bears their names."""
        at = NOW + timedelta(seconds=self.now_s)
        return Known(Snapshot(",".join(job_ids or self.steps), at, ()), at)

    def handle(
        self,
        advice: Advice,
        look: Answer[Snapshot],
        *,
        asked: Asked | None = None,
        recall: Recall | None = None,
        lightly: bool = False,
    ) -> Any:
        if lightly and isinstance(self.steps[advice.job_id], Need | Act):
            return Began((1,))
        if isinstance(look, Known):
            assert advice.job_id in look.value.cluster_name.split(","), "not in this look"
        self.now_s += self.cost_s
        self.handled.append((advice.job_id, lightly))
        self.given[advice.job_id] = asked
        if isinstance(look, Known):
            self.ages.append(self.now_s - (look.as_of - NOW).total_seconds())
        return None

    def step_for(
        self, advice: Advice, look: Answer[Snapshot], asked: Asked, recall: Recall
    ) -> Step | None:
        step = self.steps[advice.job_id]
        known = asked.detail is not None or asked.chain is not None
        return Wait("it is known") if isinstance(step, Need) and known else step

    def look_at(self, job_ids: Sequence[str]) -> Answer[Snapshot]:
        self.looks.append(len(job_ids))
        return self.look(job_ids)

    def new_work(self, step: Step) -> bool:
        return isinstance(step, Act) and step.action.kind is ActionKind.REQUEUE

    def acted(self, advice: Advice) -> bool:
        return isinstance(self.steps[advice.job_id], Act)

    def seconds(self) -> float:
        return self.now_s

    def put_off(self, count: int) -> None:
        self.waiting += count


class Scheduler:
    """Tells of many at once, and keeps who was asked about."""

    def __init__(self, silent: bool = False) -> None:
        self.asked: list[tuple[str, ...]] = []
        self.silent = silent

    def details(self, job_ids: Sequence[str]) -> dict[str, Answer[JobDetail]]:
        self.asked.append(tuple(job_ids))
        if self.silent:
            return dict.fromkeys(job_ids, Unknown("no answer", NOW))
        return dict.fromkeys(job_ids, Absent(NOW))

    def accountings(self, job_ids: Sequence[str]) -> dict[str, Unknown]:
        return {}


def requeue(job: int) -> Act:
    return Act(Action(ActionKind.REQUEUE, str(job), "restart"))


def update(job: int) -> Act:
    return Act(Action(ActionKind.UPDATE, str(job), "let go", start_now=True))


def play(hand: ScriptedHand, pace: Pace | None = None, *, silent: bool = False) -> Scheduler:
    scheduler = Scheduler(silent)
    active = [advice(int(job)) for job in hand.steps]
    work_on(
        active,
        hand.look(),
        hand,
        scheduler=scheduler,  # type: ignore[arg-type]
        recall=Recall(None, None, 1.0),  # type: ignore[arg-type]
        pace=pace or Pace(),
    )
    return scheduler


def jobs(hand: ScriptedHand) -> list[int]:
    return [int(job) for job, _ in hand.handled]


def test_one_or_two_are_handled_as_if_alone() -> None:
    hand = ScriptedHand({"1": requeue(1), "2": Wait("for something")})
    assert play(hand).asked == []
    assert hand.handled == [("1", False), ("2", False)]


def test_who_only_waits_is_passed_over_first_and_asked_about_by_nobody() -> None:
    steps: dict[str, Step] = {str(n): Wait("for something") for n in range(1, 100)}
    hand = ScriptedHand({**steps, "100": requeue(100)})
    assert play(hand).asked == []
    assert jobs(hand) == list(range(1, 101))
    assert hand.waiting == 0


def test_what_was_begun_comes_before_what_is_new() -> None:
    pace = Pace()
    first = ScriptedHand({str(n): update(n) for n in (4, 5, 6)})
    play(first, pace)
    hand = ScriptedHand({str(n): requeue(n) if n < 4 else update(n) for n in range(1, 7)})
    play(hand, pace)
    assert jobs(hand) == [4, 5, 6, 1, 2, 3]


def test_of_what_was_begun_only_those_who_need_something_are_put_in_groups() -> None:
    pace = Pace()
    play(ScriptedHand({str(n): requeue(n) for n in range(1, 40)}), pace)
    hand = ScriptedHand({str(n): Wait("for its second") for n in range(1, 40)})
    play(hand, pace)
    assert hand.looks == []
    assert all(light for _, light in hand.handled)


def test_whoever_had_to_wait_is_first_in_the_next_round() -> None:
    pace = Pace()
    steps: dict[str, Step] = {str(n): Wait("for a person") for n in range(1, 301)}
    first = ScriptedHand(steps, cost_s=0.1)
    play(first, pace)
    second = ScriptedHand(steps, cost_s=0.1)
    play(second, pace)
    assert jobs(second)[0] == jobs(first)[-1] + 1


def test_a_group_is_asked_about_with_one_question_and_each_gets_its_own_answer() -> None:
    hand = ScriptedHand({str(n): requeue(n) for n in range(1, 11)})
    scheduler = play(hand)
    assert scheduler.asked == [tuple(str(n) for n in range(1, 11))]
    assert all(asked is not None and asked.detail is not None for asked in hand.given.values())


def test_where_the_common_question_has_no_answer_each_is_left_to_ask_for_itself() -> None:
    hand = ScriptedHand({str(n): requeue(n) for n in range(1, 11)})
    play(hand, silent=True)
    assert all(asked is not None and asked.detail is None for asked in hand.given.values())


def test_an_update_is_not_asked_about_ahead_and_a_need_is() -> None:
    hand = ScriptedHand({"1": update(1), "2": Need(Fact.DETAIL), "3": Need(Fact.DETAIL)})
    assert play(hand).asked == [("2", "3")]
    given = hand.given["1"]
    assert given is not None
    assert given.detail is None


def test_a_group_looks_at_once_at_all_who_wait_for_its_jobs() -> None:
    hand = ScriptedHand(
        {
            "1": Need(Fact.CHAIN, ("200", "201")),
            "2": Need(Fact.CHAIN, ("201", "202")),
            "3": update(3),
        }
    )
    play(hand)
    assert hand.looks == [3, 3]
    for job in ("1", "2"):
        given = hand.given[job]
        assert given is not None
        assert isinstance(given.chain, Known)
        assert given.chain.value.cluster_name == "200,201,202"
    assert hand.given["3"] == Asked()


def test_each_group_has_a_look_that_is_fresh_for_its_last_command() -> None:
    hand = ScriptedHand({str(n): requeue(n) for n in range(1, 101)}, cost_s=0.028)
    play(hand)
    assert max(hand.ages) <= 1.0
    assert sum(hand.looks) == 100


def test_no_look_is_kept_for_a_group_that_it_was_not_made_for() -> None:
    hand = ScriptedHand({str(n): requeue(n) for n in range(1, 101)}, cost_s=0.001)
    play(hand)
    assert jobs(hand) == list(range(1, 101))
    assert sum(hand.looks) == 100


def test_a_slow_machine_makes_smaller_groups_and_a_quick_one_larger() -> None:
    pace = Pace()
    pace.took(24, 7.0)
    assert pace.together == FEWEST
    pace.took(4, 0.04)
    assert pace.together == MOST
    pace.took(20, 1.0)
    assert pace.together == 14
    pace.took(20, 0.0)
    assert pace.together == MOST


def test_a_round_ends_after_some_seconds_and_says_who_waits() -> None:
    hand = ScriptedHand({str(n): requeue(n) for n in range(1, 501)}, cost_s=0.1)
    play(hand)
    assert hand.now_s < 8
    assert hand.waiting == 500 - len(hand.handled) > 0


def test_a_group_ends_where_each_of_its_commands_takes_a_whole_deadline() -> None:
    hand = ScriptedHand({str(n): requeue(n) for n in range(1, 25)}, cost_s=15.0)
    play(hand)
    assert len(hand.handled) == 1
    assert hand.waiting == 23


def test_whoever_waits_behind_slow_ones_round_after_round_has_his_turn() -> None:
    pace = Pace()
    play(ScriptedHand({str(n): update(n) for n in range(1, 9)}), pace)
    hand = ScriptedHand(
        {str(n): Need(Fact.DETAIL) if n < 9 else requeue(n) for n in range(1, 12)}, cost_s=2.0
    )
    play(hand, pace)
    hand.handled.clear()
    for _ in range(20):
        play(hand, pace)
    assert set(jobs(hand)) == set(range(1, 12))


def test_a_round_in_which_only_looking_takes_all_the_time_does_something_as_well() -> None:
    pace = Pace()
    play(ScriptedHand({str(n): update(n) for n in range(1, 61)}), pace)
    hand = ScriptedHand(
        {str(n): Wait("for its second") if n < 60 else update(n) for n in range(1, 61)}, cost_s=0.1
    )
    play(hand, pace)
    assert jobs(hand)[-1] == 60
    assert hand.waiting == 0


@pytest.mark.parametrize("fetched", [None, Unknown("away", NOW)])
def test_a_scheduler_that_cannot_be_seen_is_asked_nothing_ahead(fetched: Unknown | None) -> None:
    hand = ScriptedHand({str(n): requeue(n) for n in range(1, 5)})
    hand.look_at = lambda job_ids: fetched or Unknown("away", NOW)  # type: ignore[method-assign]
    assert play(hand).asked == []
    assert jobs(hand) == [1, 2, 3, 4]


class Reads:
    """A store that counts how often it is asked."""

    def __init__(self) -> None:
        self.count = 0

    def progress(self, attempt_id: str) -> Any:
        self.count += 1
        return self.count


class HandClock:
    def __init__(self) -> None:
        self.at = NOW

    def now(self) -> datetime:
        return self.at


def test_what_was_read_is_remembered_for_a_second_and_not_beyond_a_write() -> None:
    store, clock, one = Reads(), HandClock(), advice(1).attempt_id
    recall = Recall(store, clock, 1.0)  # type: ignore[arg-type]

    def read() -> Any:
        return recall.progress(one)

    assert [read(), read()] == [1, 1]
    recall.forget(one)
    assert read() == 2
    clock.at += timedelta(seconds=1.5)
    assert read() == 3
    clock.at -= timedelta(seconds=60)
    assert read() == 4


def test_what_is_remembered_of_one_is_not_taken_for_another() -> None:
    recall = Recall(Reads(), HandClock(), 1.0)  # type: ignore[arg-type]
    first, second = advice(1), replace(advice(2))
    assert recall.progress(first.attempt_id) != recall.progress(second.attempt_id)
