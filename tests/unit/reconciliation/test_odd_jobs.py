"""Jobs that look ordinary and are not: whole arrays, several components, two attempts in a second."""

from __future__ import annotations

from datetime import timedelta

import pytest

from middlewatch.model.action import ActionKind
from middlewatch.model.advice import DesiredState, Disposition, Reason
from middlewatch.model.scheduler import JobFlag, JobState, JobView
from middlewatch.reconciliation.plan import next_step
from middlewatch.reconciliation.situation import Act, Fact, Need, Place, Report, Wait, place
from tests.unit.reconciliation.worlds import (
    SUBMITTED,
    T0,
    advice,
    at,
    attempt,
    detail,
    record,
    situation,
    successor,
    target,
)


@pytest.mark.parametrize("desired", list(DesiredState))
def test_a_whole_array_is_never_acted_on(desired: DesiredState) -> None:
    waiting = target(JobState.PENDING, array_pending=True, priority=0, reason="JobHeldUser")
    step = next_step(situation(waiting, advice=advice(desired)), at(10))
    assert isinstance(step, Report)
    assert (step.disposition, step.reason) == (Disposition.ABANDONED, Reason.NOT_PERMITTED)
    assert "array" in step.detail


APART = "component 1 of 2 is CANCELLED while the leader is RUNNING"


def test_a_job_of_several_components_is_requeued_whole() -> None:
    step = next_step(situation(target(heterogeneous=True)), at(10))
    assert isinstance(step, Act)
    assert (step.action.kind, step.action.job_id) == (ActionKind.REQUEUE, "123")
    unread = situation(target(heterogeneous=True), detail=None)
    assert next_step(unread, at(10)) == Need(Fact.DETAIL)


def test_a_job_whose_components_have_ended_apart_is_refused_with_a_reason() -> None:
    over = target(heterogeneous=True, apart=APART)
    step = next_step(situation(over), at(10))
    assert isinstance(step, Report)
    assert step.reason is Reason.NOT_PERMITTED
    assert APART in step.detail


@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.PENDING])
def test_components_that_stand_apart_are_waited_for(state: JobState) -> None:
    view = target(state, heterogeneous=True, apart=APART)
    made = situation(view, advice=advice(may_end_running=True), attempt=attempt(end=None))
    assert isinstance(next_step(made, at(10)), Wait)
    waiting = target(JobState.PENDING, heterogeneous=True, apart=APART)
    made = situation(waiting, advice=advice(DesiredState.CONSTRAINED))
    assert isinstance(next_step(made, at(10)), Wait)
    again = successor(heterogeneous=True, apart=APART)
    made = situation(again, actions=(record(ActionKind.REQUEUE, 0.5),), pending_since=at(1))
    assert isinstance(next_step(made, at(10)), Wait)


@pytest.mark.parametrize(
    ("view", "desired"),
    [
        (target(heterogeneous=True), DesiredState.RESTARTED),
        (target(JobState.PENDING, heterogeneous=True), DesiredState.CONSTRAINED),
    ],
)
def test_components_that_exclude_different_nodes_get_no_common_list(
    view: JobView, desired: DesiredState
) -> None:
    made = situation(view, advice=advice(desired), detail=detail(uneven=True))
    step = next_step(made, at(10))
    assert isinstance(step, Report)
    assert step.reason is Reason.NOT_PERMITTED
    assert "exclude different nodes" in step.detail


def test_a_job_of_several_components_can_be_cancelled_by_its_leader() -> None:
    running = target(JobState.RUNNING, heterogeneous=True)
    step = next_step(situation(running, advice=advice(DesiredState.TERMINATED)), at(10))
    assert isinstance(step, Act)
    assert step.action.kind is ActionKind.CANCEL


@pytest.mark.parametrize("flag", [JobFlag.STOPPED, JobFlag.CONFIGURING, JobFlag.RESIZING])
def test_what_does_not_simply_run_is_not_requeued(flag: JobFlag) -> None:
    view = target(JobState.RUNNING, flags=frozenset({flag}))
    made = situation(view, advice=advice(may_end_running=True), attempt=attempt(end=None))
    assert isinstance(next_step(made, at(10)), Wait)


def test_a_requeue_within_the_second_of_the_submission_is_a_successor_once_the_old_is_gone() -> (
    None
):
    in_one_second = successor(submitted_at=SUBMITTED)
    assert place(advice(), in_one_second) is Place.SUCCESSOR
    dying = successor(submitted_at=SUBMITTED, flags=frozenset({JobFlag.COMPLETING}))
    assert place(advice(), dying) is Place.TURNING
    beyond = successor(submitted_at=SUBMITTED, restarts=2)
    assert place(advice(), beyond) is Place.BEYOND
    assert place(advice(attempt_index=1), target()) is Place.ROLLED_BACK


def test_our_requeue_waits_until_the_successor_gets_a_submit_time_of_its_own() -> None:
    young = target(submitted_at=T0)
    made = situation(young, advice=advice(submitted_at=T0), attempt=attempt(submitted_at=T0))
    early = next_step(made, T0 + timedelta(seconds=0.9))
    assert isinstance(early, Wait)
    later = next_step(made, T0 + timedelta(seconds=2))
    assert isinstance(later, Act)
    assert later.action.kind is ActionKind.REQUEUE


def test_a_successor_that_depends_on_another_job_converges_where_it_waits() -> None:
    waiting = successor(eligible_at=None, reason="Dependency")
    requeue = record(ActionKind.REQUEUE, 0.5)
    update = record(
        ActionKind.UPDATE, 4, exclusions=("gpu-001",), start_now=True, why="let it start"
    )
    made = situation(
        waiting,
        actions=(requeue, update),
        pending_since=at(1),
        detail=detail(excluded_nodes=("gpu-001",)),
    )
    step = next_step(made, at(10))
    assert isinstance(step, Report)
    assert step.disposition is Disposition.CONVERGED
