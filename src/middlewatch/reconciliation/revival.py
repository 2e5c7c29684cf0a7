"""Has our requeue revived an attempt that had already completed, or that a person had stopped?

Slurm puts finished jobs back in the queue without a word. Between the look that showed a job
running and the command that requeues it, the job may complete or be cancelled; then the successor
is work that nobody wants. The batch step's accounting record still says COMPLETED afterwards, and
the end of the log says who was alive when.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from middlewatch.model.action import ActionRecord, Answered
from middlewatch.model.answer import Absent, Known, Unknown
from middlewatch.model.attempt import EndedBy
from middlewatch.model.scheduler import ENDED, FAILURES, AccountingRecord, JobState
from middlewatch.model.signal import Signal
from middlewatch.reconciliation.situation import LogEnd, Situation, requeues

ACCOUNTING_LAG_S = 3.0
LOG_PATIENCE_S = 30.0
"""How long the end of a log may take to be read where nothing else tells of a person's cancel: a
watcher that has just been started reads many. Well below the begin time that keeps the job back."""
CLOCKS_APART_S = 2.0
"""By how much slurmctld's clock and ours may differ where their times are compared."""
_REQUEUE_LINE = re.compile(r"CANCELLED AT \S+ DUE TO JOB REQUEUE")
_CANCEL_LINE = re.compile(r"\*\*\* JOB \S+ ON \S+ CANCELLED AT \S+( DUE to SIGNAL [^*]+)? \*\*\*")
_PERSONS = (EndedBy.OWNER, EndedBy.OPERATOR, EndedBy.SOMEBODY)


def log_end(signals: Iterable[Signal]) -> LogEnd:
    """What Slurm's own lines in the attempt's log say of its death; the last one counts."""
    found = LogEnd.NOTHING
    for signal in signals:
        if _REQUEUE_LINE.search(signal.excerpt):
            found = LogEnd.REQUEUED
        elif _CANCEL_LINE.search(signal.excerpt):
            found = LogEnd.CANCELLED
    return found


@dataclass(frozen=True, slots=True)
class Revival:
    """``revived`` None: it cannot be told yet."""

    revived: bool | None
    why: str = ""
    suspected: bool = False
    """The batch script ended with 0:0, and only the log could tell whether our requeue made it."""


NOT_REVIVED = Revival(False)


def revival(situation: Situation, now: datetime) -> Revival:
    """Judge from the stored end, the log's end and accounting. `Revival.revived` is None while
    accounting is needed and lags or does not answer."""
    ours = requeues(situation)
    if not ours:
        return NOT_REVIVED
    requeue = ours[-1]
    end = situation.attempt.end if situation.attempt else None
    # Accounting's word on a requeued attempt is the batch script's, which has to be dated first.
    if end is not None and end.state is JobState.COMPLETED and end.by is not EndedBy.REQUEUE:
        return Revival(True, "attempt had completed before our requeue reached it")
    if end is not None and end.state is JobState.CANCELLED and end.by in _PERSONS:
        return Revival(True, "attempt had been cancelled before our requeue reached it")
    restartable = FAILURES | {JobState(word) for word in situation.advice.may_restart_after}
    if end is not None and end.state in restartable and end.learned_at <= requeue.started_at:
        return NOT_REVIVED
    if situation.log_end is LogEnd.REQUEUED:
        return NOT_REVIVED
    if situation.log_end is LogEnd.CANCELLED:
        return Revival(True, "the log says that the attempt was cancelled, not requeued")
    return _by_accounting(situation, now)


def _by_accounting(situation: Situation, now: datetime) -> Revival:
    since = situation.pending_since or now
    lagging = now < since + timedelta(seconds=ACCOUNTING_LAG_S)
    match situation.accounting:
        case None:
            return Revival(None, "accounting has not been asked")
        case Unknown(why=why):
            return Revival(None, f"accounting does not answer ({why})")
        case Absent():
            return NOT_REVIVED
        case Known(value=records):
            record = next(
                (r for r in records if r.submitted_at == situation.advice.submitted_at), None
            )
            if record is None or (record.batch_completed is None and lagging):
                return Revival(None, "accounting lags") if lagging else NOT_REVIVED
            if not record.requeued and record.state not in ENDED:
                # A slurmdbd that was away hears of everything late, and answers before that.
                return Revival(None, "accounting has not heard of the attempt's end")
            judged = _of_record(situation, record)
            unread = not _log_read(situation) and now < since + timedelta(seconds=LOG_PATIENCE_S)
            if judged is NOT_REVIVED and record.requeued and unread:
                # Older releases write the requeue over a cancel: then only the log tells of it.
                return Revival(None, "the log that may tell of a cancel is not read to its end")
            return judged


def _log_read(situation: Situation) -> bool:
    return situation.progress is not None and situation.progress.log_drained_at is not None


def _of_record(situation: Situation, record: AccountingRecord) -> Revival:
    if record.cancelled_by is not None:
        return Revival(True, f"accounting: cancelled by {record.cancelled_by}")
    if record.state is JobState.COMPLETED and not record.requeued:
        return Revival(True, "accounting: completed")
    if not record.batch_completed:
        return NOT_REVIVED
    return _of_completed_batch(situation, record.batch_ended_at)


def _of_completed_batch(situation: Situation, ended: datetime | None) -> Revival:
    """The batch script ended with 0:0: by itself, or because it traps the TERM of our requeue?

    A requeue takes effect somewhere between its start and its answer, and without an answer at
    any time after it; accounting counts whole seconds. Within that span only the log can tell:
    what a requeue kills gets Slurm's line about it.
    """
    ours = requeues(situation)
    last = ours[-1]
    why = "accounting: the batch script had completed with 0:0"
    if ended is None:
        return Revival(True, why)
    if ended + timedelta(seconds=1) <= ours[0].started_at and _not_before(situation, ours[0]):
        return Revival(True, why)
    if _clocks_agree(situation, last) and last.ended_at is not None and ended > last.ended_at:
        return NOT_REVIVED
    if not _log_read(situation):
        why = "the batch script ended with 0:0 about when our requeue came"
        return Revival(None, why, suspected=True)
    return Revival(True, f"{why}, and its log does not say that a requeue killed it")


def _clocks_agree(situation: Situation, last: ActionRecord) -> bool:
    """Whether slurmctld's times may be compared with those of a requeue that was answered: the
    submit time that it gave the successor lies between our command and the end of the processes."""
    if last.answered is not Answered.DONE or last.ended_at is None:
        return False
    submitted = _submitted(situation)
    gone = last.ended_at + timedelta(seconds=situation.facts.kill_wait_s + CLOCKS_APART_S)
    by_then = submitted is not None and submitted <= gone
    return by_then and last.started_at <= last.ended_at and _not_before(situation, last)


def _not_before(situation: Situation, sent: ActionRecord) -> bool:
    """Whether slurmctld's clock does not say that what our command brought about came before it."""
    submitted = _submitted(situation)
    return submitted is not None and submitted >= sent.started_at - timedelta(
        seconds=CLOCKS_APART_S
    )


def _submitted(situation: Situation) -> datetime | None:
    """When slurmctld submitted what is looked at."""
    look = situation.look
    view = look.value.job(situation.advice.job_id) if isinstance(look, Known) else None
    return None if view is None else view.submitted_at
