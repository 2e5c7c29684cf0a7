"""RESTARTED(k): attempt k runs again as k+1, placed elsewhere where the evidence says so.

An ordinary restart is two commands: a requeue, whose begin time keeps the successor from
starting and ends by itself, and one update that sets the exclusions and lets it start. In between
the successor must have been pending for more than a second (two releases of Slurm refuse a start
within the second of the kill), k's log must have been read (the next start truncates it), and k
must not have been finished or stopped on purpose meanwhile.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from middlewatch.model.action import Action, ActionKind, Answered
from middlewatch.model.advice import Disposition, Reason
from middlewatch.model.answer import Absent, Known
from middlewatch.model.scheduler import FAILURES, JobDetail, JobFlag, JobState, JobView
from middlewatch.reconciliation import exclusions
from middlewatch.reconciliation.in_flight import fence_stands, refused_until, settled_at, unanswered
from middlewatch.reconciliation.revival import revival
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

PENDING_SETTLE_S = 1.1
"""More than one full second between PENDING and the start."""
OWN_SECOND_S = 2.0
"""Submit times count whole seconds, and an attempt is known by its own: a requeue within the
second of the submission would give two attempts one name."""
WINDOW_MARGIN_S = 5.0
"""What the begin time must outlast a wait by, for our own update to come first."""
SHORT_WINDOW_S = 15.0
"""A begin-time window shorter than this does not outlast our work: take a requeue-hold."""
HETEROGENEOUS = (
    "gate heterogeneous: a job of several components is watched, but not restarted or constrained, "
    "because each component would have to be let go by itself"
)
TAKE_OVER = frozenset({"afterany", "afternotok", "singleton"})
REQUEUES = (ActionKind.REQUEUE, ActionKind.REQUEUE_HOLD)
UPDATES = (ActionKind.UPDATE, ActionKind.RELEASE)
_UNCONSIDERED = frozenset({"", "None", "BeginTime"})


def restart_step(situation: Situation, view: JobView | None, now: datetime) -> Step:
    """The next step towards RESTARTED(k), as if nothing but the scheduler stood in the way:
    gates, age and holds of ours before a terminal report are `plan.next_step`'s."""
    if view is None:
        return _gone(situation)
    if view.heterogeneous:
        return abandoned(Reason.NOT_PERMITTED, HETEROGENEOUS)
    match place(situation.advice, view):
        case Place.GONE:
            return _gone(situation)
        case Place.SAME:
            return _of_target(situation, view, now)
        case Place.TURNING:
            return Wait("the requeue is under way: the old processes are still ending")
        case Place.SUCCESSOR:
            return _of_successor(situation, view, now)
        case Place.BEYOND:
            return abandoned(
                Reason.STALE_ATTEMPT, f"the scheduler has reached attempt {view.restarts}"
            )
        case Place.REPLACED:
            return abandoned(Reason.TARGET_REPLACED, "the number now belongs to another job")
        case Place.ROLLED_BACK:
            return abandoned(
                Reason.TARGET_GONE, "the scheduler came back from a state older than the attempt"
            )


def _gone(situation: Situation) -> Step:
    if requeues(situation):
        return abandoned(
            Reason.STALE_ATTEMPT, "the successor came and went before it could be confirmed"
        )
    return abandoned(Reason.TARGET_GONE, "the scheduler has forgotten the job")


def _of_target(situation: Situation, view: JobView, now: datetime) -> Step:
    if view.completing:
        return Wait("the attempt is completing")
    lost = unanswered(situation, REQUEUES, now)
    if lost is not None:
        return Wait("a requeue without an answer may still take effect")
    if view.state is JobState.RUNNING:
        return _of_running_target(situation, view, now)
    if view.state is JobState.SUSPENDED:
        return Wait("the attempt is suspended: waiting for whoever suspended it")
    if view.state is JobState.PENDING:
        return Wait("the attempt has not begun")
    if view.state is JobState.UNREADABLE:
        return Wait("the scheduler shows a state that we do not know", None, Reason.UNKNOWN_STATE)
    if view.state not in FAILURES and view.state.value not in situation.advice.may_restart_after:
        return abandoned(Reason.TARGET_ENDED, f"the attempt ended as {view.state.value}")
    taken = _dependent_took_over(situation)
    if taken is not None:
        return taken
    if situation.attempt is None or situation.attempt.end is None:
        return Wait("the attempt's end is being stored before it is requeued")
    return _requeue(situation, view, now, "restart after failure")


