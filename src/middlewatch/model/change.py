"""One transaction, as a value: everything that is written together or not at all.

Services read, decide (pure), and hand over one `Change`. The store checks the lease and every
expected version, writes all of it with its audit events, or nothing and says what moved.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from middlewatch.model.action import ActionRecord
from middlewatch.model.advice import Advice
from middlewatch.model.attempt import Attempt
from middlewatch.model.audit import AuditEvent
from middlewatch.model.identity import AttemptId
from middlewatch.model.issue import Issue, Verdict
from middlewatch.model.milestone import Milestone, Sequence
from middlewatch.model.recovery import Recovery
from middlewatch.model.signal import Progress, Signal


@dataclass(frozen=True, slots=True)
class Lease:
    """A holder's right to work on ``name`` until ``expires_at``; ``token`` grows with each grant
    to another holder, so that a late writer is recognised.

    ``taken_over_at``: when it was last taken from a holder who had let it run out instead of giving
    it back, and may not know it yet; None where that never was."""

    name: str
    holder: str
    token: int
    expires_at: datetime
    taken_over_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Shard:
    """A part of the work of ``pool`` (see `sharing`). ``holder`` empty: nobody's. ``token`` grows
    each time somebody takes it, so that whoever had it before is recognised."""

    pool: str
    number: int
    holder: str
    token: int


@dataclass(frozen=True, slots=True)
class WatchState:
    """What the watcher must find again after a restart: the detection state and the cursors of
    one attempt, opaque to the store, replaced as one with the signals that came of it."""

    attempt_id: AttemptId
    state: bytes
    version: int = 0


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision with its frozen inputs (JSON), so that it can be shown and replayed.

    ``verdict`` is the word of the result: ``advise`` or the reason for not advising.
    """

    id: str
    attempt_id: AttemptId
    at: datetime
    result: str
    policy_version: str
    inputs: str
    outcome: str
    generation: int | None = None


@dataclass(frozen=True, slots=True)
class Noted:
    """A small durable fact that takes the place of what stood there when it was read: ``before``
    None means that there was none yet."""

    name: str
    value: str
    before: str | None


@dataclass(frozen=True, slots=True)
class Change:
    """What one transaction writes. Rows with a ``version`` are compared with what is stored
    (0 means: must not exist yet) and stored with ``version + 1``.

    ``signals`` beyond ``signal_cap`` per (attempt, pattern) are counted, not stored.
    """

    lease: Lease | None = None
    now: datetime | None = None
    """Needed with ``lease``: the moment at which the lease must still hold."""
    shards: tuple[Shard, ...] = ()
    """What is written is about these: they must still be their holder's, with these tokens,
    whatever the time."""
    expected: tuple[tuple[AttemptId, int], ...] = ()
    """Attempts that were read for the decision and must still be at these versions, although
    they are not written."""
    attempts: tuple[Attempt, ...] = ()
    watch: tuple[WatchState, ...] = ()
    progress: tuple[Progress, ...] = ()
    signals: tuple[Signal, ...] = ()
    signal_cap: int = 100
    issues: tuple[Issue, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    decisions: tuple[Decision, ...] = ()
    sequences: tuple[Sequence, ...] = ()
    advice: tuple[Advice, ...] = ()
    actions: tuple[ActionRecord, ...] = ()
    milestones: tuple[Milestone, ...] = ()
    recoveries: tuple[Recovery, ...] = ()
    notes: tuple[Noted, ...] = ()
    audit: tuple[AuditEvent, ...] = ()
    about_signals: tuple[tuple[str, AuditEvent], ...] = ()
    """Events about signals of this change, by the signal's key: written only for those that are
    stored by it, so that a flood that is only counted does not fill the trail either."""

    @property
    def empty(self) -> bool:
        return not (
            self.attempts
            or self.watch
            or self.progress
            or self.signals
            or self.issues
            or self.verdicts
            or self.decisions
            or self.sequences
            or self.advice
            or self.actions
            or self.milestones
            or self.recoveries
            or self.notes
            or self.audit
        )


@dataclass(frozen=True, slots=True)
class Applied:
    """What a change came to: signals that were new (by key), and the last audit number."""

    new_signals: tuple[str, ...] = ()
    capped_signals: int = 0
    last_audit_number: int = 0
