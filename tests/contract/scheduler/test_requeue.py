"""What a requeue does to a job in each state, and how its successor is let go."""

from __future__ import annotations

import pytest

from middlewatch.model.action import Action, ActionKind, Answered, CommandResult
from middlewatch.model.answer import Known
from middlewatch.model.scheduler import JobFlag, JobState, JobView
from tests.contract.scheduler.worlds import World, seen, until


def act(world: World, kind: ActionKind, job_id: str, **fields: object) -> CommandResult:
    return world.scheduler.perform(Action(kind, job_id, "contract", **fields), 20.0)  # type: ignore[arg-type]


def done(world: World, kind: ActionKind, job_id: str, **fields: object) -> None:
    result = act(world, kind, job_id, **fields)
    assert result.answered is Answered.DONE, result


def running(view: JobView) -> bool:
    return view.state is JobState.RUNNING and not view.completing


def pending(view: JobView) -> bool:
    return view.state is JobState.PENDING and not view.completing


def ended(view: JobView) -> bool:
    return view.ended


def begin_delay(world: World) -> float:
    facts = world.scheduler.facts()
    assert isinstance(facts, Known)
    return facts.value.begin_delay_s


def test_a_requeued_running_job_waits_for_its_begin_time_under_a_new_submit_time(
    world: World,
) -> None:
    job = world.submit("run")
    first = until(world, job, running)
    assert first.restarts == 0
    assert first.node_list
    world.let_pass(1.2)  # Slurm counts submit times in seconds
    done(world, ActionKind.REQUEUE, job)
    second = until(world, job, pending)
    assert second.restarts == 1
    assert second.submitted_at > first.submitted_at
    assert second.eligible_at is not None
    # One second less where the requeue and the end of its processes fall into two seconds.
    window = (second.eligible_at - second.submitted_at).total_seconds()
    assert begin_delay(world) - 1 <= window <= begin_delay(world)
    assert second.priority > 0
    assert until(world, job, lambda view: view.reason == "BeginTime").restarts == 1


def test_the_new_restart_count_stands_beside_the_old_submit_time_while_completing(
    world: World,
) -> None:
    job = world.submit("run")
    first = until(world, job, running)
    world.let_pass(1.5)
    done(world, ActionKind.REQUEUE, job)
    view = seen(world, job)
    assert view is not None
    if view.completing:  # a quick machine may be past it
        assert view.restarts == 1
        assert view.submitted_at == first.submitted_at
    assert until(world, job, pending).submitted_at > first.submitted_at


def test_a_requeued_failed_job_is_pending_at_once_and_still_shows_its_exit_code(
    world: World,
) -> None:
    job = world.submit("fail")
    failed = until(world, job, ended)
    assert (failed.state, failed.exit_code) == (JobState.FAILED, 3)
    done(world, ActionKind.REQUEUE, job)
    view = seen(world, job)
    assert view is not None
    assert pending(view)
    assert view.restarts == 1
    assert view.exit_code == 3


def test_one_update_sets_the_exclusions_and_lets_the_successor_start(world: World) -> None:
    job = world.submit("run")
    first = until(world, job, running)
    bad = world.scheduler.hostnames(first.node_list)[0]
    done(world, ActionKind.REQUEUE, job)
    until(world, job, pending)
    world.let_pass(1.2)
    done(world, ActionKind.UPDATE, job, exclusions=(bad,), start_now=True)
    again = until(world, job, running)
    assert again.restarts == 1
    assert bad not in world.scheduler.hostnames(again.node_list)
    detail = world.scheduler.detail(job)
    assert isinstance(detail, Known)
    assert detail.value.excluded_nodes == (bad,)


def test_an_update_replaces_the_exclusions_and_they_survive_the_next_requeue(world: World) -> None:
    one, two, three = world.nodes[:3]
    job = world.submit("run", excluded=one)
    until(world, job, running)
    done(world, ActionKind.REQUEUE, job)
    until(world, job, pending)
    world.let_pass(1.2)
    done(world, ActionKind.UPDATE, job, exclusions=(two, three), start_now=True)
    until(world, job, running)
    done(world, ActionKind.REQUEUE, job)
    until(world, job, pending)
    detail = world.scheduler.detail(job)
    assert isinstance(detail, Known)
    assert set(detail.value.excluded_nodes) == {two, three}
    done(world, ActionKind.UPDATE, job, exclusions=())
    detail = world.scheduler.detail(job)
    assert isinstance(detail, Known)
    assert detail.value.excluded_nodes == ()


