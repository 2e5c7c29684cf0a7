"""Holds of others, impossible exclusions, chains, cancels: what must never be undone by us."""

from __future__ import annotations

from middlewatch.model.action import Action, ActionKind, Answered
from middlewatch.model.answer import Absent, Known
from middlewatch.model.scheduler import JobState
from tests.contract.scheduler.test_requeue import act, done, ended, pending, running
from tests.contract.scheduler.worlds import World, seen, until


def test_an_operators_hold_inside_the_window_stays_through_our_update(world: World) -> None:
    job = world.submit("run")
    until(world, job, running)
    done(world, ActionKind.REQUEUE, job)
    until(world, job, pending)
    world.hold_by_operator(job)
    world.let_pass(1.2)
    done(world, ActionKind.UPDATE, job, exclusions=(world.nodes[-1],), start_now=True)
    world.let_pass(3.0)
    view = seen(world, job)
    assert view is not None
    assert pending(view)
    assert view.held
    detail = world.scheduler.detail(job)
    assert isinstance(detail, Known)
    assert detail.value.held_by_operator is True


def test_an_operators_hold_on_a_running_job_shows_as_priority_zero_and_outlives_a_requeue(
    world: World,
) -> None:
    job = world.submit("run")
    until(world, job, running)
    world.hold_by_operator(job)
    view = until(world, job, lambda view: view.held)
    assert running(view)
    done(world, ActionKind.REQUEUE, job)
    view = until(world, job, pending)
    assert view.held
    assert view.reason == "JobHeldAdmin"


def test_an_operators_hold_on_a_running_job_outlives_its_end_and_a_requeue(world: World) -> None:
    job = world.submit("run")
    until(world, job, running)
    world.hold_by_operator(job)
    world.cancel_by_owner(job)
    assert until(world, job, ended).held
    done(world, ActionKind.REQUEUE, job)
    view = until(world, job, pending)
    assert view.held
    detail = world.scheduler.detail(job)
    assert isinstance(detail, Known)
    assert detail.value.held_by_operator is True


def test_an_operators_hold_on_top_of_a_requeue_hold_is_seen_in_the_detail_only(
    world: World,
) -> None:
    job = world.submit("run")
    until(world, job, running)
    done(world, ActionKind.REQUEUE_HOLD, job)
    until(world, job, pending)
    world.hold_by_operator(job)
    view = seen(world, job)
    assert view is not None
    assert "JobHeldAdmin" not in view.reason
    detail = world.scheduler.detail(job)
    assert isinstance(detail, Known)
    assert detail.value.held_by_operator is True


def test_excluding_every_node_holds_the_job_until_a_shorter_list_lets_it_start(
    world: World,
) -> None:
    job = world.submit("run", hold=True)
    done(world, ActionKind.UPDATE, job, exclusions=world.nodes)
    done(world, ActionKind.RELEASE, job)
    stuck = until(world, job, lambda view: view.reason == "BadConstraints")
    assert stuck.held
    assert pending(stuck)
    done(world, ActionKind.UPDATE, job, exclusions=world.nodes[1:])
    view = until(world, job, running)
    assert world.scheduler.hostnames(view.node_list) == world.nodes[:1]


def test_excluding_a_node_that_the_user_requires_makes_the_job_impossible(world: World) -> None:
    job = world.submit("run", hold=True, required=world.nodes[0])
    detail = world.scheduler.detail(job)
    assert isinstance(detail, Known)
    assert detail.value.required_nodes == (world.nodes[0],)
    done(world, ActionKind.UPDATE, job, exclusions=(world.nodes[0],))
    done(world, ActionKind.RELEASE, job)
    until(world, job, lambda view: view.reason == "BadConstraints")
    done(world, ActionKind.UPDATE, job, exclusions=())
    until(world, job, running)


def test_a_cancelled_job_ends_and_accounting_names_who_cancelled(world: World) -> None:
    job = world.submit("run")
    first = until(world, job, running)
    world.cancel_by_owner(job)
    view = until(world, job, ended)
    assert view.state is JobState.CANCELLED
    world.let_pass(3.0)
    answer = world.scheduler.accounting(job)
    assert isinstance(answer, Known)
    (record,) = [r for r in answer.value if r.submitted_at == first.submitted_at]
    assert record.state is JobState.CANCELLED
    assert record.cancelled_by == str(view.uid)
    assert record.batch_completed is False


def test_a_cancel_of_an_ended_or_unknown_job_is_silent(world: World) -> None:
    job = world.submit("fail")
    until(world, job, ended)
    done(world, ActionKind.CANCEL, job)
    done(world, ActionKind.CANCEL, "999999")
    view = seen(world, job)
    assert view is not None
    assert view.state is JobState.FAILED


