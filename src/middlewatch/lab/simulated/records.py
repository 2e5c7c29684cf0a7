"""What the simulated slurmctld keeps: its configuration, its jobs, its nodes, its accounting."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from middlewatch.lab.simulated.program import Exit, Program, Start
from middlewatch.model.scheduler import AccountingRecord, JobState


@dataclass(frozen=True, slots=True)
class SimulatedConfig:
    """Times in seconds. ``release`` decides what differs between releases (accounting that is
    rewritten, credentials revoked within the same second, exit codes in text)."""

    cluster_name: str = "simulated"
    release: str = "22.05.8"
    nodes: tuple[str, ...] = ("gpu-001", "gpu-002", "gpu-003", "gpu-004")
    partition: str = "train"
    slots_per_node: int = 8
    begin_delay_s: float = 121.0
    kill_wait_s: float = 5.0
    message_timeout_s: float = 10.0
    min_job_age_s: float = 300.0
    slurmd_timeout_s: float = 40.0
    sched_interval_s: float = 0.5
    accounting_lag_s: float = 0.2
    file_append: bool = False
    accounting: bool = True

    @property
    def release_number(self) -> tuple[int, ...]:
        return tuple(int(part) for part in self.release.split("."))


@dataclass(slots=True)
class Run:
    """The processes of one attempt."""

    program: Program
    nodes: tuple[str, ...]
    restarts: int
    dead: bool = False


@dataclass(slots=True)
class Record:
    """One attempt in accounting; ``shown`` is what accounting will say from when on."""

    submitted_at: datetime
    shown: list[tuple[datetime, AccountingRecord]] = field(default_factory=list)


@dataclass(slots=True)
class Job:
    """One job as slurmctld keeps it. ``hold`` is ``user``, ``admin``, ``constraints`` or empty;
    ``after_completing`` is what a completing job becomes."""

    job_id: str
    uid: int
    user: str
    name: str
    comment: str
    partition: str
    node_count: int
    slots: int
    start: Start
    submitted_at: datetime
    priority_weight: int
    work_dir: str = "/home"
    stdout: str = ""
    append: bool | None = None
    requeue: bool = True
    time_limit_s: int | None = None
    dependency: tuple[tuple[str, str], ...] = ()
    required: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    begin_at: datetime | None = None
    eligible_at: datetime | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    state: JobState = JobState.PENDING
    completing: bool = False
    after_completing: JobState = JobState.PENDING
    special_exit: bool = False
    requeue_held: bool = False
    hold: str = ""
    reason: str = ""
    restarts: int = 0
    nodes: tuple[str, ...] = ()
    exit: Exit = Exit()
    cancelled_by: str | None = None
    run: Run | None = None
    records: list[Record] = field(default_factory=list)

    @property
    def held(self) -> bool:
        return self.hold != ""

    @property
    def pending(self) -> bool:
        return self.state is JobState.PENDING and not self.completing

    @property
    def running(self) -> bool:
        return self.state is JobState.RUNNING and not self.completing


@dataclass(slots=True)
class Node:
    """``alive``: its slurmd answers. ``down``: slurmctld has set it down. ``drained`` likewise."""

    name: str
    alive: bool = True
    down: bool = False
    drained: bool = False

    @property
    def usable(self) -> bool:
        return not self.down and not self.drained
