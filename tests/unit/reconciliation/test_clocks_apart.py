"""slurmctld's clock and ours are seconds apart: begin times are its, `now` is ours."""

from __future__ import annotations

from dataclasses import replace

import pytest

from middlewatch.model.action import ActionKind, Answered
from middlewatch.model.advice import Disposition
from middlewatch.model.signal import Progress
from middlewatch.reconciliation.plan import hold_stands, next_step
from middlewatch.reconciliation.situation import Act, LogEnd, Report, Situation, Wait
from tests.unit.reconciliation.worlds import (
    KEY,
    accounting,
    at,
    attempt,
    detail,
    record,
    situation,
    successor,
)

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


@pytest.mark.parametrize(("now_s", "stands"), [(115.0, True), (160.0, True), (171.0, False)])
def test_a_begin_time_is_over_when_its_time_has_passed_by_our_clock_too(
    now_s: float, *, stands: bool
) -> None:
    """Our clock is 50 s ahead of slurmctld's: what it shows to be over, is not."""
    sent = replace(REQUEUE, started_at=at(50), ended_at=at(50))
    view = successor(submitted_at=at(0), eligible_at=at(121))
    made = situation(view, actions=(sent,), pending_since=at(51), detail=CARRIES)
    assert hold_stands(made, view, at(now_s)) is stands


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


@pytest.mark.parametrize("by", [-60.0, 60.0])
def test_between_clocks_that_are_apart_only_the_log_tells_a_completion_from_our_kill(
    by: float,
) -> None:
    """Our clock was set, or slurmctld's is: the requeue seems to come before or behind it all."""
    sent = replace(REQUEUE, started_at=at(0.5 + by), ended_at=at(0.6 + by))
    ended = accounting(batch_completed=True, batch_ended_at=at(0))
    values = {
        "actions": (sent,),
        "pending_since": at(5 + by),
        "attempt": attempt(end=None),
        "accounting": ended,
    }
    unread = Progress(KEY.attempt_id())
    step = next_step(situation(successor(), **values, progress=unread), at(12 + by))
    assert not (isinstance(step, Act) and step.action.kind is ActionKind.CANCEL)
    assert not (isinstance(step, Act) and step.action.start_now)
    step = next_step(situation(successor(), **values), at(12 + by))
    assert isinstance(step, Act)
    assert step.action.kind is ActionKind.CANCEL
    killed = situation(successor(), **values, log_end=LogEnd.REQUEUED)
    step = next_step(killed, at(12 + by))
    assert isinstance(step, Act)
    assert step.action.start_now
