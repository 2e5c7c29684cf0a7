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
    REQUEUED,
    accounting,
    at,
    attempt,
    detail,
    record,
    situation,
    successor,
    target,
)

BEHIND = attempt(end=None, dependents=(Dependent("200", "afterany"), Dependent("201", "afterok")))


def waiting(job_id: str = "200", **changes: object) -> JobView:
    values: dict[str, object] = {
        "job_id": job_id,
        "reason": "Dependency",
        "eligible_at": None,
        "started_at": None,
        "ended_at": None,
        "dependency": "afterany:123(unfulfilled)",
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
    assert next_step(requeued(), at(10)) == Need(Fact.CHAIN)
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
        waiting(state=JobState.RUNNING, started_at=at(1), dependency=""),
        waiting(state=JobState.COMPLETED, started_at=at(1), ended_at=at(3), dependency=""),
        waiting(reason="Priority", eligible_at=at(1), dependency=""),
        waiting("200_3", state=JobState.RUNNING, started_at=at(1), dependency=""),
    ],
    ids=["runs", "ran", "may run", "a task runs"],
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
        (waiting(state=JobState.CANCELLED, started_at=None, ended_at=at(1)),),
        (waiting("201", state=JobState.RUNNING, started_at=at(1), dependency=""),),
        (waiting("2001", state=JobState.RUNNING, started_at=at(1), dependency=""),),
    ],
    ids=["forgotten", "cancelled", "let go by success alone", "another number"],
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
    runs = shows(waiting(state=JobState.RUNNING, started_at=at(1), dependency=""))
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
    between = replace(first.value[0], submitted_at=REQUEUED)
    step = next_step(replace(made, accounting=Known((*first.value, between), at(9))), at(10))
    assert isinstance(step, Report)
    assert step.reason is Reason.TARGET_REPLACED
    # One that an older state of slurmctld has forgotten is restarted by us once more.
    twice = (*sent, record(ActionKind.REQUEUE, 2.5))
    again = replace(made, actions=twice, accounting=Known((*first.value, between), at(9)))
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
