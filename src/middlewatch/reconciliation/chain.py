"""Has the end of the target let another job of its chain go? Then that job is the successor.

A job that ends lets those go that wait for its end, at once and for good; a requeue of what still runs
does not. Where the target ends by itself between our look and our requeue, both happen: the other job
starts, and the target is back in the queue behind it. Two of one chain must never train.
"""

from __future__ import annotations

from datetime import timedelta

from middlewatch.model.advice import Reason
from middlewatch.model.answer import Known, Unknown
from middlewatch.model.attempt import LET_GO, TAKES_OVER, Dependent, same_owner
from middlewatch.model.awaited import awaited
from middlewatch.model.scheduler import JobState, JobView, Snapshot
from middlewatch.reconciliation.situation import Fact, Need, Situation, Wait, requeues

SINGLETON = "singleton"
BEFORE_S = 3.0
"""So long before our requeue the target may have ended: a look is up to a second old when the command
that came of it is sent, and two clocks are compared."""


def may_take_over(situation: Situation) -> tuple[Dependent, ...]:
    """The jobs that the target's end lets go, whatever it ends by."""
    dependents = situation.attempt.dependents if situation.attempt else ()
    return tuple(one for one in dependents if one.kind in TAKES_OVER)


def let_go_by_a_requeue(situation: Situation) -> Dependent | None:
    """Of those that wait, one that a requeue of the running target would let go. A singleton waits
    for whatever runs under its name, and of what is pending only for older numbers."""
    own = _number(situation.advice.job_id)
    older = (d for d in may_take_over(situation) if d.kind == SINGLETON and _number(d.job_id) < own)
    return next(older, None)


def taken_over(situation: Situation) -> str | Need | Wait | None:
    """Who has taken over, as a sentence; None where nobody has."""
    dependents = may_take_over(situation)
    ours = requeues(situation)
    if not dependents or not ours:
        return None
    match situation.chain:
        case None:
            return Need(Fact.CHAIN, tuple(dict.fromkeys(one.job_id for one in dependents)))
        case Known(value=snapshot):
            for one in dependents:
                if any(_let_go(situation, one, view) for view in _rows(snapshot, one.job_id)):
                    return f"the attempt's own end had let job {one.job_id} ({one.kind}) go"
            return None
        case Unknown(why=why):
            what = f"the jobs that waited for its end cannot be seen: {why}"
            return Wait(what, None, Reason.UNKNOWN_STATE)
        case _:
            return None


def _rows(snapshot: Snapshot, job_id: str) -> list[JobView]:
    """A job's row, or those of an array's tasks."""
    return [v for v in snapshot.jobs if v.job_id == job_id or v.job_id.startswith(f"{job_id}_")]


def _let_go(situation: Situation, dependent: Dependent, view: JobView) -> bool:
    """Whether it has begun, or waits for the target no more. (One that the scheduler has forgotten
    trains no more, whatever became of it.)"""
    attempt = situation.attempt
    if attempt is not None and not same_owner(attempt.uid, view.uid):
        return False
    since = requeues(situation)[0].started_at - timedelta(seconds=BEFORE_S)
    if view.state is JobState.PENDING and not view.completing:
        if view.dependency:
            return not _waits_for(situation.advice.job_id, dependent, view)
        return view.eligible_at is not None and view.eligible_at >= since
    # Slurm gives what was cancelled while it waited a start as well, but no nodes.
    return view.started_at is not None and view.started_at >= since and bool(view.node_list)


def _waits_for(job_id: str, dependent: Dependent, view: JobView) -> bool:
    if dependent.kind == SINGLETON:
        return SINGLETON in view.dependency
    if dependent.kind == LET_GO:
        return True  # for whom it waited was not seen; it waits for somebody
    names = {job_id, job_id.partition("_")[0]}
    return any(job in names for job, _ in awaited(view.dependency))


def _number(job_id: str) -> int:
    digits = job_id.partition("_")[0]
    return int(digits) if digits.isascii() and digits.isdigit() else 0
