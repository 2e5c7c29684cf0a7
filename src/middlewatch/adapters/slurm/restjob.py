"""One job as slurmrestd's JSON shows it, in the words of the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from middlewatch.adapters.slurm.detail import named, number
from middlewatch.adapters.slurm.words import from_epoch, job_states
from middlewatch.model.scheduler import JobView
from middlewatch.ports.errors import Unreadable


@dataclass(frozen=True, slots=True)
class RestRow:
    view: JobView
    cluster: str
    component: bool


def view_of(job: Mapping[str, Any]) -> RestRow:
    """The job. Raises `Unreadable` for one of another shape."""
    words = job.get("job_state")
    listed = tuple(str(word) for word in words) if isinstance(words, list) else (str(words),)
    state, flags = job_states(listed)
    submitted = _moment(job, "submit_time")
    uid = number(job.get("user_id"))
    if submitted is None or uid is None:
        raise Unreadable("slurmrestd shows a job without a submit time or an owner")
    ended = _moment(job, "end_time") if state.value not in _UNENDED and not flags else None
    code, signal = exit_of(job.get("exit_code"))
    minutes = number(job.get("time_limit"))
    leader = number(job.get("het_job_id")) or 0
    pending_array = bool(number(job.get("array_job_id"))) and bool(job.get("array_task_string"))
    job_id = str(leader) if leader else named(job)
    view = JobView(
        job_id=job_id,
        state=state,
        flags=flags,
        # A description hides the reason, as in every listing; `detail` tells both.
        reason=_text(job, "state_description").replace(" ", "_") or _text(job, "state_reason"),
        priority=number(job.get("priority")) or 0,
        restarts=number(job.get("restart_cnt")) or 0,
        submitted_at=submitted,
        eligible_at=_moment(job, "eligible_time"),
        started_at=_moment(job, "start_time"),
        ended_at=ended,
        node_list=_text(job, "nodes"),
        node_count=number(job.get("node_count")) or 0,
        partitions=tuple(part for part in _text(job, "partition").split(",") if part),
        uid=uid,
        user=_text(job, "user_name"),
        exit_code=code,
        exit_signal=signal,
        requeueable=bool(job.get("requeue")),
        time_limit_s=None if minutes is None else minutes * 60,
        dependency=_text(job, "dependency"),
        array_pending=pending_array,
        heterogeneous=bool(leader),
        apart="its components are not read through slurmrestd" if leader else "",
    )
    offset = number(job.get("het_job_offset")) or 0
    return RestRow(view, _text(job, "cluster"), bool(leader) and offset > 0)


def exit_of(value: object) -> tuple[int, int | None]:
    """Exit code and signal, from a wait status (22.05) or from their parts (newer)."""
    if isinstance(value, dict) and "return_code" in value:
        signal = value.get("signal")
        parts = signal if isinstance(signal, dict) else {}
        return number(value["return_code"]) or 0, number(parts.get("id")) or None
    status = number(value) or 0
    return (status >> 8) & 0xFF, (status & 0x7F) or None


_UNENDED = frozenset({"PENDING", "RUNNING", "SUSPENDED"})


def _moment(job: Mapping[str, Any], key: str) -> datetime | None:
    value = number(job.get(key))
    return from_epoch(value) if value else None


def _text(job: Mapping[str, Any], key: str) -> str:
    value = job.get(key)
    return value if isinstance(value, str) and value != "None" else ""
