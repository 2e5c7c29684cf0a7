"""One schedule on a real Slurm: a job fails, everything is killed, somebody starts us again.

The only things that this module does to the lab are what a cluster does to us: it submits a job,
kills processes, lets replies get lost, lets an owner cancel and an operator hold. What it saw it
hands to `verdict`.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from middlewatch.lab import commandlog
from middlewatch.lab.cluster import Cluster
from middlewatch.lab.jobs import TrainerOptions
from middlewatch.wiring import presence
from middlewatch.wiring.demo.harness import Up, lab_settings
from tools.faults import world
from tools.faults.ledger import Ledger
from tools.faults.schedule import COMMANDS, RACES, RECOVERS, Kind, Moment, Schedule
from tools.faults.world import ENDED, Row, Watch

MAX_HOLD_S = 40.0
"""Release-by of our holds here, so that the watchdog's duty can be seen within a run."""
FROZEN_S = 25.0
SETTLE_S = 4.0
END_LIMIT_S = 150.0
REACH_LIMIT_S = 75.0


class Interrupted(Exception):
    """The whole run is being stopped."""


class Broken(RuntimeError):
    """The harness could not do its part; says nothing about the product."""


@dataclass
class Seen:
    """Everything that the judgement needs, as the world showed it."""

    schedule: Schedule
    job_id: str = ""
    bystander_id: str = ""
    kills: list[dict[str, Any]] = field(default_factory=list)
    row: Row = field(default_factory=lambda: Row(known=False))
    bystander: Row = field(default_factory=lambda: Row(known=False))
    notes: tuple[world.Note, ...] = ()
    issued: tuple[world.Issued, ...] = ()
    overlaps: int = 0
    excluded: frozenset[str] = frozenset()
    user_exclusions: frozenset[str] = frozenset()
    attempt_nodes: dict[int, frozenset[str]] = field(default_factory=dict)
    ended_held: list[str] = field(default_factory=list)
    """Outcomes that were reported while our hold stood."""
    operator_hold_broken: bool = False
    owner_cancelled: bool = False
    completed_on_purpose: bool = False
    stayed_held: bool = False
    """The watchdog alone had to let go, and did not in time."""
    arrived: bool = False
    """The end that the schedule's kind asks for came within its limit."""
    records: tuple[dict[str, Any], ...] = ()
    """The newest advice for each attempt, over the API."""
    ledger_reads: int = 0
    lost_advice: tuple[str, ...] = ()
    lost_audit: tuple[str, ...] = ()
    stop_code: int = 0
    seconds: float = 0.0


def settings(state: Path, environment: str) -> dict[str, dict[str, Any]]:
    """Settings of one site: the product's own, with deadlines that pass within a run."""
    return lab_settings(
        state,
        environment,
        {
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
        },
    )


