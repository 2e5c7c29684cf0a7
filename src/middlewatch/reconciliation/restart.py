"""RESTARTED(k): attempt k runs again as k+1, placed elsewhere where the evidence says so.

An ordinary restart is two commands: a requeue, whose begin time keeps the successor from
starting and ends by itself, and one update that sets the exclusions and lets it start. In between
the successor must have been pending for more than a second (two releases of Slurm refuse a start
within the second of the kill), k's log must have been read (the next start truncates it), and k
must not have been finished or stopped on purpose meanwhile.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from middlewatch.model.action import Action, ActionKind
from middlewatch.model.advice import Reason
from middlewatch.model.answer import Absent, Known
from middlewatch.model.scheduler import FAILURES, JobState, JobView
from middlewatch.reconciliation.chain import let_go_by_a_requeue, may_take_over
from middlewatch.reconciliation.in_flight import refused_until, unanswered
from middlewatch.reconciliation.letting_go import REQUEUES
from middlewatch.reconciliation.lineage import another_jobs
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
from middlewatch.reconciliation.successor import successor_step

OWN_SECOND_S = 2.0
"""Submit times count whole seconds, and an attempt is known by its own: a requeue within the
second of the submission would give two attempts one name."""
SHORT_WINDOW_S = 15.0
"""A begin-time window shorter than this does not outlast our work: take a requeue-hold."""
COMPONENTS_APART = (
    "gate components: the job's components do not stand alike, and a requeue starts all"
)
UNEVEN = (
    "gate components: the job's components exclude different nodes, and an update would give all of "
    "them one list"
)
ONLY_BATCH = "Only batch jobs"
"""How Slurm begins its refusal to requeue an interactive job, for which it keeps no script."""


def restart_step(situation: Situation, view: JobView | None, now: datetime) -> Step:
    """The next step towards RESTARTED(k), as if nothing but the scheduler stood in the way:
    gates, age and holds of ours before a terminal report are `plan.next_step`'s."""
    if view is None:
        return _gone(situation)
    match place(situation.advice, view):
        case Place.GONE:
            return _gone(situation)
        case Place.SAME:
            return _of_target(situation, view, now)
        case Place.TURNING:
            return Wait("the requeue is under way: the old processes are still ending")
        case Place.SUCCESSOR:
            # One that no requeue of ours made may as well be of a job that got the number later.
            another = None if requeues(situation) else another_jobs(situation, view)
            return another or successor_step(situation, view, now)
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
    if view.apart and view.ended:
        return abandoned(Reason.NOT_PERMITTED, f"{COMPONENTS_APART}: {view.apart}")
    if view.apart:
        return Wait(f"{view.apart}: waiting until its components stand alike")
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
    if view.held:
        # Placed while it ran, it outlives the end; a requeue-hold would take its place.
        return Wait("an operator holds the ended job", None, Reason.OPERATOR_HOLD)
    if situation.attempt is None or situation.attempt.end is None:
        return Wait("the attempt's end is being stored before it is requeued")
    return _requeue(situation, view, now, "restart after failure")


def _of_running_target(situation: Situation, view: JobView, now: datetime) -> Step:
    if view.held:
        who = "its owner" if view.reason == "JobHeldUser" else "an operator"
        return Wait(f"{who} holds the running job", None, Reason.OPERATOR_HOLD)
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
    older = let_go_by_a_requeue(situation)
    if older is not None:
        return abandoned(
            Reason.NOT_PERMITTED,
            f"gate chain: a requeue would let the older job {older.job_id} (singleton) start beside it",
        )
    return _requeue(situation, view, now, "restart of a job that no longer trains")


def _dependent_took_over(situation: Situation) -> Report | None:
    for dependent in may_take_over(situation):
        return abandoned(
            Reason.SUCCEEDED_BY_DEPENDENT,
            f"job {dependent.job_id} ({dependent.kind}) was let go by this end",
        )
    return None


def _requeue(situation: Situation, view: JobView, now: datetime, why: str) -> Step:
    if view.heterogeneous and situation.detail is None:
        return Need(Fact.DETAIL)
    if isinstance(situation.detail, Known) and situation.detail.value.uneven:
        return abandoned(Reason.NOT_PERMITTED, UNEVEN)
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
    if resting is not None and ONLY_BATCH in resting[1]:
        return abandoned(
            Reason.NOT_PERMITTED,
            "gate batch: only jobs of sbatch can be requeued, not those of salloc or srun",
        )
    if resting is not None:
        return Wait(resting[1], resting[0])
    told_apart = view.submitted_at + timedelta(seconds=OWN_SECOND_S)
    if now < told_apart:
        return Wait("the successor must get a submit time of its own", told_apart)
    short = situation.facts.begin_delay_s < SHORT_WINDOW_S
    kind = ActionKind.REQUEUE_HOLD if short else ActionKind.REQUEUE
    return Act(Action(kind, view.job_id, why))
