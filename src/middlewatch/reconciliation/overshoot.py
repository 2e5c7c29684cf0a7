"""A requeue of ours that came so late that it hit the attempt behind the one it was meant for.

Somebody else (Slurm after a node failure, an operator) had made the successor while our own requeue
had no answer yet. What the late one then brought about is ours to clear up: a requeue-hold that nobody
else would release, or a job in the queue again that its owner had cancelled.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from middlewatch.model.action import Action, ActionKind, ActionRecord, Answered
from middlewatch.model.advice import Reason
from middlewatch.model.answer import Known
from middlewatch.model.scheduler import JobFlag, JobState, JobView
from middlewatch.reconciliation.in_flight import (
    SETTLE_MARGIN_S,
    refused_until,
    settled_at,
    unanswered,
)
from middlewatch.reconciliation.lineage import REQUEUE_HELD, before_it
from middlewatch.reconciliation.situation import (
    Act,
    Fact,
    Need,
    Place,
    Report,
    Situation,
    Step,
    Wait,
    abandoned,
    place,
    requeues,
)


def overshot(situation: Situation, view: JobView) -> ActionRecord | None:
    """The requeue of ours without an answer that may have made the attempt after the successor."""
    advice = situation.advice
    if place(advice, view) is not Place.BEYOND or view.restarts != advice.attempt_index + 2:
        return None
    for record in reversed(requeues(situation)):
        begun = record.started_at.replace(microsecond=0)
        if record.answered is not Answered.DONE and (
            begun <= view.submitted_at <= settled_at(record, situation)
        ):
            return record
    return None


def held_by_us(situation: Situation, view: JobView) -> bool:
    """Whether a late requeue-hold of ours holds the attempt after the successor."""
    record = overshot(situation, view)
    return (
        record is not None
        and record.action.kind is ActionKind.REQUEUE_HOLD
        and view.state is JobState.PENDING
        and view.held
        and JobFlag.SPECIAL_EXIT in view.flags
        and view.reason.strip().replace(" ", "_") == REQUEUE_HELD
    )


def undo_overshoot(situation: Situation, view: JobView, now: datetime) -> Step | None:
    """The cancel of an attempt that our late requeue has made of one that was over on purpose, or
    the report that it was cancelled; None where there is nothing to undo."""
    record = overshot(situation, view)
    if record is None:
        return None
    if view.ended:
        return _undone(situation)
    if view.state is not JobState.PENDING or view.completing:
        return None
    if situation.accounting is None:
        return Need(Fact.ACCOUNTING)
    why = _over_on_purpose(situation, view)
    if why is None or _too_late_for_it(situation, view, record):
        return None
    if unanswered(situation, (ActionKind.CANCEL,), now) is not None:
        return Wait("a cancel without an answer may still take effect")
    resting = refused_until(situation, (ActionKind.CANCEL,), now)
    if resting is not None:
        return Wait(resting[1], resting[0])
    return Act(Action(ActionKind.CANCEL, view.job_id, f"revived in error: {why}"))


def _too_late_for_it(situation: Situation, view: JobView, record: ActionRecord) -> bool:
    """Whether that requeue could come no more: slurmctld carries out what it has received before it does
    anything else, and it had started the attempt in between. Then somebody else has made this one."""
    before = before_it(situation, view)
    if before is None or before.started_at is None or not before.node_list:
        return False
    worked = max(before.started_at, record.ended_at or record.started_at)
    margin = timedelta(seconds=situation.facts.message_timeout_s + SETTLE_MARGIN_S)
    return view.submitted_at > worked + margin


def _undone(situation: Situation) -> Report | None:
    cancels = [r for r in situation.actions if r.action.kind is ActionKind.CANCEL]
    return abandoned(Reason.REVIVED_IN_ERROR, cancels[-1].action.why) if cancels else None


def _over_on_purpose(situation: Situation, view: JobView) -> str | None:
    """Why the attempt before this one was not to run again; None where nothing says so."""
    if not isinstance(situation.accounting, Known):
        return None
    before = before_it(situation, view)
    if before is None:
        return None
    if before.cancelled_by is not None:
        return "our late requeue reached a successor that had been cancelled"
    over = before.requeued or before.ended_at is not None
    if over and not before.node_list and before.batch_completed is None:
        # It never ran, although accounting may give it a start; and what is pending Slurm refuses
        # to requeue. So it had been cancelled while it waited.
        return "our late requeue reached a successor that had been cancelled while it waited"
    ended = before.batch_ended_at
    earlier = ended is not None and ended + timedelta(seconds=1) < view.submitted_at
    if before.batch_completed and earlier:
        return "our late requeue reached a successor that had completed"
    return None
