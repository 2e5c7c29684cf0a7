"""slurmctld's clock and ours are seconds apart: begin times are its, `now` is ours."""

from __future__ import annotations

import pytest

from middlewatch.model.action import ActionKind, Answered
from middlewatch.model.advice import Disposition
from middlewatch.reconciliation.plan import hold_stands, next_step
from middlewatch.reconciliation.situation import Act, Report, Situation, Wait
from tests.unit.reconciliation.worlds import at, detail, record, situation, successor

REQUEUE = record(ActionKind.REQUEUE, 0.5)
LET_GO = record(ActionKind.UPDATE, 4, exclusions=("gpu-001",), start_now=True)
CARRIES = detail(excluded_nodes=("gpu-001",))


def let_go(eligible_s: float, reason: str = "None", **changes: object) -> Situation:
    values = {"actions": (REQUEUE, LET_GO), "pending_since": at(1), "detail": CARRIES, **changes}
    return situation(successor(eligible_at=at(eligible_s), reason=reason), **values)


def test_a_slurmctld_whose_clock_is_ahead_is_not_told_to_start_the_job_again_and_again() -> None:
    made = let_go(7)
    step = next_step(made, at(5))
    assert isinstance(step, Wait), step
    view = successor(eligible_at=at(7))
    assert not hold_stands(made, view, at(5))


def test_a_waiting_successor_converges_though_slurmctlds_clock_is_ahead() -> None:
    step = next_step(let_go(7, "Resources"), at(5))
    assert isinstance(step, Report)
    assert step.disposition is Disposition.CONVERGED


def test_an_update_that_a_restarted_slurmctld_has_forgotten_is_sent_again() -> None:
    made = let_go(122, "BeginTime")
    assert hold_stands(made, successor(), at(20))
    step = next_step(made, at(20))
    assert isinstance(step, Act)
    assert step.action.start_now


@pytest.mark.parametrize("answered", [Answered.REFUSED, Answered.NO_ANSWER])
def test_a_begin_time_is_not_taken_for_ended_by_an_update_that_was_not_done(
    answered: Answered,
) -> None:
    update = record(ActionKind.UPDATE, 4, answered, exclusions=("gpu-001",), start_now=True)
    made = let_go(60, actions=(REQUEUE, update))
    assert hold_stands(made, successor(eligible_at=at(60)), at(30))


def test_a_begin_time_that_the_owner_chose_after_we_let_go_is_left() -> None:
    step = next_step(let_go(3600, "BeginTime"), at(20))
    assert isinstance(step, Wait)
