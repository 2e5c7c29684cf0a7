"""The successor of a restarted attempt: placed, let go, confirmed, or found unwanted."""

from __future__ import annotations

from datetime import datetime, timedelta

from middlewatch.model.action import Action, ActionKind
from middlewatch.model.advice import Disposition, Reason
from middlewatch.model.answer import Known
from middlewatch.model.scheduler import JobDetail, JobState, JobView
from middlewatch.reconciliation import exclusions
from middlewatch.reconciliation.chain import taken_over
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
from middlewatch.reconciliation.lineage import followed_by_another, made_by_others
from middlewatch.reconciliation.revival import LOG_PATIENCE_S, revival
from middlewatch.reconciliation.situation import (
    Act,
    Fact,
    Need,
    Report,
    Situation,
    Step,
    Wait,
    abandoned,
    requeues,
)

_UNCONSIDERED = frozenset({"", "None", "BeginTime"})


def successor_step(situation: Situation, view: JobView, now: datetime) -> Step:
    """The next step about attempt k+1, shown by ``view``."""
    if view.state is JobState.PENDING:
        return _of_pending(situation, view, now)
    if view.completing:
        return Wait("the successor is completing")
    if view.state in (JobState.RUNNING, JobState.SUSPENDED):
        return _of_started(situation, view, now)
    return _of_ended(situation, view, now)


def _of_pending(situation: Situation, view: JobView, now: datetime) -> Step:
    settled = (situation.pending_since or now) + timedelta(seconds=PENDING_SETTLE_S)
    if now < settled and not exclusions.impossible(view):
        return Wait("one full second after pending", settled)
    match situation.detail:
        case None:
            return Need(Fact.DETAIL)
        case Known(value=detail):
            pass
        case _:
            return Wait("the job's details cannot be read", None, Reason.UNKNOWN_STATE)
    if view.apart:
        return Wait(f"{view.apart}: waiting until its components stand alike")
    if exclusions.impossible(view):
        return _make_possible(situation, view, detail, now)
    theirs = made_by_others(situation, view)
    ours = () if theirs else requeues(situation)
    free = free_to_start(situation, view, now)
    considered = free and view.reason not in _UNCONSIDERED
    done = exclusions.carried(situation, detail)
    if ours and not let_go_before(situation):
        waiting = _log_still_read(situation, now)
        if waiting is not None:
            return waiting
        unwanted = undo_if_revived(situation, view, now)
        if isinstance(unwanted, Wait) and unwanted.reason is Reason.UNKNOWN_STATE:
            return _constrain_only(situation, detail, now, done, unwanted.why)
        if unwanted is not None:
            return unwanted
    if done and free:
        return _of_unheld(situation, view, now, considered)
    fence = theirs and _fence_wanted(situation, view, detail, now)
    if done and not ours and not fence:
        return Wait("Slurm's own begin time after a node failure is left as it is")
    lost = unanswered(situation, UPDATES, now)
    if lost is not None:
        return Wait("an update without an answer may still take effect")
    resting = refused_until(situation, UPDATES, now)
    if resting is not None:
        return Wait(resting[1], resting[0])
    if ours:
        late = late_requeue_possible(situation, view, now)
        if late is not None:
            return late if done else _constrain_only(situation, detail, now, done, late.why)
    wanted = None if done else exclusions.united(situation, detail)
    if not ours:
        why = "exclude the failed node" + (
            " (fenced: a requeue has no answer yet)" if fence else ""
        )
        update = Action(
            ActionKind.UPDATE, view.job_id, why, wanted, requeueable=False if fence else None
        )
        return Act(update)
    return let_start(
        situation,
        view,
        detail,
        now,
        why="set the exclusions and let the successor start",
        wanted=wanted,
    )


def _fence_wanted(situation: Situation, view: JobView, detail: JobDetail, now: datetime) -> bool:
    """Whether a late requeue of ours could end the successor that Slurm made by itself and will
    start by itself."""
    return (
        unanswered(situation, REQUEUES, now) is not None
        and late_requeue_possible(situation, view, now) is None
        and detail.requeueable is not False
    )


def _log_still_read(situation: Situation, now: datetime) -> Wait | None:
    """The next start truncates k's log: wait until it is read, but not for ever. (The watcher
    says that a log is read to its end only once its attempt is over.)"""
    if situation.progress is not None and situation.progress.log_drained_at is not None:
        return None
    since = situation.pending_since or now
    limit = since + timedelta(seconds=situation.policy.drain_wait_s)
    return Wait("the attempt's log is being read to its end", limit) if now < limit else None


def _constrain_only(
    situation: Situation, detail: JobDetail, now: datetime, done: bool, why: str
) -> Step:
    """While it cannot be told whether the successor is wanted, set its exclusions (Slurm may
    start it by itself) but do not let it go."""
    quiet = (
        unanswered(situation, UPDATES, now) is None
        and refused_until(situation, UPDATES, now) is None
    )
    if done or not quiet:
        return Wait(why, None, Reason.UNKNOWN_STATE)
    wanted = exclusions.united(situation, detail)
    return Act(Action(ActionKind.UPDATE, detail.job_id, "set the exclusions while waiting", wanted))


