"""Who waits for whom: noted while the awaited job runs, because Slurm forgets it afterwards."""

from __future__ import annotations

import re
from collections.abc import Iterable

from middlewatch.model.attempt import Attempt, Dependent
from middlewatch.model.scheduler import JobView

_TERM = re.compile(r"(after(?:any|notok|ok|corr|burstbuffer)?):([\d_+:()A-Za-z]+)")
_JOB = re.compile(r"(\d+(?:_\d+)?)(?:\+\d+)?(?:\([A-Za-z ]*\))?")


def awaited(dependency: str) -> tuple[tuple[str, str], ...]:
    """(job id, kind) of each job that a dependency expression names; of a whole array, its id."""
    found: list[tuple[str, str]] = []
    for term in re.split(r"[,?]", dependency):
        match = _TERM.match(term.strip())
        if match:
            found.extend((job, match.group(1)) for job in _JOB.findall(match.group(2)))
    return tuple(found)


def is_singleton(view: JobView) -> bool:
    return view.dependency.startswith("singleton") or ",singleton" in view.dependency


def by_awaited(views: Iterable[JobView]) -> dict[str, tuple[Dependent, ...]]:
    """For each awaited job number, who waits for it."""
    found: dict[str, list[Dependent]] = {}
    for view in views:
        if not view.dependency or view.ended:
            continue
        for job, kind in awaited(view.dependency):
            found.setdefault(job, []).append(Dependent(view.job_id, kind))
    return {job: tuple(waiting) for job, waiting in found.items()}


def singletons_behind(attempt: Attempt, waiting: Iterable[tuple[JobView, str]]) -> list[Dependent]:
    """Of waiting singleton jobs (with their names), those that this attempt keeps from running."""
    return [
        Dependent(view.job_id, "singleton")
        for view, name in waiting
        if view.uid == attempt.uid and name == attempt.job_name and view.job_id != attempt.job_id
    ]
