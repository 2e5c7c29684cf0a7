"""Play one schedule: jobs that fail, a control plane that recovers them, and everything in its way."""

from __future__ import annotations

import gc
import os
import random
import shutil
import tempfile
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cache, partial
from pathlib import Path
from typing import Any

from sqlalchemy import Table

from middlewatch.adapters.sql.schema import metadata
from middlewatch.adapters.sql.store import SqlStore, open_store
from middlewatch.lab.simulated import (
    EPOCH,
    Exit,
    NotDone,
    SimulatedCluster,
    SimulatedConfig,
    SimulatedScheduler,
    SimulatedTrainer,
    sleeper,
)
from middlewatch.lab.simulated.records import Job
from tools.faults.simulated.drawn import Death, Drawn, Happening, When, drawn
from tools.faults.simulated.judge import judge
from tools.faults.simulated.memory import Database
from tools.faults.simulated.process import CLUSTER, Process, Script, Shared
from tools.faults.simulated.turns import Turns
from tools.faults.simulated.witness import ENVIRONMENT, Finding, Witness

OPT_IN = f'{{"middlewatch":{{"environment":"{ENVIRONMENT}","mode":"action"}}}}'
NODES = ("gpu-001", "gpu-002", "gpu-003", "gpu-004", "gpu-005")
STEPS, FAULT_AT, STEP_S = 12, 5, 1.0
CALM_S = 600.0
"""Beyond the age limit of advice: then everything must have come to an end."""


@dataclass
class Played:
    """What came of one schedule."""

    drawn: Drawn
    findings: tuple[Finding, ...]
    apart: dict[str, int]
    kills: int
    commands: int
    outcomes: tuple[str, ...]
    virtual_s: float
    reads: int
    writes: int
    trace: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Place:
    """Where schedules of this process keep their files, in memory where the machine has room for
    it, and the one store that all of them use in turn."""

    folder: Path
    store: SqlStore
    fresh: tuple[tuple[Table, list[dict[str, Any]]], ...]
    """The rows that a new store has."""


def new_folder() -> Path:
    """A folder for the files of schedules, in memory where the machine has a place for it."""
    shm = Path("/dev/shm")  # noqa: S108 - a folder of our own in it
    inside = shm if shm.is_dir() and os.access(shm, os.W_OK) else None
    return Path(tempfile.mkdtemp(prefix="middlewatch-simulated-", dir=inside))


_given: list[Path] = []


def stay_in(folder: Path) -> None:
    """Keep the files of this process in ``folder``, which somebody else will remove."""
    _given[:] = [folder]
    # A schedule makes many small things that end with it; cycles are collected between schedules.
    gc.freeze()
    gc.set_threshold(100_000, 50, 50)


@cache
def _place() -> _Place:
    folder = Path(tempfile.mkdtemp(dir=_given[0])) if _given else new_folder()
    store = open_store(folder / "middlewatch.db")
    with store.database.read() as connection:
        rows = tuple(
            (table, [dict(row) for row in connection.execute(table.select()).mappings()])
            for table in metadata.sorted_tables
        )
    return _Place(folder, store, rows)


def _new_store() -> SqlStore:
    """The store as if it had just been made: to make one costs more than to play in it."""
    place = _place()
    with place.store.database.write() as connection:
        for table in reversed(metadata.sorted_tables):
            connection.execute(table.delete())
        for table, rows in place.fresh:
            if rows:
                connection.execute(table.insert(), rows)
    return place.store


def leave() -> None:
    """Remove what this process keeps between schedules."""
    if _place.cache_info().currsize:
        _place().store.close()
        shutil.rmtree(_place().folder, ignore_errors=True)
        _place.cache_clear()


def play(seed: int, *, trace: bool = False, remembers: bool = True) -> Played:
    """The schedule of that seed, from its beginning to its judgement. Raises what is broken in
    the harness itself. ``remembers`` False: every read asks the store itself."""
    stage = _Stage(drawn(seed), trace=trace, remembers=remembers)
    try:
        return stage.play()
    finally:
        stage.close()


