"""Reading a listing of jobs that no user can forge, and proving that it is whole.

squeue escapes nothing: a newline in a job's name or comment makes a line of its own, which can
say anything about anybody's job. So the listing asks only for columns whose values Slurm itself
makes; then each line is one job, and a line that does not look like one makes the whole listing
worthless rather than a little shorter. An empty answer proves nothing either (some releases print
one, with exit code 0, while slurmctld is down), so the header is asked for and must be there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from middlewatch.adapters.slurm.words import (
    JOB_ID,
    NOTHING,
    duration_s,
    exit_status,
    job_state,
    moment,
)
from middlewatch.model.scheduler import JobFlag, JobView
from middlewatch.ports.errors import Unreadable

SEPARATOR = "\x1f"
# Known to every release from 22.05 on, each with the title that it prints.
COLUMNS = (
    ("Cluster", "CLUSTER"),
    ("JobID", "JOBID"),
    ("JobArrayID", "JOBID"),
    ("HetJobID", "HET_JOB_ID"),
    ("State", "STATE"),
    ("Reason", "REASON"),
    ("PriorityLong", "PRIORITY"),
    ("RestartCnt", "RESTART_COUNT"),
    ("SubmitTime", "SUBMIT_TIME"),
    ("EligibleTime", "ELIGIBLE_TIME"),
    ("StartTime", "START_TIME"),
    ("EndTime", "END_TIME"),
    ("NodeList", "NODELIST"),
    ("NumNodes", "NODES"),
    ("Partition", "PARTITION"),
    ("UserID", "UID"),
    ("UserName", "USER"),
    ("exit_code", "EXIT_CODE"),
    ("TimeLimit", "TIME_LIMIT"),
    ("Dependency", "DEPENDENCY"),
    ("Requeue", "REQUEUE"),
)
FORMAT = ",".join(f"{name}:{SEPARATOR}" for name, _ in COLUMNS)
TITLES = tuple(title for _, title in COLUMNS)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the listing. ``raw_id`` is the number that Slurm keeps the record under,
    which an array task's own name (``view.job_id``) hides; ``component`` is a heterogeneous
    job's component that is not its leader."""

    view: JobView
    cluster: str
    raw_id: str
    component: bool


def listing_argv(job_ids: Iterable[str] = (), uid: int | None = None) -> tuple[str, ...]:
    """The command that lists all jobs, or just these; or all of one user."""
    chosen = ",".join(job_ids)
    only: tuple[str, ...] = ("-j", chosen) if chosen else ()
    if uid is not None and not chosen:
        only = ("-u", str(uid))
    return ("squeue", "--local", "-a", "--states=all", *only, "-O", FORMAT)


def read_listing(text: str) -> tuple[Row, ...]:
    """The rows of a listing printed by `listing_argv`'s command.

    Raises `Unreadable` where the header is missing, where it names other columns, or where one
    row has another shape than every row must have.
    """
    lines = text.split("\n")
    if lines.pop() != "" or not lines:
        raise Unreadable("squeue printed no header: its answer is not complete")
    titles = _cells(lines[0], 1)
    if titles != TITLES:
        wrong = next((i for i, t in enumerate(TITLES) if titles[i] != t), 0)
        raise Unreadable(
            f"squeue printed a column {titles[wrong][:40]!r} where {TITLES[wrong]!r} was asked for"
        )
    return tuple(_row(line, number) for number, line in enumerate(lines[1:], start=2))


def _cells(line: str, number: int) -> tuple[str, ...]:
    cells = line.split(SEPARATOR)
    if len(cells) != len(COLUMNS) + 1 or cells[-1] != "":
        raise Unreadable(
            f"line {number} of squeue's listing has {len(cells) - 1} columns, not {len(COLUMNS)}: "
            f"{line[:120]!r}"
        )
    return tuple(cells[:-1])


def _row(line: str, number: int) -> Row:
    cells = _cells(line, number)
    named = {name: cell.strip() for (name, _), cell in zip(COLUMNS, cells, strict=True)}
    try:
        return _from_cells(named)
    except (ValueError, Unreadable) as error:
        raise Unreadable(f"line {number} of squeue's listing: {error}: {line[:160]!r}") from error


def _from_cells(cell: dict[str, str]) -> Row:
    raw = cell["JobID"]
    if not (raw.isascii() and raw.isdigit()):
        raise Unreadable(f"{raw[:40]!r} is no job number")
    het = cell["HetJobID"]
    heterogeneous = het not in NOTHING and het != "0"
    job_id, array_pending = _own_id(cell["JobArrayID"], raw, het if heterogeneous else "")
    state, flags = job_state(cell["State"])
    submitted = moment(cell["SubmitTime"])
    if submitted is None:
        raise Unreadable("a job without a submit time")
    code, signal = exit_status(cell["exit_code"])
    ended = _ended_at(cell["EndTime"], state.value, flags)
    requeue = cell["Requeue"]
    if requeue not in {"0", "1"}:
        raise Unreadable(f"{requeue[:40]!r} is no requeue flag")
    view = JobView(
        job_id=job_id,
        state=state,
        flags=flags,
        reason="" if cell["Reason"] in NOTHING else cell["Reason"],
        priority=int(cell["PriorityLong"]),
        restarts=int(cell["RestartCnt"]),
        submitted_at=submitted,
        eligible_at=moment(cell["EligibleTime"]),
        started_at=moment(cell["StartTime"]),
        ended_at=ended,
        node_list="" if cell["NodeList"] in NOTHING else cell["NodeList"],
        node_count=_count(cell["NumNodes"]),
        partitions=tuple(part for part in cell["Partition"].split(",") if part),
        uid=int(cell["UserID"]),
        user=cell["UserName"],
        exit_code=code,
        exit_signal=signal,
        requeueable=requeue == "1",
        time_limit_s=duration_s(cell["TimeLimit"]),
        dependency="" if cell["Dependency"] in NOTHING else cell["Dependency"],
        array_pending=array_pending,
        heterogeneous=heterogeneous,
    )
    return Row(view, cell["Cluster"], raw, heterogeneous and het != raw)


def _own_id(shown: str, raw: str, leader: str) -> tuple[str, bool]:
    """The job's own name: ``A_T`` for a task, ``A`` for tasks not split off yet, the leader's
    number for any component of a heterogeneous job."""
    if leader:
        return leader, False
    if JOB_ID.fullmatch(shown) and "+" not in shown:
        return shown, False
    array, _, tasks = shown.partition("_")
    # Tasks may be shown shortened with dots when there are very many.
    if array.isascii() and array.isdigit() and tasks[:1] == "[":
        return array, True
    raise Unreadable(f"{shown[:40]!r} is no job number (record {raw})")


def _ended_at(text: str, state: str, flags: frozenset[JobFlag]) -> datetime | None:
    """Slurm shows the end that a running job's limit allows; only an ended job's is a fact."""
    when = moment(text)
    return None if state in {"PENDING", "RUNNING", "SUSPENDED"} or flags else when


_NUMBER = re.compile(r"([0-9]{1,9})(?:\.([0-9]{1,3}))?(K?)")


def _count(text: str) -> int:
    # A range such as 2-4 while the job waits: what it needs at least.
    first = text.split("-", maxsplit=1)[0]
    if not first or text in NOTHING:
        return 0
    match = _NUMBER.fullmatch(first)
    if match is None:
        raise Unreadable(f"{text[:40]!r} is no number of nodes")
    whole, part, thousands = match.groups()
    return int(float(f"{whole}.{part or 0}") * 1024) if thousands else int(whole)
