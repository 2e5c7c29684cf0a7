"""What the user that we are may see and do, and whether that is enough for the watchdog too.

Nobody should learn from a refused command at three in the morning that a right was missing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.adapters.journal.file import FileJournal
from middlewatch.adapters.slurm.ssh import SshCommands
from middlewatch.model.answer import Answer, Known, Unknown
from middlewatch.model.gates import Mode
from middlewatch.model.scheduler import ActsFor, JobScope, Snapshot
from middlewatch.ports.errors import PortError
from middlewatch.ports.scheduler import Scoped
from middlewatch.reconciliation.holds import Obligation, standing
from middlewatch.wiring import places, presence
from middlewatch.wiring.findings import Examined, Finding, Level
from middlewatch.wiring.looking import acts_for, scheduler_of
from middlewatch.wiring.plain import plain
from middlewatch.wiring.settings import Transport
from middlewatch.wiring.transport import watchdog_target
from middlewatch.wiring.watchdog_supervision import Guard, guard_of

RIGHTS = "docs/watchdog.md#rights"


def examined_rights(this: Examined) -> Iterator[Finding]:
    """Whose jobs may be changed, and whether they are all shown."""
    if this.facts is None or not isinstance(this.scheduler, Scoped):
        return
    whose = this.scheduler.acts_for()
    if not isinstance(whose, Known):
        yield Finding("rights", Level.WARN, _why(whose), "until it is known nothing is changed")
        return
    user, scope = whose.value.user or str(whose.value.uid), this.loaded.settings.slurm.scope
    this.acts_for = whose.value
    if not whose.value.everybody:
        monitor = this.loaded.settings.deployment.mode is Mode.MONITOR
        hidden = "jobs" in this.facts.private_data
        yield _own_jobs(user, scope, watches_all=monitor and not hidden)
    elif scope is JobScope.ALL and not _granted(this):
        yield Finding(
            "rights",
            Level.FAIL,
            f'slurm.scope is "all", but Slurm grants {user} its own jobs alone: it would refuse',
            f"sacctmgr modify user {user} set adminlevel=Operator",
        )
    else:
        yield Finding("rights", Level.OK, f"{user} may act for every job")
    yield from _shown(this)


def _granted(this: Examined) -> bool:
    """Whether Slurm itself lets this user act for everybody; also where it does not say."""
    settings = this.loaded.settings
    asked = replace(settings, slurm=replace(settings.slurm, scope=JobScope.AUTO))
    answer = acts_for(scheduler_of(asked, SystemClock(), commands=this.commands))
    return answer is None or answer.everybody


def _own_jobs(user: str, scope: JobScope, *, watches_all: bool) -> Finding:
    said = f"{user}'s own jobs alone are watched, and may be restarted, constrained and let go"
    if scope is JobScope.OWN:
        return Finding("rights", Level.OK, f"{said} (slurm.scope)", 'slurm.scope = "auto" for more')
    if watches_all:
        said = f"in monitor mode all jobs are watched, in action mode {user}'s own alone"
    return Finding(
        "rights",
        Level.INFO,
        f"{user} is an ordinary user: {said}; an operator's hold stays",
        f"for everybody's: sacctmgr modify user {user} set adminlevel=Operator",
    )


def _shown(this: Examined) -> Iterator[Finding]:
    """What PrivateData leaves of the cluster for this user."""
    listing = this.scheduler.listing()
    if not isinstance(listing, Known):
        yield Finding(
            "private-data",
            Level.FAIL,
            f"no listing is complete, so nothing may be decided: {_why(listing)}",
            'give this user adminlevel=Operator, or set slurm.scope = "own"',
        )
        return
    whose = "all jobs" if listing.value.only_uid is None else "all of this user's jobs"
    yield Finding("private-data", Level.OK, f"{whose} can be seen")
    nodes = this.scheduler.partitions()
    if isinstance(nodes, Unknown):
        yield Finding(
            "private-data",
            Level.WARN,
            f"nodes and partitions cannot be seen, so no node is excluded: {plain(nodes.why, 200)}",
            "PrivateData=nodes or partitions hides them from this user",
        )


def examined_watchdog(this: Examined) -> Iterator[Finding]:
    """Whether there is one, and whether it could do its work as it would be started now."""
    settings = this.loaded.settings.watchdog
    if not settings.enabled:
        yield Finding("watchdog", Level.WARN, "is switched off", "watchdog.enabled = true")
        return
    state = this.places.state
    guarded = guard_of(state, this.now(), settings.heartbeat_stale_s)
    if guarded.guard is Guard.ON:
        yield Finding("watchdog", Level.OK, f"on guard (process {guarded.pid})")
        yield from _refused(this)
    elif places.holder(this.places.lock("up")) is not None:
        yield Finding(
            "watchdog",
            Level.FAIL,
            plain(guarded.problem, 300),
            "see the log of up, which starts it again; or run `middlewatch watchdog`",
        )
    yield from _its_files(this)
    if this.loaded.settings.slurm.transport is Transport.SSH and settings.ssh_key:
        yield from _its_gate(this)


def _refused(this: Examined) -> Iterator[Finding]:
    seen = presence.read(this.places.state / presence.WATCHDOG_ALIVE)
    words = seen.note.split() if seen is not None else []
    jobs = next((w.removeprefix("refused=") for w in words if w.startswith("refused=")), "")
    if jobs:
        yield Finding(
            "watchdog",
            Level.FAIL,
            f"Slurm refuses to let it let go: job {plain(jobs, 100)}",
            f"see {this.places.state / presence.WATCHDOG_LOG}; {RIGHTS} says which right is missing",
        )


def _its_files(this: Examined) -> Iterator[Finding]:
    """It reads the journal, and writes there what it has settled and that it lives."""
    state = this.places.state
    if not state.exists():
        return
    if not os.access(state, os.R_OK | os.X_OK):
        yield Finding(
            "watchdog",
            Level.FAIL,
            f"{state} cannot be read by this user: without the journal it guards nothing",
            f"run it as the owner of that directory ({RIGHTS})",
        )
        return
    try:
        found = FileJournal(state).read()
    except PortError as error:
        yield Finding("watchdog", Level.FAIL, plain(error, 300), RIGHTS)
        return
    if found.garbage:
        yield Finding(
            "watchdog",
            Level.WARN,
            f"{found.garbage} lines of {state}/journal.jsonl cannot be read: what they spoke of is "
            "not guarded",
            "look for held jobs: squeue -t SPECIAL_EXIT",
        )
    yield from _of_others(this, standing(found.entries))


def _of_others(this: Examined, owed: tuple[Obligation, ...]) -> Iterator[Finding]:
    """Holds that were taken with more rights than there are now."""
    if not owed or this.facts is None:
        return
    jobs = sorted({one.job_id for one in owed if one.cluster_name == this.facts.name})
    look = this.scheduler.look(tuple(jobs))
    if not isinstance(look, Known):
        return
    strangers = _strangers(look.value, this.acts_for)
    if strangers:
        yield Finding(
            "watchdog",
            Level.FAIL,
            f"the journal holds jobs that this user may not change: {', '.join(strangers[:10])}",
            f"give back the rights with which they were taken, or scontrol release them ({RIGHTS})",
        )


def _strangers(look: Snapshot, us: ActsFor | None) -> list[str]:
    if us is None or us.everybody:
        return []
    return [view.job_id for view in look.jobs if view.uid != us.uid]


def _its_gate(this: Examined) -> Iterator[Finding]:
    gate = SshCommands(SystemClock(), watchdog_target(this.loaded.settings))
    try:
        why = gate.reach()
    finally:
        gate.close()
    if why:
        yield Finding("watchdog", Level.FAIL, f"its own way: {plain(why, 400)}", RIGHTS)
    elif gate.looks_only:
        yield Finding(
            "watchdog",
            Level.FAIL,
            "its gate only looks: it could let nothing go",
            "give its key --watchdog-only instead of --looks-only",
        )
    elif gate.watchdog_only:
        yield Finding("watchdog", Level.OK, "its own gate changes only what a watchdog changes")
    else:
        yield Finding(
            "watchdog",
            Level.INFO,
            "its own gate allows it more than it needs",
            "put --watchdog-only into the command of its key",
        )


def _why(answer: Answer[object]) -> str:
    return plain(answer.why, 300) if isinstance(answer, Unknown) else "no answer"
