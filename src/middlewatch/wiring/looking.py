"""The scheduler as the settings describe it, and single looks at it for the command line."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.adapters.slurm.command import Commands, Observed
from middlewatch.adapters.slurm.rest import RestScheduler
from middlewatch.adapters.slurm.scheduler import SlurmScheduler
from middlewatch.adapters.slurm.ssh import SshCommands
from middlewatch.model.answer import Absent, Known, Unknown
from middlewatch.model.gates import Mode
from middlewatch.model.identity import ClusterId
from middlewatch.model.scheduler import ActsFor
from middlewatch.ports.clock import Clock
from middlewatch.ports.errors import NotFound, Unreachable
from middlewatch.ports.scheduler import Scheduler, Scoped
from middlewatch.wiring.places import found
from middlewatch.wiring.settings import Settings, Transport
from middlewatch.wiring.transport import rest_target, ssh_target

SCHEDULER = "slurm"


def cluster_of(settings: Settings) -> ClusterId:
    return ClusterId(SCHEDULER, settings.deployment.environment)


def commands_of(
    settings: Settings, clock: Clock, observer: Callable[[Observed], None] | None = None
) -> Commands:
    """The runner of Slurm's commands: where they lie, which configuration they read. Raises
    `Refused` for a way to them that cannot be."""
    environ = dict(os.environ)
    if settings.slurm.transport is Transport.SSH:
        target = ssh_target(settings.slurm)
        folder = found(settings, environ).state / "ssh"
        return SshCommands(clock, target, folder=folder, environ=environ, observer=observer)
    if settings.slurm.conf:
        environ["SLURM_CONF"] = settings.slurm.conf
    bin_dir = Path(settings.slurm.bin_dir).expanduser() if settings.slurm.bin_dir else None
    return Commands(clock, bin_dir=bin_dir, environ=environ, observer=observer)


def scheduler_of(
    settings: Settings,
    clock: Clock,
    observer: Callable[[Observed], None] | None = None,
    *,
    commands: Commands | None = None,
) -> Scheduler:
    """The Slurm of these settings, through those commands or through some of its own."""
    if settings.slurm.transport is Transport.SLURMRESTD:
        return RestScheduler(
            cluster_of(settings),
            rest_target(settings),
            clock,
            query_deadline_s=settings.slurm.look_deadline_s,
            scope=settings.slurm.scope,
            lists_all_shown=settings.deployment.mode is Mode.MONITOR,
        )
    return SlurmScheduler(
        cluster_of(settings),
        commands or commands_of(settings, clock, observer),
        clock,
        query_deadline_s=settings.slurm.look_deadline_s,
        scope=settings.slurm.scope,
        lists_all_shown=settings.deployment.mode is Mode.MONITOR,
    )


def acts_for(scheduler: Scheduler) -> ActsFor | None:
    """Whose jobs this deployment is for; None where the scheduler makes no difference between
    users. Raises `Unreachable` while it cannot be told: until then nothing may be changed."""
    if not isinstance(scheduler, Scoped):
        return None
    match scheduler.acts_for():
        case Known(value=found):
            return found
        case Unknown(why=why):
            raise Unreachable(f"whose jobs may be changed is not known yet: {why}")
        case _:
            raise Unreachable("whose jobs may be changed is not known yet")


def comment_of_job(settings: Settings, job_id: str) -> str:
    """The comment of a job, read so that nobody can forge it.

    Raises `NotFound` where Slurm does not know the job, `Unreachable` where it does not say.
    """
    match scheduler_of(settings, SystemClock()).detail(job_id):
        case Known(value=detail):
            return detail.comment
        case Absent():
            raise NotFound(f"Slurm no longer knows job {job_id} (see MinJobAge)")
        case Unknown(why=why):
            raise Unreachable(f"Slurm does not tell about job {job_id}: {why}")


def progress_refused(regex: str) -> str:
    """Why a job's own progress pattern will not do; empty where it will."""
    from middlewatch.adapters.scan import OwnPatterns

    return OwnPatterns().refused(regex)