def _of_running_target(situation: Situation, view: JobView, now: datetime) -> Step:
    if view.held:
        return Wait("an operator holds the running job", None, Reason.OPERATOR_HOLD)
    if view.flags:
        # Being set up, resized, or stopped by a signal that somebody sent: not simply running.
        words = ", ".join(sorted(flag.value for flag in view.flags))
        return Wait(f"the attempt is {words}: waiting until it simply runs")
    if not situation.advice.may_end_running:
        return Wait("the evidence does not permit ending a running attempt")
    moved = situation.progress.last_step_at if situation.progress else None
    if moved is not None and moved > situation.advice.desired_state_changed_at:
        return abandoned(
            Reason.TARGET_RUNNING, "training went on after the decision: nothing to restart"
        )
    return _requeue(situation, view, now, "restart of a job that no longer trains")


def _dependent_took_over(situation: Situation) -> Report | None:
    dependents = situation.attempt.dependents if situation.attempt else ()
    for dependent in dependents:
        if dependent.kind in TAKE_OVER:
            return abandoned(
                Reason.SUCCEEDED_BY_DEPENDENT,
                f"job {dependent.job_id} ({dependent.kind}) was let go by this end",
            )
    return None


def _requeue(situation: Situation, view: JobView, now: datetime, why: str) -> Step:
    requeueable = view.requeueable
    if requeueable is None:
        match situation.detail:
            case None:
                return Need(Fact.DETAIL)
            case Known(value=detail):
                requeueable = detail.requeueable
            case Absent():
                return Wait("the job vanished between two looks")
            case _:
                return Wait("the job's details cannot be read", None, Reason.UNKNOWN_STATE)
    if requeueable is False:
        return abandoned(
            Reason.NOT_PERMITTED, "gate requeueable: the job was submitted with --no-requeue"
        )
    resting = refused_until(situation, REQUEUES, now)
    if resting is not None:
        return Wait(f"the scheduler refused the requeue: {resting[1]}", resting[0])
    told_apart = view.submitted_at + timedelta(seconds=OWN_SECOND_S)
    if now < told_apart:
        return Wait("the successor must get a submit time of its own", told_apart)
    short = situation.facts.begin_delay_s < SHORT_WINDOW_S
    kind = ActionKind.REQUEUE_HOLD if short else ActionKind.REQUEUE
    return Act(Action(kind, view.job_id, why))


def _of_successor(situation: Situation, view: JobView, now: datetime) -> Step:
    if view.state is JobState.PENDING:
        return _of_pending(situation, view, now)
    if view.completing:
        return Wait("the successor is completing")
    if view.state in (JobState.RUNNING, JobState.SUSPENDED):
        return _of_started(situation, now)
    return _of_ended(situation, view, now)


