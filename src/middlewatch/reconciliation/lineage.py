"""Who made the attempt that stands where our successor should: we, Slurm itself, or another job?

A requeue whose answer was lost may have taken effect, or Slurm may have requeued the job by itself
when a node failed, or the number may have been given to another job that was then restarted: a look
shows the same in each case, a pending job with one restart more. Only accounting tells them apart,
and what follows is not the same: old processes of a failed node live on until their time is up, and
another job is none of ours.
"""

from __future__ import annotations

from datetime import timedelta

from middlewatch.model.action import Answered
from middlewatch.model.advice import Reason
from middlewatch.model.answer import Known
from middlewatch.model.attempt import same_owner
from middlewatch.model.scheduler import AccountingRecord, JobFlag, JobState, JobView
from middlewatch.reconciliation.situation import (
    Fact,
    LogEnd,
    Need,
    Place,
    Report,
    Situation,
    abandoned,
    place,
    requeues,
)

LOOKED_BEFORE_S = 2.0
"""So long before a requeue the look may lie that it came of, by slurmctld's clock in whole seconds."""
REQUEUE_HELD = "job_requeued_in_held_state"
"""Slurm's reason for a requeue-hold, whoever took it."""


def uncertain(situation: Situation) -> bool:
    """Whether we have sent a requeue and none of ours was answered: it may not have been we."""
    ours = requeues(situation)
    return bool(ours) and all(record.answered is not Answered.DONE for record in ours)


def _stood_still(situation: Situation) -> bool:
    """Whether the sender of one of our requeues stood still before it sent it: what it hit may not be
    what it had looked at."""
    return any(
        record.ended_at is not None
        and record.ended_at - record.started_at > timedelta(seconds=situation.deadline_s)
        for record in requeues(situation)
        if record.answered is Answered.DONE
    )


def stranger(situation: Situation, view: JobView) -> Report | Need | None:
    """The report that the number now belongs to another job although its restart count would fit
    a later attempt of ours; None where nothing speaks for that."""
    if place(situation.advice, view) not in (Place.SUCCESSOR, Place.BEYOND):
        return None
    attempt = situation.attempt
    if attempt is not None and not same_owner(attempt.uid, view.uid):
        return _replaced("another user's job has the number")
    if uncertain(situation):
        return another_jobs(situation, view)
    return followed_by_another(situation, view) if _stood_still(situation) else None


def another_jobs(situation: Situation, view: JobView) -> Report | Need | None:
    """The report that accounting has a job between the target and what stands under its number;
    None where it has none, or does not say."""
    if situation.accounting is None:
        return Need(Fact.ACCOUNTING)
    between = _between(situation, view)
    # Each attempt has a record, and a job's restart count says how many came before.
    if len(between) > view.restarts - situation.advice.attempt_index - 1:
        return _replaced("accounting has a job of that number in between")
    return None


def followed_by_another(situation: Situation, view: JobView) -> Report | Need | None:
    """The same question where our requeue was answered: between a look and the command that came of it
    the number may have been given to another job, and that is what we restarted.

    That job was submitted after the look and before the answer. What came earlier is of the target's own
    job, and so is what came later: an older state of slurmctld may have forgotten either.
    """
    answered = [r for r in requeues(situation) if r.answered is Answered.DONE and r.ended_at]
    if not answered:
        return None
    if situation.accounting is None:
        return Need(Fact.ACCOUNTING)
    for requeue in answered:
        looked = requeue.started_at - timedelta(seconds=LOOKED_BEFORE_S)
        over = (requeue.ended_at or requeue.started_at).replace(microsecond=0)
        if any(looked <= record.submitted_at < over for record in _between(situation, view)):
            return _replaced("accounting has a job of that number that came before our requeue")
    return None


def made_by_others(situation: Situation, view: JobView) -> bool:
    """Whether no requeue of ours can have made the successor: Slurm did by itself, because a node
    of the target had failed, or somebody holds it who requeued it without our mark. (`stranger` has
    asked for accounting.)"""
    held = view.held and view.reason.strip().replace(" ", "_") == REQUEUE_HELD
    if uncertain(situation) and held and JobFlag.SPECIAL_EXIT not in view.flags:
        return True
    return by_node_failure(situation)


def by_node_failure(situation: Situation) -> bool:
    """Whether Slurm requeued the target by itself because a node of it had failed."""
    if not uncertain(situation) or situation.log_end is LogEnd.REQUEUED:
        return False
    end = situation.attempt.end if situation.attempt else None
    if end is not None and end.state is JobState.NODE_FAIL:
        return True
    record = record_of_target(situation)
    return record is not None and record.state is JobState.NODE_FAIL and not record.requeued


def record_of_target(situation: Situation) -> AccountingRecord | None:
    if not isinstance(situation.accounting, Known):
        return None
    submitted = situation.advice.submitted_at
    return next((r for r in situation.accounting.value if r.submitted_at == submitted), None)


def _between(situation: Situation, view: JobView) -> tuple[AccountingRecord, ...]:
    """Accounting's records of the number between the target and what is looked at."""
    if not isinstance(situation.accounting, Known):
        return ()
    first = situation.advice.submitted_at
    return tuple(
        r for r in situation.accounting.value if first < r.submitted_at < view.submitted_at
    )


def before_it(situation: Situation, view: JobView) -> AccountingRecord | None:
    """Accounting's record of the attempt just before the one that is looked at."""
    found = _between(situation, view)
    return max(found, key=lambda r: r.submitted_at) if found else None


def _replaced(why: str) -> Report:
    return abandoned(Reason.TARGET_REPLACED, f"the number now belongs to another job: {why}")
