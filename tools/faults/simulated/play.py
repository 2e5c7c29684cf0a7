"""Play one schedule: jobs that fail, a control plane that recovers them, and everything in its way."""

from __future__ import annotations

import gc
import os
import random
import shutil
import tempfile
from collections.abc import Callable
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
    SimulatedCluster,
    SimulatedConfig,
    SimulatedScheduler,
    SimulatedTrainer,
    sleeper,
)
from middlewatch.model.advice import Advice, DecisionBasis, DesiredState
from middlewatch.model.change import Change
from middlewatch.model.gates import gates_for
from middlewatch.model.identity import sequence_id
from middlewatch.model.milestone import Operation, Sequence
from middlewatch.model.scheduler import ENDED
from middlewatch.ports.errors import Conflict
from tools.faults.simulated.drawn import Death, Drawn, Happening, When, drawn
from tools.faults.simulated.happenings import Happenings
from tools.faults.simulated.judge import judge
from tools.faults.simulated.memory import Database
from tools.faults.simulated.patience import Patience
from tools.faults.simulated.process import CLUSTER, DEPLOYMENT, POLICY, Process, Script, Shared
from tools.faults.simulated.told import Finding, Seen
from tools.faults.simulated.turns import Turns
from tools.faults.simulated.witness import ENVIRONMENT, Witness

OPT_IN = f'{{"middlewatch":{{"environment":"{ENVIRONMENT}","mode":"action"}}}}'
NODES = ("gpu-001", "gpu-002", "gpu-003", "gpu-004", "gpu-005")
STEPS, FAULT_AT, STEP_S = 12, 5, 1.0
OPERATIONS = {
    "TERMINATED": Operation.TERMINATE,
    "RELEASED": Operation.DAG_RELEASE,
    "CONSTRAINED": Operation.CONSTRAIN,
}
HOSTS = {"one": "a", "watchdog": "a", "other": "b", "watchdog-b": "b"}
CALM_S = 600.0
"""Beyond the age limit of advice: then everything must have come to an end."""


