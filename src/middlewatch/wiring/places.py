"""Where things lie: one directory, and in it the names of everything that we keep.

Reading commands, the services and the watchdog find each other through these names alone.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from middlewatch.adapters.sql import place
from middlewatch.ports.errors import Refused
from middlewatch.wiring import presence
from middlewatch.wiring.settings import Settings

SYSTEM_STATE = Path("/var/lib/middlewatch")
_ANOTHER = "another state directory (--state-dir)"
_SOCKET_PATH_LIMIT = 100
"""The kernel takes 107 bytes for the path of a Unix socket."""


class AlreadyRunning(Exception):
    """Somebody else does this work on the same state; the message says who."""


@dataclass(frozen=True, slots=True)
class Places:
    """Files below one state directory. ``notice`` says why it is not the one that was asked for."""

    state: Path
    socket: Path
    notice: str | None = None

    @property
    def database(self) -> Path:
        return self.state / "middlewatch.db"

    @property
    def token(self) -> Path:
        """The first API token, for the owner only."""
        return self.state / "token"

    @property
    def address(self) -> Path:
        """The URL that `up` serves on (its port may have been chosen by the system)."""
        return self.state / "url"

    def lock(self, role: str) -> Path:
        return self.state / f"{role}.lock"


def preferred(settings: Settings, environ: Mapping[str, str], euid: int) -> Path:
    """The state directory that was asked for, or its default."""
    if settings.state.directory:
        return Path(settings.state.directory).expanduser().absolute()
    if euid == 0:
        return SYSTEM_STATE
    base = environ.get("XDG_STATE_HOME") or ""
    if not base.startswith("/"):
        home = environ.get("HOME") or _home(euid)
        base = f"{home}/.local/state"
    return Path(base) / "middlewatch"


def found(settings: Settings, environ: Mapping[str, str], euid: int | None = None) -> Places:
    """The places as a reader expects them; nothing is made."""
    wanted = preferred(settings, environ, os.geteuid() if euid is None else euid)
    if place.network_mount(wanted) is not None:
        wanted = place.LOCAL_ROOT / f"middlewatch-{_user()}"
    return Places(wanted, _socket(settings, wanted))


def prepared(settings: Settings, environ: Mapping[str, str], euid: int | None = None) -> Places:
    """The places, made with rights for their owner only.

    Raises `ports.errors.Refused` where they cannot be.
    """
    wanted = preferred(settings, environ, os.geteuid() if euid is None else euid)
    state, notice = place.state_directory(wanted)
    socket = _socket(settings, state)
    if not settings.gateway.socket and socket.parent != state:
        place.private_directory(socket.parent, strict=True)
    return Places(state, socket, notice)


def _socket(settings: Settings, state: Path) -> Path:
    if settings.gateway.socket:
        return Path(settings.gateway.socket).expanduser().absolute()
    path = state / "api.sock"
    if len(os.fsencode(path)) <= _SOCKET_PATH_LIMIT:
        return path
    digest = hashlib.sha256(os.fsencode(state)).hexdigest()[:16]
    return place.LOCAL_ROOT / f"middlewatch-{_user()}" / f"{digest}.sock"


def _user() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _home(euid: int) -> str:
    try:
        return pwd.getpwuid(euid).pw_dir
    except KeyError:
        return f"/var/tmp/middlewatch-{euid}"  # noqa: S108 - made 0700 and checked to be ours


class Lock:
    """The right to do one kind of work on one state directory, held by an open, locked file.

    The kernel lets it go with the process, so a lock is never left over.
    """

    def __init__(self, path: Path, role: str) -> None:
        """Take it. Raises `AlreadyRunning`, and `Refused` where the directory is another user's."""
        self._path = path
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except PermissionError:
            raise Refused(_not_ours(path)) from None
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(self._descriptor, 32).decode("ascii", "replace").strip()
            os.close(self._descriptor)
            other = "a name of its own (--name)" if role.startswith("watcher") else _ANOTHER
            raise AlreadyRunning(
                f"`{role}` (process {holder or 'unknown'}) already works on {path.parent}; stop it, "
                f"or give this one {other}"
            ) from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def stands(self) -> bool:
        """Whether the file that we hold is still the one that others would ask: not where its
        directory was removed, or put back from a copy, under us."""
        return presence.is_file_of(self._descriptor, self._path)

    def release(self) -> None:
        os.close(self._descriptor)


def _not_ours(path: Path) -> str:
    """What to tell somebody whose state was made by another user: once by hand as root, mostly."""
    try:
        owner = path.stat().st_uid
        name = pwd.getpwuid(owner).pw_name
    except (OSError, KeyError):
        name = "another user"
    return (
        f"{path} belongs to {name}: `{_user()}` cannot use this state. Run it as {name}, or give the "
        f"whole directory to {_user()} (chown -R {_user()} {path.parent}) while nothing uses it"
    )


def holder(path: Path) -> int | None:
    """The process that holds the lock at ``path``; None where nobody does."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        text = os.read(descriptor, 32).decode("ascii", "replace").strip()
        return int(text) if text.isdigit() else 0
    else:
        return None
    finally:
        os.close(descriptor)
