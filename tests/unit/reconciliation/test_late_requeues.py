"""Our requeue had no answer, and somebody else's came first. Found by playing it in virtual time."""

from __future__ import annotations

from dataclasses import replace

from middlewatch.model.action import ActionKind, Answered
from middlewatch.model.advice import Reason
from middlewatch.model.answer import Known
from middlewatch.model.attempt import AttemptEnd, EndedBy
from middlewatch.model.scheduler import AccountingRecord, JobFlag, JobState, JobView
from middlewatch.model.signal import Progress
from middlewatch.reconciliation.plan import next_step
from middlewatch.reconciliation.revival import LOG_PATIENCE_S
from middlewatch.reconciliation.situation import Act, Fact, Need, Report, Situation, Wait
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

LOST = record(ActionKind.REQUEUE, 0.5, Answered.NO_ANSWER)
"""No longer on its way 15.6 seconds after T0."""
LOST_HOLD = record(ActionKind.REQUEUE_HOLD, 0.5, Answered.NO_ANSWER)
CANCELLED = AttemptEnd(JobState.CANCELLED, EndedBy.OWNER, 0, 15, at(0), at(1))
NODE_FAILED = accounting(state=JobState.NODE_FAIL, requeued=False, batch_completed=None)


def records(*made: AccountingRecord) -> Known[tuple[AccountingRecord, ...]]:
    first = accounting()
    assert isinstance(first, Known)
    return Known((*first.value, *made), at(9))


def of_attempt(submitted: float, **changes: object) -> AccountingRecord:
    first = accounting()
    assert isinstance(first, Known)
    return replace(first.value[0], submitted_at=at(submitted), **changes)


def pending(**changes: object) -> Situation:
    values: dict[str, object] = {"actions": (LOST,), "pending_since": at(2), **changes}
    return situation(successor(), **values)


def second(**changes: object) -> JobView:
    """The attempt behind the successor, made 12 seconds after T0."""
    return successor(restarts=2, submitted_at=at(12), eligible_at=at(133), **changes)


def held_second() -> JobView:
    return second(
        flags=frozenset({JobFlag.SPECIAL_EXIT}), priority=0, reason="job_requeued_in_held_state"
    )


def test_accounting_is_asked_who_made_a_successor_before_anything_is_done_to_it() -> None:
    assert next_step(pending(accounting=None), at(40)) == Need(Fact.ACCOUNTING)


def test_what_slurm_requeued_after_a_node_failure_keeps_its_begin_time() -> None:
    made = pending(accounting=NODE_FAILED)
    step = next_step(made, at(40))
    assert isinstance(step, Act)
    assert step.action.exclusions == ("gpu-001",)
    assert not step.action.start_now
    carried = replace(made, detail=detail(excluded_nodes=("gpu-001",)))
    assert isinstance(next_step(carried, at(40)), Wait)


def test_a_short_begin_time_of_slurms_own_is_fenced_against_our_late_requeue() -> None:
    made = pending(accounting=NODE_FAILED, attempt=attempt(end=None))
    soon = successor(eligible_at=at(12))
    look = situation(soon).look
    step = next_step(replace(made, look=look), at(5))
    assert isinstance(step, Act)
    assert step.action.requeueable is False
    assert not step.action.start_now


def test_a_job_that_got_the_number_and_was_restarted_is_another_job() -> None:
    step = next_step(pending(accounting=records(of_attempt(-7200))), at(40))
    assert not isinstance(step, Report)
    between = records(of_attempt(0.5))
    made = situation(
        successor(submitted_at=at(1)), actions=(LOST,), pending_since=at(2), accounting=between
    )
    step = next_step(made, at(40))
    assert isinstance(step, Report)
    assert step.reason is Reason.TARGET_REPLACED


def test_another_users_job_under_the_number_is_another_job() -> None:
    made = pending(attempt=attempt(uid=1000), actions=(record(ActionKind.REQUEUE, 0.5),))
    view = successor(uid=1001)
    step = next_step(replace(made, look=situation(view).look), at(40))
    assert isinstance(step, Report)
    assert step.reason is Reason.TARGET_REPLACED


def test_no_outcome_is_given_while_our_requeue_may_still_come() -> None:
    cancelled = successor(JobState.CANCELLED, started_at=None, ended_at=at(3))
    made = situation(cancelled, actions=(LOST,), accounting=records())
    assert isinstance(next_step(made, at(10)), Wait)
    step = next_step(made, at(40))
    assert isinstance(step, Report)
    assert step.reason is Reason.TARGET_ENDED