@dataclass
class Played:
    """What came of one schedule."""

    drawn: Drawn
    findings: tuple[Finding, ...]
    apart: dict[str, int]
    happened: dict[str, int]
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
        self.jobs: dict[str, str] = {}
        self.patience = Patience(self.cluster, self.witness)
        self.befalls = Happenings(
            self.shared,
            self.random,
            self.jobs,
            self.processes,
            again=self._again,
            another=self._another_job,
        )
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
        self.main = self.jobs["main"] = self._job(
            trainer, nodes=d.nodes, excluded=own, requeue=d.requeueable, name="main"
        )
        self._submit_advised()
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

    def _submit_advised(self) -> None:
        """The jobs about which somebody else will advise: one that runs, one that its owner
        submitted held, one that waits for its time."""
        if "TERMINATED" in self.drawn.advised:
            self.jobs["terminated"] = self._job(sleeper(300.0), name="terminated")
        if "RELEASED" in self.drawn.advised:
            self.jobs["released"] = self._job(sleeper(20.0), name="released", hold=True)
        if "CONSTRAINED" in self.drawn.advised:
            self.jobs["constrained"] = self._job(sleeper(20.0), name="constrained", begin_s=90.0)

    def _another_job(self) -> None:
        """The job that gets the number of the one that failed."""
        comment = OPT_IN if self.random.random() < 0.5 else ""
        trainer = SimulatedTrainer(steps=60, step_s=1.0, fault=None)
        self._job(trainer, name="another", comment=comment)

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
        script = Script(
            random.Random(self.random.random()), slow=1.0 if self.calm else self.drawn.slow
        )
        if "watchdog" not in roles and not self.calm:
            script.dooms = dict(self.drawn.dooms)
            script.freeze = dict(self.drawn.freeze)
            if name == self.drawn.dies and self.deaths:
                script.kill_at = self.deaths[0].step
        before = self.processes.get(name)
        host = HOSTS.get(name, "a" if self.drawn.beside else "s")
        away = name in {"one", "other"}
        process = Process(name, roles, self.shared, script, host=host, away=away)
        if name == "up":
            self.shared.keeper = process
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
            if not self.drawn.beside:
                roles |= {"up": ("watcher", "manager"), "one": ("controller",)}
            roles |= {"other": ("controller",), "watchdog-b": ("watchdog",)}
        return roles

    def _mind_the_dead(self) -> None:
        """Start again, after its absence, what has been killed since this was last asked."""
        name = self.drawn.dies
        if not (self.processes[name].dead and self.deaths and not self.calm):
            return
        death = self.deaths.pop(0)
        self.kills += 1
        if death.watchdog_too:
            self.processes["watchdog"].kill("with it")
            self.processes["watchdog"].bury()
            self.turns.after(death.watchdog_absent_s, lambda: self._again("watchdog"))
        self.turns.after(death.absent_s, lambda: self._again(name))

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
        for kind in self.drawn.advised:
            self.turns.after(self.drawn.advised_after_s, partial(self._advise, kind))

    def _at(self, when: When, action: Callable[[], None]) -> None:
        self.turns.after(when.after_s, action)

    def _happen(self, happening: Happening) -> None:
        if self.calm:
            return
        self.befalls.happen(happening)

    # ------------------------------------------------------------------------------- advice

    def _advise(self, kind: str) -> None:
        """Advice about one of the further jobs, as somebody else than the manager would give it."""
        attempts = self.store.attempts_of_job(CLUSTER, self.jobs[kind.lower()])
        if not attempts:
            if not self.calm:
                self.turns.after(2.0, partial(self._advise, kind))
            return
        attempt, now = attempts[-1], self.turns.now
        operation = OPERATIONS[kind]
        sequence = sequence_id(CLUSTER, attempt.job_id, attempt.id, operation.value)
        advice = Advice(
            attempt_id=attempt.id,
            job_id=attempt.job_id,
            attempt_index=attempt.attempt_index,
            submitted_at=attempt.submitted_at,
            owner=CLUSTER,
            desired=DesiredState[kind],
            exclusions=("gpu-002",) if kind == "CONSTRAINED" else (),
            generation=1,
            desired_state_changed_at=now,
            created_at=now,
            basis=DecisionBasis.ATTEMPT_ENDED_IN_FAILURE,
            gates=gates_for(DEPLOYMENT, attempt, "simulated"),
            policy_version=POLICY.version,
            sequence_id=sequence,
        )
        told = Sequence(
            sequence,
            CLUSTER.scheduler,
            CLUSTER.environment,
            attempt.job_id,
            attempt.attempt_index,
            attempt.id,
            operation,
            "00-0-0-01",
            now,
        )
        change = Change(advice=(advice,), sequences=(told,))
        try:
            self.store.apply(change)
        except Conflict:
            return  # the manager has advised about that attempt: that advice stands
        self.shared.database.forget(change)
        self.witness.wrote(advice, Seen())
        self.witness.happen(f"{kind.lower()} is advised")

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
        able = self._somebody_can_act()
        self.turns.run_until(self.turns.now + timedelta(seconds=seconds))
        self.patience.look(
            seconds,
            able=able and self._somebody_can_act(),
            clocks_off_s=self.befalls.clocks_off_s,
        )

    def _somebody_can_act(self) -> bool:
        faults = self.server.faults
        watchdogs = [p for name, p in self.processes.items() if name.startswith("watchdog")]
        return not (faults.hung or faults.unreachable) and not any(p.dead for p in watchdogs)

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
        self.befalls.thaw()
        self.befalls.back()
        self.befalls.accounting_back()
        self.befalls.whole()
        for node in NODES:
            self.cluster.mend_node(node)
        for process in self.processes.values():
            process.frozen_until = None
            process.script.kill_at = None
            process.script.slow = 1.0
            process.script.freeze.clear()
        self._start_all()
        job = self.cluster.jobs.get(self.main)
        if job is not None and job.hold and self.drawn.operators_let_go:
            held_by_us = job.requeue_held and job.hold == "user"
            if not held_by_us and job.hold != "constraints":
                self.befalls.person("operator releases", "main")

    def _result(self) -> Played:
        findings = judge(self.witness, self.store, self.cluster)
        if any(job.state in ENDED for jobs in self.cluster.forgotten.values() for job in jobs):
            self.witness.happen("ended jobs are forgotten")
        outcomes = tuple(
            f"{a.job_id}-{a.attempt_index} g{a.generation} {a.desired.value} "
            + (f"{a.status.disposition.value} {a.status.reason.value}" if a.status else "none")
            for a in self.witness.advice.values()
        )
        return Played(
            drawn=self.drawn,
            findings=findings,
            apart=dict(self.witness.apart),
            happened=dict(self.witness.happened),
            kills=self.kills,
            commands=self.shared.commands.get("controller", 0),
            outcomes=outcomes,
            virtual_s=(self.turns.now - EPOCH).total_seconds(),
            reads=self.shared.database.reads,
            writes=self.shared.database.writes,
            trace=tuple(self.witness.trace or ()),
        )
