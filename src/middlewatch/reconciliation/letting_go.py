"""Letting a successor go: when it is safe, how it is done, and when it must rather be undone.

Shared by the restart itself and by whatever ends advice while a hold of ours stands.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from middlewatch.model.action import Action, ActionKind, Answered
from middlewatch.model.advice import Reason
from middlewatch.model.answer import Known
from middlewatch.model.scheduler import JobDetail, JobFlag, JobView
from middlewatch.reconciliation.chain import taken_over
from middlewatch.reconciliation.in_flight import fence_stands, refused_until, settled_at, unanswered
from middlewatch.reconciliation.revival import revival
from middlewatch.reconciliation.situation import (
    Act,
    Fact,
    Need,
    Situation,
    Step,
    Wait,
    requeues,
)

PENDING_SETTLE_S = 1.1
"""More than one full second between PENDING and the start."""
WINDOW_MARGIN_S = 5.0
"""What the begin time must outlast a wait by, for our own update to come first."""
REQUEUES = (ActionKind.REQUEUE, ActionKind.REQUEUE_HOLD)
UPDATES = (ActionKind.UPDATE, ActionKind.RELEASE)


def late_requeue_possible(situation: Situation, view: JobView, now: datetime) -> Wait | None:
    """Wait while a requeue of ours has no answer, where Slurm's begin time outlasts that: a late
    one finds the job pending and is refused, and the owner's Requeue flag stays as it is."""
    late = unanswered(situation, REQUEUES, now)
    if late is None:
        return None
    over = settled_at(late, situation)
    if view.eligible_at is None or view.eligible_at <= over + timedelta(seconds=WINDOW_MARGIN_S):
        return None
    return Wait("a requeue has no answer yet: Slurm keeps the successor back meanwhile", over)


def let_start(
    situation: Situation,
    view: JobView,
    detail: JobDetail,
    now: datetime,
    *,
    why: str,
    wanted: tuple[str, ...] | None = None,
) -> Act:
    """The update that ends the begin time; with Requeue=0 in it while a requeue of ours has no
    answer, so that Slurm refuses one that arrives late."""
    fence = unanswered(situation, REQUEUES, now) is not None and detail.requeueable is not False
    return Act(
        Action(
            ActionKind.UPDATE,
            view.job_id,
            why + (" (fenced: a requeue has no answer yet)" if fence else ""),
            exclusions=wanted,
            start_now=True,
            requeueable=False if fence else None,
        )
    )


def undo_if_revived(situation: Situation, view: JobView, now: datetime) -> Step | None:
    """None where the successor is wanted; the cancel where our requeue revived what was over, or what
    another job had followed already; a `Wait` where that cannot be told."""
    taken = taken_over(situation)
    if isinstance(taken, str):
        return _undo(situation, view, now, taken)
    if taken is not None:
        return taken
    judged = revival(situation, now)
    if judged.revived:
        return _undo(situation, view, now, judged.why)
    if judged.revived is None:
        if situation.accounting is None:
            return Need(Fact.ACCOUNTING)
        return Wait(judged.why, None, Reason.UNKNOWN_STATE)
    return None


def let_go_before(situation: Situation) -> bool:
    """Whether we have let this successor go already (and so have judged that it is wanted)."""
    since = requeues(situation)[-1].started_at
    return any(
        r.action.start_now and r.answered is not Answered.REFUSED and r.started_at >= since
        for r in situation.actions
    )


def free_to_start(situation: Situation, view: JobView, now: datetime) -> bool:
    """Whether no begin time of ours keeps the successor back any more.

    Eligible times are slurmctld's, ``now`` is ours, and the two clocks may be seconds apart. So
    once our update was done, any begin time but the very one that Slurm had set at the requeue
    (or none: a dependency, somebody's hold) is not ours to end: to set it again and again would
    keep a waiting job from ever growing older. And that very one is over only when as much time
    has passed by our own clock since our requeue as well.
    """
    ours = requeues(situation)
    delay = timedelta(seconds=situation.facts.begin_delay_s)
    window = view.submitted_at + delay
    if view.eligible_at is not None and view.eligible_at <= now:
        if not ours or abs(view.eligible_at - window) > timedelta(seconds=1):
            return True
        return now >= (ours[-1].ended_at or ours[-1].started_at) + delay
    done = bool(ours) and any(
        r.action.start_now and r.answered is Answered.DONE and r.started_at >= ours[-1].started_at
        for r in situation.actions
    )
    if not done or view.eligible_at is None:
        return done
    return abs(view.eligible_at - window) > timedelta(seconds=1)


def _undo(situation: Situation, view: JobView, now: datetime, why: str) -> Step:
    if unanswered(situation, (ActionKind.CANCEL,), now) is not None:
        return Wait("a cancel without an answer may still take effect")
    resting = refused_until(situation, (ActionKind.CANCEL,), now)
    if resting is not None:
        return Wait(resting[1], resting[0])
    return Act(Action(ActionKind.CANCEL, view.job_id, f"revived in error: {why}"))


def release_or_wait(situation: Situation, view: JobView, now: datetime) -> Step:
    """A held pending job: let our own requeue-hold go, leave anybody else's."""
    ours = any(r.action.kind is ActionKind.REQUEUE_HOLD for r in requeues(situation))
    detail = situation.detail.value if isinstance(situation.detail, Known) else None
    operator = None if detail is None else detail.held_by_operator
    if not ours or JobFlag.SPECIAL_EXIT not in view.flags or operator is True:
        return Wait("somebody holds the job: waiting for them", None, Reason.OPERATOR_HOLD)
    if operator is None:
        why = "it cannot be told whether an operator holds the job as well"
        return Wait(why, None, Reason.UNKNOWN_STATE)
    if unanswered(situation, (ActionKind.RELEASE,), now) is not None:
        return Wait("a release without an answer may still take effect")
    if unanswered(situation, REQUEUES, now) is not None and not fence_stands(situation.actions):
        return Wait("a requeue has no answer yet: our hold keeps the successor back meanwhile")
    resting = refused_until(situation, (ActionKind.RELEASE,), now)
    if resting is not None:
        return Wait(resting[1], resting[0])
    return Act(Action(ActionKind.RELEASE, view.job_id, "let our hold go"))


def lift_fence(situation: Situation, view: JobView, now: datetime) -> Step | None:
    """Put the owner's Requeue value back once no late requeue can come; None: no fence."""
    if not fence_stands(situation.actions):
        return None
    late = unanswered(situation, (*REQUEUES, ActionKind.UPDATE), now)
    if late is not None:
        return Wait("the fence stands until a late requeue can no longer come")
    resting = refused_until(situation, (ActionKind.UPDATE,), now)
    if resting is not None:
        return Wait(resting[1], resting[0])
    return Act(Action(ActionKind.UPDATE, view.job_id, "put Requeue=1 back", requeueable=True))
