"""What a look at the scheduler shows, in our words.

These records are views, not beliefs: each is what the scheduler said at one moment. The listing
carries only fields that no user can write (a newline in a comment or a job name forges whole
lines of text output); what users write is in `JobDetail`, read job by job.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from middlewatch.model.identity import AttemptKey, ClusterId


class JobState(StrEnum):
    """The scheduler's base state of a job, without its flags."""

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    COMPLETED = "COMPLETED"
    CANCELLED = "CANCELLED"
    FAILED = "FAILED"
    TIMEOUT = "TIMEOUT"
    NODE_FAIL = "NODE_FAIL"
    PREEMPTED = "PREEMPTED"
    BOOT_FAIL = "BOOT_FAIL"
    DEADLINE = "DEADLINE"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    UNREADABLE = "UNREADABLE"


ENDED = frozenset(
    {
        JobState.COMPLETED,
        JobState.CANCELLED,
        JobState.FAILED,
        JobState.TIMEOUT,
        JobState.NODE_FAIL,
        JobState.PREEMPTED,
        JobState.BOOT_FAIL,
        JobState.DEADLINE,
        JobState.OUT_OF_MEMORY,
    }
)
FAILURES = frozenset({JobState.FAILED, JobState.NODE_FAIL, JobState.OUT_OF_MEMORY})


class JobFlag(StrEnum):
    """States that Slurm adds to the base state."""

    COMPLETING = "COMPLETING"
    CONFIGURING = "CONFIGURING"
    SPECIAL_EXIT = "SPECIAL_EXIT"
    REQUEUED = "REQUEUED"
    REQUEUE_HOLD = "REQUEUE_HOLD"
    RESIZING = "RESIZING"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True)
class JobView:
    """One job as one look showed it. Times are UTC; ``None`` is the scheduler's "unknown".

    ``job_id`` is ``A_T`` for an array task and the leader's for a heterogeneous job.
    ``node_list`` and ``required_node_list`` are the scheduler's own expressions; a scheduler
    port's ``hostnames`` expands them.
    """

    job_id: str
    state: JobState
    flags: frozenset[JobFlag]
    reason: str
    priority: int
    restarts: int
    submitted_at: datetime
    eligible_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    node_list: str = ""
    required_node_list: str = ""
    node_count: int = 0
    partitions: tuple[str, ...] = ()
    uid: int = -1
    user: str = ""
    exit_code: int | None = None
    exit_signal: int | None = None
    requeueable: bool | None = None
    time_limit_s: int | None = None
    dependency: str = ""
    array_pending: bool = False
    heterogeneous: bool = False
    apart: str = ""
    """Of a heterogeneous job, which is shown as one: how its components do not stand alike."""

    def key(self, cluster: ClusterId) -> AttemptKey:
        return AttemptKey(cluster, self.job_id, self.submitted_at)

    @property
    def completing(self) -> bool:
        return JobFlag.COMPLETING in self.flags

    @property
    def held(self) -> bool:
        """Priority 0 is what held means to Slurm, whoever did it."""
        return self.priority == 0

    @property
    def ended(self) -> bool:
        return self.state in ENDED and not self.completing


class JobScope(StrEnum):
    """Whose jobs a deployment is for, as it is set."""

    AUTO = "auto"
    """Everybody's where the scheduler grants that, else one's own."""
    OWN = "own"
    ALL = "all"


@dataclass(frozen=True, slots=True)
class ActsFor:
    """Whose jobs we watch and may change: everybody's, or those of the user that we are."""

    uid: int
    user: str
    everybody: bool


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A complete listing: a job that is not in it does not exist for this scheduler.

    Where ``only_uid`` is set, that holds for the jobs of that user alone.
    """

    cluster_name: str
    as_of: datetime
    jobs: tuple[JobView, ...]
    only_uid: int | None = None

    def job(self, job_id: str) -> JobView | None:
        return next((job for job in self.jobs if job.job_id == job_id), None)


@dataclass(frozen=True, slots=True)
class JobDetail:
    """The fields of one job that its user (or an operator) can write, read unforgeably.

    Node lists are expanded. ``held_by_operator`` is None where this Slurm cannot tell.
    """

    job_id: str
    submitted_at: datetime | None
    comment: str
    name: str
    work_dir: str
    stdout: str
    stderr: str
    excluded_nodes: tuple[str, ...]
    required_nodes: tuple[str, ...]
    requeueable: bool | None
    held_by_operator: bool | None
    dependency: str = ""
    append_output: bool | None = None
    uneven: bool = False
    """Of a heterogeneous job: its components exclude different nodes, and ``excluded_nodes`` are
    those that any of them excludes."""


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """What the scheduler says of itself. Durations in seconds.

    ``begin_delay_s`` is how long Slurm keeps a requeued job from starting (its hold);
    ``started_at`` is when its controller daemon last started.
    """

    name: str
    version: str
    begin_delay_s: float
    message_timeout_s: float
    min_job_age_s: float
    kill_wait_s: float
    started_at: datetime | None = None
    job_requeue_default: bool = True
    file_append: bool = False
    private_data: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class PartitionView:
    """A partition's nodes (expanded): all of them, and those that can take work now or soon."""

    name: str
    nodes: tuple[str, ...]
    usable: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AccountingRecord:
    """How accounting remembers one attempt. It lags, and older releases overwrite it.

    ``batch_completed`` is True when the batch step says COMPLETED 0:0 (it still says so after
    a requeue revived the job), None when there is no batch record.
    """

    job_id: str
    submitted_at: datetime
    state: JobState
    requeued: bool
    exit_code: int | None
    exit_signal: int | None
    started_at: datetime | None
    ended_at: datetime | None
    node_list: str
    cancelled_by: str | None
    batch_completed: bool | None
    batch_ended_at: datetime | None = None
    failed_node: str = ""
    user: str = ""
    never_ran: bool = False
    """The batch step has a record and no end of its own: slurmd refused to start the script (a
    credential revoked within the second of the kill)."""
