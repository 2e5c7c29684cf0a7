"""The scheduler port on the simulated cluster, with the answers that a real one would give.

The commands are written as the real ones are, so that a command log reads the same; faults decide
what becomes of each before its client sees an answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from middlewatch.lab.simulated import bookkeeping
from middlewatch.lab.simulated.faults import Fate, Faults
from middlewatch.lab.simulated.records import Job
from middlewatch.lab.simulated.slurmctld import NotDone, SimulatedCluster
from middlewatch.model.action import Action, ActionKind, Answered, CommandResult
from middlewatch.model.answer import Absent, Answer, Known, Unknown
from middlewatch.model.identity import ClusterId
from middlewatch.model.scheduler import (
    ENDED,
    AccountingRecord,
    ClusterFacts,
    JobDetail,
    JobFlag,
    JobState,
    JobView,
    PartitionView,
    Snapshot,
)
from middlewatch.ports.errors import Unreadable

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
_TIMED_OUT = "Socket timed out on send/recv operation"
_DOWN = "Unable to contact slurm controller (connect failure)"


@dataclass(frozen=True, slots=True)
class SimulatedCommand:
    """One command for the command log, in the form of the real one's."""

    at: datetime
    argv: tuple[str, ...]
    exit_code: int | None
    duration: float
    changing: bool


class SimulatedScheduler:
    """Implements `ports.scheduler.Scheduler`. ``observer`` is told of each changing command.

    May be shared by threads, also with whoever advances the cluster.
    """

    def __init__(
        self,
        cluster: SimulatedCluster,
        environment: ClusterId,
        *,
        faults: Faults | None = None,
        observer: Callable[[SimulatedCommand], None] | None = None,
    ) -> None:
        self.cluster = environment
        self.faults = faults or Faults()
        self._world = cluster
        self._observer = observer
        self._lock = cluster.lock
        self._stalled: list[Callable[[], object]] = []

    # -------------------------------------------------------------------------------- looks

    def facts(self) -> Answer[ClusterFacts]:
        with self._lock:
            away = self._away()
            if away is not None:
                return away
            config = self._world.config
            facts = ClusterFacts(
                name=config.cluster_name,
                version=config.release,
                begin_delay_s=config.begin_delay_s,
                message_timeout_s=config.message_timeout_s,
                min_job_age_s=config.min_job_age_s,
                kill_wait_s=config.kill_wait_s,
                started_at=self._world.booted_at,
                file_append=config.file_append,
            )
            return Known(facts, self._world.now)

    def listing(self) -> Answer[Snapshot]:
        with self._lock:
            return self._away() or self._snapshot(self._world.jobs.values())

    def look(self, job_ids: Sequence[str]) -> Answer[Snapshot]:
        with self._lock:
            away = self._away()
            if away is not None:
                return away
            numbers = (number for job_id in job_ids for number in self._world.targets(job_id))
            found = (self._world.jobs.get(number) for number in dict.fromkeys(numbers))
            return self._snapshot(job for job in found if job is not None)

    def _snapshot(self, jobs: Iterable[Job]) -> Answer[Snapshot]:
        views = tuple(_view(job) for job in jobs)
        now = self._world.now
        return Known(Snapshot(self._world.config.cluster_name, now, views), now)

    def detail(self, job_id: str) -> Answer[JobDetail]:
        with self._lock:
            away = self._away()
            if away is not None:
                return away
            job = self._world.jobs.get(job_id)
            if job is None:
                return Absent(self._world.now)
            return Known(_detail(job, self._world.config.file_append), self._world.now)

    def accounting(self, job_id: str) -> Answer[tuple[AccountingRecord, ...]]:
        with self._lock:
            now = self._world.now
            if not self._world.config.accounting:
                return Absent(now)
            if self.faults.accounting_down:
                return Unknown("sacct: Problem talking to the database: Connection refused", now)
            return Known(bookkeeping.records_of(self._world, job_id), now)

    def partitions(self) -> Answer[tuple[PartitionView, ...]]:
        with self._lock:
            away = self._away()
            if away is not None:
                return away
            nodes = self._world.nodes.values()
            usable = tuple(node.name for node in nodes if node.usable and node.alive)
            view = PartitionView(
                self._world.config.partition, tuple(node.name for node in nodes), usable
            )
            return Known((view,), self._world.now)

    def hostnames(self, node_list: str) -> tuple[str, ...]:
        if "[" in node_list:
            raise Unreadable(f"{node_list[:80]!r}: the simulated cluster writes single names only")
        return tuple(name for name in node_list.split(",") if name)

    def _away(self) -> Unknown | None:
        if self.faults.hung:
            return Unknown(f"squeue: slurm_load_jobs error: {_TIMED_OUT}", self._world.now)
        if self.faults.unreachable:
            return Unknown(f"squeue: slurm_load_jobs error: {_DOWN}", self._world.now)
        return None

    # ------------------------------------------------------------------------------ changes

    def perform(self, action: Action, deadline_s: float) -> CommandResult:
        with self._lock:
            result = self._perform(action)
        if self._observer is not None:
            self._observer(
                SimulatedCommand(result.started_at, result.argv, result.exit_code, 0.0, True)
            )
        return result

    def _perform(self, action: Action) -> CommandResult:
        if not readable(action):
            return self._result(action, Answered.REFUSED, None, "no job number or node name")
        if self.faults.hung:
            self.stall(lambda: self._quietly(action))
            return self._result(action, Answered.NO_ANSWER, 1, "Unexpected message received")
        if self.faults.unreachable:
            return self._result(action, Answered.NO_ANSWER, 1, "Unexpected message received")
        doom = self.faults.next_command()
        if doom.fate is Fate.LATE:
            self._world.after(doom.after_s, lambda: self._quietly(action))
        if doom.fate is Fate.REPLY_LOST:
            self._quietly(action)
        if doom.fate is not Fate.NORMAL:
            return self._result(action, Answered.NO_ANSWER, None, "killed at its deadline")
        try:
            self.carry_out(action)
        except NotDone as refusal:
            return self._result(action, Answered.REFUSED, 1, str(refusal))
        return self._result(action, Answered.DONE, 0, "")

    def thaw(self, within_s: float = 0.0) -> None:
        """slurmctld goes on after it hung, and does everything that it was asked meanwhile: at
        once, or one after the other within that time, while it answers looks again."""
        with self._lock:
            self.faults.hung = False
            stalled, self._stalled = self._stalled, []
            for number, carry_out in enumerate(stalled, 1):
                if within_s:
                    self._world.after(within_s * number / len(stalled), carry_out)
                else:
                    carry_out()

    def stall(self, carry_out: Callable[[], object]) -> None:
        """Have something done when slurmctld goes on after it hung."""
        self._stalled.append(carry_out)

    def killed(self) -> None:
        """slurmctld was killed: what it had received and not done is lost."""
        with self._lock:
            self.faults.hung = False
            self._stalled.clear()

    def _quietly(self, action: Action) -> None:
        try:
            self.carry_out(action)
        except NotDone:
            pass  # Nobody waits for the answer any more.

    def carry_out(self, action: Action) -> None:
        """Do it now, whatever its client's fate. Raises `NotDone` where slurmctld declines."""
        for job_id in self._world.targets(action.job_id):
            self._apply_to(action, job_id)

    def _apply_to(self, action: Action, job_id: str) -> None:
        match action.kind:
            case ActionKind.REQUEUE:
                self._world.requeue(job_id)
            case ActionKind.REQUEUE_HOLD:
                self._world.requeue(job_id, hold=True, special=True)
            case ActionKind.RELEASE:
                self._world.release(job_id)
            case ActionKind.CANCEL:
                self._world.cancel(job_id)
            case ActionKind.UPDATE:
                self._world.update(
                    job_id,
                    excluded=action.exclusions,
                    start_now=action.start_now,
                    requeue=action.requeueable,
                )

    def _result(
        self, action: Action, answered: Answered, code: int | None, text: str
    ) -> CommandResult:
        now = self._world.now
        return CommandResult(answered, argv_of(action), code, text, now, now)