def _make_possible(situation: Situation, view: JobView, detail: JobDetail, now: datetime) -> Step:
    shorter = exclusions.shortened(situation, view, detail)
    if shorter is None:
        return Wait("no node can satisfy the job, by no exclusion of ours")
    if unanswered(situation, UPDATES, now) is not None:
        return Wait("an update without an answer may still take effect")
    resting = refused_until(situation, UPDATES, now)
    if resting is not None:
        return Wait(resting[1], resting[0])
    why = exclusions.SHORTENED + "no node is left for the job"
    return Act(Action(ActionKind.UPDATE, view.job_id, why, shorter))


def _of_unheld(situation: Situation, view: JobView, now: datetime, considered: bool) -> Step:
    if view.held:
        return release_or_wait(situation, view, now)
    fence = lift_fence(situation, view, now)
    if fence is not None:
        return fence
    if considered:
        why = f"pending, unheld, constrained; Slurm says {view.reason}"
        return _converged(situation, view, why)
    return Wait("the scheduler has not considered the successor yet")


def _of_started(situation: Situation, view: JobView, now: datetime) -> Step:
    match situation.detail:
        case None:
            return Need(Fact.DETAIL)
        case Known(value=detail):
            pass
        case _:
            return Wait("the job's details cannot be read", None, Reason.UNKNOWN_STATE)
    fence = lift_fence(situation, view, now)
    if fence is not None:
        return fence
    unwanted = _revived_and_ran(situation, view, now, "already runs")
    if unwanted is not None:
        return unwanted
    if not exclusions.carried(situation, detail):
        return abandoned(
            Reason.TARGET_RUNNING, "the successor started before it could be constrained"
        )
    return _converged(situation, view, "the successor runs and carries the exclusions")


def _revived_and_ran(
    situation: Situation, view: JobView, now: datetime, did: str
) -> Need | Wait | Report | None:
    """What our requeue revived and Slurm started by itself: said, and left alone."""
    if not requeues(situation) or made_by_others(situation, view):
        return None
    # (Its own end has let go by now whoever waited for it; and once it was let go it was judged.)
    taken = None if view.ended or let_go_before(situation) else taken_over(situation)
    if isinstance(taken, str):
        return abandoned(Reason.REVIVED_IN_ERROR, f"{taken}; the successor {did}")
    if isinstance(taken, Need):
        return taken
    judged = revival(situation, now)
    if judged.revived is None and situation.accounting is None:
        return Need(Fact.ACCOUNTING)
    if judged.suspected:
        began = view.started_at or view.submitted_at
        if now < began + timedelta(seconds=LOG_PATIENCE_S):
            return Wait(judged.why, None, Reason.UNKNOWN_STATE)
        # Its log is gone: better an alarm too many than a revived job that nobody hears of.
        why = f"{judged.why}, which nothing can tell from a completion any more"
        return abandoned(Reason.REVIVED_IN_ERROR, f"{why}; the successor {did}")
    if not judged.revived:
        return None
    return abandoned(Reason.REVIVED_IN_ERROR, f"{judged.why}; the successor {did}")


def _of_ended(situation: Situation, view: JobView, now: datetime) -> Step:
    cancels = [
        r
        for r in situation.actions
        if r.action.kind is ActionKind.CANCEL and r.action.why.startswith("revived in error")
    ]
    if cancels:
        return abandoned(Reason.REVIVED_IN_ERROR, cancels[-1].action.why)
    if view.started_at is None or view.state is JobState.CANCELLED:
        # Nobody can release what is over, and what is requeued after that has the hold without its
        # mark: nothing tells it from a hold of whoever requeued it.
        kept = "; whoever requeues it has to release it" if view.held else ""
        return abandoned(
            Reason.TARGET_ENDED,
            f"the successor was ended as {view.state.value} by somebody else{kept}",
        )
    unwanted = _revived_and_ran(situation, view, now, f"ran and ended as {view.state.value}")
    if unwanted is not None:
        return unwanted
    match situation.detail:
        case None:
            return Need(Fact.DETAIL)
        case Known(value=detail) if exclusions.carried(situation, detail):
            return _converged(situation, view, f"the successor ran and ended as {view.state.value}")
        case _:
            return abandoned(
                Reason.STALE_ATTEMPT, "the successor has ended without the constraints"
            )


def _converged(situation: Situation, view: JobView, detail: str) -> Report | Need:
    other = followed_by_another(situation, view)
    if other is not None:
        return other
    acted = any(r.generation == situation.advice.generation for r in situation.actions)
    reason = Reason.DESIRED_STATE_OBSERVED if acted else Reason.ALREADY_SATISFIED
    return Report(Disposition.CONVERGED, reason, detail)
