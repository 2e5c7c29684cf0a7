"""One control plane on a lab: its processes, its own record of every command that it issues.

Several sites share a lab. Each has its own environment (so that only its own job is its business), its own
state, and its own stand-ins for Slurm's commands: what one of them issues, and what befalls it, is
never another's.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import socket
import subprocess
import threading
from pathlib import Path
from typing import Any

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.lab import commandlog
from middlewatch.lab.cluster import Cluster
from middlewatch.lab.config import Layout
from middlewatch.lab.daemons import SYSTEM_PATH
from middlewatch.services.gateway.access import Scope
from middlewatch.services.gateway.tokens import make_token
from middlewatch.wiring import presence
from middlewatch.wiring.demo.harness import Up, lab_settings
from tools.faults.schedule import ELSEWHERE
from tools.faults.schedule import UP as ONE

MAX_HOLD_S = 40.0
"""Release-by of our holds here, so that the watchdog's duty can be seen within a run."""
QUICK: dict[str, dict[str, Any]] = {
    "policy": {"grace_floor": 3.0},
    "slurm": {"command_deadline": 11.0},
    "controller": {"max_hold": MAX_HOLD_S, "lease": 30.0, "drain_limit": 40.0},
    "watchdog": {
        "mode": "action",
        "interval": 2.0,
        "max_hold": 60.0,
        "site_max_hold": 120.0,
        "max_fence": 60.0,
        "heartbeat_stale": 25.0,
    },
}
"""The product's own settings, with deadlines that pass within a run."""
TMPFS_KB = 65_536
_PORTS = itertools.count()
_PORTS_LOCK = threading.Lock()


