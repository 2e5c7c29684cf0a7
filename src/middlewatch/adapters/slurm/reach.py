"""Whose jobs the user of Slurm's commands may act for, and whether it is shown them all.

Root, SlurmUser, Operators and Administrators act for everybody; an ordinary user for himself. What
a user's level is, slurmctld is asked first: it decides by what it holds in memory, and goes on
doing so while slurmdbd is dead, when the watchdog may be the only one left to ask.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from middlewatch.adapters.slurm.cluster import slurm_user
from middlewatch.adapters.slurm.command import Commands, Finished
from middlewatch.model.answer import Answer, Known, Unknown
from middlewatch.model.scheduler import ActsFor, JobScope
from middlewatch.ports.clock import Clock

LEVELS = frozenset({"Operator", "Administrator"})
LEVEL_FOR = timedelta(minutes=1)
"""How long a level that was told counts: an operator may grant it or take it away at any time."""
_NOBODY = "No users currently cached"
_NO_ACCOUNTING = frozenset({"", "(null)", "accounting_storage/none"})


class Reach:
    """An answer that is certain is kept for a minute, and beyond it while nobody tells another: an
    outage takes no right away."""

    def __init__(
        self,
        commands: Commands,
        ask: Callable[[Sequence[str]], Finished],
        clock: Clock,
        scope: JobScope,
    ) -> None:
        self._commands = commands
        self._ask = ask
        self._clock = clock
        self._scope = scope
        self._privileged: Known[bool] | None = None
        self._asked_at: datetime | None = None
        self._had = False

    def acts_for(self, config: Mapping[str, str]) -> Answer[ActsFor]:
        """``config`` is that of slurmctld. `Unknown` where the user or its level is not known."""
        found = self._commands.user()
        if found is None:
            return Unknown("it is not known which user runs Slurm's commands", self._clock.now())
        uid, name = found
        match self._scope:
            case JobScope.ALL:
                return Known(ActsFor(uid, name, everybody=True), self._clock.now())
            case JobScope.OWN:
                return Known(ActsFor(uid, name, everybody=False), self._clock.now())
            case JobScope.AUTO:
                level = self.privileged(config)
                if not isinstance(level, Known):
                    return Unknown(_why(level), self._clock.now())
                return Known(ActsFor(uid, name, everybody=level.value), level.as_of)

    def privileged(self, config: Mapping[str, str]) -> Answer[bool]:
        """Whether this user sees, and may change, the jobs of all others."""
        now = self._clock.now()
        known, asked_at = self._privileged, self._asked_at
        recent = asked_at is not None and timedelta(0) <= now - asked_at <= LEVEL_FOR
        if known is not None and recent:
            return known
        answer = self.privileged_now(config)
        return known if known is not None and not isinstance(answer, Known) else answer

    def privileged_now(self, config: Mapping[str, str]) -> Answer[bool]:
        """`privileged`, asked for anew, whatever was told before."""
        self._asked_at = self._clock.now()
        answer = self._find_out(config)
        if isinstance(answer, Known):
            self._privileged = answer
            self._had = self._had or answer.value
        return answer

    @property
    def lost(self) -> bool:
        """Whether it has been taken away since we began: what was asked about then may be hidden."""
        return self._had and self._privileged is not None and not self._privileged.value

    def _find_out(self, config: Mapping[str, str]) -> Answer[bool]:
        now = self._clock.now()
        found = self._commands.user()
        if found is None:
            return Unknown("it is not known which user runs Slurm's commands", now)
        uid, name = found
        daemon = slurm_user(dict(config))
        if uid == 0 or (daemon is not None and daemon[1] == uid):
            return Known(True, now)
        if not name or config.get("AccountingStorageType", "-") in _NO_ACCOUNTING:
            # Levels belong to names, and are kept by accounting.
            return Known(False, now)
        done = self._ask(("scontrol", "show", "assoc_mgr", "flags=users", f"users={name}"))
        level = admin_level(done.stdout, name, uid) if done.exit_code == 0 else None
        if level is None:
            done = self._ask(("sacctmgr", "-n", "-P", "show", "user", name, "format=AdminLevel"))
            if done.exit_code != 0:
                said = done.said or f"exit code {done.exit_code}"
                return Unknown(f"neither slurmctld nor sacctmgr tells {name}'s level: {said}", now)
            level = done.stdout.strip()
        return Known(level in LEVELS, done.started_at)


def admin_level(text: str, name: str, uid: int) -> str | None:
    """The level of that user in ``scontrol show assoc_mgr``'s answer; None where it does not say.

    Somebody whom slurmctld does not know has none.
    """
    who = rf"UserName={re.escape(name)}\({uid}\) .*\bAdminLevel=(\w+)\s*"
    for line in text.splitlines():
        match = re.fullmatch(who, line)
        if match is not None:
            return match[1]
    return "None" if _NOBODY in text else None


def _why(answer: Answer[bool]) -> str:
    return answer.why if isinstance(answer, Unknown) else "no answer"
