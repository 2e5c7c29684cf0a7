"""Taking the deployment back to monitor mode, on the state directory itself: it must work while the
gateway is dead, and while nobody remembers how `up` was started."""

from __future__ import annotations

import json
import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.model.audit import AuditEvent, AuditKind, AuditLevel
from middlewatch.model.change import Change, Noted
from middlewatch.model.rollback import NOTE, REASON_MAX, Rollback, as_text, from_text
from middlewatch.ports.clock import Clock
from middlewatch.ports.errors import NotFound, Refused
from middlewatch.ports.store import Store
from middlewatch.wiring import places
from middlewatch.wiring.settings import Settings

UNREADABLE = "(the note cannot be read)"


@dataclass(frozen=True, slots=True)
class Deployments:
    """The rollback of one state directory. All methods raise the store's errors."""

    store: Store
    clock: Clock

    def standing(self) -> Rollback | None:
        """What stands now. A note that cannot be read stands as well."""
        text = self.store.note(NOTE)
        try:
            return from_text(text)
        except ValueError as error:
            return Rollback(self.clock.now(), UNREADABLE, str(error))

    def roll_back(self, by: str, reason: str) -> Rollback:
        """Close the deployment's gate until it is undone. `Refused` for a reason that is none."""
        rollback = Rollback(self.clock.now(), by, _given(reason))
        self._put(as_text(rollback), "deployment.rolled_back", by, rollback.reason, rollback.at)
        return rollback

    def undo(self, by: str, reason: str) -> bool:
        """Let the settings' mode be in force again; whether there was anything to undo."""
        if self.standing() is None:
            return False
        self._put("", "deployment.rollback_undone", by, _given(reason), self.clock.now())
        return True

    def _put(self, text: str, type_: str, by: str, reason: str, now: datetime) -> None:
        event = AuditEvent(
            kind=AuditKind.DECIDED,
            type=type_,
            producer="cli",
            happened_at=now,
            learned_at=now,
            level=AuditLevel.WARNING,
            payload=json.dumps({"by": by, "reason": reason}),
        )
        noted = Noted(NOTE, text, self.store.note(NOTE))
        self.store.apply(Change(notes=(noted,), audit=(event,)))


def _given(reason: str) -> str:
    text = reason.strip()
    if not text or len(text) > REASON_MAX or not text.isprintable():
        raise Refused(f"a reason has 1 to {REASON_MAX} printable characters")
    return text


def opened(settings: Settings, environ: Mapping[str, str]) -> Deployments:
    """That of the state directory that the settings name. Raises `NotFound` where no `up` has made
    a database there yet, and the store's errors."""
    from middlewatch.adapters.sql.store import open_store

    database = places.found(settings, environ).database
    if not database.exists():
        raise NotFound(
            f"there is no database {database}: nothing runs from here. Name the state directory of "
            "`up` (--state-dir), on the machine where it lies"
        )
    return Deployments(open_store(database), SystemClock())


def who(environ: Mapping[str, str]) -> str:
    """Who is asking, for the trail: the user, and who became it by sudo."""
    uid = os.geteuid()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = f"uid {uid}"
    behind = environ.get("SUDO_USER", "")
    known = behind.isascii() and behind.isprintable() and 0 < len(behind) <= 64
    return f"{name} (sudo by {behind})" if known else name
