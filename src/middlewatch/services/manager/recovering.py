"""The book of recoveries: one record for each, kept up until nothing of it changes any more.

Everything that a recovery is told from is stored by others: advice and its milestones, attempts,
how far each came. Here it is read together, told as one (purely), and written where it says
something new. So a round may be repeated, cut short or lost; the next one comes to the same. New
advice is found behind a durable cursor, and what is open is found in the store.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from middlewatch.model.attempt import Attempt
from middlewatch.model.audit import AuditEvent, AuditKind, AuditLevel
from middlewatch.model.change import Change
from middlewatch.model.copies import replace
from middlewatch.model.identity import AttemptId, ClusterId
from middlewatch.model.policy import Policy
from middlewatch.model.recovery import Recovery, RecoveryState
from middlewatch.model.steps import Reached, furthest_of
from middlewatch.ports.errors import Conflict, Refused, Unreadable
from middlewatch.ports.store import RecoveryFilter, Store
from middlewatch.remediation import (
    WAITING,
    AttemptStory,
    earlier_attempts,
    line_from,
    missing_milestones,
    recovery_of,
)
from middlewatch.services.manager.frozen import ADVISED

CURSOR = "manager.recoveries"
"""The note that keeps the place of the last advice that was entered into the book."""

PRODUCER = "manager"
NEW_AT_ONCE = 50
LOOKED_AT_ONCE = 20
"""Recoveries looked at in one round: a storm of them must not delay decisions."""
EVERY = timedelta(seconds=1)
AGAIN = timedelta(seconds=2)
"""How soon a recovery of which something was new is looked at again."""
STILL = timedelta(seconds=10)
"""How long at most one is left alone that did not change, unless it is old."""
_SELDOM = 300
"""An old one is left alone for this share of its age."""
OPEN_AT_MOST = 2000
READ_EVERY = timedelta(seconds=30)
"""How often the open ones are read from the store: other managers may have entered some."""
LINE_AT_MOST = 50

_LEVELS = {
    RecoveryState.NOT_RECOVERED: AuditLevel.WARNING,
    RecoveryState.GIVEN_UP: AuditLevel.WARNING,
}


_NOT_THE_END = {ADVISED, *(basis.value for basis in WAITING)}
"""Words of decisions after which another one follows."""


class Recoveries:
    """The book of one deployment. Not for use from several threads at once."""

    def __init__(
        self,
        store: Store,
        cluster: ClusterId,
        policy: Policy,
        on_error: Callable[[str, Exception], None] = lambda _what, _error: None,
    ) -> None:
        """``on_error`` is told of an attempt whose records cannot be read: it is left out."""
        self._on_error = on_error
        self._store = store
        self._cluster = cluster
        self._policy = policy
        self._cursor: int | None = None
        self._anew: dict[AttemptId, None] = {}
        self._begun = False
        self._open: dict[str, Recovery] = {}
        self._read_at: datetime | None = None
        self._due: dict[str, datetime] = {}
        """By open recovery: when to look at it again."""
        self._paused: dict[str, timedelta] = {}
        self._at: datetime | None = None

    def tick(self, now: datetime, advised: Iterable[AttemptId] = ()) -> None:
        """Enter what is new and look at what is open. ``advised``: attempts that were decided about
        in this round, perhaps anew. Raises `PortError`; what was not written is done later."""
        self._anew.update(dict.fromkeys(advised))
        if self._at is not None and now - self._at < EVERY and now >= self._at:
            return
        self._at = now
        self._enter(now)
        self._look(now)

    # -- new ones -----------------------------------------------------------------------------

    def _enter(self, now: datetime) -> None:
        if self._cursor is None:
            text = self._store.note(CURSOR) or "0"
            if not (text.isascii() and text.isdigit()):
                raise Unreadable(f"note {CURSOR} is {text[:40]!r}, not a number; remove it")
            self._cursor = int(text)
        if not self._begun:
            # What was decided anew just before a predecessor of ours died stands here, too.
            active = self._store.advice_page(True, 0, OPEN_AT_MOST, self._cluster)
            self._anew.update(dict.fromkeys(advice.attempt_id for _, advice in active))
            self._begun = True
        page = self._store.advice_page(False, self._cursor, NEW_AT_ONCE, self._cluster)
        for attempt_id in dict.fromkeys([*self._anew, *(a.attempt_id for _, a in page)]):
            try:
                self._enter_one(attempt_id, now)
            except (Refused, Unreadable) as error:
                self._on_error(attempt_id, error)
            self._anew.pop(attempt_id, None)
        if page:
            self._store.put_notes(((CURSOR, str(page[-1][0])),))
            self._cursor = page[-1][0]

    def _enter_one(self, attempt_id: AttemptId, now: datetime) -> None:
        """Begin a recovery for advice, unless it belongs to one that goes on."""
        attempt = self._store.attempt(attempt_id)
        if attempt is None or attempt.cluster != self._cluster:
            return
        relatives = self._store.attempts_of_job(attempt.cluster, attempt.job_id)
        where = RecoveryFilter(self._cluster, attempt.job_id)
        for _, known in self._store.recoveries(where, 0, LINE_AT_MOST):
            if known.attempt_id == attempt_id:
                return
            line = line_from(relatives, known.attempt_id)
            if not known.settled and any(one.id == attempt_id for one in line):
                return
        self._write(attempt, relatives, None, now)

    # -- open ones ----------------------------------------------------------------------------

    def _look(self, now: datetime) -> None:
        if self._read_at is None or not timedelta(0) <= now - self._read_at < READ_EVERY:
            where = RecoveryFilter(self._cluster, settled=False)
            found = self._store.recoveries(where, 0, OPEN_AT_MOST)
            self._open = {one.id: one for _, one in found}
            self._due = {name: at for name, at in self._due.items() if name in self._open}
            self._read_at = now
        late = [one for name, one in self._open.items() if self._due.get(name, now) <= now]
        late.sort(key=lambda one: self._due.get(one.id, one.began_at))
        for recovery in late[:LOOKED_AT_ONCE]:
            self._due[recovery.id] = now + self._pause(recovery, now)
            try:
                self._look_at(recovery, now)
            except (Refused, Unreadable) as error:
                self._on_error(recovery.attempt_id, error)

    def _pause(self, recovery: Recovery, now: datetime) -> timedelta:
        """How long to leave it alone: twice as long as before, for as long as nothing is new."""
        pause = min(STILL, self._paused.get(recovery.id, AGAIN / 2) * 2)
        self._paused[recovery.id] = pause
        return max(pause, (now - recovery.began_at) / _SELDOM)

    def _look_at(self, recovery: Recovery, now: datetime) -> None:
        attempt = self._store.attempt(recovery.attempt_id)
        if attempt is None:
            self._close(recovery, "what it was told from is kept no longer", now)
            return
        relatives = self._store.attempts_of_job(attempt.cluster, attempt.job_id)
        self._write(attempt, relatives, recovery, now)

    def _write(
        self,
        attempt: Attempt,
        relatives: tuple[Attempt, ...],
        before: Recovery | None,
        now: datetime,
    ) -> None:
        line = tuple(self._story(one) for one in line_from(relatives, attempt.id)[:LINE_AT_MOST])
        reached = self._reached_before(relatives, attempt)
        version = 0 if before is None else before.version
        found = recovery_of(line, now, self._policy, reached_before=reached, version=version)
        if found is None:
            if before is not None:
                self._close(before, "its advice was decided anew, and that is not permitted", now)
            return
        milestones = missing_milestones(line, now, reached)
        if milestones:
            # They belong to the trail; what they say is told from the same records already.
            self._store.apply(Change(milestones=milestones))
        self._change(found, before, now)

    def _close(self, recovery: Recovery, why: str, now: datetime) -> None:
        """The end of one that nothing more can be told of."""
        state = recovery.state
        state = RecoveryState.GIVEN_UP if state is RecoveryState.UNDER_WAY else state
        self._change(replace(recovery, state=state, settled=True, why=why), recovery, now)

    def _change(self, found: Recovery, before: Recovery | None, now: datetime) -> None:
        if found == before:
            return
        turned = before is None or found.state is not before.state
        tell = turned and found.state is not RecoveryState.UNDER_WAY
        event = (_event(found, now),) if tell else ()
        try:
            self._store.apply(Change(recoveries=(found,), audit=event))
        except Conflict:
            # Another manager wrote it: what there is to say is said when it has been read again.
            self._read_at = None
            return
        self._paused.pop(found.id, None)
        if found.settled:
            self._open.pop(found.id, None)
            self._due.pop(found.id, None)
        else:
            self._open[found.id] = replace(found, version=found.version + 1)
            self._due[found.id] = now + AGAIN

    def _story(self, attempt: Attempt) -> AttemptStory:
        store = self._store
        # Steps before milestones: both are written together, and what is read first is older.
        progress = store.progress(attempt.id)
        advice = store.advice(attempt.id)
        decisions = store.decisions(attempt.id) if attempt.end is not None else ()
        last = decisions[-1].result if decisions else ""
        return AttemptStory(
            attempt=attempt,
            progress=progress,
            advice=advice,
            milestones=() if advice is None else store.milestones(advice.sequence_id),
            stopped="" if last in _NOT_THE_END else last,
        )

    def _reached_before(self, relatives: tuple[Attempt, ...], attempt: Attempt) -> Reached:
        earlier = earlier_attempts(relatives, attempt)[-LINE_AT_MOST:]
        told = self._store.progress_of([one.id for one in earlier])
        return furthest_of(*(told[one.id].reached for one in earlier if one.id in told))


def _event(recovery: Recovery, now: datetime) -> AuditEvent:
    payload = {
        "recovery": recovery.id,
        "why": recovery.why,
        "lostStep": recovery.lost_step,
        "lostOf": recovery.lost_of,
        "resumedStep": recovery.resumed_step,
        "seconds": round(recovery.total_s, 3),
        "parts": {part.name.value: round(part.seconds, 3) for part in recovery.parts},
        "attempts": list(recovery.attempts),
    }
    name = recovery.state.value
    return AuditEvent(
        kind=AuditKind.CONFIRMED,
        type=f"recovery.{name}",
        producer=PRODUCER,
        happened_at=now,
        learned_at=now,
        level=_LEVELS.get(recovery.state, AuditLevel.INFO),
        attempt_id=recovery.attempt_id,
        job_id=recovery.job_id,
        attempt_index=recovery.attempt_index,
        payload=json.dumps(payload, ensure_ascii=False, sort_keys=True),
        idempotency_key=f"recovery/{recovery.id}/{name}/{len(recovery.attempts)}",
    )
