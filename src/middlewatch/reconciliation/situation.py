"""Everything that one decision of the controller may look at, and what it may answer.

A situation is frozen: one advice, one fresh look, the facts that were asked for, one `now`. The
answer is exactly one step, so that any prefix of a recovery is safe and the next cycle starts
from what is really there.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from middlewatch.model.action import Action, ActionKind, ActionRecord, Answered
from middlewatch.model.advice import Advice, Disposition, Reason
from middlewatch.model.answer import Answer
from middlewatch.model.attempt import Attempt
from middlewatch.model.gates import Gates
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import (
    AccountingRecord,
    ClusterFacts,
    JobDetail,
    JobFlag,
    JobView,
    Snapshot,
)
from middlewatch.model.signal import Progress


class LogEnd(StrEnum):
    """What the end of attempt k's log says of its death, as far as the watcher has read."""

    NOTHING = "nothing"
    REQUEUED = "requeued"
    """Slurm's line DUE TO JOB REQUEUE: it was alive when it was requeued."""
    CANCELLED = "cancelled"
    """Slurm's line CANCELLED AT without a reason: a person stopped it."""


@dataclass(frozen=True, slots=True)
class Situation:
    """Durations in seconds.

    ``attempt`` is attempt k as stored; ``actions`` all that we did for this advice, oldest first,
    earlier generations included; ``detail``, ``accounting`` and ``chain`` are None until asked for;
    ``pending_since`` is when the successor was first seen pending; ``our_exclusions`` every
    node that we ever added to the job's list, where the journal knows it.
    """

    advice: Advice
    gates: Gates
    look: Answer[Snapshot]
    facts: ClusterFacts
    policy: Policy
    attempt: Attempt | None = None
    progress: Progress | None = None
    log_end: LogEnd = LogEnd.NOTHING
    actions: tuple[ActionRecord, ...] = ()
    detail: Answer[JobDetail] | None = None
    accounting: Answer[tuple[AccountingRecord, ...]] | None = None
    chain: Answer[Snapshot] | None = None
    pending_since: datetime | None = None
    our_exclusions: tuple[str, ...] | None = None
    partition_nodes: tuple[str, ...] | None = None
    """Usable nodes of the job's partitions, where known: used to shorten exclusions."""
    deadline_s: float = 15.0
    silence: tuple[datetime, datetime] | None = None
    """The last time that the scheduler left a command or a look of ours without an answer: from
    when, and until the first look that it answered again."""


class Fact(StrEnum):
    """What a step may ask for before it can be decided."""

    DETAIL = "detail"
    ACCOUNTING = "accounting"
    CHAIN = "chain"
    """A look at the jobs that waited for attempt k's end."""


@dataclass(frozen=True, slots=True)
class Act:
    action: Action


@dataclass(frozen=True, slots=True)
class Report:
    """A terminal outcome for the advice's current generation."""

    disposition: Disposition
    reason: Reason
    detail: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do before ``until`` (None: the next look). ``reason`` is reported as PENDING."""

    why: str
    until: datetime | None = None
    reason: Reason = Reason.IN_PROGRESS


@dataclass(frozen=True, slots=True)
class Need:
    """``jobs`` are the numbers that `Fact.CHAIN` asks about; the others are about the job itself."""

    fact: Fact
    jobs: tuple[str, ...] = ()


Step = Act | Report | Wait | Need


def abandoned(reason: Reason, detail: str) -> Report:
    return Report(Disposition.ABANDONED, reason, detail)


class Place(StrEnum):
    """Where the scheduler's row for the job number stands beside the advice's target k."""

    GONE = "gone"
    SAME = "same"
    TURNING = "turning"
    """Being requeued: the new restart count already stands beside the old submit time."""
    SUCCESSOR = "successor"
    BEYOND = "beyond"
    REPLACED = "replaced"
    ROLLED_BACK = "rolled_back"


_TURNING = frozenset({JobFlag.COMPLETING, JobFlag.REQUEUED, JobFlag.REQUEUE_HOLD})


def place(advice: Advice, view: JobView | None) -> Place:
    """Tell where ``view`` stands. Submit times are compared in whole seconds, as Slurm keeps
    them: an attempt that was requeued within the second of its submission is told by the restart
    count alone, once the old processes are gone."""
    if view is None:
        return Place.GONE
    k = advice.attempt_index
    if view.submitted_at == advice.submitted_at:
        if view.restarts == k:
            return Place.SAME
        if view.flags & _TURNING:
            return Place.TURNING
    if view.submitted_at < advice.submitted_at or (
        view.submitted_at == advice.submitted_at and view.restarts < k
    ):
        return Place.ROLLED_BACK
    if view.restarts <= k:
        return Place.REPLACED
    if view.completing and view.started_at is None:
        return Place.TURNING
    return Place.SUCCESSOR if view.restarts == k + 1 else Place.BEYOND


def requeues(situation: Situation) -> tuple[ActionRecord, ...]:
    """Our requeues of the target that may have taken effect, oldest first."""
    kinds = (ActionKind.REQUEUE, ActionKind.REQUEUE_HOLD)
    return tuple(
        record
        for record in situation.actions
        if record.action.kind in kinds and record.answered is not Answered.REFUSED
    )
