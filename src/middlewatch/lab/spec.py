"""What can be chosen about a lab, in one frozen value.

Defaults are those of a small real cluster on which a recovery takes seconds; a test that needs
another world says only what differs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

JOB_USERS: tuple[str, ...] = ("games", "news")
"""Users that every Debian has and that own nothing of worth: the jobs belong to these."""

OPERATOR = "backup"
"""A user that every Debian has; Slurm's accounting makes it an Operator of the lab."""

FOLDERS = Path("/var/tmp")  # noqa: S108 - must survive a reboot and be entered by every user
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,30}\Z")


@dataclass(frozen=True, slots=True)
class LabSpec:
    """One lab. Times are in seconds and go into ``slurm.conf`` as they stand.

    ``name`` tells labs apart and is Slurm's ClusterName with ``lab-`` before it (a lab's folder
    is ``/var/tmp/middlewatch-lab-<name>``). ``cred_expire`` None means Slurm's own 120 s; the
    begin time that Slurm gives to a requeued job is one second more. ``release`` is a name of
    `releases.RELEASES`; empty is the machine's own Slurm. ``prefix`` stands before every daemon
    and command of Slurm; `up` sets it where the release is not the machine's. ``jwt`` lets
    slurmctld and slurmdbd take tokens (`Cluster.token`), as slurmrestd needs it. ``extra`` are
    further lines of slurm.conf.
    """

    name: str = "default"
    nodes: int = 4
    node_prefix: str = "gpu-"
    cpus_per_node: int = 64
    folder: Path | None = None
    job_users: tuple[str, ...] = JOB_USERS
    operator: str = OPERATOR
    account: str = "research"
    cred_expire: int | None = None
    kill_wait: int = 5
    slurmd_timeout: int = 30
    min_job_age: int = 300
    message_timeout: int = 10
    sched_interval: int = 2
    backfill_interval: int = 5
    job_file_append: bool = False
    accounting_store_flags: tuple[str, ...] = ("job_comment",)
    private_data: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    release: str = ""
    jwt: bool = False
    prefix: tuple[str, ...] = ()
    debug: bool = False
    cluster_name: str = field(default="")

    def __post_init__(self) -> None:
        if not _NAME.match(self.name):
            raise ValueError(
                f"lab name {self.name!r}: use lower-case letters, digits and hyphens, at most 31"
            )
        if not 1 <= self.nodes <= 200:
            raise ValueError(f"nodes={self.nodes}: a lab has 1 to 200 nodes")
        if any("\n" in line for line in self.extra):
            raise ValueError("extra: one line of slurm.conf per item")

    @property
    def path(self) -> Path:
        """The lab's folder."""
        return self.folder or FOLDERS / f"middlewatch-lab-{self.name}"

    @property
    def cluster(self) -> str:
        """Slurm's ClusterName."""
        return self.cluster_name or f"lab-{self.name}"

    @property
    def node_names(self) -> tuple[str, ...]:
        """All nodes in order: ``gpu-001``, ``gpu-002``, …"""
        return tuple(f"{self.node_prefix}{number:03d}" for number in range(1, self.nodes + 1))
