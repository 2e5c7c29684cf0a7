"""One of our processes: the real services on the shared store, alive until something kills it."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, cast

from middlewatch.adapters.journal.file import FileJournal
from middlewatch.adapters.logs import FileLogs, RecordCodec
from middlewatch.adapters.scan.catalogue import read_catalogue
from middlewatch.adapters.scan.engine import Engine, scanner_for
from middlewatch.lab.simulated import Doom, SimulatedClient
from middlewatch.lab.simulated.records import Job
from middlewatch.lab.simulated.scheduler import SimulatedScheduler
from middlewatch.model.action import Action, ActionRecord
from middlewatch.model.gates import Deployment, Mode
from middlewatch.model.identity import ClusterId
from middlewatch.model.pattern import Pattern
from middlewatch.model.policy import Policy
from middlewatch.ports.errors import PortError
from middlewatch.ports.scanner import Scanner
from middlewatch.ports.store import Store
from middlewatch.reconciliation.deadlines import WatchdogConfig
from middlewatch.services.controller.controller import Controller, ControllerConfig
from middlewatch.services.manager.manager import Manager
from middlewatch.services.watchdog.service import Watchdog
from middlewatch.services.watcher import Watch, Watcher
from tools.faults.simulated.memory import Database, Memory, Pages
from tools.faults.simulated.turns import Killed, Turns, Worker
from tools.faults.simulated.witness import ENVIRONMENT, Sent, Witness

CLUSTER = ClusterId("slurm", ENVIRONMENT)
DEPLOYMENT = Deployment(
    cluster=CLUSTER,
    owned_cluster_name="simulated",
    mode=Mode.ACTION,
    acknowledge_scheduler_actions=True,
    partitions=("*",),
)
POLICY = Policy(version="simulated", grace_floor_s=6.0, advice_age_limit_s=400.0)
WATCHDOG = WatchdogConfig(max_hold_s=200.0, max_fence_s=45.0, heartbeat_stale_s=60.0)
MAX_HOLD_S = 150.0
"""Beyond the longest begin time, as it is where nobody has set it otherwise."""
DEADLINE_S = 15.0
LEASE_S = 40.0

_LOG = logging.getLogger("middlewatch.simulated")
_LOG.addHandler(logging.NullHandler())
_LOG.propagate = False


@cache
def _scanner() -> tuple[Scanner, Mapping[str, Pattern]]:
    catalogue = read_catalogue(None)
    return scanner_for(catalogue, Engine.RE2), catalogue.by_id()


@dataclass
class Script:
    """What befalls the commands and steps of one process, drawn beforehand. ``dooms`` by the
    number of the command, ``kill_at`` a number of steps (of writes and commands, counted from
    ``armed``), ``freeze`` seconds of standing still between check and send, by command."""

    random: random.Random
    dooms: dict[int, Doom] = field(default_factory=dict)
    freeze: dict[int, float] = field(default_factory=dict)
    kill_at: int | None = None
    slow: float = 1.0


@dataclass
class Shared:
    """What all processes of one schedule have in common."""

    turns: Turns
    server: SimulatedScheduler
    database: Database
    witness: Witness
    journal_dir: Path
    moment: Callable[[str, str], None]
    """Called with a service's name and the moment in one of its questions or commands."""
    commands: dict[str, int] = field(default_factory=dict)
    calm: bool = False
    """Nothing goes wrong any more: rounds may be rarer, only time passes."""
    missing: frozenset[str] | None = frozenset()
    """What listings leave out; None: they are cut short."""


