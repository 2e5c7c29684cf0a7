"""One advice, one fresh look, one step: what the controller does next, or the outcome.

The order of the questions is the safety argument: was it permitted when decided; can the world be
seen; is it permitted still; is it too old; and only then what the scheduler needs. Before any
terminal outcome whatever we hold is let go, because nobody looks after it afterwards.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import assert_never

from middlewatch.model.advice import DURABLE, DesiredState, Disposition, Reason
from middlewatch.model.answer import Absent, Known, Unknown
from middlewatch.model.gates import Gate, closed_midway
from middlewatch.model.scheduler import JobFlag, JobState, JobView, Snapshot
from middlewatch.reconciliation import overshoot
from middlewatch.reconciliation.exact import constrain_step, release_step, terminate_step
from middlewatch.reconciliation.in_flight import refused_until, unanswered
from middlewatch.reconciliation.letting_go import (
    PENDING_SETTLE_S,
    REQUEUES,
    UPDATES,
    free_to_start,
    late_requeue_possible,
    let_go_before,
    let_start,
    lift_fence,
    release_or_wait,
    undo_if_revived,
)
from middlewatch.reconciliation.lineage import made_by_others, stranger
from middlewatch.reconciliation.restart import restart_step
from middlewatch.reconciliation.situation import (
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


def next_step(situation: Situation, now: datetime) -> Step:
    """What to do next about ``situation.advice``. Pure; one step; safe to stop after it."""
    frozen = situation.advice.gates.first_closed()
    if frozen is not None and not situation.actions:
        return _never_permitted(frozen)
    view: JobView | None
    match situation.look:
        case Unknown(why=why):
            return Wait(f"the scheduler cannot be seen: {why}", None, Reason.UNKNOWN_STATE)
        case Absent():
            view = None
        case Known(value=snapshot):
            view = snapshot.job(situation.advice.job_id)
            if view is None and _may_be_hidden(situation, snapshot):
                why = "the job may be hidden: only one user's jobs are shown, and it is not known as his"
                return Wait(why, None, Reason.UNKNOWN_STATE)
        case _:
            assert_never(situation.look)
    closed = situation.gates.first_closed()
    step: Step
    other = stranger(situation, view) if view is not None else None
    late = unanswered(situation, REQUEUES, now)
    if isinstance(other, Report) and late is not None:
        return Wait("a requeue without an answer may still take effect, on whatever has the number")
    if other is not None:
        # Nothing of ours can stand on it: there is nothing to let go.
        return other
    if frozen is not None:
        # An earlier generation's hold may stand, and this one may not close over it.
        step = _never_permitted(frozen)
    elif view is not None and view.array_pending:
        step = abandoned(
            Reason.NOT_PERMITTED,
            f"{view.job_id} names a whole array: only its single tasks are acted on",
        )
    elif closed is not None:
        step = _unless_done(
            situation,
            view,
            now,
            abandoned(Reason.NOT_PERMITTED, closed_midway(closed)),
        )
    elif expired(situation, now):
        old = abandoned(Reason.ADVICE_EXPIRED, "older than the age limit")
        step = _unless_done(situation, view, now, old)
    else:
        step = _desired_step(situation, view, now)
    if isinstance(step, Report) and view is not None:
        return _after_letting_go(situation, view, now, step)
    if isinstance(step, Report) and late is not None:
        # The number may be given to another job, and that is what the late one would hit.
        return Wait("a requeue without an answer may still take effect")
    return step


def _may_be_hidden(situation: Situation, snapshot: Snapshot) -> bool:
    """Whether a job that a snapshot does not show need not be gone: it holds one user's alone."""
    if snapshot.only_uid is None:
        return False
    return situation.attempt is None or situation.attempt.uid != snapshot.only_uid


def _never_permitted(frozen: Gate) -> Report:
    return abandoned(Reason.NOT_PERMITTED, f"gate {frozen.name.value} was closed: {frozen.detail}")


def expired(situation: Situation, now: datetime) -> bool:
    """RELEASED and TERMINATED are durable; the rest ages from its last change of intent."""
    if situation.advice.desired in DURABLE:
        return False
    limit = timedelta(seconds=situation.policy.advice_age_limit_s)
    return now - situation.advice.desired_state_changed_at > limit


