"""A file that is touched by whoever saw something happen: the cheapest way to be told.

An epilog must not wait for us, nor fail because of us, and it may run as another user on a machine where
we do not run at all. So it touches a file, and we look at the file's status: nothing that anybody writes
is read, a hint that is lost costs only latency, and a thousand of them between two looks are one.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


class HintFile:
    """Whether the file at ``path`` was touched. For one thread; the file need not exist."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = self._state()

    def came(self) -> bool:
        """Whether it was touched since this was asked last. Never raises, follows no link."""
        before, self._seen = self._seen, self._state()
        return self._seen is not None and self._seen != before

    def _state(self) -> tuple[int, int] | None:
        with contextlib.suppress(OSError):
            status = self._path.lstat()
            return status.st_mtime_ns, status.st_ino
        return None


def touch(path: Path) -> None:
    """Give a hint. Makes the file where it is missing; waits for nothing, not even where the path is
    a pipe. Raises `OSError`."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY
    handle = os.open(path, flags, 0o644)
    try:
        os.utime(handle)
    finally:
        os.close(handle)
