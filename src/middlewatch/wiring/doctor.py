"""Does this fit here? Looks, changes nothing, and says of each trouble how to mend it.

Every check is a function that yields findings; one that cannot be made says so and why. They are
ordered so that the first failure is the one to mend first.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from middlewatch import __version__
from middlewatch.adapters.clock.system import SystemClock
from middlewatch.adapters.slurm import cluster as slurm_cluster
from middlewatch.adapters.slurm.command import Finished
from middlewatch.adapters.slurm.ssh import SshCommands
from middlewatch.adapters.sql import place
from middlewatch.model.scheduler import ClusterFacts
from middlewatch.ports.errors import PortError, Unreadable
from middlewatch.wiring import looking, places
from middlewatch.wiring.doctor_federation import examined_federation
from middlewatch.wiring.doctor_gate import examined_gate, examined_rest
from middlewatch.wiring.doctor_jobs import examined_jobs
from middlewatch.wiring.doctor_rights import examined_rights, examined_watchdog
from middlewatch.wiring.doctor_stage import examined_stage
from middlewatch.wiring.doctor_stores import examined_log_store, examined_metrics
from middlewatch.wiring.findings import Examined, Finding, Level
from middlewatch.wiring.loading import Loaded, duration_text
from middlewatch.wiring.plain import plain
from middlewatch.wiring.settings import Transport

COMMANDS = ("squeue", "scontrol", "sacct", "sacctmgr", "sinfo", "scancel")
OLDEST, TRIED = (22, 5), "22.05, 24.11 and 26.05"
SHORT_WINDOW_S = 15.0
CLOCK_LIMIT_S = 2.0
_AS_OF = re.compile(r"Configuration data as of (\S+)")


def examine(loaded: Loaded, environ: Mapping[str, str], environment: str) -> Iterator[Finding]:
    """All findings, as they are made. ``environment`` is the one that opt-ins should name."""
    clock = SystemClock()
    settings = loaded.settings
    commands = looking.commands_of(settings, clock)
    this = Examined(
        loaded,
        places.found(settings, environ),
        lambda argv: commands.run(argv, settings.slurm.look_deadline_s),
        looking.scheduler_of(settings, clock, commands=commands),
        clock.now,
        environment,
    )
    this.commands = commands
    this.user = commands.user()
    try:
        by_rest = settings.slurm.transport is Transport.SLURMRESTD
        for check in BY_REST if by_rest else CHECKS:
            try:
                yield from check(this)
            except (OSError, PortError) as error:
                name = check.__name__.strip("_").replace("_", "-")
                yield Finding(name, Level.WARN, f"could not be checked: {plain(error, 300)}")
    finally:
        commands.close()


def exit_code(levels: list[Level]) -> int:
    """0 all well, 6 warnings, 1 failures."""
    if Level.FAIL in levels:
        return 1
    return 6 if Level.WARN in levels else 0


def _program(this: Examined) -> Iterator[Finding]:
    version = platform.python_version()
    yield Finding("program", Level.OK, f"Python {version}, middlewatch {__version__}")
    for caution in this.loaded.cautions:
        yield Finding(
            "settings", Level.WARN, caution, "`middlewatch config show` says where it is set"
        )
    if this.loaded.files:
        yield Finding("settings", Level.OK, f"read from {', '.join(map(str, this.loaded.files))}")
    else:
        yield Finding("settings", Level.INFO, "no file: defaults, environment and flags")
    if sys.platform != "linux":
        yield Finding("program", Level.WARN, f"{sys.platform} is not tried; Linux is")


def examined_commands(this: Examined) -> Iterator[Finding]:
    if isinstance(this.commands, SshCommands):
        yield from examined_gate(this, this.commands)
        return
    bin_dir = this.loaded.settings.slurm.bin_dir
    path = str(Path(bin_dir).expanduser()) if bin_dir else None
    missing = [name for name in COMMANDS if shutil.which(name, path=path) is None]
    where = bin_dir or "PATH"
    if missing:
        yield Finding(
            "commands",
            Level.FAIL,
            f"not found in {where}: {', '.join(missing)}",
            "install Slurm's clients on this machine, or say where they lie: slurm.bin_dir",
        )
    else:
        yield Finding("commands", Level.OK, f"{', '.join(COMMANDS)} found in {where}")
    yield from _deadlines(this)


def _deadlines(this: Examined) -> Iterator[Finding]:
    if this.commands is not None and not this.commands.leashed:
        yield Finding(
            "deadlines",
            Level.WARN,
            "timeout is not found in PATH: a command whose controller is killed or stopped meanwhile "
            "outlives its deadline, and may take effect beside another controller's",
            "install coreutils",
        )


def _controller_daemon(this: Examined) -> Iterator[Finding]:
    done = this.ask(slurm_cluster.CONFIG_ARGV)
    if done.exit_code != 0:
        yield Finding(
            "slurmctld",
            Level.FAIL,
            f"does not answer: {plain(done.said or f'exit code {done.exit_code}', 300)}",
            "check `scontrol ping` as this user; SLURM_CONF must name this cluster's file "
            "(slurm.conf in our settings)",
        )
        return
    try:
        this.config = slurm_cluster.read_config(done.stdout)
        this.facts = slurm_cluster.facts_from(dict(this.config))
    except Unreadable as error:
        yield Finding("slurmctld", Level.FAIL, plain(error, 300), "is this Slurm's own scontrol?")
        return
    facts = this.facts
    found = slurm_cluster.version_tuple(facts.version)
    if found[:2] < OLDEST:
        yield Finding(
            "slurmctld",
            Level.FAIL,
            f"Slurm {facts.version} is older than what this was made for",
            f"tried with {TRIED}",
        )
    else:
        yield Finding("slurmctld", Level.OK, f"Slurm {facts.version}, cluster {facts.name!r}")
    owned = this.loaded.settings.deployment.cluster_name
    if owned and owned != facts.name:
        yield Finding(
            "ownership",
            Level.FAIL,
            f"deployment.cluster_name is {owned!r}, the cluster calls itself {facts.name!r}",
            "one of the two is another cluster: set SLURM_CONF or deployment.cluster_name right",
        )
    yield from _clock(done)
    yield from _window(facts)


def _clock(done: Finished) -> Iterator[Finding]:
    match = _AS_OF.search(done.stdout)
    theirs = _moment(match.group(1)) if match else None
    if theirs is None:
        yield Finding("clock", Level.INFO, "slurmctld did not say its time")
        return
    apart = (theirs - done.started_at).total_seconds()
    if abs(apart) <= CLOCK_LIMIT_S:
        yield Finding("clock", Level.OK, "ours and slurmctld's agree")
    else:
        yield Finding(
            "clock",
            Level.WARN,
            f"ours and slurmctld's are {abs(apart):.0f} s apart",
            "let both machines follow the same NTP servers: deadlines and log times are compared",
        )


def _moment(text: str) -> datetime | None:
    try:
        if text.isdigit():
            return datetime.fromtimestamp(int(text), UTC)
        # Slurm's clients run with TZ=UTC.
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _window(facts: ClusterFacts) -> Iterator[Finding]:
    delay = duration_text(facts.begin_delay_s)
    if facts.begin_delay_s < SHORT_WINDOW_S:
        yield Finding(
            "begin-delay",
            Level.WARN,
            f"a requeued job waits only {delay}: restarts will take a requeue-hold instead",
            "raise cred_expire in AuthInfo (default 120), or accept holds that the watchdog ends",
        )
    else:
        yield Finding("begin-delay", Level.OK, f"a requeued job waits {delay}: enough to set it up")
    if not facts.job_requeue_default:
        yield Finding(
            "job-requeue",
            Level.WARN,
            "JobRequeue=0: only jobs submitted with --requeue can be restarted",
            "set JobRequeue=1 in slurm.conf, or let owners add #SBATCH --requeue",
        )
    if facts.kill_wait_s < 30:
        yield Finding(
            "kill-wait",
            Level.INFO,
            f"KillWait is {duration_text(facts.kill_wait_s)}: a job being requeued has only that "
            "long to end",
        )


def _accounting(this: Examined) -> Iterator[Finding]:
    if this.facts is None:
        return
    storage = this.config.get("AccountingStorageType", "")
    if storage in {"", "(null)", "accounting_storage/none"}:
        yield Finding(
            "accounting",
            Level.WARN,
            "no accounting: who cancelled a job, and how an attempt really ended, stays unknown",
            "set up slurmdbd (AccountingStorageType=accounting_storage/slurmdbd)",
        )
        return
    done = this.ask(("sacct", "-n", "-X", "-P", "-S", "now-1minutes", "-o", "JobIDRaw"))
    if done.exit_code != 0:
        yield Finding(
            "accounting",
            Level.WARN,
            f"does not answer: {plain(done.said, 200)}",
            "check slurmdbd; until it answers, ambiguous ends wait",
        )
    else:
        yield Finding("accounting", Level.OK, f"{storage.rpartition('/')[2]} answers")


def _state(this: Examined) -> Iterator[Finding]:
    wanted = places.preferred(this.loaded.settings, os.environ, os.geteuid())
    mount = place.network_mount(wanted)
    if mount is not None:
        yield Finding(
            "state",
            Level.WARN,
            f"{wanted} lies on {mount.kind}, where a database is not safe: {this.places.state} is "
            "used instead",
            "set state.directory to a place on a local disk",
        )
    state = this.places.state
    parent = next((p for p in (state, *state.parents) if p.exists()), Path("/"))
    if not os.access(parent, os.W_OK):
        yield Finding(
            "state",
            Level.FAIL,
            f"{state} cannot be written",
            "set state.directory, or mend its rights",
        )
        return
    free = shutil.disk_usage(parent).free
    if free < 200 * 1024 * 1024:
        yield Finding(
            "state", Level.WARN, f"only {free // 2**20} MiB are free for {state}", "make room"
        )
    else:
        yield Finding("state", Level.OK, f"{state}, {free // 2**30} GiB free")


def _running(this: Examined) -> Iterator[Finding]:
    holder = places.holder(this.places.lock("up"))
    if holder is None:
        yield Finding("up", Level.INFO, "does not run", "middlewatch up")
    else:
        yield Finding("up", Level.OK, f"runs (process {holder})")


CHECKS: tuple[Callable[[Examined], Iterator[Finding]], ...] = (
    _program,
    examined_commands,
    _controller_daemon,
    examined_rights,
    _accounting,
    examined_federation,
    examined_jobs,
    examined_log_store,
    examined_metrics,
    _state,
    examined_stage,
    _running,
    examined_watchdog,
)
BY_REST: tuple[Callable[[Examined], Iterator[Finding]], ...] = (
    _program,
    examined_rest,
    examined_log_store,
    examined_metrics,
    _state,
    examined_stage,
    _running,
    examined_watchdog,
)
"""Where slurmrestd stands for Slurm's commands: what needs one of those cannot be looked at."""