class Site:
    """``deployment`` is one of `schedule.DEPLOYMENTS`. ``small_disk``: the state lies on a file system
    of its own, of 64 MB, so that it can be full."""

    def __init__(
        self, folder: Path, cluster: Cluster, environment: str, deployment: str, small_disk: bool
    ) -> None:
        self.folder = folder
        self.cluster = cluster
        self.environment = environment
        self.deployment = deployment
        self.lock = threading.RLock()
        self._take_away()
        folder.mkdir(parents=True)
        self.recorder = folder / "commands"
        self._record()
        disk = folder / "disk"
        disk.mkdir()
        self.disk = disk if small_disk else None
        if small_disk:
            mount = ["mount", "-t", "tmpfs", "-o", f"size={TMPFS_KB}k,mode=700", "tmpfs", str(disk)]
            subprocess.run(mount, check=True, capture_output=True)
        self.state = disk / "state"
        self.away = disk / "away"
        self.parts = self._parts()
        self.wanted: set[str] = set()
        """Names of the processes that somebody would start again if they ended."""

    @property
    def controller_state(self) -> Path:
        """Where the controller's journal and the watchdog's files are."""
        return self.away if self.deployment == ELSEWHERE else self.state

    @property
    def database(self) -> Path:
        return self.state / "middlewatch.db"

    def _record(self) -> None:
        layout = Layout(self.recorder)
        layout.bin.mkdir(parents=True)
        commandlog.install(layout, self.cluster.spec.prefix)
        commandlog.bear_witness(self.recorder)

    def _parts(self) -> dict[str, Up]:
        env = {**self.cluster.env(), "PATH": f"{self.recorder / 'bin'}:{SYSTEM_PATH}"}
        here = lab_settings(self.state, self.environment, QUICK)
        if self.deployment == ONE:
            return {"up": Up(self.folder / "up", env, here)}
        away = here
        if self.deployment == ELSEWHERE:
            port = _port()
            here["gateway"] = {"port": port}
            control = {
                **QUICK["controller"],
                "gateway": f"http://127.0.0.1:{port}",
                "token_file": str(self.folder / "token"),
            }
            away = lab_settings(self.away, self.environment, {**QUICK, "controller": control})
        return {
            name: Up(self.folder / name, env, away if name == "controller" else here, words=(name,))
            for name in ("gateway", "watcher", "manager", "controller")
        }

    # ----------------------------------------------------------------------------------- its life

    def start(self, *names: str) -> None:
        """Start these, or all, as a service manager would; what runs goes on. Returns when the API
        answers. Raises NotReady."""
        with self.lock:
            wanted = names or tuple(self.parts)
            ready = [name for name in wanted if name in ("up", "gateway")]
            for name in ready:
                self._begin(name)
            for name in ready:
                self.parts[name].wait_ready(90.0)
            if self.deployment == ELSEWHERE and not (self.folder / "token").exists():
                self._make_token()
            for name in wanted:
                if name not in ready:
                    self._begin(name)
            self.wanted |= set(wanted)

    def _begin(self, name: str) -> None:
        part = self.parts[name]
        if part.process is None or part.process.poll() is not None:
            part.start(wait=False)

    def _make_token(self) -> None:
        store = self.parts["gateway"].store()
        try:
            token = make_token(store, SystemClock(), "elsewhere", (Scope.CONTROLLER,))
        finally:
            store.close()
        (self.folder / "token").write_text(token)

    def kill(self, *names: str) -> None:
        """`kill -9` of these, or of all. Nobody starts them again meanwhile."""
        with self.lock:
            for name in names or tuple(self.parts):
                self.wanted.discard(name)
                self.parts[name].kill()

    def kill_watchdog(self) -> None:
        alive = presence.read(self.controller_state / presence.WATCHDOG_ALIVE)
        if alive is not None:
            presence.kill(alive)

    def signal_all(self, number: int) -> None:
        """Signal every process of ours, not the watchdog."""
        for part in self.parts.values():
            if part.process is not None and part.process.poll() is None:
                os.killpg(part.process.pid, number)

    def ended_by_itself(self) -> str:
        """The name of a process that should run and does not; empty: all run."""
        with self.lock:
            for name in self.wanted:
                process = self.parts[name].process
                if process is None or process.poll() is not None:
                    return name
        return ""

    def answers(self) -> bool:
        """Whether somebody serves the API, as far as a process is there."""
        part = self.parts.get("up") or self.parts["gateway"]
        return part.process is not None and part.process.poll() is None

    def last_words(self) -> str:
        return "\n".join(f"{name}: {part.last_words(6)}" for name, part in self.parts.items())

    def stop(self) -> int:
        """Ask all to stop, the controller first; the worst of their exit codes."""
        with self.lock:
            self.wanted.clear()
            order = ("up", "controller", "manager", "watcher", "gateway")
            codes = [self.parts[name].stop() for name in order if name in self.parts]
            return next((code for code in codes if code), 0)

    def close(self) -> None:
        """Leave nothing running and nothing mounted."""
        self.signal_all(signal.SIGCONT)
        self.kill()
        self.kill_watchdog()

    def unmount(self) -> None:
        if self.disk is not None:
            subprocess.run(["umount", "-l", str(self.disk)], check=False, capture_output=True)

    def keep(self, where: Path) -> None:
        """Copy what helps to understand a schedule that did not end right."""
        shutil.rmtree(where, ignore_errors=True)
        ignored = shutil.ignore_patterns("*.sock", "token", "bin", "full")
        shutil.copytree(self.folder, where, ignore=ignored, symlinks=True)

    def _take_away(self) -> None:
        """What an interrupted run of the same seed has left."""
        disk = self.folder / "disk"
        if disk.is_mount():
            subprocess.run(["umount", "-l", str(disk)], check=False, capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def _port() -> int:
    """A port that nobody has, below those that outgoing connections are given: a gateway that was
    killed must get it again."""
    with _PORTS_LOCK:
        while True:
            port = 11_000 + (os.getpid() * 31 + next(_PORTS)) % 5_000
            with socket.socket() as probe:
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError:
                    continue
            return port