class Process:
    """``roles`` among ``watcher``, ``manager``, ``controller``, ``watchdog``. ``offset`` is what
    its clock shows beyond true time."""

    def __init__(self, name: str, roles: tuple[str, ...], shared: Shared, script: Script) -> None:
        self.name = name
        self.shared = shared
        self.script = script
        self.offset = timedelta(0)
        self.dead = False
        self.armed = False
        self.steps = 0
        self.frozen_until: datetime | None = None
        self.died_at: str = ""
        self.began = shared.turns.now
        self._jumped_s = 0.0
        self._workers: dict[str, Worker] = {}
        bodies = {
            "watcher": self._watcher,
            "manager": self._manager,
            "controller": self._controller,
            "watchdog": self._watchdog,
        }
        for role in roles:
            self._workers[role] = Worker(
                shared.turns,
                f"{name}/{role}",
                bodies[role],
                dead=lambda: self.dead,
                frozen=lambda: self.frozen_until,
            )
        for worker in self._workers.values():
            worker.start()

    # ---------------------------------------------------------------------------- its clock

    def now(self) -> datetime:
        return self.shared.turns.now + self.offset

    def monotonic(self) -> float:
        return (self.shared.turns.now - self.began).total_seconds()

    def sleep(self, seconds: float) -> None:
        raise AssertionError("no service of ours sleeps")

    def token(self, size: int = 32) -> str:
        return f"{self.script.random.getrandbits(8 * size):x}"

    # ---------------------------------------------------------------------------- its death

    def kill(self, why: str) -> None:
        """Everything of it ends here; whoever calls from outside then calls `bury`."""
        if not self.dead:
            self.dead = True
            self.died_at = why
            self.shared.witness.say(f"{self.name} is killed {why}")

    def bury(self) -> None:
        for worker in self._workers.values():
            worker.end()

    def step(self, role: str, label: str) -> None:
        """A step of one of its services, at which it may die. Raises `Killed`."""
        if self.dead:
            raise Killed
        if self.armed and role != "watchdog":
            self.steps += 1
            if self.steps == self.script.kill_at:
                self.kill(f"{label} of its {role} (step {self.steps})")
                self.shared.turns.after(0.0, self.bury)
                raise Killed
        if self.script.slow > 1.0 and "before" in label:
            self._workers[role].pass_time(0.01 * self.script.slow)

    # ------------------------------------------------------------------------- its services

    def _journey(self, role: str) -> _Journey:
        return _Journey(self, role, self._workers[role])

    def _client(self, journey: _Journey) -> SimulatedClient:
        return SimulatedClient(self.shared.server, self.shared.turns.cluster, journey)

    def _memory(self, role: str, journey: _Journey) -> Store:
        memory = Memory(
            self.shared.database,
            lambda label: self.step(role, label),
            looked=journey.last.get,
            planned=journey.plan,
        )
        return cast("Store", memory)

    def _loop(
        self,
        worker: Worker,
        tick: Callable[[datetime], Any],
        pause: Callable[[Any], float],
    ) -> None:
        failures = 0
        while True:
            try:
                report = tick(self.now())
            except PortError as error:
                failures += 1
                self.shared.witness.say(f"{self.name}: {error}")
                worker.rest(min(2.0**failures, 10.0))
                continue
            failures = 0
            worker.rest(pause(report))

    def _watcher(self, worker: Worker) -> None:
        journey = self._journey("watcher")
        scanner, patterns = _scanner()
        watcher = Watcher(
            store=self._memory("watcher", journey),
            scheduler=self._client(journey),
            logs=FileLogs(),
            scanner=scanner,
            patterns=patterns,
            codec=RecordCodec(Watch),
            policy=POLICY,
        )

        def pause(report: Any) -> float:
            if report.something_new and "manager" in self._workers:
                self._workers["manager"].wake()
            for error in report.errors:
                self.shared.witness.say(f"watcher: {error}")
            pause = 1.5 + 2.0 * self.script.random.random()
            return pause * 2.5 if self.shared.calm else pause

        self._loop(worker, watcher.tick, pause)

    def _manager(self, worker: Worker) -> None:
        journey = self._journey("manager")

        def advised() -> None:
            if "controller" in self._workers:
                self._workers["controller"].wake()

        manager = Manager(
            store=self._memory("manager", journey),
            scheduler=self._client(journey),
            deployment=DEPLOYMENT,
            policy=POLICY,
            on_advice=advised,
            on_error=lambda what, error: self._broke(f"manager, {what}", error),
        )

        def pause(report: Any) -> float:
            if report.again:
                return 0.1
            return 8.0 if self.shared.calm else 4.0

        self._loop(worker, manager.tick, pause)

    def _controller(self, worker: Worker) -> None:
        journey = self._journey("controller")
        controller = Controller(
            store=self._memory("controller", journey),
            scheduler=self._client(journey),
            journal=Pages(
                FileJournal(self.shared.journal_dir),
                lambda label: self.step("controller", label),
                self.shared.witness,
            ),
            clock=self,
            deployment=DEPLOYMENT,
            policy=POLICY,
            holder=self.name,
            config=ControllerConfig(deadline_s=DEADLINE_S, lease_s=LEASE_S, max_hold_s=MAX_HOLD_S),
            on_error=lambda what, error: self._broke(f"controller, {what}", error),
        )
        pauses = 0.3

        def pause(report: Any) -> float:
            nonlocal pauses
            # A round that only waits is followed by rarer ones: nothing but time is lost.
            longest = 6.0 if self.shared.calm else 3.0
            busy = report.actions or report.outcomes
            pauses = 0.3 if busy else min(pauses * 1.5, longest)
            return pauses if report.again else 5.0

        self._loop(worker, controller.tick, pause)

    def _watchdog(self, worker: Worker) -> None:
        journey = self._journey("watchdog")
        watchdog = Watchdog(
            self._client(journey),
            Pages(
                FileJournal(self.shared.journal_dir),
                lambda label: self.step("watchdog", label),
                self.shared.witness,
            ),
            WATCHDOG,
            Mode.ACTION,
            _LOG,
        )
        self._loop(worker, watchdog.tick, lambda _report: WATCHDOG.interval_s)

    def _broke(self, what: str, error: Exception) -> None:
        self.shared.witness.say(f"{self.name}: {what}: {type(error).__name__}: {error}")
        if not isinstance(error, PortError):
            self.shared.witness.note("broken", f"{what}: {type(error).__name__}: {error}")


