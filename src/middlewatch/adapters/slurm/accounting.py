"""How accounting remembers a job's attempts, and how far it may be believed.

It lags; releases before 26.05 rewrite an ended attempt when it is requeued and keep only seven
bits of an exit code in text. It is the only one that says who cancelled, and the batch step's own
record keeps telling that the script had completed, whatever was made of the job afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from middlewatch.adapters.slurm.words import NOTHING, exit_status, job_state, moment
from middlewatch.model.scheduler import AccountingRecord, JobState
from middlewatch.ports.errors import Unreadable

SEPARATOR = "\x1f"
FIELDS = ("JobID", "State", "ExitCode", "Submit", "Start", "End", "NodeList", "User")
FAILED_NODE_SINCE = (24, 11)
TRUE_EXIT_CODES_SINCE = (26, 5)
_DISABLED = "accounting storage is disabled"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of sacct's answer, a job's or a step's."""

    job_id: str
    step: str
    cell: dict[str, str]


def fields_of(version: tuple[int, ...]) -> tuple[str, ...]:
    """The fields to ask for; none of them can be written by a user."""
    return (*FIELDS, "FailedNode") if version >= FAILED_NODE_SINCE else FIELDS


def accounting_argv(job_ids: str, version: tuple[int, ...]) -> tuple[str, ...]:
    """The command that prints all records of a job number, or of several with commas between."""
    wanted = ",".join(fields_of(version))
    return ("sacct", "-D", "-P", f"--delimiter={SEPARATOR}", "-j", job_ids, "-o", wanted)


def disabled(stderr: str) -> bool:
    """Whether sacct says that this cluster keeps no accounting."""
    return _DISABLED in stderr


def read_accounting(
    text: str, job_id: str, version: tuple[int, ...]
) -> tuple[AccountingRecord, ...]:
    """The records of ``job_id``, in the order printed (oldest first). Raises what `read_many` does."""
    return read_many(text, (job_id,), version)[job_id]


def read_many(
    text: str, job_ids: Iterable[str], version: tuple[int, ...]
) -> dict[str, tuple[AccountingRecord, ...]]:
    """The records of each of ``job_ids``, in the order printed (oldest first); none for a job
    that accounting does not know.

    Raises `Unreadable` where the header is missing or a row has another shape.
    """
    wanted = fields_of(version)
    lines = text.split("\n")
    if lines.pop() != "" or not lines:
        raise Unreadable("sacct printed no header: its answer is not complete")
    if tuple(lines[0].split(SEPARATOR)) != wanted:
        raise Unreadable(f"sacct printed other columns than asked for: {lines[0][:120]!r}")
    found: dict[str, list[AccountingRecord]] = {job_id: [] for job_id in job_ids}
    resized: dict[str, str] = {}
    for number, line in enumerate(lines[1:], start=2):
        cells = line.split(SEPARATOR)
        if len(cells) != len(wanted):
            raise Unreadable(
                f"line {number} of sacct's answer has {len(cells)} columns: {line[:120]!r}"
            )
        row = _row(dict(zip(wanted, cells, strict=True)))
        records = found.get(row.job_id)
        if records is None:
            continue  # another task or component
        if row.cell["State"].startswith("RESIZING"):
            # A job that shrank, which is no attempt of its own: the next row goes on with it, and has
            # the moment of the resizing for a submit time.
            if not row.step:
                resized.setdefault(row.job_id, row.cell["Submit"])
            continue
        if not row.step:
            submit = resized.pop(row.job_id, row.cell["Submit"])
            row = replace(row, cell={**row.cell, "Submit": submit})
            records.append(_record(row, trusted=version >= TRUE_EXIT_CODES_SINCE))
        elif row.step == "batch" and records:
            records[-1] = _with_batch(records[-1], row)
    return {job_id: tuple(records) for job_id, records in found.items()}


def _row(cell: dict[str, str]) -> Row:
    name, _, step = cell["JobID"].partition(".")
    leader, plus, offset = name.partition("+")
    return Row(leader if plus and offset == "0" else name, step, cell)


def _record(row: Row, *, trusted: bool) -> AccountingRecord:
    cell = row.cell
    word, _, rest = cell["State"].partition(" ")
    submitted = moment(cell["Submit"])
    if submitted is None:
        raise Unreadable(f"sacct shows no submit time for {row.job_id}")
    code, signal = exit_status(cell["ExitCode"]) if cell["ExitCode"] else (None, None)
    requeued = word == "REQUEUED"
    state = ended_as(code, signal) if requeued else job_state(word)[0]
    if not trusted and state is not JobState.COMPLETED:
        # 137 is printed as 9 and 128 as 0: only a signal can be believed.
        code = 0 if signal else None
    return AccountingRecord(
        job_id=row.job_id,
        submitted_at=submitted,
        state=state,
        requeued=requeued,
        exit_code=code,
        exit_signal=signal,
        started_at=moment(cell["Start"]),
        ended_at=moment(cell["End"]),
        node_list="" if cell["NodeList"] in NOTHING else cell["NodeList"],
        cancelled_by=rest.removeprefix("by ") if word == "CANCELLED" and rest else None,
        batch_completed=None,
        failed_node=cell.get("FailedNode", ""),
        user=cell["User"],
    )


def ended_as(code: int | None, signal: int | None) -> JobState:
    """How an attempt ended that accounting only calls requeued: older releases write that over
    the true end and keep the exit code."""
    return JobState.FAILED if code or signal else JobState.CANCELLED


def _with_batch(record: AccountingRecord, row: Row) -> AccountingRecord:
    completed = row.cell["State"] == "COMPLETED" and row.cell["ExitCode"] == "0:0"
    if completed and record.requeued:
        record = replace(record, state=JobState.COMPLETED, exit_code=0)
    cell = row.cell
    no_end = cell["State"] == "CANCELLED" and cell["ExitCode"] == ""
    return replace(
        record,
        batch_completed=completed,
        batch_ended_at=moment(cell["End"]),
        never_ran=no_end and cell["Start"] == cell["End"],
    )
