"""A controller over a real store and a real journal, beside the simulated Slurm, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from middlewatch.adapters.journal.file import FileJournal
from middlewatch.adapters.sql.store import SqlStore, open_store
from middlewatch.lab.simulated import (
    Faults,
    SimulatedCluster,
    SimulatedCommand,
    SimulatedConfig,
    SimulatedScheduler,
)
from middlewatch.lab.simulated.program import Start
from middlewatch.model.advice import Advice, DecisionBasis, DesiredState
from middlewatch.model.answer import Known
from middlewatch.model.attempt import Attempt, Dependent
from middlewatch.model.change import Change
from middlewatch.model.gates import Deployment, Mode, gates_for
from middlewatch.model.identity import ClusterId, sequence_id
from middlewatch.model.milestone import Operation, Sequence
from middlewatch.model.optin import directive, read_comment
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import JobView
from middlewatch.ports.clock import Clock
from middlewatch.ports.remote import ControllerStore
from middlewatch.services.controller.controller import Controller, ControllerConfig
from middlewatch.services.controller.round import ControllerReport

CLUSTER = ClusterId("slurm", "sim")
Through = Callable[[SqlStore, Clock], ControllerStore]
COMMENT = directive("sim", "action").removeprefix("#SBATCH --comment='").removesuffix("'")


@dataclass
class Ticking:
    """The cluster's time as a clock; a millisecond passes at each reading."""

    cluster: SimulatedCluster

    def now(self) -> datetime:
        self.cluster.advance(self.cluster.now + timedelta(milliseconds=1))
        return self.cluster.now

    def monotonic(self) -> float:
        return self.now().timestamp()

    def sleep(self, seconds: float) -> None:
        self.cluster.advance(self.cluster.now + timedelta(seconds=seconds))

    def token(self, size: int = 32) -> str:
        return "t" * size


@dataclass
class World:
    folder: Path
    config: SimulatedConfig = SimulatedConfig()
    deployment: Deployment = Deployment(CLUSTER, "simulated", Mode.ACTION, True, ("train",))
    policy: Policy = Policy()
    issued: list[SimulatedCommand] = field(default_factory=list)
    through: Through | None = None
    """How the controllers reach the store; by itself where there is none."""

    def __post_init__(self) -> None:
        self.cluster = SimulatedCluster(self.config)
        self.faults = Faults()
        self.scheduler = SimulatedScheduler(
            self.cluster, CLUSTER, faults=self.faults, observer=self.issued.append
        )
        self.store: SqlStore = open_store(self.folder / "mw.db")
        self.journal = FileJournal(self.folder)
        self.clock = Ticking(self.cluster)
        self.for_controllers: ControllerStore | None = None
        if self.through is not None:
            self.for_controllers = self.through(self.store, self.clock)
        self.controller = self.another()

    def another(
        self,
        holder: str = "c1",
        deployment: Deployment | None = None,
        journal: FileJournal | None = None,
    ) -> Controller:
        """A controller process (again): nothing but the store and the journal carries over; with
        ``journal`` on another host, which has its own."""
        return Controller(
            store=self.for_controllers or self.store,
            scheduler=self.scheduler,
            journal=journal or self.journal,
            clock=self.clock,
            deployment=deployment or self.deployment,
            policy=self.policy,
            holder=holder,
            config=ControllerConfig(),
        )

    def wait(self, seconds: float) -> None:
        self.cluster.advance(self.cluster.now + timedelta(seconds=seconds))

    def turn(self, seconds: float = 0.5) -> ControllerReport:
        """One tick, and some time after it."""
        report = self.controller.tick(self.clock.now())
        self.wait(seconds)
        return report

    def run(self, seconds: float) -> None:
        """Tick until nothing is active, or so long."""
        until = self.cluster.now + timedelta(seconds=seconds)
        while self.cluster.now < until and self.store.advice_page(True, 0, 1):
            self.turn()

    def view(self, job: str) -> JobView:
        look = self.scheduler.look([job])
        assert isinstance(look, Known)
        found = look.value.job(job)
        assert found is not None
        return found

    def excluded(self, job: str) -> tuple[str, ...]:
        detail = self.scheduler.detail(job)
        assert isinstance(detail, Known)
        return detail.value.excluded_nodes

    def submit(self, start: Start, **options: Any) -> str:
        options.setdefault("comment", COMMENT)
        job = self.cluster.submit(start, **options)
        self.wait(2)
        return job

    def attempt(self, job: str, dependents: tuple[Dependent, ...] = ()) -> Attempt:
        """The job's present attempt, stored as the watcher would."""
        view = self.view(job)
        attempt = Attempt(
            id=view.key(CLUSTER).attempt_id(),
            cluster=CLUSTER,
            job_id=job,
            attempt_index=view.restarts,
            submitted_at=view.submitted_at,
            first_seen_at=self.cluster.now,
            last_seen_at=self.cluster.now,
            state=view.state,
            partitions=view.partitions,
            node_count=view.node_count,
            opt_in=read_comment(COMMENT),
            dependents=dependents,
        )
        self.store.apply(Change(attempts=(attempt,)))
        return attempt

    def advise(
        self,
        attempt: Attempt,
        *exclusions: str,
        desired: DesiredState = DesiredState.RESTARTED,
        deployment: Deployment | None = None,
        **changes: Any,
    ) -> Advice:
        now = self.cluster.now
        sequence = sequence_id(CLUSTER, attempt.job_id, attempt.id, "RESTART")
        values: dict[str, Any] = {
            "attempt_id": attempt.id,
            "job_id": attempt.job_id,
            "attempt_index": attempt.attempt_index,
            "submitted_at": attempt.submitted_at,
            "owner": CLUSTER,
            "desired": desired,
            "exclusions": exclusions,
            "generation": 1,
            "desired_state_changed_at": now,
            "created_at": now,
            "basis": DecisionBasis.ATTEMPT_ENDED_IN_FAILURE,
            "gates": gates_for(deployment or self.deployment, attempt, "simulated"),
            "policy_version": "p",
            "sequence_id": sequence,
        }
        advice = Advice(**{**values, **changes})
        self.store.apply(
            Change(
                advice=(advice,),
                sequences=(
                    Sequence(
                        sequence,
                        "slurm",
                        "sim",
                        attempt.job_id,
                        attempt.attempt_index,
                        attempt.id,
                        Operation.RESTART,
                        "00-0-0-01",
                        now,
                    ),
                ),
            )
        )
        return advice

    def outcome(self, attempt: Attempt) -> str:
        advice = self.store.advice(attempt.id)
        assert advice is not None
        status = advice.status
        return "none" if status is None else f"{status.disposition.value} {status.reason.value}"

    def verbs(self) -> list[str]:
        return [
            c.argv[1] if c.argv[0] != "scancel" else "scancel" for c in self.issued if c.changing
        ]
