"""Several labs on one machine must not take each other's ports.

A port that is free now may be taken before the daemon that it was chosen for has started: by
another lab that starts at the same moment, or by any outgoing connection if it lies in the
kernel's ephemeral range. So blocks are chosen below that range, under a lock that all labs of
the machine share, and stay claimed by a small file until the lab is taken down.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from collections.abc import Iterator
from pathlib import Path

from middlewatch.lab.errors import LabError
from middlewatch.lab.processes import Process, alive, process

_CLAIMS = Path("/run/lock/middlewatch-lab")
_FIRST, _LAST, _STEP = 17000, 31000, 250
_FIRST_ONE, _LAST_ONE = 31_250, 32_700


class NoFreePorts(LabError):
    """Every block of ports is in use."""


def claim(folder: Path, count: int) -> tuple[int, ...]:
    """Claim ``count`` (at most 250) free ports for the lab in ``folder``."""
    with _lock():
        for first in range(_FIRST, _LAST, _STEP):
            mark = _CLAIMS / str(first)
            if _claimed(mark):
                continue
            ports = tuple(range(first, first + count))
            if all(_free(port) for port in ports):
                mine = process(os.getpid())
                started = mine.started if mine is not None else 0
                mark.write_text(f"{folder}\n{os.getpid()} {started}\n")
                return ports
    raise NoFreePorts(
        f"no block of {count} free ports between {_FIRST} and {_LAST}; "
        "`middlewatch lab down` takes an old lab away"
    )


def release(folder: Path) -> None:
    """Give back what the lab in ``folder`` had claimed; nothing where it had not."""
    with _lock():
        for mark in _CLAIMS.iterdir():
            if mark.name.isdigit() and mark.read_text().splitlines()[:1] == [str(folder)]:
                mark.unlink()


def one_free() -> int:
    """A port of the loopback address that nobody has now, and that no outgoing connection will be
    given while a server that means to come back to it is stopped. Nothing is claimed."""
    span = _LAST_ONE - _FIRST_ONE
    for step in range(span):
        port = _FIRST_ONE + (os.getpid() * 37 + step) % span
        if _free(port):
            return port
    raise NoFreePorts(f"no free port between {_FIRST_ONE} and {_LAST_ONE}")


def _claimed(mark: Path) -> bool:
    """A claim holds while its lab has a state file, or while the `up` that made it still runs."""
    try:
        folder, owner = mark.read_text().splitlines()[:2]
        pid, started = (int(word) for word in owner.split())
    except (OSError, ValueError):
        return False
    return (Path(folder) / "lab.json").exists() or alive(Process(pid, started))


def _free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("0.0.0.0", port))  # noqa: S104 - only to see whether anybody has it
        except OSError:
            return False
    return True


@contextlib.contextmanager
def _lock() -> Iterator[None]:
    _CLAIMS.mkdir(parents=True, exist_ok=True)
    with (_CLAIMS / "lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