def test_a_requeue_of_a_pending_job_is_refused_and_changes_nothing(world: World) -> None:
    job = world.submit("run", hold=True)
    before = seen(world, job)
    result = act(world, ActionKind.REQUEUE, job)
    assert result.answered is Answered.REFUSED
    assert "pending execution" in result.text
    after = seen(world, job)
    assert before is not None
    assert after is not None
    assert (after.restarts, after.submitted_at) == (before.restarts, before.submitted_at)


def test_a_job_that_asked_not_to_be_requeued_is_not(world: World) -> None:
    job = world.submit("run", requeue=False)
    assert until(world, job, running).requeueable is False
    result = act(world, ActionKind.REQUEUE, job)
    assert result.answered is Answered.REFUSED
    assert running(seen(world, job) or pytest.fail("gone"))


def test_the_fence_refuses_a_late_requeue_and_can_be_lifted_while_the_job_runs(
    world: World,
) -> None:
    job = world.submit("run")
    until(world, job, running)
    done(world, ActionKind.REQUEUE, job)
    until(world, job, pending)
    world.let_pass(1.2)
    done(world, ActionKind.UPDATE, job, exclusions=(), start_now=True, requeueable=False)
    assert until(world, job, running).requeueable is False
    assert act(world, ActionKind.REQUEUE, job).answered is Answered.REFUSED
    done(world, ActionKind.UPDATE, job, requeueable=True)
    view = seen(world, job)
    assert view is not None
    assert running(view)
    assert (view.requeueable, view.restarts) == (True, 1)


def test_a_requeue_hold_is_marked_stays_and_is_released(world: World) -> None:
    job = world.submit("run")
    until(world, job, running)
    done(world, ActionKind.REQUEUE_HOLD, job)
    held = until(world, job, pending)
    assert JobFlag.SPECIAL_EXIT in held.flags
    assert held.held
    assert held.restarts == 1
    detail = world.scheduler.detail(job)
    assert isinstance(detail, Known)
    assert detail.value.held_by_operator is False
    world.let_pass(2.0)
    still = seen(world, job)
    assert still is not None
    assert still.held
    done(world, ActionKind.RELEASE, job)
    done(world, ActionKind.UPDATE, job, start_now=True)
    assert until(world, job, running).restarts == 1


def test_a_requeue_hold_outlives_a_cancel_without_its_mark_and_cannot_be_released_meanwhile(
    world: World,
) -> None:
    job = world.submit("run")
    until(world, job, running)
    done(world, ActionKind.REQUEUE_HOLD, job)
    until(world, job, lambda view: pending(view) and view.held)
    world.cancel_by_owner(job)
    view = until(world, job, ended)
    assert view.held
    assert JobFlag.SPECIAL_EXIT not in view.flags
    assert act(world, ActionKind.RELEASE, job).answered is not Answered.DONE
    done(world, ActionKind.REQUEUE, job)
    view = until(world, job, pending)
    assert (view.held, view.restarts) == (True, 2)
    assert JobFlag.SPECIAL_EXIT not in view.flags


def test_a_release_of_a_job_that_is_not_held_changes_nothing(world: World) -> None:
    job = world.submit("run")
    until(world, job, running)
    done(world, ActionKind.RELEASE, job)
    view = seen(world, job)
    assert view is not None
    assert running(view)
    assert view.restarts == 0


def test_a_running_job_takes_no_constraints(world: World) -> None:
    job = world.submit("run")
    until(world, job, running)
    result = act(world, ActionKind.UPDATE, job, exclusions=(world.nodes[0],), start_now=True)
    assert result.answered is Answered.REFUSED
    assert "no longer pending" in result.text


