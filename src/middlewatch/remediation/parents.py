"""Is a job that another one waits for done?

Slurm answers that at the moment of an end, and for good. Here an end may be the beginning of a
recovery: what failed is requeued, runs again as the next attempt of the same job, and only then
completes. So a parent is done when its newest attempt has ended in the way that the dependency
asks for, nothing of ours is under way for it, and the decision about it can no longer become a
restart. A completed attempt is never restarted: that is known at once. Of one that ended otherwise
it is known when accounting has confirmed the end, its log was read to its end, the decision made
again from all that is known is to leave it alone, and some time has passed for late evidence.

What cannot be told is not done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from middlewatch.model.advice import Advice, DesiredState, Disposition
from middlewatch.model.attempt import Attempt, AttemptEnd, EndedBy
from middlewatch.model.dependency import Condition, Dependency
from middlewatch.model.optin import JobMode
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import ENDED, JobState
from middlewatch.remediation.history import follows
from middlewatch.remediation.outcome import WAITING

READ_WITHIN = timedelta(minutes=10)
"""How long the rest of an ended attempt's log is waited for."""
LONG_AFTER = timedelta(days=1)
"""So long after an end that was learnt its evidence may have been tidied away, and none comes."""
ADVISED = "advise"
"""``ParentFacts.asked`` where the decision, made now, is to act."""
_UNDECIDED = frozenset({ADVISED, *(basis.value for basis in WAITING)})


class Seen(StrEnum):
    """Who knows what became of the parent."""

    WATCHED = "watched"
    """It opted in: its attempts are recorded."""
    ELSEWHERE = "elsewhere"
    """It did not: the scheduler or accounting was asked. Nothing of ours ever restarts it."""
    NOWHERE = "nowhere"
    UNKNOWN = "unknown"
    LATER = "later"
    """The job that has the number was submitted after the one that waits."""
    ARRAY = "array"


@dataclass(frozen=True, slots=True)
class ParentFacts:
    """All that is known of one parent. ``attempt`` is the newest one of a watched job, and
    ``advice`` what stands for it and for the attempt before it. Of a job that is not watched,
    ``uid``, ``user``, ``state`` and ``requeued`` are what was answered. ``asked`` is the word of
    the decision about the attempt, made now (empty: there is no issue); ``end_told`` says that the
    watcher has judged its end; ``cycle`` names the jobs of a circle of declarations. ``why``
    belongs to UNKNOWN."""

    dependency: Dependency
    seen: Seen
    why: str = ""
    attempt: Attempt | None = None
    advice: tuple[Advice, ...] = ()
    asked: str = ""
    end_told: bool = False
    read_at: datetime | None = None
    """When its log had last been read to its end."""
    uid: int = -1
    user: str = ""
    state: JobState | None = None
    requeued: bool = False
    cycle: tuple[str, ...] = ()
    successor_lost: bool = False
    """Whether a scheduler that came back from an older state has undone the restart of it."""


class Standing(StrEnum):
    MET = "met"
    WAITS = "waits"
    NEVER = "never"
    """It ended for good, and not as asked for. (A person may still run it again.)"""
    UNKNOWN = "unknown"
    WRONG = "wrong"
    """It cannot be waited for: its owner has to mend the declaration."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One dependency and how it stands. ``why`` is a clause for people that holds as long as the
    facts do, so that the same facts make the same words."""

    dependency: str
    standing: Standing
    why: str


def judged(parent: ParentFacts, child: Attempt, policy: Policy, now: datetime) -> Judged:
    """How one dependency of ``child`` stands."""
    standing, why = _standing(parent, child, policy, now)
    return Judged(parent.dependency.text, standing, why)


def job_at(attempts: Sequence[Attempt], moment: datetime) -> tuple[Attempt, ...]:
    """Of all attempts recorded under a number those of the job that had it at that moment, oldest
    first; empty where the first one of the number came later.

    An index that does not grow begins another job, and so does another owner. What vanished never became anything, and what
    the API alone told of is hearsay.
    """
    lines = lines_of(attempts)
    before = [line for line in lines if line[0].submitted_at <= moment]
    return before[-1] if before else ()


def lines_of(attempts: Sequence[Attempt]) -> tuple[tuple[Attempt, ...], ...]:
    """The jobs under one number, each as its attempts, oldest first."""
    lines: list[list[Attempt]] = []
    for attempt in sorted(attempts, key=lambda a: a.submitted_at):
        if attempt.vanished or attempt.told:
            continue
        if lines and follows(lines[-1][-1], attempt):
            lines[-1].append(attempt)
        else:
            lines.append([attempt])
    return tuple(tuple(line) for line in lines)


# -- one parent -------------------------------------------------------------------------------


