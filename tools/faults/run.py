"""One schedule on a real Slurm: a job fails, things go wrong at their places, somebody mends them.

The only things that this module does to the lab are what a cluster does to us: it submits a job,
kills processes, lets replies get lost, lets people and daemons do what they do. What it saw it hands
to `verdict`.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from middlewatch.lab import commandlog
from middlewatch.lab.cluster import Cluster
from middlewatch.lab.jobs import TrainerOptions
from tools.faults import world
from tools.faults.deeds import DEEDS, OURSELVES
from tools.faults.ledger import Ledger
from tools.faults.places import AT_COMMANDS, COMMANDS, Place, Places
from tools.faults.schedule import Event, Schedule
from tools.faults.seen import Command, Outcome, Seen
from tools.faults.site import MAX_HOLD_S, Site
from tools.faults.world import ENDED

SETTLE_S = 4.0
END_LIMIT_S = 150.0
REACH_LIMIT_S = 100.0
UNREACHED_S = 6.0
"""So long after everything else is over a place that has not come is not waited for any more."""


class Interrupted(Exception):
    """The whole run is being stopped."""


class Broken(RuntimeError):
    """The harness could not do its part; says nothing about the product."""


class Run:
    """``halt`` set: stop soon, clean up, raise `Interrupted`."""

    def __init__(self, schedule: Schedule, cluster: Cluster, halt: threading.Event) -> None:
        self.schedule: Schedule = schedule
        self.cluster: Cluster = cluster
        self.halt = halt
        folder = cluster.folder / "sites" / str(schedule.seed)
        self.site: Site = Site(
            folder,
            cluster,
            f"s{schedule.seed}",
            schedule.deployment,
            small_disk="disk full" in schedule.deeds(),
        )
        self.ledger = Ledger(self.site.state, [], self._on_outcome)
        self.seen: Seen = Seen(schedule)
        self.stood_still_from: float = 0.0
        self.broken_node: str = ""
        self.database_lock: sqlite3.Connection | None = None
        self._starts = 0
        self._left: list[int] = []
        """Indexes of the events that are not over."""
        self._last_event = 0.0
        self._over = threading.Event()
        self._give_up = threading.Event()
        self._reading = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._problem: BaseException | None = None

    # ------------------------------------------------------------------------------ the whole of it

    def play(self) -> Seen:
        """From the first start to the last look. Raises `Interrupted`, `Broken`, LabError."""
        begun = time.monotonic()
        try:
            self.site.start()
            self._submit()
            self._help(self._read_often)
            self._help(self._sample_holds)
            for number, event in enumerate(self.schedule.events):
                self._left.append(number)
                self._help(lambda number=number, event=event: self._event(number, event))  # type: ignore[misc]
            self.seen.arrived = self._until_over()
            self._wait(_never, SETTLE_S)
            self._compare()
            self._last_look()
            self.seen.stop_code = self.site.stop()
        finally:
            self.close()
        self.seen.seconds = round(time.monotonic() - begun, 1)
        return self.seen

    def close(self) -> None:
        """Leave nothing running."""
        self._over.set()
        self._give_up.set()
        for number in range(len(self.schedule.events)):
            commandlog.answer(self._meeting(number))
        for thread in self._threads:
            thread.join()
        self.ledger.close()
        self.site.close()
        for job_id in (self.seen.job_id, self.seen.bystander_id):
            if job_id:
                with contextlib.suppress(Exception):
                    self.cluster.run(["scancel", job_id], check=False)

    def keep(self, where: Path) -> None:
        """Copy what helps to understand a failed schedule."""
        self.site.keep(where)
        home = self.cluster.home(self.cluster.spec.job_users[0])
        for path in (
            home / f"slurm-{self.seen.job_id}.out",
            home / "world" / self.seen.job_id,
            home / "beats" / str(self.schedule.seed),
        ):
            if path.is_file():
                (where / f"job-{path.parent.name}-{path.name}").write_bytes(path.read_bytes())

    # ------------------------------------------------------------------------------------- its parts

    def _submit(self) -> None:
        user = self.cluster.spec.job_users[0]
        comment = json.dumps(
            {"middlewatch": {"environment": self.site.environment, "mode": "action"}}
        )
        script = world.job_script(self.schedule, self.cluster, comment)
        # Not held first: of a job that waited and was let go when another one of its user ended,
        # nobody can tell that it did not wait for that one.
        self.seen.job_id = job_id = self.cluster.submit(script, user)
        self.ledger.jobs.append(job_id)
        own = world.own_exclusion(self.schedule, self.cluster)
        self.seen.user_exclusions = frozenset({own} if own else ())
        for number, event in enumerate(self.schedule.events):
            self._arm(number, event.place)
        if self.schedule.bystander:
            options = TrainerOptions(
                name="bystander", nodes=1, steps=200, step_seconds=0.1, comment=comment
            )
            self.seen.bystander_id = self.cluster.submit(options, user)

    def _arm(self, number: int, place: Place) -> None:
        if place.how not in AT_COMMANDS:
            return
        folder = self.site.recorder
        command = COMMANDS[place.what].format(job=self.seen.job_id)
        if place.number > 1:
            commandlog.inject(folder, command, "nothing", "", times=place.number - 1)
        early = place.how in (Places.BEFORE, Places.INSTEAD)
        action: commandlog.FaultAction = "meet-before" if early else "meet-after"
        commandlog.inject(folder, command, action, str(self._meeting(number)))

    def _meeting(self, number: int) -> Path:
        return self.site.recorder / f"event-{number}"

    def _event(self, number: int, event: Event) -> None:
        """Wait for the place, do what is to be done there, and later undo it."""
        dear = event.place.how in (Places.SEEN, Places.TIME)
        reached = self._wait_quietly(
            lambda: self._there(number, event.place), REACH_LIMIT_S, 0.1 if dear else 0.02
        )
        self.seen.events.append({"event": str(event), "reached": reached, "at": time.time()})
        if reached:
            self._do(number, event)
        self._left.remove(number)
        self._last_event = time.monotonic()

    def _do(self, number: int, event: Event) -> None:
        if event.place.how is Places.TIME:
            self._wait_quietly(_never, event.place.offset_s)
        self._wait_quietly(_never, event.lag_s)
        begun = time.monotonic()
        hows = [(DEEDS[deed.what], deed) for deed in event.deeds]
        for how, deed in hows:
            if not how.afterwards:
                how.begin(self)
            if how.waits:
                self._wait_quietly(_never, deed.seconds)
        word = {Places.INSTEAD: "stop", Places.LOST: "lose"}.get(event.place.how, "go")
        if event.place.how in AT_COMMANDS:
            commandlog.answer(self._meeting(number), word)  # type: ignore[arg-type]
        for how, _ in hows:
            if how.afterwards:
                self.wait_there(self._carried_out, 30.0)
                how.begin(self)
        for how, deed in sorted(hows, key=lambda pair: pair[1].seconds):
            if how.end is not None:
                left = begun + deed.seconds - time.monotonic()
                self._wait_quietly(_never, left)
                how.end(self)

    def _there(self, number: int, place: Place) -> bool:
        """Whether the place of an event has come."""
        match place.how:
            case Places.BEFORE | Places.INSTEAD | Places.AFTER | Places.LOST:
                return commandlog.met(self._meeting(number))
            case Places.WRITTEN:
                return self._written(place.what)
            case Places.SEEN if place.what == "successor":
                return world.row(self.cluster, self.seen.job_id).restarts > 0
            case Places.SEEN:
                return self._noted("begin", 1)
            case Places.TIME:
                return self._begun(place.what)

    def _begun(self, since: str) -> bool:
        match since:
            case "fault":
                return self._noted("end", 0) or self._noted("hang", 0)
            case "requeue":
                verbs = {"requeue", "requeuehold"}
                return any(verbs & set(c.argv) for c in commandlog.commands(self.site.recorder))
            case "start":
                return self._starts > 0
            case _:
                return self._noted("begin", 0)

    def _noted(self, word: str, attempt: int) -> bool:
        found = world.notes(self.cluster, self.seen.job_id)
        return any((note.word, note.attempt) == (word, attempt) for note in found)

    def _written(self, what: str) -> bool:
        if what == "journal":
            with contextlib.suppress(OSError):
                return (self.site.controller_state / "journal.jsonl").stat().st_size > 0
            return False
        question = {
            "planned": "select count(*) from actions",
            "advice": "select count(*) from advice",
            "held": "select count(*) from milestones where body like '%\"held\"%'",
            "outcome": "select count(*) from advice where active = 0",
        }[what]
        with (
            contextlib.suppress(sqlite3.Error),
            contextlib.closing(
                sqlite3.connect(f"file:{self.site.database}?mode=ro", uri=True, timeout=0.1)
            ) as store,
        ):
            return int(store.execute(question).fetchone()[0]) > 0
        return False

    def _carried_out(self) -> bool:
        return any(c.requeues for c in self._commands())

    # --------------------------------------------------------------------------- what deeds ask for

    def restart(self, *names: str) -> None:
        """Somebody starts these (all) again, and what was readable must be there."""
        if self._over.is_set():
            return
        self.site.start(*names)
        self._starts += 1
        self._compare()

    def revive(self) -> None:
        """What has left by itself is started again."""
        while (name := self.site.ended_by_itself()) and not self._over.is_set():
            self.site.start(name)

    def watchdog_alone(self) -> None:
        """Until the watchdog has let go what we hold; it has the release-by and a few rounds."""

        def let_go() -> bool:
            look = world.row(self.cluster, self.seen.job_id)
            return look.restarts > 0 and not look.held and look.state != "COMPLETING"

        self.seen.stayed_held = not self._wait_quietly(let_go, MAX_HOLD_S + 25.0, 0.5)

    def a_node(self) -> str:
        """The last node of the attempt that runs."""
        begins = [n for n in world.notes(self.cluster, self.seen.job_id) if n.word == "begin"]
        return max(world.names(self.cluster, begins[-1].text))

    def another_node(self) -> str:
        """The node that the owner excludes later."""
        return self.cluster.nodes[(self.schedule.seed + 1) % 3]

    def wait_there(self, what: Callable[[], bool], limit_s: float) -> bool:
        return self._wait_quietly(what, limit_s, 0.05)

    # ------------------------------------------------------------------------------------- the end

    def _until_over(self) -> bool:
        begun = time.monotonic()
        quiet_since = 0.0
        while True:
            self._must_live()
            arrived = self._arrived()
            if not arrived:
                quiet_since = 0.0
            elif not self._left:
                return True
            elif not quiet_since:
                quiet_since = time.monotonic()
            elif time.monotonic() - quiet_since > UNREACHED_S:
                self._give_up.set()
            waiting = max(begun + (REACH_LIMIT_S if self._left else 0.0), self._last_event)
            if time.monotonic() > waiting + END_LIMIT_S:
                return False
            if self.halt.wait(0.2):
                raise Interrupted

    def _must_live(self) -> None:
        if self._problem is not None:
            raise Broken(f"a helper failed: {self._problem!r}") from self._problem
        name = self.site.ended_by_itself()
        if name and not self.schedule.deeds() & OURSELVES:
            raise Broken(f"{name} ended by itself:\n{self.site.last_words()}")

    def _arrived(self) -> bool:
        look = world.row(self.cluster, self.seen.job_id)
        if look.state not in ENDED or any(r.get("active") for r in self._records()):
            return False
        if self.seen.bystander_id and not self._bystander_ended():
            return False
        if self.seen.meant_to_end or self.seen.may_stay_ended:
            return bool(self._records())
        ends = [n.attempt for n in world.notes(self.cluster, self.seen.job_id) if n.word == "end"]
        return max(ends, default=0) >= max(1, look.restarts)

    def _bystander_ended(self) -> bool:
        return world.row(self.cluster, self.seen.bystander_id).state in ENDED

    def _records(self) -> tuple[dict[str, Any], ...]:
        with self._reading:
            found = self.ledger.records.values()
            return tuple(record for record in found if record.get("jobId") == self.seen.job_id)

    def _compare(self) -> None:
        """What was readable is there still. Waits until somebody answers."""
        until = time.monotonic() + 30.0
        while True:
            with self._reading:
                if self.ledger.compare():
                    break
            if self._over.is_set():
                return
            if time.monotonic() > until:
                if not self.site.answers():
                    return  # another event has taken it away meanwhile
                raise Broken(f"the API does not answer: {self.ledger.problem}")
            time.sleep(0.3)
        with self._reading, contextlib.suppress(OSError):
            store = (self.site.parts.get("up") or self.site.parts["gateway"]).store()
            try:
                self.ledger.gaps(store)
            finally:
                store.close()

    def _last_look(self) -> None:
        seen, cluster = self.seen, self.cluster
        with self._reading:
            self.ledger.read()
        seen.row = world.row(cluster, seen.job_id)
        if seen.bystander_id:
            seen.bystander = world.row(cluster, seen.bystander_id)
        seen.notes = world.notes(cluster, seen.job_id)
        seen.lives = world.lives(cluster, self.schedule)
        seen.commands = self._commands()
        seen.foreign = self._foreign()
        seen.excluded = world.names(cluster, seen.row.excluded)
        seen.attempt_nodes = {
            note.attempt: world.names(cluster, note.text)
            for note in seen.notes
            if note.word == "begin"
        }
        seen.records = self._records()
        with contextlib.suppress(Exception):
            seen.accounting = tuple(r["State"] for r in cluster.accounting(seen.job_id, ("State",)))
        seen.ledger_reads = self.ledger.reads
        seen.lost_advice = tuple(sorted(self.ledger.lost_advice))
        seen.lost_audit = tuple(sorted(self.ledger.lost_audit))

    def _commands(self) -> tuple[Command, ...]:
        """Our changing commands about the job, with what slurmctld showed around them."""
        found = []
        for seen in commandlog.witnessed(self.site.recorder):
            if not _names(seen.argv, self.seen.job_id):
                continue
            before = world.read_row(seen.before, seen.before_at)
            after = None if seen.after is None else world.read_row(seen.after, seen.after_at or 0.0)
            found.append(Command(seen.argv, seen.started, seen.exit_code, before, after))
        return tuple(found)

    def _foreign(self) -> tuple[tuple[str, ...], ...]:
        return tuple(
            one.argv
            for one in commandlog.commands(self.site.recorder)
            if one.changing and not _names(one.argv, self.seen.job_id)
        )

    # ------------------------------------------------------------------------ what happens meanwhile

    def _read_often(self) -> None:
        """Read over the API what anybody could read."""
        while not self._over.wait(0.35):
            if self.site.answers():
                with self._reading:
                    self.ledger.read()

    def _on_outcome(self, record: dict[str, Any]) -> None:
        """A terminal outcome has just been seen: what does slurmctld show?"""
        if record.get("jobId") != self.seen.job_id:
            return
        look = world.row(self.cluster, self.seen.job_id)
        excluded = world.names(self.cluster, look.excluded)
        self.seen.outcomes.append(Outcome(record, look, excluded))

    def _sample_holds(self) -> None:
        """Look at the job while somebody's hold is in force."""
        while not self._over.wait(0.4):
            if any("hold" in act.what and act.done and not act.until for act in self.seen.acts):
                self.seen.samples.append(world.row(self.cluster, self.seen.job_id))

    # -------------------------------------------------------------------------------------- patience

    def _help(self, work: Callable[[], None]) -> None:
        def guarded() -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001 - handed to the thread that waits
                self._problem = error

        thread = threading.Thread(target=guarded, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _wait_quietly(
        self, what: Callable[[], bool], limit_s: float, every_s: float = 0.02
    ) -> bool:
        """In a thread of an event: until it is so, or all is over."""
        until = time.monotonic() + limit_s
        if limit_s > 0 and what is _never:
            self._give_up.wait(limit_s)
            return False
        while not what():
            left = until - time.monotonic()
            if left <= 0 or self._over.is_set():
                return False
            if self._give_up.wait(min(every_s, left)):
                return False
        return True

    def _wait(self, what: Callable[[], bool], limit_s: float) -> bool:
        until = time.monotonic() + limit_s
        while not what():
            self._must_live()
            left = until - time.monotonic()
            if left <= 0:
                return False
            if self.halt.wait(min(0.1, left)):
                raise Interrupted
        return True


def _never() -> bool:
    return False


def _names(argv: tuple[str, ...], job_id: str) -> bool:
    return job_id in argv or f"jobid={job_id}" in argv