def test_a_late_hold_on_the_attempt_behind_the_successor_is_let_go_before_the_outcome() -> None:
    ran = records(of_attempt(1, started_at=at(4), ended_at=at(12)))
    made = situation(held_second(), actions=(LOST_HOLD,), accounting=ran)
    step = next_step(made, at(40))
    assert isinstance(step, Act)
    assert step.action.start_now
    started = record(ActionKind.UPDATE, 41, start_now=True)
    freed = held_second()
    freed = replace(freed, eligible_at=at(41))
    made = situation(freed, actions=(LOST_HOLD, started), accounting=ran)
    step = next_step(made, at(45))
    assert isinstance(step, Act)
    assert step.action.kind is ActionKind.RELEASE


def test_a_hold_on_a_later_attempt_that_cannot_be_ours_is_left_alone() -> None:
    for answered in (Answered.DONE, Answered.REFUSED):
        sent = record(ActionKind.REQUEUE_HOLD, 0.5, answered)
        made = situation(held_second(), actions=(sent,), accounting=records(of_attempt(1)))
        assert isinstance(next_step(made, at(40)), Report)


def test_what_our_late_requeue_revived_is_cancelled() -> None:
    cancelled_while_pending = records(of_attempt(1, node_list="", batch_completed=None))
    made = situation(second(), actions=(LOST,), accounting=cancelled_while_pending)
    step = next_step(made, at(13))
    assert isinstance(step, Act)
    assert step.action.kind is ActionKind.CANCEL
    over = second(state=JobState.CANCELLED, ended_at=at(14))
    cancel = record(ActionKind.CANCEL, 13, why=step.action.why)
    made = situation(over, actions=(LOST, cancel), accounting=cancelled_while_pending)
    step = next_step(made, at(60))
    assert isinstance(step, Report)
    assert step.reason is Reason.REVIVED_IN_ERROR


def test_a_second_restart_that_our_answered_requeue_cannot_have_made_is_not_cancelled() -> None:
    sent = record(ActionKind.REQUEUE, 0.5)
    made = situation(
        second(),
        actions=(sent,),
        accounting=records(of_attempt(1, node_list="", batch_completed=None)),
    )
    step = next_step(made, at(13))
    assert isinstance(step, Report)
    assert step.reason is Reason.STALE_ATTEMPT


def test_a_requeue_that_slurmctld_had_long_passed_by_has_not_made_what_came_after() -> None:
    """Nobody was there for minutes, so that nobody knows since when slurmctld answers again; but it
    had started the successor, and an operator wants once more what that had completed."""
    ran = {"started_at": at(121), "node_list": "gpu-001", "batch_completed": True}
    done = records(of_attempt(0, **ran, batch_ended_at=at(130)))
    silence = (at(0), at(150))

    def made(submitted: float) -> Situation:
        view = replace(second(), submitted_at=at(submitted), eligible_at=at(submitted + 121))
        return situation(view, actions=(LOST,), accounting=done, silence=silence)

    step = next_step(made(137), at(170))
    assert isinstance(step, Report)
    assert step.reason is Reason.STALE_ATTEMPT
    step = next_step(made(133), at(170))
    assert isinstance(step, Act)
    assert step.action.kind is ActionKind.CANCEL


def test_a_completion_that_nothing_can_tell_from_our_kill_any_more_raises_the_alarm() -> None:
    """Nobody was there until Slurm's begin time had passed, and its start truncated the log."""
    sent = record(ActionKind.REQUEUE, 1, Answered.IN_FLIGHT)
    made = situation(
        successor(JobState.RUNNING, started_at=at(125)),
        actions=(sent,),
        attempt=attempt(end=None),
        accounting=accounting(batch_completed=True, batch_ended_at=at(3)),
        progress=Progress(KEY.attempt_id()),
        detail=detail(excluded_nodes=("gpu-001",)),
    )
    assert isinstance(next_step(made, at(130)), Wait)
    step = next_step(made, at(126 + LOG_PATIENCE_S))
    assert isinstance(step, Report)
    assert step.reason is Reason.REVIVED_IN_ERROR


def test_a_requeue_that_was_answered_needs_no_proof_of_whose_the_successor_is() -> None:
    made = pending(actions=(record(ActionKind.REQUEUE, 0.5),), accounting=None)
    step = next_step(made, at(10))
    assert isinstance(step, Act)
    assert step.action.start_now


def test_a_requeue_hold_without_our_mark_is_somebody_elses_and_its_job_no_revival_of_ours() -> None:
    view = successor(priority=0, reason="job_requeued_in_held_state")
    made = situation(view, actions=(LOST_HOLD,), pending_since=at(2), accounting=records())
    made = replace(made, attempt=attempt(end=CANCELLED), detail=detail(excluded_nodes=("gpu-001",)))
    step = next_step(made, at(40))
    assert isinstance(step, Wait)
    marked = replace(view, flags=frozenset({JobFlag.SPECIAL_EXIT}))
    step = next_step(replace(made, look=situation(marked).look), at(40))
    assert isinstance(step, Act)
    assert step.action.kind is ActionKind.CANCEL
