"""slurm.conf, slurmdbd.conf and cgroup.conf of a lab, for Slurm 22.05 to 26.05.

Several clusters share one machine here, which Slurm does not expect: every path, port and
socket is set, none is left to its default. Pure functions from a spec and chosen ports to text.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from middlewatch.lab.spec import LabSpec


@dataclass(frozen=True, slots=True)
class Ports:
    """TCP ports of one lab; ``nodes`` has one for each slurmd, in the order of the node names."""

    slurmctld: int
    slurmdbd: int
    mariadbd: int
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the files of a lab lie."""

    folder: Path

    @property
    def slurm_conf(self) -> Path:
        return self.folder / "etc" / "slurm.conf"

    @property
    def slurmdbd_conf(self) -> Path:
        return self.folder / "etc" / "slurmdbd.conf"

    @property
    def jwt_key(self) -> Path:
        return self.folder / "etc" / "jwt.key"

    @property
    def cgroup_conf(self) -> Path:
        return self.folder / "etc" / "cgroup.conf"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def run(self) -> Path:
        return self.folder / "run"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def spool(self) -> Path:
        return self.folder / "spool"

    @property
    def munge(self) -> Path:
        return self.folder / "munge"

    @property
    def munge_socket(self) -> Path:
        return self.folder / "munge-socket" / "s"

    @property
    def database(self) -> Path:
        return self.folder / "database"

    @property
    def database_socket(self) -> Path:
        return self.database / "s"

    @property
    def database_temporary(self) -> Path:
        return self.folder / "database-tmp"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def jobs(self) -> Path:
        return self.folder / "jobs"

    @property
    def bin(self) -> Path:
        return self.folder / "bin"

    @property
    def lab_json(self) -> Path:
        return self.folder / "lab.json"


def slurm_conf(spec: LabSpec, layout: Layout, ports: Ports, host: str) -> str:
    """Text of slurm.conf. ``host`` is the machine's short host name; it need not resolve."""
    auth_info = f"socket={layout.munge_socket}"
    if spec.cred_expire is not None:
        auth_info += f",cred_expire={spec.cred_expire}"
    passes = f"sched_interval={spec.sched_interval},bf_interval={spec.backfill_interval}"
    lines = [
        f"ClusterName={spec.cluster}",
        f"SlurmctldHost={host}(127.0.0.1)",
        f"SlurmctldPort={ports.slurmctld}",
        "SlurmUser=slurm",
        "SlurmdUser=root",
        "AuthType=auth/munge",
        f"AuthInfo={auth_info}",
        # The connection to slurmdbd does not look at AuthInfo.
        f"AccountingStoragePass={layout.munge_socket}",
        f"StateSaveLocation={layout.state}",
        f"SlurmdSpoolDir={layout.spool}/%n",
        f"SlurmctldPidFile={layout.run}/slurmctld.pid",
        f"SlurmdPidFile={layout.run}/slurmd.%n.pid",
        f"SlurmctldLogFile={layout.log}/slurmctld.log",
        f"SlurmdLogFile={layout.log}/slurmd.%n.log",
        f"SlurmctldDebug={'debug' if spec.debug else 'info'}",
        f"SlurmdDebug={'debug' if spec.debug else 'info'}",
        "SlurmdParameters=config_overrides",
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "MpiDefault=none",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core",
        "PreemptType=preempt/partition_prio",
        "PreemptMode=REQUEUE",
        "ReturnToService=2",
        f"KillWait={spec.kill_wait}",
        f"SlurmdTimeout={spec.slurmd_timeout}",
        f"MinJobAge={spec.min_job_age}",
        f"MessageTimeout={spec.message_timeout}",
        f"JobFileAppend={int(spec.job_file_append)}",
        "RequeueExit=100",
        "RequeueExitHold=101",
        "AccountingStorageType=accounting_storage/slurmdbd",
        "AccountingStorageHost=127.0.0.1",
        f"AccountingStoragePort={ports.slurmdbd}",
        "JobAcctGatherType=jobacct_gather/linux",
        "JobAcctGatherFrequency=30",
        f"SchedulerParameters={passes}",
    ]
    if spec.accounting_store_flags:
        lines.append(f"AccountingStoreFlags={','.join(spec.accounting_store_flags)}")
    if spec.private_data:
        lines.append(f"PrivateData={','.join(spec.private_data)}")
    lines += [*_tokens(spec, layout), *spec.extra]
    lines += (
        f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} "
        f"CPUs={spec.cpus_per_node} Sockets=1 CoresPerSocket={spec.cpus_per_node} "
        "ThreadsPerCore=1 RealMemory=64000 State=UNKNOWN"
        for name, port in zip(spec.node_names, ports.nodes, strict=True)
    )
    lines += _partitions(spec)
    return "\n".join(lines) + "\n"


def _tokens(spec: LabSpec, layout: Layout) -> list[str]:
    if not spec.jwt:
        return []
    return ["AuthAltTypes=auth/jwt", f"AuthAltParameters=jwt_key={layout.jwt_key}"]


def _partitions(spec: LabSpec) -> list[str]:
    """``train`` for the work, ``spare`` with the last node, ``urgent`` that pre-empts both."""
    names = spec.node_names
    train = names[:-1] or names
    common = "MaxTime=INFINITE State=UP"
    low, high = f"{common} PriorityTier=1", f"{common} PriorityTier=10"
    return [
        f"PartitionName=train Nodes={','.join(train)} Default=YES {low} PreemptMode=REQUEUE",
        f"PartitionName=spare Nodes={names[-1]} {low} PreemptMode=CANCEL",
        f"PartitionName=urgent Nodes={','.join(names)} {high} PreemptMode=OFF",
    ]


def slurmdbd_conf(spec: LabSpec, layout: Layout, ports: Ports, password: str) -> str:
    """Text of slurmdbd.conf; slurmdbd wants it readable by its own user alone."""
    lines = [
        "AuthType=auth/munge",
        f"AuthInfo=socket={layout.munge_socket}",
        "DbdHost=localhost",
        "DbdAddr=127.0.0.1",
        f"DbdPort={ports.slurmdbd}",
        "SlurmUser=slurm",
        "StorageType=accounting_storage/mysql",
        "StorageHost=127.0.0.1",
        f"StoragePort={ports.mariadbd}",
        "StorageUser=lab",
        f"StoragePass={password}",
        "StorageLoc=slurm",
        f"LogFile={layout.log}/slurmdbd.log",
        f"PidFile={layout.run}/slurmdbd.pid",
        f"DebugLevel={'debug' if spec.debug else 'info'}",
        *_tokens(spec, layout),
    ]
    return "\n".join(lines) + "\n"


def cgroup_conf(version: str) -> str:
    """Text of cgroup.conf: no cgroup is used, and each release has its own word for that."""
    release = tuple(int(part) for part in version.split(".")[:2])
    # "disabled" came with 23.11; before it the v1 plugin does nothing when nothing asks it to.
    plugin = "disabled" if release >= (23, 11) else "cgroup/v1"
    return f"CgroupPlugin={plugin}\n"
