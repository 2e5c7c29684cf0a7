"""One execution of a job, and how looks at the scheduler become attempts.

Slurm shows one row per job number and overwrites it at each requeue; we keep one record per
attempt and never rewrite an older one. This module holds the rule that tells a later attempt of
the same job from another job that was given the same number, and from a scheduler that came back
from an older state of itself.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from middlewatch.model.dependency import Dependency
from middlewatch.model.identity import AttemptId, ClusterId
from middlewatch.model.optin import OptIn
from middlewatch.model.scheduler import ENDED, JobState, JobView


class EndedBy(StrEnum):
    """Who or what ended an attempt, as far as the scheduler and accounting tell."""

    COMPLETION = "completion"
    FAILURE = "failure"
    NODE_FAILURE = "node_failure"
    OUT_OF_MEMORY = "out_of_memory"
    TIME_LIMIT = "time_limit"
    DEADLINE = "deadline"
    OWNER = "owner"
    OPERATOR = "operator"
    SOMEBODY = "somebody"
    """Cancelled, and accounting has not said (or will never say) by whom."""
    PREEMPTION = "preemption"
    REQUEUE = "requeue"
    LAUNCH = "launch"
    """Slurm itself could not start it: credential revoked, prolog, node that never booted."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """How an attempt ended, stored before anybody requeues it (older releases overwrite it)."""

    state: JobState
    by: EndedBy
    exit_code: int | None
    exit_signal: int | None
    at: datetime | None
    learned_at: datetime
    final: bool = False
    """Accounting has confirmed it; until then `by` may become more precise."""


@dataclass(frozen=True, slots=True)
class Dependent:
    """A job that waits for this one, noted while it runs: Slurm forgets it afterwards."""

    job_id: str
    kind: str
    """``afterany``, ``afternotok``, ``afterok``, ``after``, ``singleton`` as Slurm spells it, or
    `LET_GO`."""


LET_GO = "let go"
"""``Dependent.kind`` of a job that began to be eligible when this one ended, and of which nobody
has seen for what it waited."""
TAKES_OVER = frozenset({"afterany", "afternotok", "singleton", LET_GO})
"""The kinds of dependents that a failure of this job lets go: such a one is its successor."""


TOLD = "api"
"""``Attempt.source`` of an attempt that only the API has told us of."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt. ``version`` grows with each write and is compared before the next."""

    id: AttemptId
    cluster: ClusterId
    job_id: str
    attempt_index: int
    submitted_at: datetime
    first_seen_at: datetime
    last_seen_at: datetime
    state: JobState = JobState.PENDING
    completing: bool = False
    workflow_id: str = ""
    job_name: str = ""
    user: str = ""
    uid: int = -1
    partitions: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    node_count: int = 0
    gpus_per_node: int = 0
    requeueable: bool | None = None
    opt_in: OptIn = OptIn()
    stdout: str = ""
    stderr: str = ""
    append_output: bool | None = None
    required_nodes: tuple[str, ...] = ()
    excluded_nodes: tuple[str, ...] = ()
    started_at: datetime | None = None
    end: AttemptEnd | None = None
    dependents: tuple[Dependent, ...] = ()
    vanished: bool = False
    source: str = "watcher"
    time_limit_s: int | None = None
    held: bool = False
    reason: str = ""
    waits_for: str = ""
    """Why it is not let go yet, where its owner declared what it waits for: a sentence, written by
    whoever decides that."""
    let_go_after: tuple[Dependency, ...] = ()
    """What it declared when its release was decided, all of which was done then. Empty: nothing was
    decided."""
    numbered_again: bool = False
    """Another job had the number before: no earlier attempt under it is of this job."""
    version: int = 0

    @property
    def live(self) -> bool:
        return self.end is None and not self.vanished

    @property
    def told(self) -> bool:
        """Whether this is hearsay: no scheduler has shown it to us."""
        return self.source == TOLD

    @property
    def reference(self) -> str:
        return f"{self.job_id}-{self.attempt_index}"


class Sighting(StrEnum):
    """What a row of a listing is, beside what we know of that job number."""

    SAME = "same"
    """An attempt that we know."""
    SUCCESSOR = "successor"
    """A later attempt of the newest known one's job."""
    OTHER_JOB = "other_job"
    """A new job (the number is new, or was given again)."""
    ROLLED_BACK = "rolled_back"
    """An attempt older than the newest known one: the scheduler lost the newer ones."""
    UNDECIDED = "undecided"
    """Seen while the requeue is still going on: the new restart count beside the old time."""


