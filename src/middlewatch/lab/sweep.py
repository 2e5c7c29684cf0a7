"""After a lab nothing of it may run on, and not everything of it was started by the lab.

slurmd starts a slurmstepd for each job step and those start the jobs; all of them live on when
slurmd is killed. They are found by what they carry: daemons and step daemons have the lab's
mark in their environment, a job's processes descend from a step daemon or carry both a job's
number and the lab's slurm.conf. A controller that merely watches the lab carries neither.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from middlewatch.lab.daemons import MARK
from middlewatch.lab.patience import wait_for
from middlewatch.lab.processes import (
    Process,
    alive,
    all_pids,
    ancestors_of,
    command_line,
    environment,
    send,
    with_descendants,
)


def processes_of(folder: Path) -> tuple[Process, ...]:
    """All living processes that belong to the lab in ``folder``, daemons and jobs alike."""
    mark, conf = str(folder).encode(), f"{folder}/etc/slurm.conf".encode()
    spared = ancestors_of(os.getpid())
    roots = []
    for pid in all_pids():
        if pid in spared:
            continue
        env = environment(pid)
        if (
            env.get(MARK.encode()) == mark
            or (b"SLURM_JOB_ID" in env and env.get(b"SLURM_CONF") == conf)
            or _step_daemon_of(pid, folder)
        ):
            roots.append(pid)
    return tuple(found for found in with_descendants(roots) if found.pid not in spared)


def _step_daemon_of(pid: int, folder: Path) -> bool:
    """A slurmstepd writes its title over its environment; its log betrays it."""
    words = command_line(pid)
    if not words or not words[0].startswith("slurmstepd:"):
        return False
    try:
        files = [str(entry.readlink()) for entry in Path(f"/proc/{pid}/fd").iterdir()]
    except OSError:
        return False
    # Seen from outside, a file that was opened in the lab's own root directory has another path.
    logs = (f"{folder}/log/", f"{folder}/root{folder}/log/")
    return any(file.startswith(logs) for file in files)


def sweep(folder: Path) -> int:
    """Kill all that belongs to the lab until nothing is left; return how many were killed."""
    killed: set[Process] = set()

    def nothing_left() -> bool:
        left = processes_of(folder)
        for item in left:
            if send(item, signal.SIGKILL):
                killed.add(item)
        return not left

    wait_for(nothing_left, timeout_s=10.0, every_s=0.02)
    for item in killed:
        alive(item)  # takes away the zombies that are children of this process
    return len(killed)
