"""How `up` and the watchdog know of each other: small files that say who is there, and since when.

A process number alone names nobody: it comes back. So each file carries the process's start time
and the boot it belongs to, and whoever reads it compares them with what runs now. Standard
library only, like everything that the watchdog needs.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path

UP_ALIVE = "up.alive"
WATCHDOG_ALIVE = "watchdog.alive"
CLEAN_STOP = "stopped"
WATCHDOG_PID = "watchdog.pid"
WATCHDOG_LOCK = "watchdog.lock"
WATCHDOG_LOG = "watchdog.log"


@dataclass(frozen=True, slots=True)
class Presence:
    """One sign of life. ``start_ticks`` and ``boot`` are the kernel's words for when the process
    began; ``at`` is when it last showed itself (RFC 3339); ``note`` says what it is about."""

    pid: int
    start_ticks: int
    boot: str
    at: str
    note: str = ""

    def same_process(self, other: Presence) -> bool:
        mine = (self.pid, self.start_ticks, self.boot)
        return mine == (other.pid, other.start_ticks, other.boot)

    def age_s(self, now: datetime) -> float:
        """Seconds since it last showed itself; a clock that was set back counts as well."""
        return abs((now - datetime.fromisoformat(self.at)).total_seconds())


def of_this_process(now: datetime, note: str = "") -> Presence:
    pid = os.getpid()
    return Presence(pid, start_ticks_of(pid) or 0, boot_id(), now.isoformat(), note)


def write(path: Path, presence: Presence) -> None:
    """Replace the file in one step. Raises OSError."""
    new = path.with_name(f"{path.name}.{presence.pid}.new")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w") as file:
        file.write(json.dumps(asdict(presence)) + "\n")
    new.replace(path)


def read(path: Path) -> Presence | None:
    """What the file says; None where there is none or it says nothing of use."""
    try:
        fields = json.loads(path.read_text())
        found = Presence(
            pid=int(fields["pid"]),
            start_ticks=int(fields["start_ticks"]),
            boot=str(fields["boot"]),
            at=str(fields["at"]),
            note=str(fields.get("note", "")),
        )
        if datetime.fromisoformat(found.at).tzinfo is None or found.pid <= 0:
            return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None
    return found


def alive(presence: Presence) -> bool:
    """Whether the very process that wrote it still runs (a zombie does not)."""
    return (
        presence.boot == boot_id()
        and presence.start_ticks != 0
        and start_ticks_of(presence.pid) == presence.start_ticks
    )


def kill(presence: Presence) -> bool:
    """End that very process, and no other that came by its number since. False if it is gone."""
    try:
        handle = os.pidfd_open(presence.pid)
    except OSError:
        return False
    try:
        # The handle is of whoever has the number now; only then is it compared.
        if not alive(presence):
            return False
        signal.pidfd_send_signal(handle, signal.SIGKILL)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def is_file_of(descriptor: int, path: Path) -> bool:
    """Whether the open file is the one that stands at ``path`` now."""
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    except OSError:
        # A disk that does not answer proves nothing.
        return True
    held = os.fstat(descriptor)
    return (there.st_dev, there.st_ino) == (held.st_dev, held.st_ino)


def start_ticks_of(pid: int) -> int | None:
    """When a running process began, in clock ticks since boot; None where none runs."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The command's name, in brackets, may itself hold brackets and blanks.
    fields = text.rpartition(")")[2].split()
    if len(fields) < 20 or fields[0] in {"Z", "X"}:
        return None
    return int(fields[19])


def boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


class UpState(StrEnum):
    """What the watchdog can tell of `up`."""

    ALIVE = "alive"
    SILENT = "silent"
    """Its process is there, its loops do not turn."""
    DIED = "died"
    STOPPED = "stopped"
    """It stopped by itself, after letting go what it held."""
    NEVER = "never"
    """Nothing says that there ever was one."""


def up_state(state_dir: Path, now: datetime, grace_s: float) -> UpState:
    """Judge `up` by its files. ``grace_s``: a longer silence counts as `SILENT`."""
    seen = read(state_dir / UP_ALIVE)
    stopped = read(state_dir / CLEAN_STOP)
    if seen is not None and alive(seen):
        return UpState.SILENT if seen.age_s(now) > grace_s else UpState.ALIVE
    if stopped is not None and (seen is None or stopped.same_process(seen)):
        return UpState.STOPPED
    return UpState.NEVER if seen is None else UpState.DIED


class UpMark:
    """What `up` itself leaves behind. Raises OSError where the state directory is not writable."""

    def __init__(self, state_dir: Path) -> None:
        self._dir = state_dir

    def beat(self, now: datetime) -> None:
        """Say that the loops turn. Call it at start, before the watchdog is looked after, and
        every few seconds (well under the watchdog's grace)."""
        write(self._dir / UP_ALIVE, of_this_process(now))
        with contextlib.suppress(FileNotFoundError):
            (self._dir / CLEAN_STOP).unlink()

    def stopped(self, now: datetime) -> None:
        """Say that this is a clean stop: the loops have ended and what could be let go was."""
        write(self._dir / UP_ALIVE, of_this_process(now))
        write(self._dir / CLEAN_STOP, of_this_process(now))
