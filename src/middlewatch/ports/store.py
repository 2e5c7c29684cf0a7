"""The durable memory: one writer's transaction as a value, and the reads that decisions need.

Every read raises `Unreachable` where the database cannot be reached and `Unreadable` where a row
cannot be understood. `apply` additionally raises `Conflict` (something moved; nothing was
written). An `apply` that raised `Unreachable` may have been written: read before repeating.
"""

from __future__ import annotations

from collections.abc import Sequence as Seq
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from middlewatch.model.action import ActionRecord
from middlewatch.model.advice import Advice, Status
from middlewatch.model.attempt import Attempt
from middlewatch.model.audit import AuditEvent
from middlewatch.model.change import Applied, Change, Decision, Lease, WatchState
from middlewatch.model.identity import AttemptId, ClusterId
from middlewatch.model.issue import Issue, Verdict
from middlewatch.model.milestone import Milestone, Operation, Sequence
from middlewatch.model.recovery import Recovery, RecoveryState
from middlewatch.model.retention import Aged, Cutoffs
from middlewatch.model.sharing import Sharing
from middlewatch.model.signal import Progress, Signal


@dataclass(frozen=True, slots=True)
class AttemptFilter:
    """All given parts must hold. ``final`` None means both; ``states`` are `JobState` words, and
    ``REQUEUED`` for attempts that ended by a requeue, whatever state that left them in."""

    cluster: ClusterId | None = None
    job_ids: tuple[str, ...] = ()
    workflow_ids: tuple[str, ...] = ()
    states: tuple[str, ...] = ()
    final: bool | None = None
    reconciliation_eligible: bool = False
    ended_from: datetime | None = None
    ended_to: datetime | None = None


@dataclass(frozen=True, slots=True)
class AuditFilter:
    attempt_id: AttemptId | None = None
    job_id: str | None = None
    attempt_index: int | None = None
    type: str | None = None
    level: str | None = None
    producer: str | None = None
    from_: datetime | None = None
    to: datetime | None = None


@dataclass(frozen=True, slots=True)
class RecoveryFilter:
    """All given parts must hold. ``settled`` None means both."""

    cluster: ClusterId | None = None
    job_id: str | None = None
    state: RecoveryState | None = None
    settled: bool | None = None


@dataclass(frozen=True, slots=True)
class Workflow:
    """Grouping of related jobs, derived from their attempts."""

    workflow_id: str
    scheduler_workflow_id: str
    name: str
    started_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """An API token as stored: only the digest of its secret."""

    id: str
    digest: str
    scopes: tuple[str, ...]
    name: str
    created_at: datetime
    revoked: bool = False


