"""A process number alone does not say whose process it is.

Numbers are used again. Everything that the lab kills was written down by an earlier command,
perhaps days ago, so each process is remembered with the moment the kernel started it
(field 22 of ``/proc/PID/stat``, in clock ticks since boot); where that differs, the number
belongs to somebody else now and is left alone. A zombie counts as dead.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from middlewatch.lab.patience import wait_for


@dataclass(frozen=True, slots=True)
class Process:
    """One process of this machine: its number and its start, in clock ticks since boot."""

    pid: int
    started: int


@dataclass(frozen=True, slots=True)
class _Stat:
    name: str
    state: str
    parent: int
    started: int


def _stat(pid: int) -> _Stat | None:
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    # The name stands in brackets and may itself contain brackets and blanks.
    name = text[text.index("(") + 1 : text.rindex(")")]
    rest = text[text.rindex(")") + 2 :].split()
    return _Stat(name=name, state=rest[0], parent=int(rest[1]), started=int(rest[19]))


def process(pid: int) -> Process | None:
    """The living process of that number, or None."""
    stat = _stat(pid)
    if stat is None or stat.state in "ZX":
        return None
    return Process(pid, stat.started)


def alive(known: Process) -> bool:
    """Whether this very process (not a later one of the same number) still lives."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(known.pid, os.WNOHANG)
    return process(known.pid) == known


def spawn(
    argv: Sequence[str], env: Mapping[str, str], log: Path, cwd: Path | None = None
) -> Process:
    """Start a program in a session of its own, its output appended to ``log``.

    It outlives this process and no terminal's interrupt reaches it. Raises OSError where the
    program cannot be started.
    """
    if cwd is not None:
        # posix_spawn knows no working directory; `env -C` is part of every Debian.
        argv = ("/usr/bin/env", "-C", str(cwd), *argv)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    pid = os.posix_spawn(
        argv[0],
        list(argv),
        dict(env),
        setsid=True,
        setsigmask=(),
        setsigdef=(signal.SIGINT, signal.SIGPIPE, signal.SIGTERM, signal.SIGHUP),
        file_actions=(
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(log), flags, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ),
    )
    found = process(pid)
    if found is None:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)
        raise OSError(f"{argv[0]} ended at once; see {log}")
    return found


def send(known: Process, signum: int) -> bool:
    """Signal this very process; False where it has gone."""
    if not alive(known):
        return False
    try:
        os.kill(known.pid, signum)
    except ProcessLookupError:
        return False
    return True


def stop(known: Process, grace_s: float) -> None:
    """Ask a process to end, and kill it when it has not after ``grace_s`` seconds."""
    # A stopped process takes no SIGTERM; let it run on so that it can.
    if grace_s > 0 and send(known, signal.SIGTERM):
        send(known, signal.SIGCONT)
        if wait_for(lambda: not alive(known), timeout_s=grace_s):
            return
    if send(known, signal.SIGKILL):
        wait_for(lambda: not alive(known), timeout_s=5.0)


def all_pids() -> Iterator[int]:
    """Numbers of all processes of this machine."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            yield int(entry)


def processes_named(names: Iterable[str]) -> tuple[Process, ...]:
    """Living processes with one of these (15 character) names."""
    wanted = {name[:15] for name in names}
    found = []
    for pid in all_pids():
        stat = _stat(pid)
        if stat is not None and stat.name in wanted and stat.state not in "ZX":
            found.append(Process(pid, stat.started))
    return tuple(found)


def environment(pid: int) -> Mapping[bytes, bytes]:
    """The environment that a process was started with; empty where it may not be read."""
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (item.split(b"=", 1) for item in raw.split(b"\0") if b"=" in item)
    return {pair[0]: pair[1] for pair in pairs}


def command_line(pid: int) -> tuple[str, ...]:
    """The words of a process's command line; empty where it may not be read."""
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return ()
    return tuple(word.decode(errors="replace") for word in raw.split(b"\0") if word)


def ancestors_of(pid: int) -> frozenset[int]:
    """A process, its parent, and so on: those that a sweep must spare."""
    line = set()
    while pid > 0 and pid not in line:
        line.add(pid)
        stat = _stat(pid)
        pid = stat.parent if stat is not None else 0
    return frozenset(line)


def with_descendants(roots: Iterable[int]) -> tuple[Process, ...]:
    """These processes and all that descend from them, as they are now."""
    children: dict[int, list[int]] = {}
    stats: dict[int, _Stat] = {}
    for pid in all_pids():
        stat = _stat(pid)
        if stat is not None and stat.state not in "ZX":
            stats[pid] = stat
            children.setdefault(stat.parent, []).append(pid)
    todo, seen = list(roots), set()
    while todo:
        pid = todo.pop()
        if pid in seen or pid not in stats:
            continue
        seen.add(pid)
        todo.extend(children.get(pid, ()))
    return tuple(Process(pid, stats[pid].started) for pid in sorted(seen))