@dataclass
class _Stage:
    drawn: Drawn
    trace: bool
    remembers: bool
    processes: dict[str, Process] = field(default_factory=dict)
    deaths: list[Death] = field(default_factory=list)
    kills: int = 0
    seen: dict[str, int] = field(default_factory=dict)
    waiting: list[Happening] = field(default_factory=list)
    calm: bool = False
    faulted: bool = False

    def __post_init__(self) -> None:
        d = self.drawn
        self.random = random.Random(f"play-{d.seed}")
        self.folder = Path(tempfile.mkdtemp(prefix=f"{d.seed}-", dir=_place().folder))
        self.store: SqlStore = _new_store()
        config = SimulatedConfig(
            release=d.release,
            nodes=NODES,
            begin_delay_s=d.begin_delay_s,
            min_job_age_s=d.min_job_age_s,
            sched_interval_s=d.sched_interval_s,
            accounting_lag_s=d.accounting_lag_s,
            file_append=d.file_append,
            slurmd_timeout_s=12.0,
        )
        self.cluster = SimulatedCluster(config, EPOCH)
        self.server = SimulatedScheduler(self.cluster, CLUSTER)
        self.turns = Turns(self.cluster)
        self.witness = Witness(self.cluster, trace=[] if self.trace else None)
        self.shared = Shared(
            turns=self.turns,
            server=self.server,
            database=Database(self.store, self.witness, self.remembers),
            witness=self.witness,
            journal_dir=self.folder,
            moment=self._moment,
        )
        self.deaths = list(d.deaths)
        self._submit()

    def close(self) -> None:
        for process in self.processes.values():
            process.dead = True
            process.bury()
        shutil.rmtree(self.folder, ignore_errors=True)

    # ---------------------------------------------------------------------------- the jobs

    def _submit(self) -> None:
        d = self.drawn
        fault = "hang" if d.fault == "node" else d.fault
        trainer = SimulatedTrainer(
            steps=STEPS,
            step_s=STEP_S,
            checkpoint_every=5,
            fault=fault,
            fault_at=FAULT_AT,
            dies_after_s=d.dies_after_s,
        )
        own = ("gpu-005",) if d.user_excludes else ()
        self.main = self._job(
            trainer, nodes=d.nodes, excluded=own, requeue=d.requeueable, name="main"
        )
        if d.healthy_beside:
            self._job(SimulatedTrainer(steps=90, step_s=1.0, fault=None), name="healthy")
        if d.stranger_beside:
            self._job(sleeper(40.0, Exit(1)), name="stranger", comment="")
        if d.dependent:
            other = "" if d.dependent == "singleton" else self.main
            child = self._job(
                sleeper(30.0),
                name="main" if d.dependent == "singleton" else "child",
                dependency=[(d.dependent, other)],
            )
            if d.dependent != "afterok":
                lineage = self.witness.lineage(self.cluster.jobs[self.main])
                self.witness.dependents[lineage] = [child]

    def _job(self, start: Any, *, comment: str = OPT_IN, **about: Any) -> str:
        number = self.cluster.submit(
            self.witness.started_by(start),
            uid=os.geteuid(),
            comment=comment,
            stdout=self.folder / "slurm-%j.out",
            **about,
        )
        job = self.cluster.jobs[number]
        self.witness.own_exclusions[self.witness.lineage(job)] = frozenset(job.excluded)
        return number

    # ------------------------------------------------------------------------ the processes

    def _start(self, name: str, *roles: str) -> None:
        if self.calm and name in self.processes and not self.processes[name].dead:
            return
        script = Script(random.Random(self.random.random()), slow=self.drawn.slow)
        if name != "watchdog" and not self.calm:
            script.dooms = dict(self.drawn.dooms)
            script.freeze = dict(self.drawn.freeze)
            if name == "up" and self.deaths:
                script.kill_at = self.deaths[0].step
        before = self.processes.get(name)
        process = Process(name, roles, self.shared, script)
        if before is not None:
            process.offset = before.offset
        process.armed = self.faulted
        self.processes[name] = process
        if before is not None:
            self.witness.say(f"{name} is started again")

    def _start_all(self) -> None:
        for name, roles in self._roles().items():
            self._start(name, *roles)

    def _roles(self) -> dict[str, tuple[str, ...]]:
        roles = {"up": ("watcher", "manager", "controller"), "watchdog": ("watchdog",)}
        if self.drawn.controllers > 1:
            roles["other"] = ("controller",)
        return roles

    def _mind_the_dead(self) -> None:
        """Start again, after its absence, what has been killed since this was last asked."""
        up = self.processes["up"]
        if not (up.dead and self.deaths and not self.calm):
            return
        death = self.deaths.pop(0)
        self.kills += 1
        if death.watchdog_too:
            self.processes["watchdog"].kill("with it")
            self.processes["watchdog"].bury()
            self.turns.after(death.watchdog_absent_s, lambda: self._again("watchdog"))
        self.turns.after(death.absent_s, lambda: self._again("up"))

    def _again(self, name: str) -> None:
        if self.processes[name].dead:
            self._start(name, *self._roles()[name])

    # ---------------------------------------------------------------------- what happens when

    def _moment(self, role: str, name: str) -> None:
        """A service of ours is at that point of a question or command: whoever waits for this
        moment acts now."""
        if role != "controller" or not self.faulted or self.calm:
            return
        self.seen[name] = self.seen.get(name, 0) + 1
        due = [h for h in self.waiting if (h.when.moment, h.when.number) == (name, self.seen[name])]
        for happening in due:
            self.waiting.remove(happening)
            self._happen(happening)

    def _fault(self) -> None:
        self.faulted = True
        self.witness.say("--- the fault")
        for process in self.processes.values():
            process.armed = True
        job = self.cluster.jobs.get(self.main)
        if job is not None and self.drawn.fault != "crash-cuda":
            self.witness.hung.add((self.witness.lineage(job), 0))
        if job is not None and self.drawn.fault == "node" and job.nodes:
            self.cluster.kill_node(job.nodes[-1])
        for happening in (*self.drawn.people, *self.drawn.troubles):
            if happening.when.moment == "time":
                self._at(happening.when, partial(self._happen, happening))
            else:
                self.waiting.append(happening)

    def _at(self, when: When, action: Callable[[], None]) -> None:
        self.turns.after(when.after_s, action)

    def _happen(self, happening: Happening) -> None:
        if self.calm:
            return
        if happening.what.split()[0] in {"operator", "owner", "job"}:
            self._person(happening.what)
        else:
            self._trouble(happening)

    # ------------------------------------------------------------------------------- people

    def _person(self, what: str) -> None:
        cluster, job_id = self.cluster, self.main
        acts: dict[str, tuple[Callable[[], None], dict[str, bool]]] = {
            "operator holds": (lambda: cluster.hold(job_id, by_operator=True), {"holds": True}),
            "operator releases": (lambda: cluster.release(job_id), {"lets_go": True}),
            "operator requeues": (lambda: cluster.requeue(job_id), {}),
            "operator requeues and holds": (lambda: cluster.requeue(job_id, hold=True), {}),
            "operator cancels": (lambda: cluster.cancel(job_id, by="2003"), {}),
            "operator starts": (
                lambda: cluster.update(job_id, start_now=True),
                {"lets_go": True},
            ),
            "owner cancels": (lambda: cluster.cancel(job_id, by="1000"), {}),
            "owner holds": (lambda: cluster.hold(job_id, by_operator=False), {}),
            "owner releases": (
                lambda: cluster.release(job_id, privileged=False),
                {"lets_go": True},
            ),
            "owner excludes": (
                lambda: cluster.update(job_id, excluded=self._owners_list()),
                {"exclusions": True},
            ),
            "owner forbids requeueing": (lambda: cluster.update(job_id, requeue=False), {}),
            "owner opts out": (lambda: cluster.update(job_id, comment=""), {"comment": True}),
            "job completes": (lambda: cluster.finish(job_id, Exit()), {}),
            "job fails": (lambda: cluster.finish(job_id, Exit(1)), {}),
        }
        act, about = acts[what]
        by, _, words = what.partition(" ")
        present = cluster.jobs.get(job_id)
        before = None if present is None else copy(present)
        refusal = ""
        try:
            act()
        except NotDone as error:
            refusal = str(error)
        self.witness.people_did(by, words, before, refusal, **about)

    def _owners_list(self) -> tuple[str, ...]:
        """What an owner types who wants to keep off one more node: what is there, and that one."""
        job = self.cluster.jobs.get(self.main)
        if job is None:
            raise NotDone(f"Invalid job id specified for job {self.main}")
        lineage = self.witness.lineage(job)
        own = set(self.witness.own_exclusions.get(lineage, ()))
        return tuple(sorted(own | {self.random.choice(("gpu-003", "gpu-004"))}))

    # ------------------------------------------------------------------------------ troubles

    def _trouble(self, trouble: Happening) -> None:
        self.witness.say(f"trouble: {trouble.what}")
        faults, length = self.server.faults, trouble.length_s
        match trouble.what:
            case "slurmctld hangs":
                faults.hung = True
                self.turns.after(length, self._thaw)
            case "slurmctld is away":
                faults.unreachable = True
                self.turns.after(length, self._back)
            case "slurmctld comes back older":
                saved = self.cluster.remember()
                self.turns.after(trouble.size, lambda: self._killed(saved, length))
            case "accounting is away":
                faults.accounting_down = True
                self.turns.after(length, self._accounting_back)
            case "listings miss jobs":
                self.shared.missing = frozenset({self.main})
                self.turns.after(length, self._whole)
            case "listings are cut short":
                self.shared.missing = None
                self.turns.after(length, self._whole)
            case "a node dies":
                self.cluster.kill_node(self._node())
            case "a node is set down":
                self.cluster.set_down(self._node())
            case "the number comes back":
                self._number_comes_back()
            case "the clock jumps":
                for name in ("up", "watchdog"):
                    self.processes[name].offset += timedelta(seconds=trouble.size)
            case "the watchdog dies":
                self.processes["watchdog"].kill("by itself")
                self.turns.after(0.0, self.processes["watchdog"].bury)
                self.turns.after(length, partial(self._again, "watchdog"))
            case other:
                raise ValueError(f"nobody knows how to make this happen: {other}")

    def _node(self) -> str:
        job = self.cluster.jobs.get(self.main)
        return job.nodes[0] if job is not None and job.nodes else NODES[0]

    def _thaw(self) -> None:
        if self.server.faults.hung:
            self.witness.say("slurmctld goes on")
            self.server.thaw(self.random.choice((0.0, 0.0, 0.5, 3.0)))

    def _back(self) -> None:
        self.server.faults.unreachable = False

    def _killed(self, saved: dict[str, Job], length: float) -> None:
        if self.calm:
            return
        self.witness.say("slurmctld is killed and comes back from its saved state")
        self.server.killed()
        self.cluster.roll_back(saved)
        self.witness.rolled_back()
        self.server.faults.unreachable = True
        self.turns.after(length, self._back)

    def _accounting_back(self) -> None:
        self.server.faults.accounting_down = False

    def _whole(self) -> None:
        self.shared.missing = frozenset()

    def _number_comes_back(self) -> None:
        if "_" in self.main:
            return
        self.cluster.number_comes_back(self.main)
        comment = OPT_IN if self.random.random() < 0.5 else ""
        trainer = SimulatedTrainer(steps=60, step_s=1.0, fault=None)
        self._job(trainer, name="another", comment=comment)

    # ---------------------------------------------------------------------------- the play

    def play(self) -> Played:
        self.witness.say(str(self.drawn))
        self._start_all()
        fault_s = 1.0 + STEP_S * FAULT_AT + self.cluster.config.sched_interval_s
        self._run(fault_s)
        self._fault()
        # Long enough for the longest absence, and for what hangs to go on.
        for _ in range(100):
            self._run(2.0)
            self._mind_the_dead()
            if self._over() and self.turns.now - EPOCH > timedelta(seconds=fault_s + 20):
                break
        self._calm_down()
        until = self.turns.now + timedelta(seconds=CALM_S)
        quiet = 0
        while self.turns.now < until and quiet < 2:
            self._run(8.0)
            quiet = quiet + 1 if self._over() else 0
        return self._result()

    def _run(self, seconds: float) -> None:
        self.turns.run_until(self.turns.now + timedelta(seconds=seconds))

    def _over(self) -> bool:
        """Whether nothing more is to be expected."""
        if self.waiting and not self.calm and self.turns.now - EPOCH < timedelta(seconds=60):
            return False
        if self.server.faults.hung or self.server.faults.unreachable:
            return False
        if any(process.dead for process in self.processes.values()):
            return False
        return not self.witness.active() and not self.witness.ours_stands()

    def _calm_down(self) -> None:
        self.calm = self.shared.calm = True
        self.witness.say("--- calm")
        faults = self.server.faults
        self._thaw()
        faults.unreachable = faults.accounting_down = False
        self._whole()
        for node in NODES:
            self.cluster.mend_node(node)
        for process in self.processes.values():
            process.frozen_until = None
            process.script.kill_at = None
            process.script.freeze.clear()
        self._start_all()
        job = self.cluster.jobs.get(self.main)
        if job is not None and job.hold and self.drawn.operators_let_go:
            held_by_us = job.requeue_held and job.hold == "user"
            if not held_by_us and job.hold != "constraints":
                self._person("operator releases")

    def _result(self) -> Played:
        findings = judge(self.witness, self.store, self.cluster)
        outcomes = tuple(
            f"{a.job_id}-{a.attempt_index} g{a.generation} {a.desired.value} "
            + (f"{a.status.disposition.value} {a.status.reason.value}" if a.status else "none")
            for a in self.witness.advice.values()
        )
        return Played(
            drawn=self.drawn,
            findings=findings,
            apart=dict(self.witness.apart),
            kills=self.kills,
            commands=self.shared.commands.get("controller", 0),
            outcomes=outcomes,
            virtual_s=(self.turns.now - EPOCH).total_seconds(),
            reads=self.shared.database.reads,
            writes=self.shared.database.writes,
            trace=tuple(self.witness.trace or ()),
        )
