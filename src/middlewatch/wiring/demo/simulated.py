"""The demo where no Slurm can be had: the simulated cluster in real time, in this process.

Everything of Middlewatch is the real thing (store, watcher on a real log file, manager,
controller); only the scheduler behind its port is simulated, and the watchdog, which speaks to
Slurm's commands alone, is left out.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.lab.simulated.program import SimulatedTrainer
from middlewatch.lab.simulated.records import SimulatedConfig
from middlewatch.lab.simulated.scheduler import SimulatedCommand, SimulatedScheduler
from middlewatch.lab.simulated.slurmctld import SimulatedCluster
from middlewatch.model.action import Action, ActionKind
from middlewatch.model.answer import Known
from middlewatch.model.identity import ClusterId
from middlewatch.wiring import loading
from middlewatch.wiring.demo.harness import lab_settings, toml
from middlewatch.wiring.demo.job import ENVIRONMENT, Job
from middlewatch.wiring.up import Process

if TYPE_CHECKING:
    from middlewatch.adapters.sql.store import SqlStore

TURN_S = 0.05
COMMAND_S = 10.0


class SimulatedSlurm:
    """Implements `backend.Backend`."""

    kind = "simulated"

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._clock = SystemClock()
        self._folder = Path(tempfile.mkdtemp(prefix="middlewatch-demo-"))
        self.cluster = SimulatedCluster(SimulatedConfig(), self._clock.now())
        self.version = self.cluster.config.release
        self._issued: list[SimulatedCommand] = []
        self._scheduler = SimulatedScheduler(
            self.cluster, ClusterId("slurm", ENVIRONMENT), observer=self._issued.append
        )
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._turn, name="simulated-slurm", daemon=True)
        self._thread.start()
        self._process: Process | None = None

    def _turn(self) -> None:
        """Let the cluster's time follow ours."""
        while not self._over.is_set():
            self.cluster.advance(self._clock.now())
            self._over.wait(TURN_S)

    def begin(self) -> None:
        config = self._folder / "middlewatch.toml"
        changes: dict[str, dict[str, Any]] = {
            "watchdog": {"enabled": False},
            "log": {"level": "error"},
        }
        config.write_text(toml(lab_settings(self._folder / "state", ENVIRONMENT, changes)))
        loaded = loading.load({}, config=config)
        self._process = Process(loaded, environ={}, scheduler=self._scheduler)
        self._process.start()

    def submit(self, job: Job) -> str:
        trainer = SimulatedTrainer(
            steps=job.steps,
            step_s=job.step_seconds,
            checkpoint_every=job.checkpoint_every,
            fault=job.fault,
            fault_at=job.fault_at,
            folder=str(self._folder / "checkpoints"),
        )
        with self.cluster.lock:
            return self.cluster.submit(
                trainer,
                nodes=job.nodes,
                uid=os.geteuid(),
                user=pwd.getpwuid(os.geteuid()).pw_name,
                name="llm-demo",
                comment=job.comment,
                stdout=self._folder / "slurm-%j.out",
            )

    def store(self) -> SqlStore:
        from middlewatch.adapters.sql.store import open_store

        return open_store(self._folder / "state" / "middlewatch.db")

    def commands(self) -> list[dict[str, Any]]:
        return [
            {
                "at": command.at.isoformat().replace("+00:00", "Z"),
                "argv": list(command.argv),
                "exit_code": command.exit_code,
            }
            for command in self._issued
            if command.changing
        ]

    def accounting(self, job_id: str) -> list[dict[str, str]]:
        answer = self._scheduler.accounting(job_id)
        if not isinstance(answer, Known):
            return []
        return [
            {
                "JobIDRaw": record.job_id,
                "State": "REQUEUED" if record.requeued else record.state.value,
                "ExitCode": f"{record.exit_code or 0}:{record.exit_signal or 0}",
                "Submit": record.submitted_at.isoformat(),
                "Start": record.started_at.isoformat() if record.started_at else "None",
                "End": record.ended_at.isoformat() if record.ended_at else "Unknown",
                "NodeList": record.node_list,
            }
            for record in answer.value
        ]

    def finish(self, job_id: str) -> None:
        issued = list(self._issued)
        self._scheduler.perform(Action(ActionKind.CANCEL, job_id, "the demo is over"), COMMAND_S)
        # That was the demo's own command, not Middlewatch's.
        self._issued[:] = issued

    def close(self) -> None:
        if self._process is not None:
            with contextlib.redirect_stderr(sys.stdout):
                self._process.stop(lambda: True)
        self._over.set()
        self._thread.join(timeout=5)
        shutil.rmtree(self._folder, ignore_errors=True)