def readable(action: Action) -> bool:
    """Whether a real client would send it: a job number and node names, and nothing else."""
    return all(_WORD.fullmatch(word) for word in (action.job_id, *(action.exclusions or ())))


def argv_of(action: Action) -> tuple[str, ...]:
    """The command line that it is."""
    match action.kind:
        case ActionKind.REQUEUE:
            return ("scontrol", "requeue", action.job_id)
        case ActionKind.REQUEUE_HOLD:
            return ("scontrol", "requeuehold", "State=SpecialExit", action.job_id)
        case ActionKind.RELEASE:
            return ("scontrol", "release", action.job_id)
        case ActionKind.CANCEL:
            return ("scancel", action.job_id)
        case ActionKind.UPDATE:
            fields = [f"jobid={action.job_id}"]
            if action.exclusions is not None:
                fields.append(f"ExcNodeList={','.join(action.exclusions)}")
            if action.start_now:
                fields.append("StartTime=now")
            if action.requeueable is not None:
                fields.append(f"Requeue={int(action.requeueable)}")
            return ("scontrol", "update", *fields)


def _view(job: Job) -> JobView:
    flags = set()
    if job.completing:
        flags.add(JobFlag.COMPLETING)
    elif job.special_exit:
        flags.add(JobFlag.SPECIAL_EXIT)
    ended = job.state in ENDED and not job.completing
    return JobView(
        job_id=job.job_id,
        state=JobState.RUNNING if job.completing else job.state,
        flags=frozenset(flags),
        reason=job.reason,
        priority=0 if job.held else job.priority_weight,
        restarts=job.restarts,
        submitted_at=job.submitted_at,
        eligible_at=job.eligible_at,
        started_at=job.started_at or (job.begin_at if job.pending else None),
        ended_at=job.ended_at if ended else None,
        node_list=",".join(job.nodes),
        node_count=job.node_count,
        partitions=(job.partition,),
        uid=job.uid,
        user=job.user,
        exit_code=job.exit.code,
        exit_signal=job.exit.signal,
        requeueable=job.requeue,
        time_limit_s=job.time_limit_s,
        dependency=",".join(
            f"{kind}:{other}(unfulfilled)" if other else kind for kind, other in job.dependency
        ),
    )


def _detail(job: Job, file_append: bool) -> JobDetail:
    return JobDetail(
        job_id=job.job_id,
        submitted_at=job.submitted_at,
        comment=job.comment,
        name=job.name,
        work_dir=job.work_dir,
        stdout=job.stdout,
        stderr=job.stdout,
        excluded_nodes=job.excluded,
        required_nodes=job.required,
        requeueable=job.requeue,
        held_by_operator=job.hold == "admin",
        dependency=",".join(
            kind + (f":{other}" if other else "") for kind, other in job.dependency
        ),
        append_output=file_append if job.append is None else job.append,
    )
