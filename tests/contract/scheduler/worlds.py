"""The two worlds in which the scheduler's contract is tried: one is virtual, one is real."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Protocol

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.adapters.slurm.command import Commands
from middlewatch.adapters.slurm.scheduler import SlurmScheduler
from middlewatch.lab.cluster import Cluster
from middlewatch.lab.simulated import (
    Exit,
    SimulatedCluster,
    SimulatedConfig,
    SimulatedScheduler,
    sleeper,
)
from middlewatch.model.answer import Known
from middlewatch.model.identity import ClusterId
from middlewatch.model.scheduler import JobView
from middlewatch.ports.scheduler import Scheduler

HERE = ClusterId("slurm", "contract")


class World(Protocol):
    """A cluster with at least four idle nodes, whoever keeps it."""

    scheduler: Scheduler
    nodes: tuple[str, ...]
    release: tuple[int, ...]

    def submit(
        self,
        what: str = "run",
        *,
        nodes: int = 1,
        required: str = "",
        excluded: str = "",
        requeue: bool = True,
        hold: bool = False,
        dependency: str = "",
        name: str = "job",
        comment: str = "",
        array: int = 0,
    ) -> str:
        """Submit a job that runs on (``run``), also after it was told to end (``stubborn``, until it is
        killed), completes at once (``complete``), or fails at once with exit code 3 (``fail``).
        ``dependency`` as sbatch spells it."""

    def hold_by_operator(self, job_id: str) -> None: ...
    def requeue_and_hold_by_operator(self, job_id: str) -> None:
        """As an operator types it, without our mark."""

    def cancel_by_owner(self, job_id: str) -> None: ...
    def let_pass(self, seconds: float) -> None: ...
    def hang(self) -> None:
        """slurmctld holds its ports and answers nothing until `go_on`."""

    def go_on(self) -> None: ...


class Simulated:
    """The virtual one: waiting costs nothing."""

    def __init__(self, release: str = "22.05.8") -> None:
        self.cluster = SimulatedCluster(SimulatedConfig(release=release))
        self._port = SimulatedScheduler(self.cluster, HERE)
        self.scheduler: Scheduler = self._port
        self.nodes = self.cluster.config.nodes
        self.release = self.cluster.config.release_number

    def submit(
        self,
        what: str = "run",
        *,
        nodes: int = 1,
        required: str = "",
        excluded: str = "",
        requeue: bool = True,
        hold: bool = False,
        dependency: str = "",
        name: str = "job",
        comment: str = "",
        array: int = 0,
    ) -> str:
        start = {
            "run": sleeper(36000.0),
            "stubborn": sleeper(36000.0, dies_after_s=60.0),
            "complete": sleeper(0.2),
            "fail": sleeper(0.2, Exit(3)),
        }[what]
        kind, _, other = dependency.partition(":")
        return self.cluster.submit(
            start,
            nodes=nodes,
            required=tuple(required.split(",")) if required else (),
            excluded=tuple(excluded.split(",")) if excluded else (),
            requeue=requeue,
            hold=hold,
            dependency=[(kind, other)] if dependency else (),
            name=name,
            comment=comment,
            array=array,
        )

    def hold_by_operator(self, job_id: str) -> None:
        self.cluster.hold(job_id, by_operator=True)

    def requeue_and_hold_by_operator(self, job_id: str) -> None:
        self.cluster.requeue(job_id, hold=True)

    def cancel_by_owner(self, job_id: str) -> None:
        self.cluster.cancel(job_id, by="1000")

    def let_pass(self, seconds: float) -> None:
        self.cluster.advance(self.cluster.now + timedelta(seconds=seconds))

    def hang(self) -> None:
        self._port.faults.hung = True

    def go_on(self) -> None:
        self._port.thaw()


class Real:
    """The lab's Slurm through its command line, here or behind a gate, or through slurmrestd."""

    def __init__(
        self, lab: Cluster, commands: Commands | None = None, scheduler: Scheduler | None = None
    ) -> None:
        self.lab = lab
        clock = SystemClock()
        commands = commands or Commands(clock, environ=lab.env(logged=False))
        self.scheduler: Scheduler = scheduler or SlurmScheduler(HERE, commands, clock)
        partitions = self.scheduler.partitions()
        assert isinstance(partitions, Known)
        self.nodes = next(p.nodes for p in partitions.value if p.name == "train")
        self.release = tuple(int(part) for part in lab.version.split(".")[:3])
        self.user = lab.spec.job_users[0]

    def submit(
        self,
        what: str = "run",
        *,
        nodes: int = 1,
        required: str = "",
        excluded: str = "",
        requeue: bool = True,
        hold: bool = False,
        dependency: str = "",
        name: str = "job",
        comment: str = "",
        array: int = 0,
    ) -> str:
        body = {
            "run": "exec sleep 3600",
            "stubborn": "trap '' TERM; sleep 3600",
            "complete": "exit 0",
            "fail": "exit 3",
        }[what]
        extra = ["-N", str(nodes), "-J", name, "--requeue" if requeue else "--no-requeue"]
        extra += ["-w", required] if required else []
        extra += [f"--exclude={excluded}"] if excluded else []
        extra += ["--hold"] if hold else []
        extra += [f"--dependency={dependency}"] if dependency else []
        extra += [f"--array=0-{array - 1}"] if array else []
        extra += [f"--comment={comment}"] if comment else []
        home = str(self.lab.home(self.user))
        argv = ["sbatch", "--parsable", "-D", home, *extra, "--wrap", body]
        return self._as(self.user, argv).strip()

    def submit_two_components(self) -> str:
        """A heterogeneous job of one node and two; its leader's number."""
        home = str(self.lab.home(self.user))
        one = ["-D", home, "-N1", "--requeue", "--wrap", "exec sleep 3600"]
        two = ["-N2", "--requeue", "--wrap", "exec sleep 3600"]
        return self._as(self.user, ["sbatch", "--parsable", *one, ":", *two]).strip()

    def hold_by_operator(self, job_id: str) -> None:
        self._as(self.lab.spec.operator, ["scontrol", "hold", job_id])

    def requeue_and_hold_by_operator(self, job_id: str) -> None:
        self._as(self.lab.spec.operator, ["scontrol", "requeuehold", job_id])

    def cancel_by_owner(self, job_id: str) -> None:
        self._as(self.user, ["scancel", job_id])

    def _as(self, user: str, argv: list[str]) -> str:
        return self.lab.run(argv, user=user).stdout

    def let_pass(self, seconds: float) -> None:
        time.sleep(seconds)

    def hang(self) -> None:
        self.lab.freeze("slurmctld")

    def go_on(self) -> None:
        self.lab.thaw("slurmctld")


def seen(world: World, job_id: str) -> JobView | None:
    """The job in a fresh look that must succeed."""
    answer = world.scheduler.look([job_id])
    assert isinstance(answer, Known), answer
    return answer.value.job(job_id)


def until(
    world: World, job_id: str, holds: Callable[[JobView], bool], seconds: float = 30.0
) -> JobView:
    """Let time pass until a look shows what is waited for; fail with what was seen last."""
    last: JobView | None = None
    for _ in range(int(seconds / 0.25)):
        last = seen(world, job_id)
        if last is not None and holds(last):
            return last
        world.let_pass(0.25)
    raise AssertionError(f"job {job_id} never came to that; seen last: {last}")