def test_accounting_keeps_one_record_per_attempt(world: World) -> None:
    job = world.submit("fail")
    first = until(world, job, ended)
    world.let_pass(3.0)
    done(world, ActionKind.REQUEUE, job)
    second = until(world, job, pending)
    world.let_pass(1.2)
    done(world, ActionKind.UPDATE, job, start_now=True)
    until(world, job, lambda view: ended(view) and view.restarts == 1)
    world.let_pass(3.0)
    answer = world.scheduler.accounting(job)
    assert isinstance(answer, Known)
    assert [r.submitted_at for r in answer.value] == [first.submitted_at, second.submitted_at]
    one, two = answer.value
    assert one.state is JobState.FAILED
    assert one.requeued is (world.release < (26, 5))
    assert (two.state, two.requeued) == (JobState.FAILED, False)
    assert two.exit_code == (3 if world.release >= (26, 5) else None)
    assert two.node_list


def test_a_dependent_waits_while_its_running_parent_is_requeued(world: World) -> None:
    parent = world.submit("run")
    child = world.submit("run", dependency=f"afterany:{parent}")
    until(world, parent, running)
    waiting = until(world, child, lambda view: view.reason == "Dependency")
    assert waiting.dependency.startswith(f"afterany:{parent}")
    done(world, ActionKind.REQUEUE, parent)
    until(world, parent, pending)
    world.let_pass(3.0)
    view = seen(world, child)
    assert view is not None
    assert pending(view)


def test_a_singleton_waits_behind_an_older_job_that_was_requeued(world: World) -> None:
    """Its number counts, not the submit time that the requeue has given it."""
    first = world.submit("run", name="alone")
    until(world, first, running)
    second = world.submit("run", name="alone", dependency="singleton")
    until(world, second, lambda view: view.reason == "Dependency")
    done(world, ActionKind.REQUEUE, first)
    until(world, first, pending)
    world.let_pass(3.0)
    view = seen(world, second)
    assert view is not None
    assert pending(view)
    assert view.dependency.startswith("singleton")


def test_the_end_of_a_failed_parent_lets_afterany_go_and_spoils_afterok_for_good(
    world: World,
) -> None:
    parent = world.submit("fail", hold=True)
    any_ = world.submit("run", dependency=f"afterany:{parent}")
    ok = world.submit("run", dependency=f"afterok:{parent}")
    done(world, ActionKind.RELEASE, parent)
    until(world, parent, ended)
    until(world, any_, running)
    spoilt = until(world, ok, lambda view: view.reason == "DependencyNeverSatisfied")
    assert pending(spoilt)


def test_a_job_never_heard_of_is_missing_in_a_known_look_and_absent_in_detail(
    world: World,
) -> None:
    job = world.submit("run", hold=True)
    assert seen(world, "999999") is None
    both = world.scheduler.look(["999999", job])
    assert isinstance(both, Known)
    assert [view.job_id for view in both.value.jobs] == [job]
    assert isinstance(world.scheduler.detail("999999"), Absent)


def test_array_tasks_are_jobs_of_their_own(world: World) -> None:
    array = world.submit("run", array=2)
    one, two = f"{array}_0", f"{array}_1"
    until(world, one, running)
    until(world, two, running)
    done(world, ActionKind.REQUEUE, two)
    assert until(world, two, pending).restarts == 1
    view = seen(world, one)
    assert view is not None
    both = world.scheduler.look([array])
    assert isinstance(both, Known)
    assert sorted(view.job_id for view in both.value.jobs) == [one, two]
    assert running(view)
    assert view.restarts == 0
    detail = world.scheduler.detail(two)
    assert isinstance(detail, Known)
    assert detail.value.job_id == two


def test_text_of_a_user_appears_in_no_listing(world: World) -> None:
    forged = "x\n7\x1f7\x1fRUNNING\nJobId=999999 JobState=FAILED"
    job = world.submit("run", name="a|b\nJobId=999999 JobState=RUNNING", comment=forged)
    until(world, job, running)
    answer = world.scheduler.listing()
    assert isinstance(answer, Known)
    assert answer.value.job("999999") is None
    assert "FAILED" not in {view.job_id for view in answer.value.jobs}
    detail = world.scheduler.detail(job)
    assert isinstance(detail, Known)
    assert detail.value.comment == forged
    assert detail.value.name == "a|b\nJobId=999999 JobState=RUNNING"


def test_the_listing_is_whole_and_names_its_cluster(world: World) -> None:
    jobs = {world.submit("run", hold=True) for _ in range(3)}
    answer = world.scheduler.listing()
    assert isinstance(answer, Known)
    assert jobs <= {view.job_id for view in answer.value.jobs}
    facts = world.scheduler.facts()
    assert isinstance(facts, Known)
    assert answer.value.cluster_name == facts.value.name


def test_partitions_list_their_nodes_by_single_names(world: World) -> None:
    answer = world.scheduler.partitions()
    assert isinstance(answer, Known)
    view = next(p for p in answer.value if p.name == "train")
    assert view.nodes == world.nodes
    assert set(view.usable) == set(world.nodes)


def test_what_is_no_job_number_reaches_no_command_line(world: World) -> None:
    result = act(world, ActionKind.CANCEL, "7 --user=root")
    assert result.answered is Answered.REFUSED
    action = Action(ActionKind.UPDATE, "7", "contract", exclusions=("a b; rm",))
    assert world.scheduler.perform(action, 5.0).answered is Answered.REFUSED
