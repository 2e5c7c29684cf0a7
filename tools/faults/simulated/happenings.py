"""What befalls a schedule: people who do something, and things that break, each at its moment."""

from __future__ import annotations

import random
from collections.abc import Callable
from copy import copy
from datetime import timedelta
from functools import partial

from middlewatch.lab.simulated import Exit, NotDone, SimulatedCluster, SimulatedScheduler
from middlewatch.lab.simulated.records import Job
from tools.faults.simulated.drawn import Happening
from tools.faults.simulated.process import Process, Shared
from tools.faults.simulated.witness import Witness, same

PEOPLE = frozenset({"operator", "owner", "job"})


class Happenings:
    """``jobs`` are the schedule's jobs by their part in it (``main`` is the one that fails);
    ``again`` starts a process that was killed; ``another`` submits the job that gets an old number."""

    def __init__(
        self,
        shared: Shared,
        chance: random.Random,
        jobs: dict[str, str],
        processes: dict[str, Process],
        *,
        again: Callable[[str], None],
        another: Callable[[], None],
    ) -> None:
        self._shared = shared
        self._random = chance
        self._jobs = jobs
        self._processes = processes
        self._again = again
        self._another = another
        self.server: SimulatedScheduler = shared.server
        self.cluster: SimulatedCluster = shared.turns.cluster
        self.witness: Witness = shared.witness
        self.clocks_off_s = 0.0

    def happen(self, happening: Happening) -> None:
        if happening.what.split()[0] in PEOPLE:
            crosses = happening.when.moment in {"looked", "send", "arrived"}
            self.person(happening.what, happening.about or "main", crosses=crosses)
        else:
            self._trouble(happening)

    # ------------------------------------------------------------------------------- people

    def person(self, what: str, about: str, *, crosses: bool = False) -> None:
        cluster, job_id = self.cluster, self._jobs[about]
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
                lambda: cluster.update(job_id, excluded=self._owners_list(job_id)),
                {"exclusions": True},
            ),
            "owner forbids requeueing": (lambda: cluster.update(job_id, requeue=False), {}),
            "owner opts out": (lambda: cluster.update(job_id, comment=""), {"comment": True}),
            "job completes": (lambda: cluster.finish(job_id, Exit()), {}),
            "job fails": (lambda: cluster.finish(job_id, Exit(1)), {}),
        }
        act, changes = acts[what]
        by, _, words = what.partition(" ")
        present = cluster.jobs.get(job_id)
        before = None if present is None else copy(present)
        refusal = ""
        try:
            act()
        except NotDone as error:
            refusal = str(error)
        after = cluster.jobs.get(job_id)
        changed = before is not None and after is not None and not same(before, after)
        comment = before is not None and after is not None and before.comment != after.comment
        if not refusal and (changed or comment):
            self.witness.happen(what)
            if crosses:
                self.witness.happen("somebody acts between a look and a command")
        self.witness.people_did(by, words, before, refusal, **changes)

    def _owners_list(self, job_id: str) -> tuple[str, ...]:
        """What an owner types who wants to keep off one more node: what is there, and that one."""
        job = self.cluster.jobs.get(job_id)
        if job is None:
            raise NotDone(f"Invalid job id specified for job {job_id}")
        lineage = self.witness.lineage(job)
        own = set(self.witness.own_exclusions.get(lineage, ()))
        return tuple(sorted(own | {self._random.choice(("gpu-003", "gpu-004"))}))

    # ------------------------------------------------------------------------------ troubles

    def _trouble(self, trouble: Happening) -> None:
        self.witness.say(f"trouble: {trouble.what}")
        faults, length, turns = self.server.faults, trouble.length_s, self._shared.turns
        match trouble.what:
            case "slurmctld hangs":
                faults.hung = True
                turns.after(length, self.thaw)
            case "slurmctld is away":
                faults.unreachable = True
                turns.after(length, self.back)
            case "slurmctld comes back older":
                saved = self.cluster.remember()
                turns.after(trouble.size, lambda: self._killed(saved, length))
            case "accounting is away":
                faults.accounting_down = True
                turns.after(length, self.accounting_back)
            case "listings miss jobs":
                self._shared.missing = frozenset({self._jobs["main"]})
                turns.after(length, self.whole)
            case "listings are cut short":
                self._shared.missing = None
                turns.after(length, self.whole)
            case "a node dies":
                node = self._node(trouble.what)
                self.cluster.kill_node(node)
            case "a node is set down":
                node = self._node(trouble.what)
                self.cluster.set_down(node)
            case "the number comes back":
                self._number_comes_back()
            case "the clock jumps":
                self._clock_jumps(trouble.size)
            case "the watchdog dies":
                watchdog = self._processes["watchdog"]
                if not watchdog.dead:
                    self.witness.happen(trouble.what)
                watchdog.kill("by itself")
                turns.after(0.0, watchdog.bury)
                turns.after(length, partial(self._again, "watchdog"))
            case other:
                raise ValueError(f"nobody knows how to make this happen: {other}")

    def _node(self, what: str) -> str:
        job = self.cluster.jobs.get(self._jobs["main"])
        if job is None or not job.nodes:
            return self.cluster.config.nodes[0]
        self.witness.happen(what)
        return job.nodes[0]

    def _clock_jumps(self, size: float) -> None:
        """Of one host: the store's, or another one."""
        hosts = sorted({process.host for process in self._processes.values()})
        host = "a" if len(hosts) == 1 else self._random.choice(hosts)
        for process in self._processes.values():
            if process.host == host:
                process.offset += timedelta(seconds=size)
        self._shared.jumped = True
        self.clocks_off_s += abs(size)
        self.witness.happen("the clock jumps")

    def thaw(self) -> None:
        if self.server.faults.hung:
            self.witness.say("slurmctld goes on")
            self.server.thaw(self._random.choice((0.0, 0.0, 0.5, 3.0)))

    def back(self) -> None:
        self.server.faults.unreachable = False

    def _killed(self, saved: dict[str, Job], length: float) -> None:
        if self._shared.calm:
            return
        self.witness.say("slurmctld is killed and comes back from its saved state")
        self.server.killed()
        lost = [
            job_id
            for job_id, job in self.cluster.jobs.items()
            if job_id not in saved or not same(saved[job_id], job)
        ]
        if lost:
            self.witness.happen("slurmctld comes back older")
        self.cluster.roll_back(saved)
        self.witness.rolled_back()
        self.server.faults.unreachable = True
        self._shared.turns.after(length, self.back)

    def accounting_back(self) -> None:
        self.server.faults.accounting_down = False

    def whole(self) -> None:
        self._shared.missing = frozenset()

    def _number_comes_back(self) -> None:
        if "_" in self._jobs["main"]:
            return
        self.cluster.number_comes_back(self._jobs["main"])
        self.witness.happen("the number comes back")
        self._another()
