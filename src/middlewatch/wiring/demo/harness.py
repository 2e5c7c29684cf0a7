"""`middlewatch up` on a lab, as an administrator would run it: a settings file and a process.

The demo, the fault schedules, the benchmarks and the end-to-end tests all start it here, so that
what they show is the real command with its real files, not parts put together for the occasion.
"""

from __future__ import annotations

import json
import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.wiring import presence

if TYPE_CHECKING:
    from middlewatch.adapters.sql.store import SqlStore

READY_S = 30.0


class NotReady(RuntimeError):
    """`up` did not come to life; the message ends with what it printed last."""


def toml(settings: Mapping[str, Mapping[str, Any]]) -> str:
    """A settings file. JSON's strings, numbers, booleans and lists are TOML's as well."""
    lines: list[str] = []
    for section, keys in settings.items():
        lines.append(f"[{section}]")
        lines.extend(f"{key} = {json.dumps(value)}" for key, value in keys.items())
    return "\n".join(lines) + "\n"


def lab_settings(
    state: Path, environment: str, changes: Mapping[str, Mapping[str, Any]] | None = None
) -> dict[str, dict[str, Any]]:
    """Settings for action mode on a lab, quick enough to watch; ``changes`` win."""
    made: dict[str, dict[str, Any]] = {
        "deployment": {
            "environment": environment,
            "mode": "action",
            "acknowledge_scheduler_actions": True,
            "partitions": ["*"],
        },
        "state": {"directory": str(state)},
        "gateway": {"port": 0},
        # Jobs are short here: one that begins and ends between two listings would be seen late.
        "watcher": {"listing_longest": 1.0},
        "watchdog": {"mode": "action"},
        "log": {"format": "json"},
    }
    for section, keys in (changes or {}).items():
        made.setdefault(section, {}).update(keys)
    return made


@dataclass
class Up:
    """One `middlewatch up` in a process group of its own; ``state`` is its state directory.
    ``words`` are those of the command, for one role alone. ``user`` other than our own needs root,
    and a ``python`` that this user may run; without a state directory in the settings it is the
    one below ``XDG_STATE_HOME`` of ``env``."""

    folder: Path
    env: Mapping[str, str]
    settings: Mapping[str, Mapping[str, Any]]
    process: subprocess.Popen[bytes] | None = None
    words: tuple[str, ...] = ("up",)
    user: str = ""
    python: str = sys.executable

    @property
    def state(self) -> Path:
        given = self.settings["state"].get("directory")
        return Path(given) if given else Path(self.env["XDG_STATE_HOME"]) / "middlewatch"

    @property
    def config(self) -> Path:
        return self.folder / "middlewatch.toml"

    @property
    def log(self) -> Path:
        return self.folder / "up.log"

    def start(self, *, wait: bool = True) -> None:
        """Write the settings and start the process; with ``wait`` return when it is ready."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self.config.write_text(toml(self.settings))
        if self.words[0] in {"up", "gateway"}:
            # Of the other roles none serves, and none may hide where somebody does.
            (self.state / "url").unlink(missing_ok=True)
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                [self.python, "-m", "middlewatch", "--config", str(self.config), *self.words],
                env={"HOME": os.environ.get("HOME", "/"), **self.env},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                **_as_user(self.user),
            )
        if wait:
            self.wait_ready()

    def wait_ready(self, limit_s: float = READY_S) -> None:
        """Return once `up` has written down where it serves. Raises `NotReady`."""
        clock = SystemClock()
        until = clock.monotonic() + limit_s
        while not (self.state / "url").exists():
            if self.process is None or self.process.poll() is not None:
                raise NotReady(f"`middlewatch up` ended at its start:\n{self.last_words()}")
            if clock.monotonic() > until:
                raise NotReady(f"`middlewatch up` was not ready in time:\n{self.last_words()}")
            clock.sleep(0.02)

    def stop(self, limit_s: float = 60.0) -> int:
        """Ask it to stop, as a service manager does; its exit code."""
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(limit_s)
        except subprocess.TimeoutExpired:
            self.kill()
            code = -9
        self.process = None
        return code

    def kill(self) -> None:
        """`kill -9` of the whole process group. The watchdog has a session of its own."""
        if self.process is None:
            return
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.process = None

    def watchdog_pid(self) -> int | None:
        """The pid that the watchdog wrote down; None where there is none."""
        try:
            return int((self.state / presence.WATCHDOG_PID).read_text())
        except (OSError, ValueError):
            return None

    def kill_watchdog(self) -> None:
        pid = self.watchdog_pid()
        if pid is not None:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def store(self) -> SqlStore:
        """The store, opened beside the running process, for reading."""
        from middlewatch.adapters.sql.store import open_store

        return open_store(self.state / "middlewatch.db")

    def last_words(self, lines: int = 30) -> str:
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        except OSError:
            return "(it printed nothing)"


def _as_user(name: str) -> dict[str, Any]:
    if not name:
        return {}
    entry = pwd.getpwnam(name)
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
