"""Two of one chain must never train: who waited for the target's end may have been let go by it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from middlewatch.model.action import ActionKind, Answered
from middlewatch.model.advice import Reason
from middlewatch.model.answer import Known, Unknown
from middlewatch.model.attempt import Dependent
from middlewatch.model.scheduler import JobState, JobView, Snapshot
from middlewatch.reconciliation.plan import next_step
from middlewatch.reconciliation.situation import Act, Fact, Need, Report, Situation, Wait
from tests.unit.reconciliation.worlds import (
    accounting,
    at,
    attempt,
    detail,
    record,
    situation,
    successor,
    target,
)

BEHIND = attempt(
    end=None, uid=1000, dependents=(Dependent("200", "afterany"), Dependent("201", "afterok"))
)


def waiting(job_id: str = "200", **changes: object) -> JobView:
    values: dict[str, object] = {
        "job_id": job_id,
        "reason": "Dependency",
        "eligible_at": None,
        "started_at": None,
        "ended_at": None,
        "dependency": "afterany:123(unfulfilled)",
        "uid": 1000,
        **changes,
    }
    return replace(target(JobState.PENDING), **values)


def shows(*views: JobView) -> Known[Snapshot]:
    return Known(Snapshot("lab", at(9), views), at(9))


def requeued(**changes: object) -> Situation:
    """Our requeue is done, its successor pending; someone waited for the target's end."""
    values: dict[str, object] = {
        "actions": (record(ActionKind.REQUEUE, 0.5),),
        "pending_since": at(2),
        "attempt": BEHIND,
        "accounting": accounting(),
        **changes,
    }
    return situation(successor(), **values)


def test_who_waited_for_the_end_is_looked_at_before_the_successor_is_let_go() -> None:
    assert next_step(requeued(), at(10)) == Need(Fact.CHAIN, ("200",))
    nobody = replace(requeued(), attempt=attempt(end=None))
    step = next_step(nobody, at(10))
    assert isinstance(step, Act)
    assert step.action.start_now, "where nobody waited there is nobody to look at"


def test_one_that_waits_still_was_not_let_go() -> None:
    step = next_step(requeued(chain=shows(waiting())), at(10))
    assert isinstance(step, Act)
    assert step.action.start_now


@pytest.mark.parametrize(
    "other",
    [
        waiting(state=JobState.RUNNING, started_at=at(1), dependency="", node_list="gpu-003"),
        waiting(
            state=JobState.COMPLETED,
            started_at=at(1),
            ended_at=at(3),
            dependency="",
            node_list="gpu-003",
        ),
        waiting(reason="Priority", eligible_at=at(1), dependency=""),
        waiting("200_3", state=JobState.RUNNING, started_at=at(1), node_list="gpu-003"),
        waiting(dependency="afterany:99(unfulfilled)"),
    ],
    ids=["runs", "ran", "may run", "a task runs", "waits for the others of its parents alone"],
)
def test_the_successor_of_one_that_was_followed_is_taken_back(other: JobView) -> None:
    step = next_step(requeued(chain=shows(other)), at(10))
    assert isinstance(step, Act)
    assert step.action.kind is ActionKind.CANCEL
    assert "200 (afterany)" in step.action.why
    gone = successor(JobState.CANCELLED, started_at=None, ended_at=at(11))
    cancelled = record(ActionKind.CANCEL, 10, why=step.action.why)
    told = situation(gone, actions=(record(ActionKind.REQUEUE, 0.5), cancelled), attempt=BEHIND)
    report = next_step(told, at(12))
    assert isinstance(report, Report)
    assert report.reason is Reason.REVIVED_IN_ERROR


@pytest.mark.parametrize(
    "others",
    [
        (),
        (
            # As Slurm shows it: with a start, and without nodes.
            waiting(state=JobState.CANCELLED, started_at=at(2), ended_at=at(2), eligible_at=None),
        ),
        (waiting("201", state=JobState.RUNNING, started_at=at(1), node_list="gpu-003"),),
        (waiting("2001", state=JobState.RUNNING, started_at=at(1), node_list="gpu-003"),),
        (waiting(state=JobState.RUNNING, started_at=at(-60), node_list="gpu-003", dependency=""),),
        (
            waiting(
                state=JobState.RUNNING, started_at=at(1), node_list="gpu-003", dependency="", uid=7
            ),
        ),
        (waiting(dependency="afterany:99,afterany:123(unfulfilled)"),),
    ],
    ids=[
        "forgotten",
        "cancelled",
        "let go by success alone",
        "another number",
        "let go before, by its owner",
        "somebody else's",
        "waits for several",
    ],
)
def test_one_that_trains_no_part_of_it_takes_nothing_back(others: tuple[JobView, ...]) -> None:
    step = next_step(requeued(chain=shows(*others)), at(10))
    assert isinstance(step, Act)
    assert step.action.start_now


def test_a_chain_that_cannot_be_seen_delays() -> None:
    unseen = requeued(chain=Unknown("hung", at(9)), detail=detail(excluded_nodes=("gpu-001",)))
    step = next_step(unseen, at(10))
    assert isinstance(step, Wait)
    assert step.reason is Reason.UNKNOWN_STATE