def test_an_unknown_node_refuses_the_whole_update(world: World) -> None:
    job = world.submit("run", hold=True)
    result = act(world, ActionKind.UPDATE, job, exclusions=("nosuch-1",), requeueable=False)
    assert result.answered is Answered.REFUSED
    view = seen(world, job)
    assert view is not None
    assert view.requeueable is True


def test_a_completed_job_is_revived_by_a_requeue_and_its_batch_record_still_says_so(
    world: World,
) -> None:
    job = world.submit("complete")
    first = until(world, job, ended)
    assert first.state is JobState.COMPLETED
    world.let_pass(2.0)
    done(world, ActionKind.REQUEUE, job)
    view = until(world, job, pending)
    assert view.restarts == 1
    world.let_pass(3.0)
    answer = world.scheduler.accounting(job)
    assert isinstance(answer, Known)
    record = next(r for r in answer.value if r.submitted_at == first.submitted_at)
    assert record.batch_completed is True
    assert record.batch_ended_at is not None
    assert record.batch_ended_at <= view.submitted_at
    done(world, ActionKind.CANCEL, job)
    assert until(world, job, ended).state is JobState.CANCELLED


def test_a_requeue_of_an_unknown_job_is_refused(world: World) -> None:
    result = act(world, ActionKind.REQUEUE, "999999")
    assert result.answered is Answered.REFUSED
    assert "Invalid job id" in result.text


def test_a_job_cancelled_while_it_waited_is_revived_and_accounting_shows_that_it_never_began(
    world: World,
) -> None:
    job = world.submit("run", hold=True)
    first = until(world, job, pending)
    world.let_pass(1.2)
    world.cancel_by_owner(job)
    assert until(world, job, ended).state is JobState.CANCELLED
    done(world, ActionKind.REQUEUE, job)
    assert until(world, job, pending).restarts == 1
    world.let_pass(3.0)
    answer = world.scheduler.accounting(job)
    assert isinstance(answer, Known)
    record = next(r for r in answer.value if r.submitted_at == first.submitted_at)
    # Its start may be there, and is the moment of its end: that it had no node tells.
    assert record.ended_at is not None
    assert record.node_list == ""
    assert record.batch_completed is None
    done(world, ActionKind.CANCEL, job)


def test_a_requeue_hold_that_is_cancelled_while_the_old_processes_end_loses_its_mark(
    world: World,
) -> None:
    job = world.submit("stubborn")
    until(world, job, running)
    done(world, ActionKind.REQUEUE_HOLD, job)
    until(world, job, lambda view: view.completing)
    world.cancel_by_owner(job)
    view = until(world, job, ended)
    assert view.state is JobState.CANCELLED
    assert JobFlag.SPECIAL_EXIT not in view.flags
    done(world, ActionKind.REQUEUE, job)
    view = until(world, job, pending)
    assert JobFlag.SPECIAL_EXIT not in view.flags


def test_the_fence_also_refuses_the_requeue_of_what_has_ended(world: World) -> None:
    job = world.submit("run")
    until(world, job, running)
    done(world, ActionKind.UPDATE, job, requeueable=False)
    world.cancel_by_owner(job)
    until(world, job, ended)
    assert act(world, ActionKind.REQUEUE, job).answered is Answered.REFUSED
    view = seen(world, job)
    assert view is not None
    assert (view.state, view.restarts) == (JobState.CANCELLED, 0)


def test_an_operators_requeue_hold_lacks_the_mark_of_ours(world: World) -> None:
    job = world.submit("run")
    until(world, job, running)
    world.requeue_and_hold_by_operator(job)
    held = until(world, job, pending)
    assert held.held
    assert held.reason.replace(" ", "_") == "job_requeued_in_held_state"
    assert JobFlag.SPECIAL_EXIT not in held.flags


def test_a_requeue_of_what_is_being_requeued_is_refused(world: World) -> None:
    job = world.submit("run")
    until(world, job, running)
    done(world, ActionKind.REQUEUE, job)
    assert act(world, ActionKind.REQUEUE_HOLD, job).answered is Answered.REFUSED
    view = until(world, job, pending)
    assert view.restarts == 1
    assert not view.held
