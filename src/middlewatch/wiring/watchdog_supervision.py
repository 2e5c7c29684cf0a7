"""`up` looks after its watchdog: starts it if it is not there, replaces it if it is silent.

The watchdog outlives `up`, so a new `up` may find an older one on guard and leaves it there,
unless it was told other things than this `up` would tell it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from middlewatch.wiring import presence
from middlewatch.wiring.watchdog_process import EX_CONFLICT, WatchdogSpec

START_DEADLINE_S = 20.0
START_BACKOFF_S = 30.0
"""After a start that failed; each attempt costs an interpreter."""


class Guard(StrEnum):
    ON = "on"
    """It was there, and showed life."""
    STARTED = "started"
    REPLACED = "replaced"
    """It was silent, of another version, or told other things: killed, and another one started.
    Nothing is lost by that: all that a watchdog knows stands in the journal."""
    OFF = "off"
    """There is none, and none could be started."""


@dataclass(frozen=True, slots=True)
class Guarded:
    """``pid`` is None where there is no watchdog; ``problem`` says why, and how to mend it."""

    guard: Guard
    pid: int | None = None
    problem: str = ""


class WatchdogSupervisor:
    """Call `ensure` at start, after `UpMark.beat`, and then every few seconds."""

    def __init__(
        self, spec: WatchdogSpec, *, python: Sequence[str] = (sys.executable, "-P")
    ) -> None:
        self._spec = spec
        self._python = tuple(python)
        self._alive = spec.state_dir / presence.WATCHDOG_ALIVE
        self._failed_at: datetime | None = None
        self._problem = ""

    def ensure(self, now: datetime) -> Guarded:
        """See that there is a watchdog; start one where not. Blocks for the time of a start
        (about 0.2 s, at most `START_DEADLINE_S`). Never raises for what the watchdog does."""
        seen = presence.read(self._alive)
        killed = False
        if seen is not None and presence.alive(seen):
            fresh = seen.age_s(now) <= self._spec.config.heartbeat_stale_s
            if fresh and f"told={self._spec.digest()}" in seen.note.split():
                return Guarded(Guard.ON, seen.pid)
            killed = presence.kill(seen)
        if (
            not killed
            and self._failed_at is not None
            and 0 <= _age(self._failed_at, now) < START_BACKOFF_S
        ):
            return Guarded(Guard.OFF, problem=self._problem)
        code, problem = self._start()
        if problem:
            # One that is just leaving still has its lock: that passes at once.
            self._failed_at = None if code == EX_CONFLICT else now
            self._problem = problem
            return Guarded(Guard.OFF, problem=problem)
        self._failed_at = None
        started = presence.read(self._alive)
        pid = None if started is None else started.pid
        return Guarded(Guard.REPLACED if killed else Guard.STARTED, pid)

    def _start(self) -> tuple[int | None, str]:
        argv = [
            *self._python,
            "-m",
            "middlewatch.wiring.watchdog_process",
            *self._spec.argv(),
            "--detach",
        ]
        try:
            done = subprocess.run(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
                timeout=START_DEADLINE_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return None, f"the watchdog did not start within {START_DEADLINE_S:g} s"
        except OSError as error:
            return None, f"the watchdog cannot be started: {error}"
        if done.returncode == 0:
            return 0, ""
        said = done.stderr.decode("utf-8", "replace").strip()
        code = done.returncode
        return code, said[-1000:] or f"the watchdog ended at its start with code {code}"


def _age(then: datetime, now: datetime) -> float:
    return (now - then).total_seconds()


def guard_of(state_dir: Path, now: datetime, stale_s: float) -> Guarded:
    """Whether a watchdog guards this directory, for ``doctor`` and for people; starts nothing."""
    seen = presence.read(state_dir / presence.WATCHDOG_ALIVE)
    if seen is None or not presence.alive(seen):
        return Guarded(Guard.OFF, problem="no watchdog runs; `middlewatch up` starts one")
    if seen.age_s(now) > stale_s:
        age = seen.age_s(now)
        return Guarded(Guard.OFF, seen.pid, f"the watchdog has shown no life for {age:.0f} s")
    return Guarded(Guard.ON, seen.pid)
