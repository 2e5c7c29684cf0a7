"""The real store and journal, with a witness beside them and a death between any two steps.

Every write is a step before which, and behind which, its process may be killed. What the store
has acknowledged is told to the witness. Reads that are repeated while nobody has written are
answered from the last answer: several processes of one schedule share one store, so nothing else can
have changed it, and most of what a round reads is what the round before had read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from middlewatch.adapters.sql.codec import micros
from middlewatch.adapters.sql.store import SqlStore
from middlewatch.lab.simulated import EPOCH
from middlewatch.model.action import ActionRecord, Answered
from middlewatch.model.change import Applied, Change, Lease
from middlewatch.model.journal import JournalEntry
from middlewatch.ports.journal import Journal
from middlewatch.ports.store import AttemptFilter
from tools.faults.simulated.told import Seen
from tools.faults.simulated.witness import Witness

_READ_FROM = {
    "attempts": (
        "placed",
        "attempt",
        "attempts",
        "attempts_of_job",
        "attempt_by_index",
        "live_attempts",
        "workflow",
        "workflows",
    ),
    "watch": ("watch_state",),
    "progress": ("progress", "progress_of"),
    "signals": ("signals", "signals_after", "capped_counts"),
    "issues": ("issues",),
    "verdicts": ("verdicts",),
    "decisions": ("decisions",),
    "sequences": ("sequence", "sequence_by_id"),
    "advice": (
        "advice",
        "advice_of",
        "advice_of_job",
        "advice_page",
        "generations",
        "statuses",
    ),
    "actions": ("actions", "placed"),
    "milestones": ("milestones",),
    "recoveries": ("recovery", "recoveries", "settled_recoveries"),
    "notes": ("note",),
    "audit": ("audit", "last_audit_number"),
}
"""Which reads a part of a change may give another answer to."""
_REMEMBERED = frozenset(name for names in _READ_FROM.values() for name in names)


@dataclass
class Database:
    """One schedule's store, as all its processes share it."""

    store: SqlStore
    witness: Witness
    remembers: bool = True
    lease: Lease | None = None
    """The one that was granted last."""
    answers: dict[str, dict[tuple[Any, ...], Any]] = field(default_factory=dict)
    reads: int = 0
    writes: int = 0

    def forget(self, change: Change) -> None:
        """Something was written: what was read of it before may be different now."""
        for part, names in _READ_FROM.items():
            if getattr(change, part) or (part == "audit" and change.about_signals):
                for name in names:
                    self.answers.pop(name, None)

    def renewed(self, name: str, holder: str, ttl_s: float, now: datetime) -> Lease | None:
        """The lease that stands, prolonged, where its holder asks for it again; otherwise the store
        is asked. Most of what a quiet hour writes would be that."""
        known = self.lease
        if known is None or (known.name, known.holder) != (name, holder):
            return None
        expires = now + timedelta(seconds=ttl_s)
        with self.store.database.write() as connection:
            connection.exec_driver_sql(
                "UPDATE leases SET expires_us = ? WHERE name = ? AND holder = ? AND token = ?",
                (micros(expires), name, holder, known.token),
            )
        self.lease = replace(known, expires_at=expires)
        return self.lease


class Memory:
    """The store of one service. ``step`` is called around every write and may never return."""

    def __init__(
        self,
        database: Database,
        step: Callable[[str], None],
        *,
        seen: Callable[[], Seen] = Seen,
        planned: Callable[[ActionRecord], None] = lambda _record: None,
    ) -> None:
        self._database = database
        self._step = step
        self._seen = seen
        self._planned = planned

    def __getattr__(self, name: str) -> Any:
        read = getattr(self._database.store, name)
        database = self._database
        if name not in _REMEMBERED or not database.remembers:
            return read

        def answer(*given: Any, **named: Any) -> Any:
            key = (_lasting(given), tuple(named.items()))
            try:
                answers = database.answers.setdefault(name, {})
                if key in answers:
                    return answers[key]
            except TypeError:
                return read(*given, **named)
            database.reads += 1
            found = answers[key] = read(*given, **named)
            return found

        return answer

    def apply(self, change: Change) -> Applied:
        self._step("before the store")
        database, witness = self._database, self._database.witness
        applied = database.store.apply(change)
        database.forget(change)
        database.writes += 1
        for advice in change.advice:
            witness.wrote(advice, self._seen())
        for event in change.audit:
            witness.audit[event.idempotency_key or f"#{len(witness.audit)}"] = event.type
        for record in change.actions:
            witness.intents.add(record.id)
            if record.answered is Answered.IN_FLIGHT:
                self._planned(record)
        self._step("behind the store")
        return applied

    def acquire_lease(self, name: str, holder: str, ttl_s: float, now: datetime) -> Lease | None:
        database = self._database
        renewed = database.renewed(name, holder, ttl_s, now)
        if renewed is not None:
            return renewed
        database.writes += 1
        lease = database.store.acquire_lease(name, holder, ttl_s, now)
        if lease is not None and lease.taken_over_at == now:
            database.witness.happen("a leader is taken over from")
        database.lease = lease or database.lease
        return lease

    def release_lease(self, lease: Lease) -> None:
        self._database.store.release_lease(lease)
        self._database.lease = None

    def put_notes(self, notes: Any) -> None:
        self._step("before the store")
        self._database.store.put_notes(notes)
        self._database.writes += 1
        self._database.answers.pop("note", None)
        self._step("behind the store")


def _lasting(given: tuple[Any, ...]) -> tuple[Any, ...]:
    """The same question without a bound that bounds nothing: no schedule has anything that ended
    before it began."""
    return tuple(
        replace(one, ended_from=None)
        if isinstance(one, AttemptFilter) and one.ended_from is not None and one.ended_from < EPOCH
        else one
        for one in given
    )


class Pages:
    """A journal whose writer may die around every line."""

    def __init__(self, journal: Journal, step: Callable[[str], None], witness: Witness) -> None:
        self._journal = journal
        self._step = step
        self._witness = witness

    def append(self, entry: JournalEntry) -> None:
        self._step("before the journal")
        self._journal.append(entry)
        self._witness.say(f"journal: {entry.kind.value} {entry.job_id} r{entry.restarts_expected}")
        self._step("behind the journal")

    def entries(self) -> tuple[JournalEntry, ...]:
        return self._journal.entries()
