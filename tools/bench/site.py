"""What the groups share: one real Slurm for the run, `middlewatch up` on it, jobs with a note of
their own beginnings and ends.

A job notes the time itself, in its own script, with nanoseconds. Slurm's own times are whole seconds,
and asking Slurm often enough to see more would load the very thing that is measured.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from middlewatch.adapters.sql.store import SqlStore
from middlewatch.lab import jobs, packages, start
from middlewatch.lab.cluster import Cluster
from middlewatch.lab.jobs import TrainerOptions
from middlewatch.lab.spec import LabSpec
from middlewatch.model.advice import Advice
from middlewatch.model.attempt import Attempt
from middlewatch.model.identity import ClusterId
from middlewatch.wiring import presence
from middlewatch.wiring.demo.harness import Up, lab_settings

ENVIRONMENT = "bench"
CLUSTER = ClusterId("slurm", ENVIRONMENT)


class Trouble(RuntimeError):
    """Something did not come that must come; nothing was measured."""


def wait(what: str, look: Callable[[], Any], limit_s: float, every_s: float = 0.05) -> Any:
    """What ``look`` gives once it is true. Raises `Trouble` in the end."""
    until = time.monotonic() + limit_s
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > until:
            raise Trouble(f"{what}: not in {limit_s:.0f} s")
        time.sleep(every_s)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return int(port)


@dataclass
class Site:
    """The run's lab, started at its first use; ``say`` tells what goes on."""

    say: Callable[[str], None]
    _cluster: Cluster | None = None
    _count: int = 0
    _open: list[Running] = field(default_factory=list)

    @property
    def cluster(self) -> Cluster:
        if self._cluster is None:
            can = packages.available()
            if not can.ok:
                raise Trouble(f"needs a real Slurm: {can.reason}")
            self.say("  starting a Slurm")
            self._cluster = start.up(LabSpec(name=f"bench-{os.getpid()}", nodes=6))
        return self._cluster

    @contextlib.contextmanager
    def up(self, changes: Mapping[str, Mapping[str, Any]] | None = None) -> Iterator[Running]:
        """`middlewatch up` in action mode with a state of its own, until the end of the block."""
        with self.up_on(self.cluster, changes) as running:
            yield running

    @contextlib.contextmanager
    def up_on(
        self, cluster: Cluster, changes: Mapping[str, Mapping[str, Any]] | None = None
    ) -> Iterator[Running]:
        """The same on another lab."""
        self._count += 1
        folder = cluster.folder / "middlewatch" / str(self._count)
        port = free_port()
        settings = lab_settings(folder / "state", ENVIRONMENT, changes)
        settings["gateway"]["port"] = port
        # The real commands, not the lab's recording stand-ins: those cost time of their own.
        running = Running(cluster, Up(folder, cluster.env(logged=False), settings), port)
        self._open.append(running)
        try:
            yield running
        finally:
            running.close()
            self._open.remove(running)

    def close(self) -> None:
        for running in list(self._open):
            running.close()
        if self._cluster is not None:
            self._cluster.down(remove=True)
            self._cluster = None


@dataclass
class Running:
    """One `middlewatch up`, and what its store says."""

    cluster: Cluster
    up: Up
    port: int
    _store: SqlStore | None = None

    @property
    def store(self) -> SqlStore:
        if self._store is None:
            self._store = self.up.store()
        return self._store

    def pids(self) -> list[int]:
        """Of `up`, everything that it started, and its watchdog."""
        roots = [self.up.process.pid] if self.up.process is not None else []
        watchdog = presence.read(self.up.state / presence.WATCHDOG_ALIVE)
        if watchdog is not None and presence.alive(watchdog):
            roots.append(watchdog.pid)
        return _with_children(roots)

    def attempts(self, job_id: str) -> dict[int, Attempt]:
        found = self.store.attempts_of_job(CLUSTER, job_id)
        return {attempt.attempt_index: attempt for attempt in found}

    def advice(self, job_id: str, index: int = 0) -> Advice | None:
        attempt = self.attempts(job_id).get(index)
        return self.store.advice(attempt.id) if attempt is not None else None

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
            self._store = None
        self.up.stop()
        watchdog = presence.read(self.up.state / presence.WATCHDOG_ALIVE)
        if watchdog is not None and presence.alive(watchdog):
            presence.kill(watchdog)
        shutil.rmtree(self.up.folder, ignore_errors=True)


def _with_children(roots: list[int]) -> list[int]:
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            stat = Path("/proc", name, "stat").read_text()
        except OSError:
            continue
        parent = int(stat.rpartition(")")[2].split()[1])
        parents.setdefault(parent, []).append(int(name))
    found: list[int] = []
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        if pid not in found:
            found.append(pid)
            waiting += parents.get(pid, [])
    return found


# ----------------------------------------------------------------------------------------- the jobs


def opt_in(mode: str) -> str:
    return json.dumps({"middlewatch": {"environment": ENVIRONMENT, "mode": mode}})


def notes_folder(cluster: Cluster) -> Path:
    return cluster.home(cluster.spec.job_users[0]) / "notes"


def noting(cluster: Cluster, body: list[str], head: list[str]) -> str:
    """A batch script around ``body`` that notes its beginning and its end; ``code`` is its exit."""
    folder = notes_folder(cluster)
    return "\n".join(
        [
            "#!/bin/bash",
            *head,
            f'note() {{ echo "$1 ${{SLURM_RESTART_COUNT:-0}} $(date +%s.%N)" >> "{folder}/$SLURM_JOB_ID"; }}',
            f'[ -d "{folder}" ] || mkdir -p "{folder}"',
            "note begin",
            "code=0",
            *body,
            "note end",
            'exit "$code"',
            "",
        ]
    )


def training(cluster: Cluster, options: TrainerOptions) -> str:
    """The lab's trainer in a script that notes."""
    home = cluster.home(cluster.spec.job_users[0])
    _shell, *head, launch = jobs.script(options, cluster.layout.bin, home).splitlines()
    return noting(cluster, [f"{launch} || code=$?"], head)


def noted(cluster: Cluster, job_id: str) -> dict[tuple[str, int], float]:
    """When the job noted what of which attempt, seconds since 1970."""
    found: dict[tuple[str, int], float] = {}
    with contextlib.suppress(OSError):
        for line in (notes_folder(cluster) / job_id).read_text().splitlines():
            words = line.split()
            if len(words) == 3:
                found.setdefault((words[0], int(words[1])), float(words[2]))
    return found


def log_of(cluster: Cluster, job_id: str) -> Path:
    return cluster.home(cluster.spec.job_users[0]) / f"slurm-{job_id}.out"


def cancel(cluster: Cluster, job_ids: list[str]) -> None:
    """Cancel and return when nothing runs or waits any more."""
    if job_ids:
        cluster.run(["scancel", *job_ids], check=False)
    wait(
        "an empty queue",
        lambda: not cluster.run(["squeue", "-h", "-o", "%i"]).stdout.strip(),
        60.0,
        0.2,
    )
