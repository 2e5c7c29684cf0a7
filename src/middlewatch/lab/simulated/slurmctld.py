"""A scheduler that behaves as slurmctld was seen to behave, in virtual time.

Each rule here repeats an observation of real releases on 22.05, 24.11 and 26.05: what a requeue does to a
job in each state, the begin time that follows it, holds and who set them, exclusions that make a
job impossible, what accounting keeps. Time moves only through `advance`.
"""

from __future__ import annotations

import copy
import heapq
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from middlewatch.lab.simulated import bookkeeping
from middlewatch.lab.simulated.program import Exit, Place, Start
from middlewatch.lab.simulated.records import Job, Node, Run, SimulatedConfig
from middlewatch.model.scheduler import ENDED, JobState

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
_TRUE_SINCE = (26, 5)


class NotDone(Exception):
    """slurmctld declines; the message is its text."""


class SimulatedCluster:
    """The world. ``lock`` is held by `advance` and by every `SimulatedScheduler` on it; whoever
    else touches the cluster while other threads use it holds it too."""

    def __init__(self, config: SimulatedConfig | None = None, now: datetime = EPOCH) -> None:
        self.config = config or SimulatedConfig()
        self.lock = threading.RLock()
        self.now = now
        self.booted_at = now
        self.jobs: dict[str, Job] = {}
        self.forgotten: dict[str, list[Job]] = {}
        self.nodes = {name: Node(name) for name in self.config.nodes}
        self.printed: list[tuple[datetime, str, str]] = []
        """(when, job id, line) of everything that jobs printed."""
        self.runs: dict[str, list[Run]] = {}
        """The processes of every attempt that began, by the job's number, oldest first."""
        self._events: list[tuple[datetime, int, Callable[[], object]]] = []
        self._orphans: list[Run] = []
        self._count = 0
        self._next_id = 1
        self._seconds(self.config.sched_interval_s, self._pass)

    # --------------------------------------------------------------------------------- time

    def advance(self, to: datetime) -> None:
        """Let time pass until ``to``; everything that is due happens in its order."""
        with self.lock:
            while self._events and self._events[0][0] <= to:
                when, _, action = heapq.heappop(self._events)
                self.now = max(self.now, when)
                action()
            self.now = max(self.now, to)

    def after(self, seconds: float, action: Callable[[], object]) -> None:
        """Have something happen later (a fault, an operator's command)."""
        self._seconds(seconds, action)

    def _seconds(self, seconds: float, action: Callable[[], object]) -> None:
        self._at(self.now + timedelta(seconds=seconds), action)

    def _at(self, when: datetime, action: Callable[[], object]) -> None:
        self._count += 1
        heapq.heappush(self._events, (max(when, self.now), self._count, action))

    @property
    def second(self) -> datetime:
        """The present in Slurm's whole seconds."""
        return self.now.replace(microsecond=0)

    # --------------------------------------------------------------------------- submission

    def submit(
        self,
        start: Start,
        *,
        nodes: int = 1,
        slots: int = 1,
        uid: int = 1000,
        user: str = "alice",
        name: str = "train",
        comment: str = "",
        stdout: Path | None = None,
        append: bool | None = None,
        requeue: bool = True,
        hold: bool = False,
        begin_s: float | None = None,
        time_limit_s: int | None = None,
        dependency: Iterable[tuple[str, str]] = (),
        required: Sequence[str] = (),
        excluded: Sequence[str] = (),
        array: int = 0,
    ) -> str:
        """Submit a job and return its number; with ``array`` that many tasks ``A_0``, ``A_1``, …

        ``dependency`` are pairs such as ("afterok", "7"), or ("singleton", "").
        """
        number = str(self._next_id)
        self._next_id += max(1, array)
        begin = None if begin_s is None else self.second + timedelta(seconds=begin_s)
        for job_id in [f"{number}_{task}" for task in range(array)] or [number]:
            job = Job(
                job_id=job_id,
                uid=uid,
                user=user,
                name=name,
                comment=comment,
                partition=self.config.partition,
                node_count=nodes,
                slots=slots,
                start=start,
                submitted_at=self.second,
                priority_weight=4294901760 - len(self.jobs),
                stdout=str(stdout).replace("%j", job_id) if stdout else "",
                append=append,
                requeue=requeue,
                time_limit_s=time_limit_s,
                dependency=tuple(dependency),
                required=tuple(required),
                excluded=tuple(excluded),
                begin_at=begin,
                hold="user" if hold else "",
                reason="JobHeldUser" if hold else "",
            )
            job.eligible_at = None if hold or job.dependency else begin or self.second
            self.jobs[job_id] = job
            bookkeeping.opened(self, job)
        return number

    def number_comes_back(self, job_id: str) -> None:
        """The job is forgotten, and the next one to be submitted gets its number: after a wrap of
        the numbers, or a slurmctld that was set up anew."""
        job = self.jobs.pop(job_id, None)
        if job is not None:
            if job.run is not None:
                job.run.dead = True
            self.forgotten.setdefault(job_id, []).append(job)
        self._next_id = int(job_id)

    # ------------------------------------------------------------------------- what it does

    def _pass(self) -> None:
        """One pass of the scheduler over what waits, highest priority first."""
        self._seconds(self.config.sched_interval_s, self._pass)
        for job in list(self.jobs.values()):
            self._purge(job)
        waiting = [job for job in self.jobs.values() if job.pending and not job.held]
        for job in sorted(waiting, key=lambda job: -job.priority_weight):
            self._consider(job)

    def _purge(self, job: Job) -> None:
        age = timedelta(seconds=self.config.min_job_age_s)
        ended = job.state in ENDED and not job.completing and job.ended_at is not None
        if ended and job.ended_at is not None and self.now - job.ended_at > age:
            self.forgotten.setdefault(job.job_id, []).append(self.jobs.pop(job.job_id))

    def _consider(self, job: Job) -> None:
        waits = self._dependency_reason(job)
        if waits:
            job.reason = waits
            return
        if job.eligible_at is None:
            job.eligible_at = job.begin_at or self.second
        if job.eligible_at > self.now:
            job.reason = "BeginTime"
            return
        possible = [n for n in self.nodes.values() if n.name not in job.excluded]
        clash = set(job.required) & set(job.excluded)
        if clash or len(possible) < max(job.node_count, len(job.required)):
            if any(node.usable for node in self.nodes.values()):
                job.hold, job.reason = "constraints", "BadConstraints"
            return
        free = [n.name for n in possible if n.usable and self._free(n.name) >= job.slots]
        if set(job.required) - set(free):
            job.reason = "ReqNodeNotAvail, UnavailableNodes:" + ",".join(job.required)
            return
        chosen = list(job.required) + [name for name in free if name not in job.required]
        if len(chosen) < job.node_count:
            job.reason = "Resources"
            return
        self._start(job, tuple(sorted(chosen[: job.node_count])))

    def _free(self, node: str) -> int:
        used = sum(job.slots for job in self.jobs.values() if node in job.nodes and _alive(job))
        return self.config.slots_per_node - used

    def _dependency_reason(self, job: Job) -> str:
        for kind, other_id in job.dependency:
            if kind == "singleton":
                if any(
                    other.job_id != job.job_id
                    and (other.uid, other.name) == (job.uid, job.name)
                    # (A requeue gives a new submit time; the number stays the older one.)
                    and (_alive(other) or (other.pending and _number(other) < _number(job)))
                    for other in self.jobs.values()
                ):
                    return "Dependency"
                continue
            other = self.jobs.get(other_id)
            if other is None:
                continue
            over = other.state in ENDED and not other.completing
            if kind == "after":
                met, never = other.started_at is not None or over, False
            else:
                good = other.state is JobState.COMPLETED
                met = over and {"afterany": True, "afterok": good}.get(kind, not good)
                never = over and not met
            if never:
                return "DependencyNeverSatisfied"
            if not met:
                return "Dependency"
        # What was met once stays met: Slurm forgets the dependency.
        job.dependency = ()
        return ""

    def _start(self, job: Job, nodes: tuple[str, ...]) -> None:
        job.state, job.nodes, job.reason = JobState.RUNNING, nodes, ""
        job.started_at, job.ended_at, job.exit = self.second, None, Exit()
        job.special_exit = job.requeue_held = False
        job.cancelled_by = None
        revoked = self.config.release_number < _TRUE_SINCE and job.restarts > 0
        if revoked and job.submitted_at == self.second:
            # Started within the second of the kill: slurmd takes its credential for a revoked one.
            bookkeeping.started(self, job)
            self._end(job, JobState.FAILED, Exit(1), "NonZeroExitCode")
            bookkeeping.never_ran(self, job)
            return
        bookkeeping.started(self, job)
        append = self.config.file_append if job.append is None else job.append
        if job.stdout and not append:
            Path(job.stdout).write_bytes(b"")
            self._dated(job.stdout)
        place = Place(job.job_id, job.restarts, nodes, self.now, self._writer(job))
        run = Run(job.start(place), nodes, job.restarts)
        job.run = run
        self.runs.setdefault(job.job_id, []).append(run)
        self._follow(job, run)
        if job.time_limit_s is not None:
            limit = self.now + timedelta(seconds=job.time_limit_s)
            self._at(limit, lambda: self._time_is_up(job, run))

    def _writer(self, job: Job) -> Callable[[str], None]:
        def write(line: str) -> None:
            self.printed.append((self.now, job.job_id, line))
            if job.stdout:
                with Path(job.stdout).open("ab") as log:
                    log.write(line.encode() + b"\n")
                self._dated(job.stdout)

        return write

    def _dated(self, path: str) -> None:
        """A file's time is the cluster's, as whoever reads it compares the two."""
        at = self.now.timestamp()
        os.utime(path, (at, at))

    def _follow(self, job: Job, run: Run) -> None:
        due = run.program.due()
        if due is not None and not run.dead:
            self._at(due, lambda: self._go_on(job, run))

    def _go_on(self, job: Job, run: Run) -> None:
        if run.dead:
            return
        ended = run.program.go_on(self.now)
        if ended is None:
            self._follow(job, run)
            return
        run.dead = True
        if job.run is run and job.running:
            failed = ended.code != 0 or ended.signal is not None
            state = JobState.FAILED if failed else JobState.COMPLETED
            self._end(job, state, ended, "NonZeroExitCode" if failed else "")

    def finish(self, job_id: str, status: Exit) -> None:
        """A running job's script ends by itself at this moment; nothing for one that does not run."""
        job = self.jobs.get(job_id)
        if job is None or job.run is None or job.run.dead or not job.running:
            return
        job.run.dead = True
        failed = status.code != 0 or status.signal is not None
        state = JobState.FAILED if failed else JobState.COMPLETED
        self._end(job, state, status, "NonZeroExitCode" if failed else "")

    def _time_is_up(self, job: Job, run: Run) -> None:
        if job.run is run and job.running:
            self._kill(job, JobState.TIMEOUT, "DUE TO TIME LIMIT", Exit(0, 15))
            job.reason = "TimeLimit"

    def _end(self, job: Job, state: JobState, status: Exit, reason: str) -> None:
        job.state, job.exit, job.reason = state, status, reason
        job.completing = False
        job.ended_at = self.second
        bookkeeping.ended(self, job)

    def _kill(self, job: Job, becomes: JobState, why: str, status: Exit) -> None:
        """Start ending a running job's processes; it is completing until they are gone."""
        run = job.run
        job.completing, job.after_completing, job.exit = True, becomes, status
        if run is None or run.dead:
            self._seconds(0.05, lambda: self._gone(job))
            return
        stamp = self.now.strftime("%Y-%m-%dT%H:%M:%S")
        said = f" {why}" if why else ""
        node = job.nodes[0]
        self._writer(job)(
            f"slurmstepd-{node}: error: *** JOB {job.job_id} ON {node} CANCELLED AT {stamp}{said} ***"
        )
        run.dead = True
        lives = min(run.program.dies_after_s, self.config.kill_wait_s)
        self._seconds(lives, lambda: self._gone(job))

    def _gone(self, job: Job) -> None:
        if not job.completing:
            return
        job.completing = False
        if job.after_completing is JobState.PENDING:
            bookkeeping.requeued_while_running(self, job)
            self._becomes_pending(job)
        else:
            self._end(job, job.after_completing, job.exit, job.reason)

    def _becomes_pending(self, job: Job) -> None:
        job.state, job.nodes, job.run = JobState.PENDING, (), None
        job.submitted_at = self.second
        delay = self.second + timedelta(seconds=self.config.begin_delay_s)
        job.eligible_at = max(delay, job.begin_at) if job.begin_at else delay
        job.begin_at = job.eligible_at
        job.started_at = job.ended_at = None
        bookkeeping.opened(self, job)

    # ------------------------------------------------------------- what it is asked to do

    def _find(self, job_id: str) -> Job:
        job = self.jobs.get(job_id)
        if job is None:
            raise NotDone(f"Invalid job id specified for job {job_id}")
        return job

    def targets(self, job_id: str) -> list[str]:
        """The jobs that a number means: a bare array number means all its tasks."""
        tasks = [key for key in self.jobs if key.startswith(f"{job_id}_")]
        return tasks or [job_id]

    def requeue(self, job_id: str, *, hold: bool = False, special: bool = False) -> None:
        job = self._find(job_id)
        if not job.requeue:
            raise NotDone(f"Requested operation is presently disabled for job {job_id}")
        waits = job.completing and job.after_completing is JobState.PENDING
        if job.pending or waits:
            raise NotDone(f"Job is pending execution for job {job_id}")
        suspended = job.state is JobState.SUSPENDED
        alive = _alive(job)
        job.restarts += 1
        job.cancelled_by = None
        if hold:
            # Whatever hold stood on the running job is replaced by the weaker one.
            job.hold, job.reason = "user", "job requeued in held state"
            job.requeue_held, job.special_exit = True, special
        elif suspended or job.hold == "admin":
            job.hold, job.reason = "admin", "JobHeldAdmin"
        elif alive:
            job.reason = ""
        if job.completing:
            job.after_completing = JobState.PENDING
        elif alive:
            self._kill(job, JobState.PENDING, "DUE TO JOB REQUEUE", Exit())
        else:
            bookkeeping.requeued_after_end(self, job)
            self._becomes_pending(job)

    def release(self, job_id: str, *, privileged: bool = True) -> None:
        job = self._find(job_id)
        if job.state in ENDED and not job.completing:
            raise NotDone(f"Job has already finished for job {job_id}")
        if job.hold == "admin" and not privileged:
            raise NotDone(f"Access/permission denied for job {job_id}")
        if job.held:
            job.hold, job.reason = "", ""
            job.requeue_held = job.special_exit = False
            if job.pending and job.eligible_at is None:
                job.eligible_at = job.begin_at or self.second

    def hold(self, job_id: str, *, by_operator: bool) -> None:
        """An operator's or an owner's hold, on a pending or a running job."""
        job = self._find(job_id)
        if job.state in ENDED and not job.completing:
            raise NotDone(f"Job has already finished for job {job_id}")
        job.hold = "admin" if by_operator or job.hold == "admin" else "user"
        if not job.requeue_held:
            # The text of a requeue-hold stays, whoever holds the job on top of it.
            job.reason = "JobHeldAdmin" if job.hold == "admin" else "JobHeldUser"

    def update(
        self,
        job_id: str,
        *,
        excluded: Sequence[str] | None = None,
        required: Sequence[str] | None = None,
        start_now: bool = False,
        requeue: bool | None = None,
        comment: str | None = None,
    ) -> None:
        """One request: all of it or nothing."""
        job = self._find(job_id)
        if job.state in ENDED and not job.completing:
            raise NotDone(f"Job has already finished for job {job_id}")
        waits = job.pending or (job.completing and job.after_completing is JobState.PENDING)
        if (excluded is not None or required is not None or start_now) and not waits:
            raise NotDone(f"Job is no longer pending execution for job {job_id}")
        if set(excluded or ()) - set(self.nodes) or set(required or ()) - set(self.nodes):
            raise NotDone(f"Invalid node name specified for job {job_id}")
        if excluded is not None:
            job.excluded = tuple(excluded)
        if required is not None:
            job.required = tuple(required)
        if (excluded is not None or required is not None) and job.hold == "constraints":
            job.hold, job.reason = "", ""
        if start_now and job.pending:
            job.eligible_at, job.begin_at, job.started_at = self.second, None, None
            if job.reason == "BeginTime":
                job.reason = ""
        if requeue is not None:
            job.requeue = requeue
        if comment is not None:
            job.comment = comment

    def cancel(self, job_id: str, *, by: str = "0") -> None:
        """scancel: silent about a job that has ended or is not known."""
        job = self.jobs.get(job_id)
        if job is None or (job.state in ENDED and not job.completing):
            return
        job.cancelled_by = by
        # The hold stays, its mark does not: whoever requeues it later finds it held.
        job.special_exit = False
        if job.pending:
            self._end(job, JobState.CANCELLED, Exit(), job.reason)
        elif job.completing:
            job.after_completing, job.exit = JobState.CANCELLED, Exit(0, 9)
        else:
            self._kill(job, JobState.CANCELLED, "", Exit(0, 15))

    def suspend(self, job_id: str) -> None:
        job = self._find(job_id)
        if not job.running:
            raise NotDone(f"Job is pending execution for job {job_id}")
        job.state, job.hold = JobState.SUSPENDED, "admin"

    # -------------------------------------------------------------- what breaks and mends

    def kill_node(self, name: str) -> None:
        """The node's slurmd dies. Its processes run on; slurmctld notices after its time-out."""
        self.nodes[name].alive = False
        self._seconds(self.config.slurmd_timeout_s, lambda: self._node_lost(name))

    def _node_lost(self, name: str) -> None:
        if not self.nodes[name].alive:
            self.set_down(name)

    def set_down(self, name: str) -> None:
        """slurmctld takes the node for down: its jobs are requeued, or end as NODE_FAIL."""
        node = self.nodes[name]
        node.down = True
        for job in list(self.jobs.values()):
            if name not in job.nodes or not _alive(job):
                continue
            if job.run is not None and not node.alive:
                # slurmctld gives up on processes that nobody ends: they write on.
                self._orphans.append(job.run)
            elif job.run is not None:
                job.run.dead = True
            self._lose_node(job, name)

    def _lose_node(self, job: Job, name: str) -> None:
        if job.completing:
            # It is over already, and turned into what it was to become: no second requeue.
            self._gone(job)
            return
        job.state, job.reason, job.exit = JobState.NODE_FAIL, "NodeDown", Exit()
        job.ended_at = self.second
        bookkeeping.ended(self, job, failed_node=name)
        if job.requeue:
            job.restarts += 1
            job.reason = ""
            self._becomes_pending(job)

    def mend_node(self, name: str) -> None:
        """The node comes back; processes of attempts that slurmctld gave up on are ended."""
        node = self.nodes[name]
        node.alive, node.down = True, False
        for run in self._orphans:
            if name in run.nodes:
                run.dead = True
        self._orphans = [run for run in self._orphans if not run.dead]

    def remember(self) -> dict[str, Job]:
        """The saved state of slurmctld, for `roll_back`."""
        return {key: copy.copy(job) for key, job in self.jobs.items()}

    def roll_back(self, saved: dict[str, Job]) -> None:
        """slurmctld was killed and comes back from an older state. Processes that were ended
        meanwhile stay ended, those of attempts that it does not know any more are ended when their
        nodes report; accounting keeps what it was told."""
        # A saved job has the list of records that accounting has gone on with.
        self.jobs = {key: copy.copy(job) for key, job in saved.items()}
        for job in self.jobs.values():
            if job.completing:
                self._seconds(self.config.kill_wait_s, partial(self._gone, job))
        known = {id(job.run) for job in self.jobs.values() if job.run is not None}
        known |= {id(run) for run in self._orphans}
        for run in (run for runs in self.runs.values() for run in runs):
            if id(run) not in known:
                run.dead = True
        self.booted_at = self.now


def _alive(job: Job) -> bool:
    """Whether the job has its nodes."""
    return job.completing or job.state in (JobState.RUNNING, JobState.SUSPENDED)


def _number(job: Job) -> int:
    return int(job.job_id.partition("_")[0])
