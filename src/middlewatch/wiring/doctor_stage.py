"""How far the site has gone with us: monitor, a canary partition, action; and whether what it has
seen of us so far, and the room for it, are as they should be."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from middlewatch.adapters.journal.file import FileJournal
from middlewatch.adapters.sql.peek import Peek, peek
from middlewatch.model.answer import Known
from middlewatch.model.gates import Mode
from middlewatch.model.rollback import NOTE, from_text
from middlewatch.ports.errors import PortError
from middlewatch.reconciliation.holds import standing
from middlewatch.wiring.findings import Examined, Finding, Level
from middlewatch.wiring.plain import plain

DAY_S = 86_400.0
LOOKED_ON_DAYS = 7.0
"""Days of monitor mode that the guide asks for before anything else."""


def examined_stage(this: Examined) -> Iterator[Finding]:
    """The stage, its partitions, a rollback, and the store."""
    database = this.places.database
    seen: Peek | None = None
    if database.exists():
        try:
            seen = peek(database, (NOTE,))
        except PortError as error:
            yield Finding("store", Level.WARN, f"could not be looked at: {plain(error, 300)}")
    yield from _stage(this, seen)
    yield from partitions_named(this)
    yield from _rolled_back(seen)
    yield from _holds(this)
    if seen is not None:
        yield from _store(this, seen)


def _stage(this: Examined, seen: Peek | None) -> Iterator[Finding]:
    deployment = this.loaded.settings.deployment
    if deployment.mode is not Mode.ACTION or not deployment.acknowledge_scheduler_actions:
        yield Finding("stage", Level.OK, f"monitor: nothing is changed; {_looked_on(this, seen)}")
        return
    names = deployment.partitions
    if "*" in names:
        yield Finding("stage", Level.OK, "action, in every partition")
    elif names:
        yield Finding("stage", Level.OK, f"action, in {', '.join(names)} alone")
    days = _days(this, seen)
    if names and days is not None and days < LOOKED_ON_DAYS:
        yield Finding(
            "stage",
            Level.WARN,
            f"action after {days:.1f} days: too few to know what it would have done",
            f"see `mw advice` for what was decided; the guide asks for {LOOKED_ON_DAYS:.0f} days",
        )


def _looked_on(this: Examined, seen: Peek | None) -> str:
    days = _days(this, seen)
    if seen is None or days is None:
        return "nothing was seen yet"
    return (
        f"for {days:.1f} days, {seen.attempts} attempts; it would have acted on "
        f"{seen.not_permitted} (`mw advice`)"
    )


def _days(this: Examined, seen: Peek | None) -> float | None:
    if seen is None or seen.since is None:
        return None
    return max(0.0, (this.now() - seen.since).total_seconds() / DAY_S)


def partitions_named(this: Examined) -> Iterator[Finding]:
    """A misspelt partition allows nothing, and nobody would notice before the first failure."""
    named = [name for name in this.loaded.settings.deployment.partitions if name != "*"]
    if not named or this.facts is None:
        return
    found = this.scheduler.partitions()
    if not isinstance(found, Known):
        yield Finding("partitions", Level.WARN, "Slurm did not say which partitions there are")
        return
    there = {partition.name for partition in found.value}
    missing = [name for name in named if name not in there]
    if missing:
        yield Finding(
            "partitions",
            Level.FAIL,
            f"deployment.partitions names what is none: {plain(', '.join(missing), 200)}",
            f"there are {plain(', '.join(sorted(there)), 300)}",
        )
    else:
        yield Finding("partitions", Level.OK, f"{len(named)} of {len(there)} may be acted in")


def _rolled_back(seen: Peek | None) -> Iterator[Finding]:
    text = dict(seen.notes).get(NOTE) if seen is not None else None
    try:
        standing = from_text(text)
    except ValueError as error:
        yield Finding(
            "rollback",
            Level.FAIL,
            f"{plain(error, 200)}: nothing is acted on",
            "mw rollback --undo --reason TEXT",
        )
        return
    if standing is not None:
        yield Finding(
            "rollback",
            Level.WARN,
            f"rolled back to monitor by {plain(standing.by, 80)}: {plain(standing.reason, 300)}",
            "when it is mended: mw rollback --undo --reason TEXT",
        )


def _holds(this: Examined) -> Iterator[Finding]:
    """Whether anything of ours may stand in Slurm: before that is settled, nothing is removed."""
    owed = [
        one
        for one in standing(FileJournal(this.places.state).entries())
        if one.hold or one.window or one.fence
    ]
    if owed:
        jobs = ", ".join(sorted({one.job_id for one in owed})[:10])
        yield Finding(
            "holds",
            Level.INFO,
            f"of ours something may stand on {len(owed)} jobs: {plain(jobs, 200)}",
            "the controller lets go, or the watchdog at each line's release-by; look again then",
        )
    else:
        yield Finding("holds", Level.OK, "nothing of ours stands")


def _store(this: Examined, seen: Peek) -> Iterator[Finding]:
    if not seen.current:
        yield Finding(
            "store",
            Level.INFO,
            f"its tables are at {seen.revision or 'no version'}, not this version's",
            "the next start of `up` brings older ones up to date; newer ones need their own version",
        )
        return
    megabytes = seen.size / 1e6
    text = f"{megabytes:.0f} MB, {seen.attempts} attempts"
    days = _days(this, seen)
    free = shutil.disk_usage(this.places.database.parent).free
    if days is not None and days >= 1.0:
        a_month = seen.size / days * 30.0
        text += f", some {a_month / 1e6:.0f} MB a month"
        if free < a_month:
            yield Finding(
                "store",
                Level.WARN,
                f"{text}; only {free / 1e6:.0f} MB are free",
                "make room, or shorten [retention]",
            )
            return
    yield Finding("store", Level.OK, text)