def sighting(known: tuple[Attempt, ...], view: JobView) -> Sighting:
    """Tell what ``view`` is. ``known`` are the attempts of that job number, in any order."""
    standing = [a for a in known if not a.vanished]
    same = next((a for a in standing if a.submitted_at == view.submitted_at), None)
    newest = max(standing, key=lambda a: a.submitted_at, default=None)
    if same is not None:
        if view.restarts != same.attempt_index:
            return Sighting.UNDECIDED
        if newest is not None and newest.submitted_at > view.submitted_at:
            return Sighting.ROLLED_BACK
        return Sighting.SAME
    if view.completing:
        return Sighting.UNDECIDED
    if newest is None or not same_owner(newest.uid, view.uid):
        return Sighting.OTHER_JOB
    if view.submitted_at < newest.submitted_at:
        return Sighting.ROLLED_BACK
    return Sighting.SUCCESSOR if view.restarts > newest.attempt_index else Sighting.OTHER_JOB


def same_owner(one: int, other: int) -> bool:
    """Whether two uids may belong to attempts of one job: a job's owner never changes. A negative
    one is not known."""
    return min(one, other) < 0 or one == other


def ended_by(view: JobView) -> EndedBy:
    """What the scheduler alone says of an ended job; cancellations stay "somebody"."""
    match view.state:
        case JobState.COMPLETED:
            return EndedBy.COMPLETION
        case JobState.NODE_FAIL:
            return EndedBy.NODE_FAILURE
        case JobState.OUT_OF_MEMORY:
            return EndedBy.OUT_OF_MEMORY
        case JobState.TIMEOUT:
            return EndedBy.TIME_LIMIT
        case JobState.DEADLINE:
            return EndedBy.DEADLINE
        case JobState.PREEMPTED:
            return EndedBy.PREEMPTION
        case JobState.BOOT_FAIL:
            return EndedBy.LAUNCH
        case JobState.CANCELLED:
            return EndedBy.SOMEBODY
        case JobState.FAILED:
            # Real-time signal 19 is what slurmd reports when it could not start the script.
            return EndedBy.LAUNCH if view.exit_signal == 53 else EndedBy.FAILURE
        case _:
            return EndedBy.UNKNOWN


def seen_again(attempt: Attempt, view: JobView, now: datetime) -> Attempt:
    """The attempt after a look showed it. An end, once recorded, is not taken back."""
    end = attempt.end
    if end is None and view.state in ENDED and not view.completing:
        end = AttemptEnd(
            state=view.state,
            by=ended_by(view),
            exit_code=view.exit_code,
            exit_signal=view.exit_signal,
            at=view.ended_at,
            learned_at=now,
        )
    return replace(
        attempt,
        last_seen_at=max(now, attempt.last_seen_at),
        state=view.state,
        completing=view.completing,
        partitions=partitions_of(attempt, view),
        node_count=view.node_count or attempt.node_count,
        requeueable=view.requeueable if view.requeueable is not None else attempt.requeueable,
        started_at=_started(attempt, view),
        end=end,
        held=view.held,
        reason=view.reason,
        time_limit_s=view.time_limit_s,
    )


def partitions_of(attempt: Attempt, view: JobView) -> tuple[str, ...]:
    """The partitions that the job may run in. Slurm shows all of them while it waits, and only
    the one that was chosen while it runs; at a requeue any of them can be chosen again."""
    chosen = view.state is not JobState.PENDING and set(view.partitions) <= set(attempt.partitions)
    return attempt.partitions if chosen or not view.partitions else view.partitions


def _started(attempt: Attempt, view: JobView) -> datetime | None:
    if view.state is JobState.PENDING:
        # A pending job's start time is Slurm's estimate, not a fact.
        return attempt.started_at
    return view.started_at or attempt.started_at


def lives_again(attempt: Attempt, view: JobView) -> Attempt:
    """The attempt when a scheduler that came back from an older state shows it as not ended: that
    it had been requeued was concluded from its successor, which that scheduler never had."""
    if attempt.end is None or attempt.end.by is not EndedBy.REQUEUE or view.state in ENDED:
        return attempt
    return replace(attempt, end=None)


_LAUNCH_FAILED = "launch_failed_requeued_held"


def superseded(attempt: Attempt, successor: JobView, now: datetime) -> Attempt:
    """The attempt once its successor was seen: requeued, unless its own end is known. Of a
    successor that waits because the prolog failed, it is the start that Slurm itself broke."""
    if attempt.end is not None:
        return attempt
    direct = successor.restarts == attempt.attempt_index + 1
    broken = direct and successor.reason.replace(" ", "_") == _LAUNCH_FAILED
    end = AttemptEnd(
        state=attempt.state if attempt.state in ENDED else JobState.CANCELLED,
        by=EndedBy.LAUNCH if broken else EndedBy.REQUEUE,
        exit_code=None,
        exit_signal=None,
        at=successor.submitted_at,
        learned_at=now,
    )
    return replace(attempt, end=end, completing=False, last_seen_at=max(now, attempt.last_seen_at))
