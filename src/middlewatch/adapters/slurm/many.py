"""Questions about many jobs at once: one command where there would be one, or eight, for each.

What users wrote is read as JSON, which quotes: from 23.11 on JSON of just these jobs, before that of
all there are, where that is not much more than the answers that are wanted. A job that such an answer
does not show is not proven absent by it; it is to be asked about alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from middlewatch.adapters.slurm import accounting, detail
from middlewatch.adapters.slurm.command import Finished
from middlewatch.adapters.slurm.detail import Expand
from middlewatch.adapters.slurm.words import checked_job_id
from middlewatch.model.answer import Absent, Answer, Known, Unknown
from middlewatch.model.scheduler import AccountingRecord, JobDetail
from middlewatch.ports.errors import PortError, Refused

NO_SUCH_JOB = "Invalid job id specified"
_OLD_GATE = "not one of the commands that this gate runs"
"""What a gate of an earlier version says to a question about several jobs."""
_AT_ONCE = 500
"""Jobs that one command names: their numbers must fit into an argument, their JSON into memory."""
SHORT = 400
"""A queue whose whole JSON is read for one job's sake."""
_FEW = 3
_ROWS_FOR_ONE = 300
"""Rows of a JSON listing that cost slurmctld about what asking for one job field by field does."""

Ask = Callable[[Sequence[str]], Finished]
Records = tuple[AccountingRecord, ...]


def nameable(job_ids: Iterable[str]) -> tuple[str, ...]:
    """Those that may stand in a command, each once."""
    found: dict[str, None] = {}
    for job_id in job_ids:
        try:
            found[checked_job_id(job_id)] = None
        except Refused:
            continue
    return tuple(found)


def details(
    ask: Ask, wanted: tuple[str, ...], version: tuple[int, ...], listed: int, expand: Expand
) -> dict[str, Answer[JobDetail]]:
    """See `ports.scheduler.ManyAtOnce`. ``listed``: how many jobs the last full listing had."""
    found: dict[str, Answer[JobDetail]] = {}
    if version >= detail.JSON_SINCE:
        for some in _by(_AT_ONCE, wanted):
            argv = ("squeue", "--local", "-a", "--states=all", "-j", ",".join(some), "--json")
            found |= _details_in(ask(argv), some, expand)
    elif len(wanted) >= (1 if listed <= SHORT else max(_FEW, listed // _ROWS_FOR_ONE)):
        found = _details_in(ask(("squeue", "--local", "-a", "--json")), wanted, expand)
    return found


def _details_in(
    done: Finished, wanted: tuple[str, ...], expand: Expand
) -> dict[str, Answer[JobDetail]]:
    if done.exit_code != 0:
        return {} if _alone(done) else dict.fromkeys(wanted, unknown(done))
    try:
        read = detail.many_from_json(done.stdout, wanted, expand)
    except PortError as error:
        return dict.fromkeys(wanted, Unknown(f"details: {error}", done.started_at))
    return {
        job_id: Unknown(f"detail of job {job_id}: {one}", done.started_at)
        if isinstance(one, PortError)
        else Known(one, done.started_at)
        for job_id, one in read.items()
    }


def accountings(
    ask: Ask, wanted: tuple[str, ...], version: tuple[int, ...]
) -> dict[str, Answer[Records]]:
    """What accounting has of each; nothing where it cannot be asked about several."""
    found: dict[str, Answer[Records]] = {}
    for some in _by(_AT_ONCE, wanted):
        found |= _accounting_in(
            ask(accounting.accounting_argv(",".join(some), version)), some, version
        )
    return found


def _accounting_in(
    done: Finished, wanted: tuple[str, ...], version: tuple[int, ...]
) -> dict[str, Answer[Records]]:
    if done.exit_code != 0:
        if accounting.disabled(done.stderr):
            return dict.fromkeys(wanted, Absent(done.started_at))
        if len(wanted) > 1 and _alone(done):
            return {}
        return dict.fromkeys(wanted, unknown(done))
    try:
        records = accounting.read_many(done.stdout, wanted, version)
    except PortError as error:
        return dict.fromkeys(wanted, Unknown(str(error), done.started_at))
    return {job_id: Known(found, done.started_at) for job_id, found in records.items()}


def no_such_job(done: Finished) -> bool:
    """Whether Slurm says that it knows no such job, and says nothing else."""
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    known = done.exit_code is not None and done.exit_code > 0
    return known and bool(lines) and all(line.endswith(NO_SUCH_JOB) for line in lines)


def unknown(done: Finished) -> Unknown:
    """That a command brought no answer, and why."""
    why = done.said or f"exit code {done.exit_code}"
    return Unknown(f"{done.argv[0]}: {why}", done.started_at)


def _alone(done: Finished) -> bool:
    """Whether one of the jobs, or an old gate, made the command fail for all."""
    return no_such_job(done) or _OLD_GATE in done.stderr


def _by(size: int, wanted: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for first in range(0, len(wanted), size):
        yield wanted[first : first + size]
