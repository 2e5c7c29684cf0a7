"""Did our requeue end the attempt, or had it ended by itself before? Found by killing us between."""

from __future__ import annotations

import pytest

from middlewatch.model.action import Action, ActionKind, Answered
from middlewatch.model.advice import Reason
from middlewatch.model.attempt import AttemptEnd, EndedBy
from middlewatch.model.scheduler import JobState
from middlewatch.model.signal import Progress
from middlewatch.reconciliation.plan import next_step
from middlewatch.reconciliation.revival import LOG_PATIENCE_S
from middlewatch.reconciliation.situation import Act, LogEnd, Report, Situation, Wait
from tests.unit.reconciliation.worlds import (
    KEY,
    T0,
    accounting,
    at,
    attempt,
    detail,
    record,
    situation,
    successor,
)


def kept_back(**changes: object) -> Situation:
    """The successor has been pending for five seconds, kept back by Slurm's begin time."""
    values: dict[str, object] = {
        "actions": (record(ActionKind.REQUEUE, 0.5),),
        "pending_since": at(5),
        **changes,
    }
    return situation(successor(), **values)


def commanded(made: Situation) -> Action:
    step = next_step(made, at(10))
    assert isinstance(step, Act), step
    return step.action


def test_a_script_that_ended_while_a_requeue_was_on_its_way_is_judged_by_its_log() -> None:
    sent = record(ActionKind.REQUEUE, 1, Answered.IN_FLIGHT)
    ended = accounting(batch_completed=True, batch_ended_at=at(3))
    asked = {"attempt": attempt(end=None), "accounting": ended, "actions": (sent,)}
    unread = Progress(KEY.attempt_id())
    waiting = next_step(kept_back(**asked, progress=unread), at(10))
    assert not isinstance(waiting, Act) or not waiting.action.start_now
    assert commanded(kept_back(**asked)).kind is ActionKind.CANCEL
    killed = commanded(kept_back(**asked, log_end=LogEnd.REQUEUED))
    assert killed.kind is ActionKind.UPDATE


def test_what_accounting_says_of_a_requeued_attempt_does_not_make_it_revived() -> None:
    refined = AttemptEnd(JobState.COMPLETED, EndedBy.REQUEUE, 0, 0, T0, at(6))
    late = accounting(batch_completed=True, batch_ended_at=at(4))
    assert commanded(kept_back(attempt=attempt(end=refined), accounting=late)).start_now


def test_while_a_cancel_of_ours_has_no_answer_nothing_else_is_done_to_the_job() -> None:
    completed = accounting(state=JobState.COMPLETED, requeued=False)
    cancel = record(ActionKind.CANCEL, 6, Answered.IN_FLIGHT, why="revived in error: completed")
    requeue = record(ActionKind.REQUEUE, 0.5)
    made = kept_back(
        attempt=attempt(end=None), accounting=completed, actions=(requeue, cancel), detail=detail()
    )
    assert isinstance(next_step(made, at(10)), Wait)


@pytest.mark.parametrize("state", [JobState.RUNNING, JobState.COMPLETED])
def test_a_revived_successor_that_slurm_started_by_itself_is_no_convergence(
    state: JobState,
) -> None:
    made = situation(
        successor(state),
        actions=(record(ActionKind.REQUEUE, 0.5),),
        attempt=attempt(end=None),
        accounting=accounting(state=JobState.COMPLETED, requeued=False),
        detail=detail(excluded_nodes=("gpu-001",)),
    )
    step = next_step(made, at(200))
    assert isinstance(step, Report)
    assert step.reason is Reason.REVIVED_IN_ERROR


def test_a_cancel_that_only_the_log_tells_of_is_waited_for() -> None:
    asked = {"attempt": attempt(end=None), "accounting": accounting(), "detail": detail()}
    unread = kept_back(**asked, progress=Progress(KEY.attempt_id()))
    assert not commanded(unread).start_now
    cancelled = kept_back(**asked, log_end=LogEnd.CANCELLED)
    assert commanded(cancelled).kind is ActionKind.CANCEL
    assert commanded(kept_back(**asked)).start_now
    later = next_step(unread, at(5 + LOG_PATIENCE_S))
    assert isinstance(later, Act)
    assert later.action.start_now, "a log that nobody can read does not keep the job for ever"


def test_accounting_that_has_not_heard_of_an_attempts_end_proves_nothing() -> None:
    behind = accounting(
        state=JobState.RUNNING, requeued=False, ended_at=None, batch_completed=False
    )
    asked = {"attempt": attempt(end=None), "accounting": behind, "detail": detail()}
    for seconds in (10, 100):
        step = next_step(kept_back(**asked), at(seconds))
        assert not isinstance(step, Act) or not step.action.start_now
    killed = kept_back(**asked, log_end=LogEnd.REQUEUED)
    assert commanded(killed).start_now, "the log's word needs no other"
    completed = accounting(batch_completed=True, batch_ended_at=at(0))
    assert commanded(kept_back(**{**asked, "accounting": completed})).kind is ActionKind.CANCEL
