"""The store as a controller elsewhere needs it, kept by a gateway that only we call.

Each tick asks once for the lease and once for all work; what belongs to one attempt is asked for
again after we wrote about it, so that a decision never rests on what was true before. A gateway
that does not answer stops new actions, because what could be left behind has to be written down
first; only what a command came to is kept here, in memory, until it has been written down.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import fields
from datetime import datetime, timedelta
from typing import TypeVar

from middlewatch import __version__
from middlewatch.adapters.api.client import ApiClient
from middlewatch.contract import control
from middlewatch.model.action import ActionRecord
from middlewatch.model.advice import Advice
from middlewatch.model.attempt import Attempt
from middlewatch.model.change import Applied, Change, Lease
from middlewatch.model.identity import AttemptId, ClusterId
from middlewatch.model.rollback import NOTE as ROLLED_BACK
from middlewatch.model.signal import Progress, Signal
from middlewatch.ports.errors import PortError, Refused, Unreachable, Unreadable

R = TypeVar("R")
_PATH = "/middlewatch/v1/control"
_OURS = frozenset({"lease", "now", "attempts", "advice", "actions", "milestones", "audit"})
_EMPTY = Change()


class RemoteStore:
    """Implements `ports.remote.ControllerStore` for one cluster. ``connect`` makes a client; each
    thread gets one of its own. Raises what `ApiClient` raises."""

    def __init__(self, connect: Callable[[], ApiClient], cluster: ClusterId) -> None:
        self._connect = connect
        self._cluster = cluster
        self._local = threading.local()
        self._lock = threading.Lock()
        self._clients: list[ApiClient] = []
        self._work: dict[AttemptId, control.Work] = {}
        self._unsent: list[control.ControlChange] = []
        self._rolled_back = ""

    def close(self) -> None:
        with self._lock:
            clients, self._clients = self._clients, []
        for client in clients:
            client.close()

    def wait(self, known: str, wait_s: float) -> str:
        """What is active, as a digest: as soon as it is not ``known``, or after so long."""
        asked = control.WorkAsked(known=known, wait_s=wait_s)
        return self._call(control.WORK, asked, control.WorkGiven).digest

    def acquire_lease(self, name: str, holder: str, ttl_s: float, now: datetime) -> Lease | None:
        self._send_again()
        asked = control.LeaseAsked(holder, ttl_s)
        answer = self._call(control.LEASE, asked, control.LeaseGiven)
        given = answer.lease
        if given is None:
            return None
        # By our clock, and from before we asked: it never seems to last longer than it does.
        ends = now + timedelta(seconds=ttl_s)
        taken_over_at = None
        if answer.taken_over_s is not None:
            taken_over_at = now - timedelta(seconds=answer.taken_over_s)
        return Lease(given.name, given.holder, given.token, ends, taken_over_at)

    def release_lease(self, lease: Lease) -> None:
        self._send_again()
        self._call(control.RESIGN, control.Resigned(lease), control.LeaseGiven)

    def advice_page(
        self, only_active: bool, after: int, limit: int, owner: ClusterId | None = None
    ) -> tuple[tuple[int, Advice], ...]:
        """All active advice of our cluster at once, as one page."""
        if after:
            return ()
        given = self._call(control.WORK, control.WorkAsked(), control.WorkGiven)
        self._rolled_back = given.rolled_back
        self._work = {one.advice.attempt_id: one for one in given.work}
        return tuple((number, one.advice) for number, one in enumerate(given.work, start=1))

    def attempt(self, attempt_id: AttemptId) -> Attempt | None:
        work = self._of(attempt_id)
        return work.attempt if work else None

    def progress(self, attempt_id: AttemptId) -> Progress | None:
        work = self._of(attempt_id)
        return work.progress if work else None

    def actions(self, attempt_id: AttemptId) -> tuple[ActionRecord, ...]:
        work = self._of(attempt_id)
        return work.actions if work else ()

    def placed(self, attempt_id: AttemptId) -> tuple[ActionRecord, ...]:
        work = self._of(attempt_id)
        return work.placed if work else ()

    def signals(
        self, attempt_id: AttemptId, after: int = 0, limit: int = 1000
    ) -> tuple[tuple[int, Signal], ...]:
        """Of the attempt's signals those that tell of its end, as one page."""
        work = self._of(attempt_id)
        if work is None or after:
            return ()
        return tuple(enumerate(work.ends, start=1))

    def apply(self, change: Change) -> Applied:
        for item in fields(change):
            if item.name not in _OURS and getattr(change, item.name) != getattr(_EMPTY, item.name):
                raise Refused(f"a controller elsewhere writes no {item.name}")
        touched = {
            *(attempt.id for attempt in change.attempts),
            *(advice.attempt_id for advice in change.advice),
            *(record.attempt_id for record in change.actions),
        }
        for attempt_id in touched:
            # Whether it was written or not: what we knew is not what stands.
            self._work.pop(attempt_id, None)
        sent = control.ControlChange(
            lease=change.lease,
            attempts=change.attempts,
            advice=change.advice,
            actions=change.actions,
            milestones=change.milestones,
            audit=change.audit,
        )
        if change.lease is None:
            # What a command came to is a fact, whoever leads and whenever it arrives.
            self._unsent.append(sent)
            return Applied(last_audit_number=self._send_again())
        done = self._call(control.CHANGE, sent, control.Changed)
        self._rolled_back = done.rolled_back
        return Applied(last_audit_number=done.last_audit_number)

    def note(self, name: str) -> str | None:
        """The cluster's name, which all of its controllers share, and the note of a rollback as it
        stood when work was last asked for or something was last written; there are no other
        notes."""
        if name == ROLLED_BACK:
            return self._rolled_back
        return self._call(control.NAME, control.NameSeen(), control.NameSeen).name or None

    def put_notes(self, notes: Sequence[tuple[str, str]]) -> None:
        for _, name in notes:
            self._call(control.NAME, control.NameSeen(name), control.NameSeen)

    def _send_again(self) -> int:
        """Send what could not be sent yet, in its order; each may have arrived already, and the
        same record twice is one."""
        last = 0
        while self._unsent:
            try:
                last = self._call(
                    control.CHANGE, self._unsent[0], control.Changed
                ).last_audit_number
            except Unreachable:
                raise
            except PortError:
                self._unsent.pop(0)  # understood and declined: it would be declined for ever
                raise
            self._unsent.pop(0)
        return last

    def _of(self, attempt_id: AttemptId) -> control.Work | None:
        if attempt_id not in self._work:
            asked = control.WorkAsked(only=(attempt_id,))
            given = self._call(control.WORK, asked, control.WorkGiven)
            self._rolled_back = given.rolled_back
            for one in given.work:
                self._work[one.advice.attempt_id] = one
        return self._work.get(attempt_id)

    def _call(self, call: str, record: object, kind: type[R]) -> R:
        client: ApiClient | None = getattr(self._local, "client", None)
        if client is None:
            client = self._local.client = self._connect()
            with self._lock:
                self._clients.append(client)
        try:
            body = control.encode(record)
        except (ValueError, TypeError) as error:
            raise Refused(f"{type(record).__name__} cannot be sent: {error}") from error
        answer = client.call(
            "POST",
            _PATH,
            body={
                "scheduler": self._cluster.scheduler,
                "environment": self._cluster.environment,
                "call": call,
                "body": body,
                "version": __version__,
            },
        )
        try:
            return control.decode(str(answer.get("body", "")), kind)
        except ValueError as error:
            raise Unreadable(f"the gateway's answer cannot be understood: {error}") from error
