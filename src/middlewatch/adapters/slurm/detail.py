"""What a job's user wrote about it, read so that nothing in it can pass for something else.

From 23.11 on: the JSON of that one job, which quotes. 22.05's JSON knows no filter and is slow, so
there each field is asked for alone, in a listing of that one job: the whole answer, whatever is
in it, is that field.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from middlewatch.adapters.slurm.components import with_components
from middlewatch.adapters.slurm.listing import Row
from middlewatch.adapters.slurm.outputs import Naming, output_path
from middlewatch.adapters.slurm.words import from_epoch
from middlewatch.model.scheduler import JobDetail, JobState
from middlewatch.ports.errors import PortError, Unreadable

JSON_SINCE = (23, 11)
_OPERATORS_HOLD = "JobHeldAdmin"

Expand = Callable[[str], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Written:
    """The fields read one by one; each exactly as stored, "(null)" for none."""

    comment: str
    name: str
    work_dir: str
    stdout: str
    stderr: str
    excluded: str
    required: str


FIELDS: tuple[tuple[str, str, str], ...] = (
    ("comment", "-o", "%k"),
    ("name", "-o", "%j"),
    ("work_dir", "-o", "%Z"),
    ("stdout", "-O", "STDOUT:"),
    ("stderr", "-O", "StdErr:"),
    ("excluded", "-o", "%x"),
    ("required", "-o", "%n"),
)
"""Attribute of `Written`, squeue's flag, the field. A field of ``-O`` gets a mark behind it."""
MARK = "|"


def field_argv(job_id: str, flag: str, field: str) -> tuple[str, ...]:
    """The command that prints one field of one job."""
    wanted = field + MARK if flag == "-O" else field
    return ("squeue", "--local", "-a", "--states=all", "-h", "-j", job_id, flag, wanted)


def field_value(text: str, flag: str) -> str:
    """The field in that command's answer. Raises `Unreadable` where it is cut short."""
    end = MARK + "\n" if flag == "-O" else "\n"
    if not text.endswith(end):
        raise Unreadable("squeue's answer about one field is cut short")
    value = text[: -len(end)]
    return "" if value == "(null)" else value


def from_fields(row: Row, written: Written, by_operator: bool | None, expand: Expand) -> JobDetail:
    """The detail of a job from its row and its fields."""
    view = row.view
    naming = _naming(view.job_id, int(row.raw_id), written.name, view.user, written.work_dir)
    nodes = expand(view.node_list)
    naming = _at(naming, nodes)
    stdout = output_path(written.stdout, naming)
    return JobDetail(
        job_id=view.job_id,
        submitted_at=view.submitted_at,
        comment=written.comment,
        name=written.name,
        work_dir=written.work_dir,
        stdout=stdout,
        stderr=output_path(written.stderr, naming) if written.stderr else stdout,
        excluded_nodes=expand(written.excluded),
        required_nodes=expand(written.required),
        requeueable=view.requeueable,
        held_by_operator=by_operator,
        dependency=view.dependency,
    )


def hold_by_row(row: Row) -> bool | None:
    """Whether an operator holds the job, as far as the row tells; None where only JSON can."""
    view = row.view
    if view.priority > 0:
        return False
    if view.reason == _OPERATORS_HOLD or view.state is JobState.RUNNING:
        return True
    return None if view.state is JobState.PENDING else False


def hold_in_json(text: str, raw_id: str) -> bool | None:
    """Whether an operator holds the job with that record number, from a JSON listing."""
    for job in _jobs(text):
        if str(number(job.get("job_id"))) == raw_id:
            return bool(job.get("state_reason") == _OPERATORS_HOLD)
    return None


def from_json(text: str, job_id: str, expand: Expand) -> JobDetail:
    """The detail of one job from its JSON. Raises `Unreadable` where that job is not in it or
    has another shape."""
    found = many_from_json(text, (job_id,), expand).get(job_id)
    if found is None:
        count = sum(named(job) == job_id for job in _jobs(text))
        raise Unreadable(f"the JSON about job {job_id} has {count} records of it")
    if isinstance(found, PortError):
        raise found
    return found


def many_from_json(
    text: str, job_ids: Iterable[str], expand: Expand
) -> dict[str, JobDetail | PortError]:
    """The details of those of the jobs that have exactly one record in a JSON listing, or why
    its record cannot be read. Raises `Unreadable` where the listing itself cannot be."""
    records: dict[str, list[Mapping[str, Any]]] = {job_id: [] for job_id in job_ids}
    components: dict[str, list[Mapping[str, Any]]] = {}
    for job in _jobs(text):
        name = named(job)
        if name in records:
            records[name].append(job)
        leader, plus, _ = name.partition("+")
        if plus and leader in records:
            components.setdefault(leader, []).append(job)
    found: dict[str, JobDetail | PortError] = {}
    for job_id, jobs in records.items():
        if len(jobs) == 1:
            try:
                others = [_of_record(o, named(o), expand) for o in components.get(job_id, ())]
                found[job_id] = with_components(_of_record(jobs[0], job_id, expand), others)
            except PortError as error:
                found[job_id] = error
    return found


