"""Opening a file with the rights of the user who named it, when we have more.

Root may read everything, and is nobody on a file system that squashes it; the job's user is right
in both cases. Linux keeps the user for file access and the groups per thread, so that borrowing
them for one call needs no process of its own and is invisible to the other threads.
"""

from __future__ import annotations

import ctypes
import os
import platform
import pwd
from collections.abc import Sequence
from functools import lru_cache

_NOBODY = 65_534
_ASK = ctypes.c_uint32(0xFFFF_FFFF)
# The C library's own setgroups changes all threads; the kernel's changes the one that calls.
_SETGROUPS = {"x86_64": 116, "aarch64": 159, "riscv64": 159}.get(platform.machine())


@lru_cache(maxsize=1)
def _libc() -> ctypes.CDLL | None:
    try:
        library = ctypes.CDLL(None, use_errno=True)
        for name in ("setfsuid", "setfsgid"):
            getattr(library, name).argtypes = [ctypes.c_uint32]
        library.syscall.restype = ctypes.c_long
    except (OSError, AttributeError):
        return None
    return library


@lru_cache(maxsize=4096)
def groups_of(uid: int) -> tuple[int, ...]:
    """The user's groups, the first one first; asked once per user and process."""
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:
        return (_NOBODY,)
    try:
        others = os.getgrouplist(entry.pw_name, entry.pw_gid)
    except OSError:
        others = []
    return (entry.pw_gid, *(group for group in others if group != entry.pw_gid))


def open_as(uid: int, path: str, flags: int, groups: Sequence[int] | None = None) -> int:
    """`os.open` with the rights of ``uid`` and of ``groups`` (by default that user's own).

    To be called as root. Raises what `os.open` raises, and `PermissionError` where the rights
    cannot be borrowed.
    """
    libc = _libc()
    if libc is None or uid <= 0:
        raise PermissionError(1, "cannot take the rights of the job's user", path)
    wanted = groups_of(uid) if groups is None else tuple(groups) or (_NOBODY,)
    own = os.getgroups()
    try:
        _set_groups(libc, wanted)
        libc.setfsgid(wanted[0])
        libc.setfsuid(uid)
        # It reports no failure: what is set now has to be asked for.
        if libc.setfsuid(_ASK) != uid:
            raise PermissionError(1, "cannot take the rights of the job's user", path)
        return os.open(path, flags)
    finally:
        libc.setfsuid(0)
        libc.setfsgid(0)
        _set_groups(libc, own)


def _set_groups(libc: ctypes.CDLL, groups: Sequence[int]) -> None:
    """Set this thread's supplementary groups, where we know how; otherwise it keeps root's, and
    what only a project's group may enter is refused."""
    if _SETGROUPS is None:
        return
    array = (ctypes.c_uint32 * len(groups))(*groups)
    size = ctypes.c_size_t(len(groups))
    if libc.syscall(ctypes.c_long(_SETGROUPS), size, array) != 0:
        number = ctypes.get_errno()
        raise PermissionError(number, f"cannot set groups: {os.strerror(number)}")