def _unless_done(situation: Situation, view: JobView | None, now: datetime, report: Report) -> Step:
    """``report``, or what is true instead: that our restart has converged already."""
    if requeues(situation):
        step = _desired_step(situation, view, now)
        if isinstance(step, Need):
            return step
        if isinstance(step, Report) and step.disposition is Disposition.CONVERGED:
            return step
    return report


def _desired_step(situation: Situation, view: JobView | None, now: datetime) -> Step:
    match situation.advice.desired:
        case DesiredState.RESTARTED:
            return restart_step(situation, view, now)
        case DesiredState.TERMINATED:
            return terminate_step(situation, view, now)
        case DesiredState.RELEASED:
            return release_step(situation, view, now)
        case DesiredState.CONSTRAINED:
            return constrain_step(situation, view, now)
        case _:
            assert_never(situation.advice.desired)


def hold_stands(situation: Situation, view: JobView, now: datetime) -> bool:
    """Whether a hold that we took keeps the direct successor from starting, or the attempt behind it
    that a late requeue of ours made."""
    if overshoot.held_by_us(situation, view):
        return True
    if not requeues(situation) or made_by_others(situation, view):
        return False
    if place(situation.advice, view) is not Place.SUCCESSOR:
        return False
    if view.state is not JobState.PENDING:
        return False
    waiting = not free_to_start(situation, view, now)
    return waiting or (view.held and JobFlag.SPECIAL_EXIT in view.flags)


def _after_letting_go(situation: Situation, view: JobView, now: datetime, report: Report) -> Step:
    """``report``, or what has to be let go before it may be given."""
    at = place(situation.advice, view)
    if at is Place.TURNING and requeues(situation):
        return Wait("our requeue is under way: first it must be seen and let go")
    late = unanswered(situation, REQUEUES, now)
    if at is Place.SAME and late is not None:
        return Wait("a requeue without an answer may still take effect")
    if at is Place.BEYOND:
        undone = overshoot.undo_overshoot(situation, view, now)
        if undone is not None:
            return undone
    waits = at is Place.SUCCESSOR and view.state is JobState.PENDING
    ours = requeues(situation) and not made_by_others(situation, view)
    if waits and ours and not let_go_before(situation):
        unwanted = undo_if_revived(situation, view, now)
        if unwanted is not None:
            return unwanted
    if hold_stands(situation, view, now):
        letting_go = _let_go(situation, view, now, report)
        if letting_go is not None:
            return letting_go
    if at is Place.SUCCESSOR and not view.ended:
        fence = lift_fence(situation, view, now)
        if fence is not None:
            return fence
    if late is not None:
        # Slurm requeues what has ended, too: whatever it hits then is still ours to clear up.
        return Wait("a requeue without an answer may still take effect")
    return report


def _let_go(situation: Situation, view: JobView, now: datetime, report: Report) -> Step | None:
    """How to let our hold go; None where an operator's has taken its place and ours no longer
    decides anything."""
    if situation.detail is None:
        return Need(Fact.DETAIL)
    if not isinstance(situation.detail, Known):
        return Wait("the job's details cannot be read", None, Reason.UNKNOWN_STATE)
    since = situation.pending_since or now
    if overshoot.held_by_us(situation, view):
        # Nobody notes when that one was first seen; its submit time is cut to the second.
        since = view.submitted_at + timedelta(seconds=1)
    if now < since + timedelta(seconds=PENDING_SETTLE_S):
        return Wait("one full second after pending", since + timedelta(seconds=PENDING_SETTLE_S))
    if free_to_start(situation, view, now):
        step = release_or_wait(situation, view, now)
        theirs = isinstance(step, Wait) and step.reason is Reason.OPERATOR_HOLD
        return None if theirs else step
    if unanswered(situation, UPDATES, now) is not None:
        return Wait("an update without an answer may still take effect")
    resting = refused_until(situation, UPDATES, now)
    if resting is not None:
        return Wait(resting[1], resting[0])
    late = late_requeue_possible(situation, view, now)
    if late is not None:
        return late
    why = f"let go before {report.reason.value}"
    return let_start(situation, view, situation.detail.value, now, why=why)
