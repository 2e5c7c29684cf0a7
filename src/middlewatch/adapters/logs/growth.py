"""When anything in a checkpoint directory was last written, without ever waiting for its disks.

The path is a stranger's: it is opened with that user's rights, without following a link at its end,
and nothing but times is read. A hang is often the file system's own doing, so that a look at it may
hang as well. Each look is made by a thread of its own, and whoever asked goes on without it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime

from middlewatch.adapters.logs.as_user import open_as
from middlewatch.model.activity import Growth
from middlewatch.model.answer import Absent, Answer, Known, Unknown
from middlewatch.ports.clock import Clock

MOST_ENTRIES = 5000
MOST_DEEP = 3
MOST_WIDE = 16
"""Of each directory so many of its newest directories are looked into."""
MOST_LOOKS = 8
"""Looks that may stand at once: those that stand are waiting for dead disks."""
PATIENCE_S = 0.1
LATEST = 4_102_444_800.0
_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

Open = Callable[[int, str], int]


@dataclass(slots=True)
class _Look:
    done: threading.Event = field(default_factory=threading.Event)
    newest: float | None = None
    """None where the directory is not there."""
    why: str = ""


class CheckpointDirectories:
    """A `Directories`. ``our_uid`` is whom we run as (0: root looks as the job's user)."""

    def __init__(
        self,
        clock: Clock,
        our_uid: int | None = None,
        *,
        opened: Open | None = None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self._clock = clock
        self._our_uid = os.geteuid() if our_uid is None else our_uid
        self._opened = opened or self._open
        self._patience_s = patience_s
        self._looks: dict[tuple[str, int], _Look] = {}

    def growth(self, path: str, uid: int) -> Answer[Growth]:
        """The newest time in the directory: of this look if it is quick, else of a later one."""
        now = self._clock.now()
        if not path.startswith("/") or "\0" in path:
            return Unknown(f"{path[:200]!r} is not an absolute path", now)
        key = (path, uid)
        look = self._looks.get(key)
        if look is None:
            for other in [k for k, old in self._looks.items() if old.done.is_set()]:
                del self._looks[other]
            if len(self._looks) >= MOST_LOOKS:
                return Unknown("too many directories do not answer", now)
            look = self._looks[key] = _Look()
            threading.Thread(
                target=self._answer, args=(look, path, uid), name="growth", daemon=True
            ).start()
        if not look.done.wait(self._patience_s):
            return Unknown(f"{path} does not answer", now)
        del self._looks[key]
        if look.why:
            return Unknown(f"{path} {look.why}", now)
        if look.newest is None:
            return Absent(now)
        newest = datetime.fromtimestamp(min(max(look.newest, 0.0), LATEST), UTC)
        return Known(Growth(path, newest), now)

    def _answer(self, look: _Look, path: str, uid: int) -> None:
        try:
            look.newest = _Walk(self._opened, uid).newest(path, MOST_DEEP)
        except (FileNotFoundError, NotADirectoryError):
            look.newest = None
        except OSError as error:
            look.why = f"cannot be looked at: {error.strerror}"
        except _TooMuchError:
            look.why = (
                f"has more than {MOST_ENTRIES} entries: give the directory of the newest ones"
            )
        finally:
            look.done.set()

    def _open(self, uid: int, path: str) -> int:
        if self._our_uid == 0 and uid > 0:
            return open_as(uid, path, _FLAGS)
        return os.open(path, _FLAGS)


class _TooMuchError(Exception):
    pass


class _Walk:
    def __init__(self, opened: Open, uid: int) -> None:
        self._opened = opened
        self._uid = uid
        self._left = MOST_ENTRIES

    def newest(self, path: str, deep: int) -> float:
        """The newest time of a directory and of what is in it, seconds since the epoch."""
        descriptor = self._opened(self._uid, path)
        try:
            latest = os.fstat(descriptor).st_mtime
            inside: list[tuple[float, str]] = []
            with os.scandir(descriptor) as entries:
                for entry in entries:
                    self._left -= 1
                    if self._left < 0:
                        raise _TooMuchError
                    with suppress(FileNotFoundError):
                        at = entry.stat(follow_symlinks=False).st_mtime
                        latest = max(latest, at)
                        if entry.is_dir(follow_symlinks=False):
                            inside.append((at, entry.name))
        finally:
            os.close(descriptor)
        if deep > 1:
            for _, name in sorted(inside, reverse=True)[:MOST_WIDE]:
                with suppress(FileNotFoundError, NotADirectoryError):
                    latest = max(latest, self.newest(f"{path}/{name}", deep - 1))
        return latest
