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
from middlewatch.lab.simulated import Doom, Fate, SimulatedClient, SimulatedCluster
from middlewatch.lab.simulated.records import Job
from middlewatch.lab.simulated.scheduler import SimulatedScheduler
from middlewatch.model.action import Action, ActionRecord
from middlewatch.model.answer import Answer, Unknown
from middlewatch.model.gates import Deployment, Mode
from middlewatch.model.identity import ClusterId
from middlewatch.model.pattern import Pattern
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import AccountingRecord
from middlewatch.ports.errors import PortError, Unreachable
from middlewatch.ports.scanner import Scanner
from middlewatch.ports.store import Store
from middlewatch.reconciliation.deadlines import WatchdogConfig
from middlewatch.services.controller.controller import Controller, ControllerConfig
from middlewatch.services.manager.manager import Manager
from middlewatch.services.watchdog.service import Watchdog
from middlewatch.services.watcher import Watch, Watcher
from tools.faults.simulated.elsewhere import Afar, Gateway, remote_store
from tools.faults.simulated.memory import Database, Memory, Pages
from tools.faults.simulated.told import Seen, Sent
from tools.faults.simulated.turns import Killed, Turns, Worker
from tools.faults.simulated.witness import ENVIRONMENT, MAX_HOLD_S, WATCHDOG_MAX_HOLD_S, Witness

CLUSTER = ClusterId("slurm", ENVIRONMENT)
DEPLOYMENT = Deployment(
    cluster=CLUSTER,
    owned_cluster_name="simulated",
    mode=Mode.ACTION,
    acknowledge_scheduler_actions=True,
    partitions=("*",),
)
POLICY = Policy(version="simulated", grace_floor_s=6.0, advice_age_limit_s=400.0)
WATCHDOG = WatchdogConfig(max_hold_s=WATCHDOG_MAX_HOLD_S, max_fence_s=45.0, heartbeat_stale_s=60.0)
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
    keeper: Process | None = None
    """Whose host has the store, and a gateway before it."""
    wakes: dict[str, Callable[[], None]] = field(default_factory=dict)
    """How controllers on other hosts hear that there is advice, by process."""
    jumped: bool = False
    """Whether a clock has been set: then no two agree on when a lease ends."""

    def gateway(self) -> Gateway:
        """The door to the store. Raises `Unreachable` before anybody has it."""
        if self.keeper is None:
            raise Unreachable("nobody listens there")
        return self.keeper.gateway()