def test_a_successor_that_slurm_started_beside_it_is_told_of_and_left_alone() -> None:
    runs = shows(
        waiting(state=JobState.RUNNING, started_at=at(1), dependency="", node_list="gpu-003")
    )
    made = requeued(chain=runs)
    step = next_step(replace(made, look=situation(successor(JobState.RUNNING)).look), at(130))
    assert isinstance(step, Report)
    assert step.reason is Reason.REVIVED_IN_ERROR
    assert "200 (afterany)" in step.detail


def test_whom_the_successors_own_end_let_go_proves_nothing() -> None:
    over = successor(JobState.COMPLETED, started_at=at(4), ended_at=at(60))
    made = requeued(detail=detail(excluded_nodes=("gpu-001",)))
    step = next_step(replace(made, look=situation(over).look), at(61))
    assert isinstance(step, Report)
    assert step.reason is Reason.DESIRED_STATE_OBSERVED


def test_before_a_restart_counts_as_done_accounting_is_asked_for_another_job() -> None:
    """A number given again between a look and the requeue that came of it."""
    runs = successor(JobState.RUNNING, submitted_at=at(3))
    placed = detail(excluded_nodes=("gpu-001",))
    sent = (record(ActionKind.REQUEUE, 0.5),)
    made = situation(runs, actions=sent, detail=placed, accounting=None)
    assert next_step(made, at(10)) == Need(Fact.ACCOUNTING)
    first = accounting()
    assert isinstance(first, Known)
    between = replace(first.value[0], submitted_at=at(-1))
    step = next_step(replace(made, accounting=Known((*first.value, between), at(9))), at(10))
    assert isinstance(step, Report)
    assert step.reason is Reason.TARGET_REPLACED
    # What an older state of slurmctld has forgotten came before that look, or of the requeue itself.
    for submitted in (-60, 1):
        forgotten = replace(first.value[0], submitted_at=at(submitted))
        again = replace(made, accounting=Known((*first.value, forgotten), at(9)))
        step = next_step(again, at(10))
        assert isinstance(step, Report)
        assert step.reason is Reason.DESIRED_STATE_OBSERVED
    step = next_step(replace(made, accounting=Unknown("slurmdbd is away", at(9))), at(10))
    assert isinstance(step, Report)
    assert step.reason is Reason.DESIRED_STATE_OBSERVED


def test_what_a_sender_hit_that_had_stood_still_may_be_another_jobs() -> None:
    """A leader that froze before its command sent it when another job had the number."""
    late = replace(record(ActionKind.REQUEUE, 0.5), ended_at=at(70))
    view = successor(submitted_at=at(70), eligible_at=at(191))
    made = situation(view, actions=(late,), pending_since=at(71), accounting=None)
    assert next_step(made, at(80)) == Need(Fact.ACCOUNTING)
    first = accounting()
    assert isinstance(first, Known)
    between = replace(first.value[0], submitted_at=at(30))
    step = next_step(replace(made, accounting=Known((*first.value, between), at(79))), at(80))
    assert isinstance(step, Report)
    assert step.reason is Reason.TARGET_REPLACED


def test_a_job_that_is_gone_is_no_outcome_while_a_requeue_may_still_come() -> None:
    """It would hit whatever has the number by then, and what it held there would be nobody's."""
    lost = record(ActionKind.REQUEUE_HOLD, 0.5, Answered.NO_ANSWER)
    gone = situation(None, actions=(lost,))
    assert isinstance(next_step(gone, at(10)), Wait)
    step = next_step(gone, at(40))
    assert isinstance(step, Report)
    assert step.reason is Reason.STALE_ATTEMPT


@pytest.mark.parametrize(
    "view", [successor(state=JobState.PENDING, restarts=0, submitted_at=at(20)), target()]
)
def test_nor_is_another_jobs_number_or_an_older_state(view: JobView) -> None:
    lost = record(ActionKind.REQUEUE_HOLD, 0.5, Answered.NO_ANSWER)
    made = situation(view, actions=(lost,))
    if view.submitted_at == target().submitted_at:
        made = replace(made, advice=replace(made.advice, submitted_at=at(5), attempt_index=0))
    assert isinstance(next_step(made, at(12)), Wait)
    assert isinstance(next_step(made, at(60)), Report)


def test_a_requeue_that_would_let_an_older_singleton_start_is_not_sent() -> None:
    """Of what is pending a singleton waits only for older numbers, so our requeue would let it go."""
    hung = target(JobState.RUNNING, ended_at=None, reason="None")
    advised = replace(situation(hung).advice, may_end_running=True)
    for number, reason in (("99", Reason.NOT_PERMITTED), ("200", None)):
        behind = attempt(end=None, dependents=(Dependent(number, "singleton"),))
        step = next_step(situation(hung, advice=advised, attempt=behind), at(10))
        if reason is None:
            assert isinstance(step, Act)
            assert step.action.kind is ActionKind.REQUEUE
        else:
            assert isinstance(step, Report)
            assert step.reason is reason
            assert "99 (singleton)" in step.detail