def _of_pending(situation: Situation, view: JobView, now: datetime) -> Step:
    match situation.detail:
        case None:
            return Need(Fact.DETAIL)
        case Known(value=detail):
            pass
        case _:
            return Wait("the job's details cannot be read", None, Reason.UNKNOWN_STATE)
    if exclusions.impossible(view):
        return _make_possible(situation, view, detail, now)
    since = situation.pending_since or now
    if now < since + timedelta(seconds=PENDING_SETTLE_S):
        return Wait("one full second after pending", since + timedelta(seconds=PENDING_SETTLE_S))
    ours = requeues(situation)
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
    if done and not ours:
        return Wait("Slurm's own begin time after a node failure is left as it is")
    lost = unanswered(situation, UPDATES, now)
    if lost is not None:
        return Wait("an update without an answer may still take effect")
    resting = refused_until(situation, UPDATES, now)
    if resting is not None:
        return Wait(f"the scheduler refused the update: {resting[1]}", resting[0])
    if ours:
        late = late_requeue_possible(situation, view, now)
        if late is not None:
            return late if done else _constrain_only(situation, detail, now, done, late.why)
    wanted = None if done else exclusions.united(situation, detail)
    if not ours:
        return Act(Action(ActionKind.UPDATE, view.job_id, "exclude the failed node", wanted))
    return let_start(
        situation,
        view,
        detail,
        now,
        why="set the exclusions and let the successor start",
        wanted=wanted,
    )


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
    """None where the successor is wanted; the cancel where our requeue revived what was over; a
    `Wait` where that cannot be told."""
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
    keep a waiting job from ever growing older.
    """
    if view.eligible_at is not None and view.eligible_at <= now:
        return True
    ours = requeues(situation)
    done = bool(ours) and any(
        r.action.start_now and r.answered is Answered.DONE and r.started_at >= ours[-1].started_at
        for r in situation.actions
    )
    if not done or view.eligible_at is None:
        return done
    window = view.submitted_at + timedelta(seconds=situation.facts.begin_delay_s)
    return abs(view.eligible_at - window) > timedelta(seconds=1)


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


def _undo(situation: Situation, view: JobView, now: datetime, why: str) -> Step:
    if unanswered(situation, (ActionKind.CANCEL,), now) is not None:
        return Wait("a cancel without an answer may still take effect")
    resting = refused_until(situation, (ActionKind.CANCEL,), now)
    if resting is not None:
        return Wait(f"the scheduler refused the cancel: {resting[1]}", resting[0])
    return Act(Action(ActionKind.CANCEL, view.job_id, f"revived in error: {why}"))


def _make_possible(situation: Situation, view: JobView, detail: JobDetail, now: datetime) -> Step:
    shorter = exclusions.shortened(situation, view, detail)
    if shorter is None:
        return Wait("no node can satisfy the job, by no exclusion of ours")
    if unanswered(situation, UPDATES, now) is not None:
        return Wait("an update without an answer may still take effect")
    resting = refused_until(situation, UPDATES, now)
    if resting is not None:
        return Wait(f"the scheduler refused the update: {resting[1]}", resting[0])
    why = exclusions.SHORTENED + "no node is left for the job"
    return Act(Action(ActionKind.UPDATE, view.job_id, why, shorter))


def _of_unheld(situation: Situation, view: JobView, now: datetime, considered: bool) -> Step:
    if view.held:
        return release_or_wait(situation, view, now)
    fence = lift_fence(situation, view, now)
    if fence is not None:
        return fence
    if considered:
        return _converged(situation, f"pending, unheld, constrained; Slurm says {view.reason}")
    return Wait("the scheduler has not considered the successor yet")


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
        return Wait(f"the scheduler refused the release: {resting[1]}", resting[0])
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
        return Wait(f"the scheduler refused the update: {resting[1]}", resting[0])
    return Act(Action(ActionKind.UPDATE, view.job_id, "put Requeue=1 back", requeueable=True))


def _of_started(situation: Situation, now: datetime) -> Step:
    match situation.detail:
        case None:
            return Need(Fact.DETAIL)
        case Known(value=detail):
            pass
        case _:
            return Wait("the job's details cannot be read", None, Reason.UNKNOWN_STATE)
    if not exclusions.carried(situation, detail):
        return abandoned(
            Reason.TARGET_RUNNING, "the successor started before it could be constrained"
        )
    look = situation.look
    view = look.value.job(situation.advice.job_id) if isinstance(look, Known) else None
    if view is not None:
        fence = lift_fence(situation, view, now)
        if fence is not None:
            return fence
    unwanted = _revived_and_ran(situation, now, "already runs")
    if unwanted is not None:
        return unwanted
    return _converged(situation, "the successor runs and carries the exclusions")


def _revived_and_ran(situation: Situation, now: datetime, did: str) -> Need | Report | None:
    """What our requeue revived and Slurm started by itself: said, and left alone."""
    if not requeues(situation):
        return None
    judged = revival(situation, now)
    if judged.revived is None and situation.accounting is None:
        return Need(Fact.ACCOUNTING)
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
        return abandoned(
            Reason.TARGET_ENDED, f"the successor was ended as {view.state.value} by somebody else"
        )
    unwanted = _revived_and_ran(situation, now, f"ran and ended as {view.state.value}")
    if unwanted is not None:
        return unwanted
    match situation.detail:
        case None:
            return Need(Fact.DETAIL)
        case Known(value=detail) if exclusions.carried(situation, detail):
            return _converged(situation, f"the successor ran and ended as {view.state.value}")
        case _:
            return abandoned(
                Reason.STALE_ATTEMPT, "the successor has ended without the constraints"
            )


def _converged(situation: Situation, detail: str) -> Report:
    acted = any(r.generation == situation.advice.generation for r in situation.actions)
    reason = Reason.DESIRED_STATE_OBSERVED if acted else Reason.ALREADY_SATISFIED
    return Report(Disposition.CONVERGED, reason, detail)