class Process:
    """``roles`` among ``watcher``, ``manager``, ``controller``, ``watchdog``. ``offset`` is what
    its clock shows beyond true time. ``host`` is whose journal it has; with ``away`` the store is
    on another one."""

    def __init__(
        self,
        name: str,
        roles: tuple[str, ...],
        shared: Shared,
        script: Script,
        *,
        host: str = "a",
        away: bool = False,
    ) -> None:
        self.name = name
        self.host = host
        self._away = away
        self._gateway: Gateway | None = None
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

    def gateway(self) -> Gateway:
        """The door to its store, for controllers on other hosts."""
        if self._gateway is None:
            memory = Memory(
                self.shared.database,
                lambda _label: None,
                seen=lambda: (self._gateway and self._gateway.seen_by_caller) or Seen(),
            )
            self._gateway = Gateway(cast("Store", memory), self, CLUSTER, self._answers)
        return self._gateway

    def _answers(self) -> bool:
        until = self.frozen_until
        return not self.dead and (until is None or until <= self.shared.turns.now)

    # ------------------------------------------------------------------------- its services

    def _journey(self, role: str) -> _Journey:
        return _Journey(self, role, self._workers[role])

    def _client(self, journey: _Journey) -> SimulatedClient:
        return _Client(self.shared.server, self.shared.turns.cluster, journey)

    def _memory(self, role: str, journey: _Journey) -> Store:
        memory = Memory(
            self.shared.database,
            lambda label: self.step(role, label),
            seen=lambda: journey.seen,
            planned=journey.plan,
        )
        return cast("Store", memory)

    def _through_the_gateway(self, worker: Worker, journey: _Journey) -> Store:
        remote = remote_store(self.shared.gateway, CLUSTER, worker.pass_time, journey.seen)
        afar = Afar(remote, lambda label: self.step("controller", label), journey.plan)
        return cast("Store", afar)

    def _journal(self, role: str) -> Pages:
        return Pages(
            FileJournal(self.shared.journal_dir / self.host),
            lambda label: self.step(role, label),
            self.shared.witness,
        )

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
            for wake in self.shared.wakes.values():
                wake()

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
        store = self._memory("controller", journey)
        if self._away:
            store = self._through_the_gateway(worker, journey)
            self.shared.wakes[self.name] = worker.wake
        controller = Controller(
            store=store,
            scheduler=self._client(journey),
            journal=self._journal("controller"),
            clock=self,
            deployment=DEPLOYMENT,
            policy=POLICY,
            holder=self.name,
            config=ControllerConfig(deadline_s=DEADLINE_S, lease_s=LEASE_S, max_hold_s=MAX_HOLD_S),
            on_error=lambda what, error: self._broke(f"controller, {what}", error),
            on_lead=lambda text: self.shared.witness.say(f"{self.name} {text}"),
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
            self._journal("watchdog"),
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
        self.seen = Seen()
        self._process = process
        self._role = role
        self._worker = worker
        self._intent: ActionRecord | None = None
        self._sent: dict[int, tuple[Action, Sent, Doom]] = {}
        self._stood_since: datetime | None = None

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
        looked = self.seen.looked.get(action.job_id)
        since, self._stood_since = self._stood_since, None
        leads = self._role != "controller" or self._leads(stood_still=since is not None)
        sent = Sent(
            f"{self._role}@{process.name}",
            since or process.shared.turns.now,
            looked,
            self._intent if self._role == "controller" else None,
            since is not None and not leads,
        )
        doom = Doom()
        if self._role == "controller":
            doom = process.script.dooms.get(number, doom)
        if doom.fate is Fate.NEVER:
            process.shared.witness.happen("a command never arrives")
        # With the action itself, so that its identity stays its own: it may arrive much later.
        self._sent[id(action)] = (action, sent, doom)
        return doom

    def _leads(self, *, stood_still: bool) -> bool:
        """Whether its sender leads, by the store, and may begin a command."""
        process = self._process
        shared = process.shared
        leases = shared.database.store.leases()
        lease = next((one for one in leases if one.name.startswith("controller/")), None)
        now = shared.keeper.now() if shared.keeper is not None else shared.turns.now
        if lease is None or lease.holder != process.name:
            if not stood_still and not shared.jumped:
                shared.witness.note("unled_actions", f"{process.name} sends and does not lead")
            return False
        ends_s = (lease.expires_at - now).total_seconds()
        if ends_s < DEADLINE_S and not stood_still and not shared.jumped:
            text = f"{process.name} begins a command {ends_s:.1f} s before its lease ends"
            shared.witness.note("unled_actions", text)
        if lease.taken_over_at is not None and not shared.jumped:
            since_s = (now - lease.taken_over_at).total_seconds()
            if since_s < LEASE_S + DEADLINE_S:
                text = f"{process.name} acts {since_s:.1f} s after it took over"
                shared.witness.note("hasty_leaders", text)
        return ends_s > 0

    def cut(self) -> frozenset[str] | None:
        missing = self._process.shared.missing
        if missing is None:
            self._process.shared.witness.happen("listings are cut short")
        elif missing:
            self._process.shared.witness.happen("listings miss jobs")
        return missing

    def moment(self, name: str) -> None:
        process = self._process
        faults = process.shared.server.faults
        if name in {"look", "send"} and (faults.hung or faults.unreachable):
            kind = "slurmctld hangs" if faults.hung else "slurmctld is away"
            process.shared.witness.happen(kind)
        if self._role == "controller":
            if name == "send":
                number = process.shared.commands.get(self._role, 0) + 1
                seconds = process.script.freeze.pop(number, 0.0)
                if seconds:
                    process.shared.witness.say(f"{process.name} stands still for {seconds:.0f} s")
                    self._stood_since = process.shared.turns.now
                    process.frozen_until = self._stood_since + timedelta(seconds=seconds)
                    process.shared.witness.happen("a leader stands still")
                    self._worker.pass_time(0.0)
                process.step(self._role, "before the command")
            elif name in {"arrived", "answered"}:
                process.step(self._role, f"when its command has {name}")
        process.shared.moment(self._role, name)

    def looked(self, job_id: str, job: Job | None) -> None:
        self.seen.looked[job_id] = job

    def detailed(self, job_id: str, job: Job | None) -> None:
        self.seen.detailed[job_id] = job

    def accounting_was_away(self) -> None:
        self._process.shared.witness.happen("accounting is away")

    def carried_out(
        self, action: Action, before: Job | None, after: Job | None, refusal: str
    ) -> None:
        _, sent, doom = self._sent.pop(id(action))
        witness = self._process.shared.witness
        if not refusal and doom.fate is Fate.REPLY_LOST:
            witness.happen("a reply is lost")
        late = (self._process.shared.turns.now - sent.at).total_seconds() > DEADLINE_S
        if not refusal and (doom.fate is Fate.LATE or late):
            witness.happen("a command takes effect after its client gave up")
        witness.carried_out(sent, action, before, after, refusal)


class _Client(SimulatedClient):
    """It is told when accounting did not answer."""

    def __init__(
        self, server: SimulatedScheduler, world: SimulatedCluster, journey: _Journey
    ) -> None:
        super().__init__(server, world, journey)
        self._told = journey

    def accounting(self, job_id: str) -> Answer[tuple[AccountingRecord, ...]]:
        answer = super().accounting(job_id)
        if isinstance(answer, Unknown):
            self._told.accounting_was_away()
        return answer