class Run:
    """``halt`` set: stop soon, clean up, raise `Interrupted`."""

    def __init__(
        self, schedule: Schedule, cluster: Cluster, watch: Watch, halt: threading.Event
    ) -> None:
        self.schedule = schedule
        self.cluster = cluster
        self.watch = watch
        self.halt = halt
        self.environment = f"s{schedule.seed}"
        self.folder = cluster.folder / "sites" / str(schedule.seed)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        state = self.folder / "state"
        self.up = Up(self.folder, cluster.env(), settings(state, self.environment))
        self.victims = self.folder / "victims"
        self.victims.write_text("")
        self.ledger = Ledger(state, [], self._on_outcome)
        self.seen = Seen(schedule)
        self._held_by_operator = False
        self._over = threading.Event()
        self._reading = threading.Lock()
        self._helpers: list[threading.Thread] = []
        self._problem: BaseException | None = None
        self._must_live = False

    # ------------------------------------------------------------------------------ the whole of it

    def play(self) -> Seen:
        """From the first start to the last look. Raises `Interrupted`, `Broken`, LabError."""
        begun = time.monotonic()
        try:
            self._start()
            self._submit()
            self._help(self._read_often)
            self._help(self._others)
            if self.schedule.daemon:
                self._help(self._storm)
            for moment, pause in zip(self.schedule.moments, self.schedule.pauses_s, strict=True):
                self._until_killed(moment)
                if self.schedule.absent:
                    self._watchdog_alone()
                else:
                    self._sleep(pause)
                self._start()
                self._compare()
            self._must_live = True
            self.seen.arrived = self._wait(self._arrived, END_LIMIT_S)
            self._sleep(SETTLE_S)
            self._compare()
            self._last_look()
            self._must_live = False
            self.seen.stop_code = self.up.stop()
        finally:
            self.close()
        self.seen.seconds = round(time.monotonic() - begun, 1)
        return self.seen

    def close(self) -> None:
        """Leave nothing running."""
        self._over.set()
        self.victims.write_text("")
        for thread in self._helpers:
            thread.join()
        self.up.kill()
        self._kill_watchdog()
        for job_id in (self.seen.job_id, self.seen.bystander_id):
            if job_id:
                with contextlib.suppress(Exception):
                    self.cluster.run(["scancel", job_id], check=False)

    def keep(self, where: Path) -> None:
        """Copy what helps to understand a failed schedule."""
        shutil.rmtree(where, ignore_errors=True)
        shutil.copytree(self.folder, where, ignore=shutil.ignore_patterns("*.sock", "token"))
        home = self.cluster.home(self.cluster.spec.job_users[0])
        job_id = self.seen.job_id
        for path in (home / f"slurm-{job_id}.out", home / "world" / job_id):
            if path.exists():
                shutil.copy(path, where / f"job-{path.name}")
        with (where / "commands.jsonl").open("w") as out:
            for issued in self.watch.issued(job_id):
                out.write(json.dumps([issued.at, issued.exit_code, *issued.argv]) + "\n")

    # ------------------------------------------------------------------------------------- its parts

    def _start(self) -> None:
        self.up.start()
        process = self.up.process
        if process is None:
            raise Broken("`middlewatch up` is not there")
        victims = [-process.pid]
        if self.schedule.watchdog_too and (pid := self.up.watchdog_pid()) is not None:
            victims.append(pid)
        # A positive number first: one's own group comes last.
        self.victims.write_text(" ".join(str(pid) for pid in victims))

    def _submit(self) -> None:
        user = self.cluster.spec.job_users[0]
        comment = json.dumps({"middlewatch": {"environment": self.environment, "mode": "action"}})
        script = world.job_script(self.schedule, self.cluster, comment)
        extra = ["--hold"]
        self.seen.job_id = job_id = self.cluster.submit(script, user, extra=extra)
        self.ledger.jobs.append(job_id)
        if self.schedule.user_exclusion:
            self.seen.user_exclusions = frozenset({self.cluster.nodes[self.schedule.seed % 3]})
        self._arm(job_id)
        if self.schedule.bystander:
            options = TrainerOptions(
                name="bystander", nodes=1, steps=200, step_seconds=0.1, comment=comment
            )
            self.seen.bystander_id = self.cluster.submit(options, user)
        self.cluster.run(["scontrol", "release", job_id])

    def _arm(self, job_id: str) -> None:
        folder, reply = self.cluster.folder, self.schedule.reply
        if reply is not None:
            argument: str | float = reply.seconds
            if reply.how == "drop-reply":
                argument = "Unable to contact slurm controller (connect failure)"
            command = COMMANDS[reply.command].format(job=job_id)
            commandlog.inject(folder, command, reply.how, argument)  # type: ignore[arg-type]
        moment = self.schedule.moments[0]
        if moment.how != "time":
            command = COMMANDS[moment.command].format(job=job_id)
            commandlog.inject(folder, command, moment.how, str(self.victims))  # type: ignore[arg-type]

    def _until_killed(self, moment: Moment) -> None:
        """Wait for the moment, and see that everything is dead."""
        reached = True
        self._must_live = moment.how == "time"
        if moment.how == "time":
            if moment.since == "fault":
                reached = self._wait(self._failed, REACH_LIMIT_S)
            elif moment.since == "requeue":
                reached = self._wait(self._requeue_sent, REACH_LIMIT_S)
            self._sleep(moment.offset_s)
        else:
            reached = self._wait(self._dead, REACH_LIMIT_S)
        self._must_live = False
        self.up.kill()
        if self.schedule.watchdog_too:
            self._kill_watchdog()
        self.victims.write_text("")
        look = world.row(self.cluster, self.seen.job_id)
        done = [c for c in self.watch.issued(self.seen.job_id) if c.argv[0].endswith("scontrol")]
        self.seen.kills.append(
            {
                "moment": str(moment),
                "reached": reached,
                "after_commands": len(done),
                "state": look.state,
                "restarts": look.restarts,
                "priority": look.priority,
            }
        )

    def _failed(self) -> bool:
        """Whether the job has crashed, or has printed its crash line and hangs."""
        words = {note.word for note in world.notes(self.cluster, self.seen.job_id)}
        return bool(words & {"end", "hang"})

    def _requeue_sent(self) -> bool:
        verbs = {"requeue", "requeuehold"}
        return any(verbs & set(c.argv) for c in self.watch.issued(self.seen.job_id))

    def _dead(self) -> bool:
        return self.up.process is None or self.up.process.poll() is not None

    def _watchdog_alone(self) -> None:
        """Until the watchdog has let go what we hold; it has the release-by and a few rounds."""

        def let_go() -> bool:
            look = world.row(self.cluster, self.seen.job_id)
            return look.restarts > 0 and not look.held and look.state != "COMPLETING"

        self.seen.stayed_held = not self._wait(let_go, MAX_HOLD_S + 25.0)

    def _compare(self) -> None:
        with self._reading:
            if not self._wait(self.ledger.compare, 20.0):
                raise Broken(f"the API does not answer: {self.ledger.problem}")
            store = self.up.store()
            try:
                self.ledger.gaps(store)
            finally:
                store.close()

    def _arrived(self) -> bool:
        look = world.row(self.cluster, self.seen.job_id)
        found = {(n.word, n.attempt) for n in world.notes(self.cluster, self.seen.job_id)}
        quiet = not any(r.get("active") for r in self._records())
        if self.schedule.kind in RECOVERS:
            return ("end", 1) in found and look.state in ENDED and quiet and self._bystander_ended()
        happened = self.seen.owner_cancelled or self.seen.completed_on_purpose
        return happened and look.state in ENDED and quiet and self._bystander_ended()

    def _records(self) -> tuple[dict[str, Any], ...]:
        with self._reading:
            return tuple(
                record
                for record in self.ledger.latest.values()
                if record.get("jobId") == self.seen.job_id
            )

    def _bystander_ended(self) -> bool:
        if not self.seen.bystander_id:
            return True
        return world.row(self.cluster, self.seen.bystander_id).state in ENDED

    def _last_look(self) -> None:
        seen, cluster = self.seen, self.cluster
        with self._reading:
            self.ledger.read()
        seen.row = world.row(cluster, seen.job_id)
        if seen.bystander_id:
            seen.bystander = world.row(cluster, seen.bystander_id)
        seen.notes = world.notes(cluster, seen.job_id)
        seen.issued = self.watch.issued(seen.job_id)
        seen.overlaps = self.watch.overlaps(seen.job_id)
        seen.excluded = world.names(cluster, seen.row.excluded)
        seen.attempt_nodes = {
            note.attempt: world.names(cluster, note.text)
            for note in seen.notes
            if note.word == "begin"
        }
        seen.records = self._records()
        seen.ledger_reads = self.ledger.reads
        seen.lost_advice = tuple(sorted(self.ledger.lost_advice))
        seen.lost_audit = tuple(sorted(self.ledger.lost_audit))

    def _kill_watchdog(self) -> None:
        alive = presence.read(self.up.state / presence.WATCHDOG_ALIVE)
        if alive is not None:
            presence.kill(alive)

    # ------------------------------------------------------------------------ what happens meanwhile

    def _read_often(self) -> None:
        """Read over the API what anybody could read."""
        while not self._over.wait(0.3):
            if not self._dead():
                with self._reading:
                    self.ledger.read()

    def _on_outcome(self, record: dict[str, Any]) -> None:
        """A terminal outcome has just been seen: does our hold stand?"""
        if record.get("jobId") != self.seen.job_id:
            return
        look = world.row(self.cluster, self.seen.job_id)
        ours = look.waits_for_begin or (look.held and not self._held_by_operator)
        if ours:
            status = record["status"]
            self.seen.ended_held.append(
                f"{status['disposition']} {status['reason']} while {look.state} {look.reason}, "
                f"priority {look.priority}, eligible in {look.eligible - time.time():.0f} s"
            )

    def _others(self) -> None:
        """What the job's owner and the operator do, at their moments."""
        kind, job_id = self.schedule.kind, self.seen.job_id
        user = self.cluster.spec.job_users[0]
        if kind in RACES:
            if not self._happens(self._requeue_sent):
                return
            if kind is Kind.COMPLETE:
                world.finish(self.cluster, job_id)
                self.seen.completed_on_purpose = True
            else:
                self.cluster.run(["scancel", job_id], user=user, check=False)
                self.seen.owner_cancelled = True
        if kind in (Kind.CANCEL_LATER, Kind.HOLD):
            if not self._happens(lambda: world.row(self.cluster, job_id).restarts > 0):
                return
            if kind is Kind.CANCEL_LATER:
                self.cluster.run(["scancel", job_id], user=user, check=False)
                self.seen.owner_cancelled = True
            else:
                self._hold_for_a_while()

    def _hold_for_a_while(self) -> None:
        job_id, operator = self.seen.job_id, self.cluster.spec.operator
        # On a requeue-held job it would only be seen in JSON: the operator's comes all the same.
        self._held_by_operator = True
        self.cluster.run(["scontrol", "hold", job_id], user=operator, check=False)
        first = world.row(self.cluster, job_id)
        for _ in range(40):
            if self._over.wait(0.5):
                return
            look = world.row(self.cluster, job_id)
            if first.held and look.known and look.priority != 0:
                self.seen.operator_hold_broken = True
        self.cluster.run(["scontrol", "release", job_id], user=operator, check=False)
        self._held_by_operator = False

    def _storm(self) -> None:
        """slurmctld hangs while our requeue is sent and then does it, or dies right after it."""
        if self.schedule.daemon == "freeze":
            # For longer than our commands' deadline: the client gives up, slurmctld does not.
            if not self._happens(self._requeue_sent):
                return
            self.cluster.freeze("slurmctld")
            self._over.wait(FROZEN_S)
            self.cluster.thaw("slurmctld")
            return
        if not self._happens(lambda: world.row(self.cluster, self.seen.job_id).restarts > 0):
            return
        self.cluster.stop_daemon("slurmctld", signal.SIGKILL)
        self._over.wait(1.0)
        self.cluster.start_daemon("slurmctld")

    def _happens(self, what: Callable[[], bool]) -> bool:
        while not what():
            if self._over.wait(0.05):
                return False
        return True

    # -------------------------------------------------------------------------------------- patience

    def _help(self, work: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001 - handed to the thread that waits
                self._problem = error

        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        self._helpers.append(thread)

    def _sleep(self, seconds: float) -> None:
        self._wait(lambda: False, seconds)

    def _wait(self, what: Callable[[], bool], limit_s: float) -> bool:
        until = time.monotonic() + limit_s
        while True:
            if self._problem is not None:
                raise Broken(f"a helper failed: {self._problem!r}") from self._problem
            if self._must_live and self._dead():
                raise Broken(f"`middlewatch up` ended by itself:\n{self.up.last_words(5)}")
            if what():
                return True
            left = until - time.monotonic()
            if left <= 0:
                return False
            if self.halt.wait(min(0.1, left)):
                raise Interrupted