def _standing(
    parent: ParentFacts, child: Attempt, policy: Policy, now: datetime
) -> tuple[Standing, str]:
    job_id = parent.dependency.job_id
    if job_id in {child.job_id, child.job_id.partition("_")[0]}:
        return Standing.WRONG, "a job cannot wait for itself"
    if parent.cycle:
        return Standing.WRONG, f"they wait for each other: {' -> '.join(parent.cycle)}"
    match parent.seen:
        case Seen.NOWHERE:
            return Standing.WRONG, (
                "no such job is known to the scheduler, to its accounting or to us (of an array each "
                "task is named by itself: 123_4)"
            )
        case Seen.LATER:
            return Standing.WRONG, (
                "the job that has this number was submitted after this one: the number was given "
                "again, or the dependency was added later. A job can wait only for jobs submitted "
                "before it: submit it again"
            )
        case Seen.ARRAY:
            return Standing.WRONG, "that is a whole array: name its tasks one by one (123_0, 123_1)"
        case Seen.UNKNOWN:
            return Standing.UNKNOWN, parent.why
        case Seen.WATCHED | Seen.ELSEWHERE:
            pass
    stranger = _not_of_the_same_owner(parent, child)
    if stranger is not None:
        return stranger
    if parent.attempt is None:
        return _elsewhere(parent)
    return _watched(parent, parent.attempt, policy, now)


def _not_of_the_same_owner(parent: ParentFacts, child: Attempt) -> tuple[Standing, str] | None:
    uid, user = parent.uid, parent.user
    if parent.attempt is not None:
        uid, user = parent.attempt.uid, parent.attempt.user
    if uid >= 0 and child.uid >= 0:
        same = uid == child.uid
    elif user and child.user:
        same = user == child.user
    else:
        return Standing.UNKNOWN, "it cannot be told whose job that is"
    return None if same else (Standing.WRONG, "that job is another user's")


def _elsewhere(parent: ParentFacts) -> tuple[Standing, str]:
    """Of a job that nobody here watches, and that nothing of ours restarts."""
    state = parent.state
    if state is None or state is JobState.UNREADABLE:
        return Standing.UNKNOWN, "its state cannot be read"
    if parent.requeued:
        return Standing.WAITS, "it was requeued"
    if state not in ENDED:
        return Standing.WAITS, f"it is {state.value}"
    return _ended(parent.dependency.condition, state, f"it ended {state.value}")


def _watched(
    parent: ParentFacts, attempt: Attempt, policy: Policy, now: datetime
) -> tuple[Standing, str]:
    named = f"attempt {attempt.attempt_index}"
    active = next((advice for advice in parent.advice if advice.active), None)
    if active is not None:
        which = "" if active.attempt_id == attempt.id else f" of attempt {active.attempt_index}"
        return Standing.WAITS, (
            f"{named} is {_state(attempt)}, and it is being recovered: {active.desired.value}{which} "
            f"(generation {active.generation}) is not settled"
        )
    end = attempt.end
    if end is None:
        return Standing.WAITS, f"{named} is {_state(attempt)}"
    if _restarted(parent, attempt):
        # Whoever reports outcomes sees the successor before it has a record of its own.
        return Standing.WAITS, f"{named} was restarted, and the next attempt has not been seen"
    if end.by is EndedBy.REQUEUE:
        return Standing.WAITS, f"{named} was requeued, and the next attempt has not been seen"
    if end.by is EndedBy.UNKNOWN or end.state not in ENDED:
        return Standing.UNKNOWN, f"how {named} ended is not known"
    if end.state is not JobState.COMPLETED:
        open_ = _may_still_be_restarted(parent, attempt, end, policy, now)
        if open_:
            return Standing.WAITS, f"{named} ended {end.state.value}, and {open_}"
    return _ended(parent.dependency.condition, end.state, f"{named} ended {end.state.value}")


def _restarted(parent: ParentFacts, attempt: Attempt) -> bool:
    """Whether our restart of this very attempt has converged, and stands."""
    return not parent.successor_lost and any(
        advice.attempt_id == attempt.id
        and advice.desired is DesiredState.RESTARTED
        and advice.status is not None
        and advice.status.disposition is Disposition.CONVERGED
        for advice in parent.advice
    )


def _state(attempt: Attempt) -> str:
    if attempt.end is not None:
        return f"ended ({attempt.end.state.value})"
    return "COMPLETING" if attempt.completing else attempt.state.value


def _may_still_be_restarted(
    parent: ParentFacts, attempt: Attempt, end: AttemptEnd, policy: Policy, now: datetime
) -> str:
    """Why the manager could still come to restart it; empty: it no longer can."""
    if attempt.opt_in.effective(attempt.cluster.environment) is JobMode.OFF:
        return ""
    if parent.asked in _UNDECIDED:
        return f"what becomes of it is being decided ({parent.asked})"
    if not end.final:
        return "accounting has not confirmed that yet"
    if now >= end.learned_at + LONG_AFTER:
        return ""
    if not parent.asked and not parent.end_told:
        return "its end has not been judged yet"
    # A slow listing shows an end that came after its tick had begun; files are read behind it.
    over = min(end.at or end.learned_at, end.learned_at)
    read = parent.read_at is not None and parent.read_at >= over
    # What was never placed on a node has written nothing.
    if attempt.nodes and not read and now < end.learned_at + READ_WITHIN:
        return "its log has not been read to its end"
    settled = end.learned_at + timedelta(seconds=policy.parent_settles_s)
    if now < settled:
        return f"late evidence may still have it restarted, until {settled:%H:%M:%S} UTC"
    return ""


def _ended(condition: Condition, state: JobState, how: str) -> tuple[Standing, str]:
    """Whether an end for good is the one that was asked for."""
    completed = state is JobState.COMPLETED
    met = {
        Condition.AFTEROK: completed,
        Condition.AFTERANY: True,
        Condition.AFTERNOTOK: not completed,
    }[condition]
    return (Standing.MET, how) if met else (Standing.NEVER, f"{how}, for good")