class Store(Protocol):
    def apply(self, change: Change) -> Applied:
        """Write everything in one transaction, or nothing."""

    # attempts
    def attempt(self, attempt_id: AttemptId) -> Attempt | None: ...
    def attempts_of_job(self, cluster: ClusterId, job_id: str) -> tuple[Attempt, ...]:
        """All attempts under that number, oldest submit time first."""

    def attempt_by_index(self, job_id: str, attempt_index: int) -> Attempt | None:
        """The newest such attempt (a number may have come back)."""

    def live_attempts(self, cluster: ClusterId) -> tuple[Attempt, ...]:
        """Neither ended nor vanished."""

    def attempts(self, where: AttemptFilter, offset: int, limit: int) -> tuple[Attempt, ...]:
        """Oldest first seen first."""

    def workflows(self, offset: int, limit: int) -> tuple[Workflow, ...]: ...
    def workflow(self, workflow_id: str) -> Workflow | None: ...

    # watching
    def watch_state(self, attempt_id: AttemptId) -> WatchState | None: ...
    def progress(self, attempt_id: AttemptId) -> Progress | None: ...
    def progress_of(self, attempt_ids: Seq[AttemptId]) -> dict[AttemptId, Progress]:
        """The same for a page of attempts at once; one without progress is left out."""

    def signals(
        self, attempt_id: AttemptId, after: int = 0, limit: int = 1000
    ) -> tuple[tuple[int, Signal], ...]:
        """In the order in which they were stored, each with its row number (> ``after``)."""

    def signals_after(self, after: int, limit: int = 1000) -> tuple[tuple[int, Signal], ...]:
        """Over all attempts, in storage order: what is new for the manager."""

    def capped_counts(self, attempt_id: AttemptId) -> dict[str, int]:
        """Per pattern id, how many signals came after the cap and were only counted."""

    # decisions
    def issues(self, attempt_id: AttemptId | None, offset: int, limit: int) -> tuple[Issue, ...]:
        """Newest first when no attempt is named, oldest first within one attempt."""

    def verdicts(self, attempt_id: AttemptId) -> tuple[Verdict, ...]: ...
    def decisions(self, attempt_id: AttemptId) -> tuple[Decision, ...]: ...
    def advice(self, attempt_id: AttemptId) -> Advice | None: ...
    def advice_of(self, attempt_ids: Seq[AttemptId]) -> dict[AttemptId, Advice]:
        """The same for a page of attempts at once; one without advice is left out."""

    def advice_of_job(self, cluster: ClusterId, job_id: str) -> tuple[Advice, ...]:
        """Of all attempts under that number, oldest attempt first."""

    def advice_page(
        self, only_active: bool, after: int, limit: int, owner: ClusterId | None = None
    ) -> tuple[tuple[int, Advice], ...]:
        """In the order in which targets were first advised, each with its stable position
        (> ``after``). Reading infers nothing."""

    def generations(self, attempt_id: AttemptId) -> tuple[Advice, ...]:
        """Every generation as it was left (with its own last status), oldest first."""

    def statuses(self, attempt_id: AttemptId) -> tuple[Status, ...]:
        """Every recorded report, oldest first."""

    def actions(self, attempt_id: AttemptId) -> tuple[ActionRecord, ...]:
        """Oldest first."""

    def placed(self, attempt_id: AttemptId) -> tuple[ActionRecord, ...]:
        """Commands of ours that set exclusions, on this attempt or an earlier one of the same job,
        whoever sent them; oldest first."""

    def sequence(
        self, scheduler: str, environment: str, job_id: str, index: int, operation: Operation
    ) -> Sequence | None: ...
    def sequence_by_id(self, sequence_id: str) -> Sequence | None: ...
    def milestones(self, sequence_id: str) -> tuple[Milestone, ...]:
        """Oldest first."""

    # recoveries
    def recovery(self, recovery_id: str) -> Recovery | None: ...
    def recoveries(
        self, where: RecoveryFilter, before: int, limit: int
    ) -> tuple[tuple[int, Recovery], ...]:
        """Newest begun first, each with its stable position (< ``before``; 0: from the newest)."""

    def settled_recoveries(
        self, after: int, limit: int, cluster: ClusterId | None = None
    ) -> tuple[tuple[int, Recovery], ...]:
        """Those that change no more, in the order in which they were settled, each with its place
        in that order (> ``after``)."""

    # audit
    def audit(
        self,
        where: AuditFilter,
        after: int,
        limit: int,
        *,
        descending: bool = False,
        backwards: bool = False,
    ) -> tuple[AuditEvent, ...]:
        """By number (which is the order of storage). ``after`` is the number to continue behind
        (0: from the start of the given direction); ``backwards`` reads the page before it."""

    def last_audit_number(self) -> int: ...

    # leases, tokens, small facts
    def acquire_lease(self, name: str, holder: str, ttl_s: float, now: datetime) -> Lease | None:
        """Take or renew; None while another holder's has not expired. Compare-and-swap. ``now`` is
        by the clock of the machine that the store is on: all holders' leases end by that one."""

    def release_lease(self, lease: Lease) -> None:
        """Give it back, so that another may have it at once; nothing where it is no longer ours."""

    def leases(self) -> tuple[Lease, ...]: ...
    def sharing(self, pool: str) -> Sharing:
        """Members and shards of a pool, and the time by the store's own clock: that of whoever
        asks may go wrong."""

    def share_out(
        self,
        pool: str,
        holder: str,
        term_s: float,
        take: Seq[int] = (),
        give: Seq[int] = (),
    ) -> Sharing:
        """In one transaction prolong ``holder``'s membership to ``term_s`` from now, give back of
        ``give`` what it holds, and take of ``take`` what is nobody's, its own from before, or that
        of somebody whose membership is over. What came of it is in the answer; each shard that was
        taken has a new token. The first member of a pool makes it."""

    def leave(self, pool: str, holder: str) -> None:
        """End a membership and give back all its shards."""

    def add_token(self, token: TokenRecord) -> None: ...
    def tokens(self) -> tuple[TokenRecord, ...]: ...
    def note(self, name: str) -> str | None:
        """A small durable fact by name (a service's cursor, the owned cluster's name)."""

    def notes(self, prefix: str) -> tuple[tuple[str, str], ...]:
        """All notes whose name begins so, as (name, value), by name."""

    def put_notes(self, notes: Seq[tuple[str, str]]) -> None: ...
    def age_out(self, before: Cutoffs, limit: int) -> Aged:
        """Let go of what ended before (see `model.retention`), at most ``limit`` attempts whole
        and as many attempts' evidence. Advice, with its history, and the trail stay. A signal
        whose attempt's evidence went is new again if somebody posts it again."""

    def healthy(self) -> bool:
        """A write and a read work."""
