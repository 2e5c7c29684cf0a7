"""Opening a file with the rights of the user who named it, when we have more.

Root may read everything, and is nobody on a file system that squashes it; the job's user is right
in both cases. Linux keeps the user for file access per thread (``setfsuid``), so that borrowing
it for one call needs no process of its own and is invisible to the other threads.
"""

from __future__ import annotations

import ctypes
import os
import pwd
from functools import lru_cache

_NOBODY = 65_534
_ASK = ctypes.c_uint32(0xFFFF_FFFF)


@lru_cache(maxsize=1)
def _libc() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL(None, use_errno=True)
        for name in ("setfsuid", "setfsgid"):
            getattr(library, name).argtypes = [ctypes.c_uint32]
    except (OSError, AttributeError):
        return None
    return library


@lru_cache(maxsize=4096)
def _group_of(uid: int) -> int:
    try:
        return pwd.getpwuid(uid).pw_gid
    except KeyError:
        return _NOBODY


def open_as(uid: int, path: str, flags: int) -> int:
    """`os.open` with the rights of ``uid``; raises what it raises, and `PermissionError` where
    the rights cannot be borrowed. To be called as root."""
    libc = _libc()
    if libc is None or uid <= 0:
        raise PermissionError(1, "cannot take the rights of the job's user", path)
    group = _group_of(uid)
    try:
        libc.setfsgid(group)
        libc.setfsuid(uid)
        # It reports no failure: what is set now has to be asked for.
        if libc.setfsuid(_ASK) != uid:
            raise PermissionError(1, "cannot take the rights of the job's user", path)
        return os.open(path, flags)
    finally:
        libc.setfsuid(0)
        libc.setfsgid(0)
