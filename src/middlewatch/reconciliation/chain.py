"""Has the end of the target let another job of its chain go? Then that job is the successor.

A job that ends lets those go that wait for its end, at once and for good; a requeue of what still runs
does not. Where the target ends by itself between our look and our requeue, both happen: the other job
starts, and the target is back in the queue behind it. Two of one chain must never train.
"""

from __future__ import annotations

from middlewatch.model.advice import Reason
from middlewatch.model.answer import Known, Unknown
from middlewatch.model.attempt import LET_GO, Dependent
from middlewatch.model.scheduler import JobState, JobView, Snapshot
from middlewatch.reconciliation.situation import Fact, Need, Situation, Wait

TAKE_OVER = frozenset({"afterany", "afternotok", "singleton", LET_GO})


def may_take_over(situation: Situation) -> tuple[Dependent, ...]:
    """The jobs that the target's end lets go, whatever it ends by."""
    dependents = situation.attempt.dependents if situation.attempt else ()
    return tuple(one for one in dependents if one.kind in TAKE_OVER)


def taken_over(situation: Situation) -> str | Need | Wait | None:
    """Who has taken over, as a sentence; None where nobody has."""
    dependents = may_take_over(situation)
    if not dependents:
        return None
    match situation.chain:
        case None:
            return Need(Fact.CHAIN)
        case Known(value=snapshot):
            for one in dependents:
                if any(_let_go(view) for view in _rows(snapshot, one.job_id)):
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


def _let_go(view: JobView) -> bool:
    """Whether it has begun, or waits for no other job any more. (One that the scheduler has forgotten
    trains no more, whatever became of it.)"""
    if view.state is JobState.PENDING:
        return not view.dependency and view.eligible_at is not None
    return view.started_at is not None
