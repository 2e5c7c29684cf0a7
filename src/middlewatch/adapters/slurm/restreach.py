"""Whether slurmrestd shows the token's user the jobs of all others.

It does not say that it leaves some out. The newest tells ``PrivateData`` with the rest of slurm.conf;
before that it may always be set. The user's level is in accounting, where slurmrestd asks with the
same token; where it does not answer, nobody can tell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

from middlewatch.adapters.slurm.reach import LEVEL_FOR, LEVELS
from middlewatch.model.answer import Answer, Known, Unknown
from middlewatch.ports.clock import Clock
from middlewatch.ports.errors import PortError

SILENT_FOR = timedelta(seconds=10)
"""So long accounting that did not answer is left alone: each question may take its whole deadline."""

Config = Mapping[str, str]
"""slurm.conf, as far as it is told: empty where it is not."""


class RestReach:
    """``ask`` gives the body of a path of accounting's, or raises `PortError`. An answer is kept for
    a minute, and beyond it while nobody tells another. May be shared by threads."""

    def __init__(self, user: str, ask: Callable[[str], Mapping[str, Any]], clock: Clock) -> None:
        self._user = user
        self._ask = ask
        self._clock = clock
        self._known: Known[bool] | None = None
        self._had = False
        self._last: tuple[Answer[bool], datetime] | None = None

    def hidden(self, config: Config) -> str:
        """Why jobs of others may be hidden from this user, or nothing."""
        if config and not private_jobs(config):
            return ""
        sees_all = self.privileged(config)
        if isinstance(sees_all, Known) and sees_all.value:
            return ""
        return self._why(config, sees_all)

    def hidden_now(self, config: Config) -> str:
        """`hidden`, with the level asked for anew: for when something is missing. A level that is
        taken away hides all that is others' at once, and looks as if it were gone."""
        if config and not private_jobs(config):
            return ""
        sees_all = self._asked_now(config)
        return "" if isinstance(sees_all, Known) and sees_all.value else self._why(config, sees_all)

    def privileged(self, config: Config) -> Answer[bool]:
        """Whether this user sees, and may change, the jobs of all others."""
        now = self._clock.now()
        if self._last is not None:
            answer, at = self._last
            fresh = LEVEL_FOR if isinstance(answer, Known) or self._known else SILENT_FOR
            if timedelta(0) <= now - at <= fresh:
                return self._known or answer
        answer = self._asked_now(config)
        return self._known or answer

    def _asked_now(self, config: Config) -> Answer[bool]:
        now = self._clock.now()
        answer = self._find_out(config, now)
        self._last = (answer, now)
        if isinstance(answer, Known):
            self._known = answer
            self._had = self._had or answer.value
        return answer

    @property
    def lost(self) -> bool:
        """Whether it has been taken away since we began: what was asked about then may be hidden."""
        return self._had and self._known is not None and not self._known.value

    def _find_out(self, config: Config, now: datetime) -> Answer[bool]:
        # slurmctld's commands put its number behind the name of SlurmUser.
        daemon = config.get("SlurmUser", "").partition("(")[0]
        if self._user in {"root", daemon}:
            return Known(True, now)
        try:
            body = self._ask(f"user/{quote(self._user, safe='')}")
        except PortError as error:
            return Unknown(f"accounting does not tell {self._user}'s level: {error}"[:500], now)
        return Known(admin_level(body, self._user) in LEVELS, now)

    def _why(self, config: Config, sees_all: Answer[bool]) -> str:
        set_or_not = "PrivateData=jobs hides" if config else "PrivateData=jobs, if it is set, hides"
        why = f" ({sees_all.why})" if isinstance(sees_all, Unknown) else ""
        return (
            f"{set_or_not} others' jobs from {self._user[:64]}{why}: give it AdminLevel=Operator "
            f'(sacctmgr modify user … set adminlevel=Operator), or set slurm.scope = "own"'
        )


def private_jobs(config: Config) -> bool:
    """Whether that slurm.conf hides jobs from those whose they are not."""
    return "jobs" in config.get("PrivateData", "").replace(",", " ").split()


def admin_level(body: Mapping[str, Any], name: str) -> str:
    """The level of that user; "None" for somebody whom accounting does not know."""
    users = body.get("users")
    for user in users if isinstance(users, list) else ():
        if isinstance(user, Mapping) and user.get("name") == name:
            told = user.get("administrator_level")
            words = told if isinstance(told, list) else [told]
            return next((str(word) for word in words if str(word) in LEVELS), "None")
    return "None"
