"""Where the demo runs: on a real Slurm of its own, or, where there can be none, on the simulated.

Both offer the same few things to the story, and say honestly which they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from middlewatch.wiring.demo.harness import Up, lab_settings
from middlewatch.wiring.demo.job import ENVIRONMENT, Job

if TYPE_CHECKING:
    from middlewatch.adapters.sql.store import SqlStore

Say = Callable[[str], None]


class Backend(Protocol):
    kind: str
    """``slurm`` or ``simulated``."""
    version: str

    def submit(self, job: Job) -> str: ...
    def begin(self) -> None:
        """Start Middlewatch in action mode."""

    def store(self) -> SqlStore: ...
    def commands(self) -> list[dict[str, Any]]:
        """Every command that could change something: at, argv, exit_code."""

    def accounting(self, job_id: str) -> list[dict[str, str]]: ...
    def finish(self, job_id: str) -> None:
        """End the job if it still runs."""

    def close(self) -> None: ...


class RealSlurm:
    """A lab of real daemons, and `middlewatch up` as a process beside it."""

    kind = "slurm"

    def __init__(
        self, say: Say, name: str, changes: Mapping[str, Mapping[str, Any]] | None = None
    ) -> None:
        from middlewatch.lab import start
        from middlewatch.lab.spec import LabSpec

        self._say = say
        spec = LabSpec(name=name, nodes=4)
        if (spec.path / "lab.json").exists():
            from middlewatch.lab.cluster import Cluster

            Cluster.load(spec.path).down(remove=True)
        self.cluster = start.up(spec, say)
        self.version = self.cluster.version
        folder = self.cluster.folder / "middlewatch"
        self.up = Up(
            folder, self.cluster.env(), lab_settings(folder / "state", ENVIRONMENT, changes)
        )

    def begin(self) -> None:
        self.up.start()

    def submit(self, job: Job) -> str:
        from middlewatch.lab.jobs import TrainerOptions

        options = TrainerOptions(
            name="llm-demo",
            nodes=job.nodes,
            steps=job.steps,
            step_seconds=job.step_seconds,
            checkpoint_every=job.checkpoint_every,
            fault=job.fault,
            fault_at=job.fault_at,
            fault_rank=1,
            comment=job.comment,
        )
        return self.cluster.submit(options)

    def store(self) -> SqlStore:
        return self.up.store()

    def commands(self) -> list[dict[str, Any]]:
        from middlewatch.lab import commandlog

        return [
            {
                "at": command.at.isoformat().replace("+00:00", "Z"),
                "argv": list(command.argv),
                "exit_code": command.exit_code,
            }
            for command in commandlog.commands(self.cluster.folder)
            if command.changing
        ]

    def accounting(self, job_id: str) -> list[dict[str, str]]:
        return self.cluster.accounting(job_id)

    def finish(self, job_id: str) -> None:
        self.cluster.run(["scancel", job_id], check=False)

    def close(self) -> None:
        self.up.stop()
        self.up.kill_watchdog()
        self.cluster.down(remove=True)


def choose(wanted: str, say: Say, name: str) -> Backend:
    """The real Slurm where it can be had, else the simulated one, with the reason said.

    Raises `ValueError` where a real one was demanded and cannot be had.
    """
    from middlewatch.lab.packages import available

    can = available()
    if wanted == "slurm" and not can.ok:
        raise ValueError(f"no real Slurm here: {can.reason}")
    if wanted == "slurm" or (wanted == "auto" and can.ok):
        return RealSlurm(say, name)
    if wanted == "auto":
        say(f"No real Slurm here ({can.reason}): the simulated one is used.")
    from middlewatch.wiring.demo.simulated import SimulatedSlurm

    return SimulatedSlurm(say)


def clean(argv: Sequence[str]) -> str:
    """A command as a person would type it."""
    return " ".join([Path(argv[0]).name, *argv[1:]]) if argv else ""