class _Journey:
    """Implements `lab.simulated.Journey` for one service of one process."""

    def __init__(self, process: Process, role: str, worker: Worker) -> None:
        self.last: dict[str, Job | None] = {}
        self._process = process
        self._role = role
        self._worker = worker
        self._intent: ActionRecord | None = None
        self._sent: dict[int, tuple[Action, Sent]] = {}
        self._frozen = False

    def plan(self, record: ActionRecord) -> None:
        self._intent = record

    def pause(self, seconds: float) -> None:
        self._worker.pass_time(seconds)

    def now(self) -> datetime:
        return self._process.now()

    def look_s(self) -> tuple[float, float]:
        slow = self._process.script.slow
        return 0.02 * slow, 0.01 * slow

    def command_s(self) -> tuple[float, float]:
        slow = self._process.script.slow
        return 0.03 * slow, 0.02 * slow

    def doom(self, action: Action) -> Doom:
        process = self._process
        number = process.shared.commands.get(self._role, 0) + 1
        process.shared.commands[self._role] = number
        looked = self.last.get(action.job_id)
        sent = Sent(
            f"{self._role}@{process.name}",
            process.shared.turns.now,
            looked,
            self._intent if self._role == "controller" else None,
            self._frozen,
        )
        # With the action itself, so that its identity stays its own: it may arrive much later.
        self._sent[id(action)] = (action, sent)
        self._frozen = False
        if self._role != "controller":
            return Doom()
        return process.script.dooms.get(number, Doom())

    def cut(self) -> frozenset[str] | None:
        return self._process.shared.missing

    def moment(self, name: str) -> None:
        process = self._process
        if self._role == "controller":
            if name == "send":
                number = process.shared.commands.get(self._role, 0) + 1
                seconds = process.script.freeze.pop(number, 0.0)
                if seconds:
                    process.shared.witness.say(f"{process.name} stands still for {seconds:.0f} s")
                    process.frozen_until = process.shared.turns.now + timedelta(seconds=seconds)
                    self._frozen = True
                    self._worker.pass_time(0.0)
                process.step(self._role, "before the command")
            elif name in {"arrived", "answered"}:
                process.step(self._role, f"when its command has {name}")
        process.shared.moment(self._role, name)

    def looked(self, job_id: str, job: Job | None) -> None:
        self.last[job_id] = job

    def carried_out(
        self, action: Action, before: Job | None, after: Job | None, refusal: str
    ) -> None:
        _, sent = self._sent.pop(id(action))
        self._process.shared.witness.carried_out(sent, action, before, after, refusal)
