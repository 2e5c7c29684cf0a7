"""What a controller needs of a gateway on another machine: advice to work on, a place for outcomes.

A controller beside the store uses the store itself. Every method raises `Unreachable` where nobody
answers (after a write: it may have happened; each can be repeated with the same values),
`Refused` for a token without the scope, and `Unreadable` for an answer that is none of ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from middlewatch.model.action import ActionRecord
from middlewatch.model.advice import Advice, Status
from middlewatch.model.attempt import Attempt
from middlewatch.model.audit import AuditEvent
from middlewatch.model.change import Applied, Change, Lease
from middlewatch.model.identity import AttemptId, ClusterId
from middlewatch.model.milestone import Milestone
from middlewatch.model.signal import Progress, Signal


@dataclass(frozen=True, slots=True)
class AdvicePage:
    """``next_page`` names the following page of the same query; empty at the end."""

    advice: tuple[Advice, ...]
    next_page: str


class ControllerStore(Protocol):
    """The part of `ports.store.Store` that a controller uses, with its rules: the store itself
    beside us, or a gateway that keeps it for us."""

    def apply(self, change: Change) -> Applied: ...
    def acquire_lease(self, name: str, holder: str, ttl_s: float, now: datetime) -> Lease | None:
        """As the store's, with the times of the answer by the caller's own clock."""

    def release_lease(self, lease: Lease) -> None: ...
    def advice_page(
        self, only_active: bool, after: int, limit: int, owner: ClusterId | None = None
    ) -> tuple[tuple[int, Advice], ...]: ...
    def attempt(self, attempt_id: AttemptId) -> Attempt | None: ...
    def progress(self, attempt_id: AttemptId) -> Progress | None: ...
    def actions(self, attempt_id: AttemptId) -> tuple[ActionRecord, ...]: ...
    def placed(self, attempt_id: AttemptId) -> tuple[ActionRecord, ...]: ...
    def signals(
        self, attempt_id: AttemptId, after: int = 0, limit: int = 1000
    ) -> tuple[tuple[int, Signal], ...]:
        """At least those that tell of the attempt's end."""

    def note(self, name: str) -> str | None: ...
    def put_notes(self, notes: Sequence[tuple[str, str]]) -> None: ...


class AdviceSource(Protocol):
    def active_advice(self, owner: ClusterId, page: str = "", limit: int = 100) -> AdvicePage:
        """Advice that this owner's controller still has to work on, in the order in which the
        targets were first advised."""


class OutcomeSink(Protocol):
    def report(self, attempt_id: AttemptId, status: Status) -> None:
        """Record one observation of one generation. The same report twice is one report.

        Raises `NotFound` without such advice, `Conflict` where the generation is not the current
        one or has already ended otherwise: read the advice again.
        """

    def record(self, milestone: Milestone) -> None:
        """Record a milestone; repeated with the same key it is one. Raises `NotFound` where the
        sequence is not known."""

    def trail(self, events: Sequence[AuditEvent]) -> tuple[tuple[int, str], ...]:
        """Append to the audit trail; events with a known idempotency key are there already.
        Returns what was not taken, as (place in ``events``, why)."""