def _of_record(job: Mapping[str, Any], job_id: str, expand: Expand) -> JobDetail:
    name, work_dir = _text(job, "name"), _text(job, "current_working_directory")
    raw = number(job.get("job_id"))
    if raw is None:
        raise Unreadable(f"the JSON about job {job_id} has no job number")
    naming = _naming(job_id, raw, name, _text(job, "user_name"), work_dir)
    naming = _at(naming, expand(_text(job, "nodes")))
    stdout = _text(job, "stdout_expanded") or output_path(_text(job, "standard_output"), naming)
    stderr = _text(job, "stderr_expanded") or _text(job, "standard_error")
    priority = number(job.get("priority"))
    submitted = number(job.get("submit_time"))
    requeue = job.get("requeue")
    return JobDetail(
        job_id=job_id,
        submitted_at=None if submitted is None else from_epoch(submitted),
        comment=_text(job, "comment"),
        name=name,
        work_dir=work_dir,
        stdout=stdout,
        stderr=output_path(stderr, naming) if stderr else stdout,
        excluded_nodes=expand(_text(job, "excluded_nodes")),
        required_nodes=expand(_text(job, "required_nodes")),
        requeueable=None if requeue is None else bool(requeue),
        held_by_operator=_held_by_operator(job, priority),
        dependency=_text(job, "dependency"),
    )


def _held_by_operator(job: Mapping[str, Any], priority: int | None) -> bool:
    if job.get("state_reason") == _OPERATORS_HOLD:
        return True
    states = job.get("job_state")
    return priority == 0 and states in (["RUNNING"], "RUNNING")


_READ = frozenset(
    {
        *("job_id", "array_job_id", "array_task_id", "het_job_id", "het_job_offset", "job_state"),
        *("name", "user_name", "comment", "nodes", "current_working_directory", "dependency"),
        *("standard_output", "standard_error", "stdout_expanded", "stderr_expanded", "requeue"),
        *("priority", "submit_time", "excluded_nodes", "required_nodes", "state_reason"),
    }
)


def _pruned(value: dict[str, Any]) -> dict[str, Any]:
    """Of a job's hundred fields the few that are read: five thousand jobs' would fill memory."""
    if "job_id" in value and "job_state" in value:
        return {key: value[key] for key in _READ & value.keys()}
    return value


def _jobs(text: str) -> list[dict[str, Any]]:
    try:
        body = json.loads(text, object_hook=_pruned)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"not the JSON that was asked for: {error}") from error
    if not isinstance(body, dict) or not isinstance(body.get("jobs"), list):
        raise Unreadable("JSON without a list of jobs")
    if body.get("errors"):
        raise Unreadable(f"JSON with errors: {str(body['errors'])[:200]}")
    return [job for job in body["jobs"] if isinstance(job, dict)]


def named(job: Mapping[str, Any]) -> str:
    """The job's own name, as a listing shows it: ``7``, ``7_2``, ``7+1``."""
    leader = number(job.get("het_job_id"))
    if leader:
        offset = number(job.get("het_job_offset")) or 0
        return str(leader) if offset == 0 else f"{leader}+{offset}"
    array, task = number(job.get("array_job_id")), number(job.get("array_task_id"))
    if array:
        return str(array) if task is None else f"{array}_{task}"
    return str(number(job.get("job_id")))


def number(value: object) -> int | None:
    """A number, plain (22.05) or wrapped with its ``set`` flag (newer)."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") and not value.get("infinite") else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text(job: Mapping[str, Any], key: str) -> str:
    value = job.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Unreadable(f"{key} is {type(value).__name__} in the JSON, not text")
    return value


def _naming(job_id: str, raw: int, name: str, user: str, work_dir: str) -> Naming:
    array, _, task = job_id.partition("_")
    if task:
        return Naming(raw, name, user, work_dir, array_id=int(array), task=int(task))
    return Naming(raw, name, user, work_dir)


def _at(naming: Naming, nodes: tuple[str, ...]) -> Naming:
    return Naming(
        naming.raw_id,
        naming.name,
        naming.user,
        naming.work_dir,
        naming.array_id,
        naming.task,
        nodes[0] if nodes else "",
    )
