"""Who waits for whom: noted while the awaited job runs, because Slurm forgets it afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from middlewatch.model.attempt import LET_GO, Attempt, Dependent
from middlewatch.model.awaited import awaited
from middlewatch.model.scheduler import JobView

LET_GO_WITHIN = timedelta(seconds=30)
"""How long after the end of a job slurmctld may take to see that nothing waits for it any more."""


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


def waiting_for(job_id: str, waiting: Mapping[str, tuple[Dependent, ...]]) -> tuple[Dependent, ...]:
    """Those that wait for a job; for an array's task also those that wait for the whole array."""
    array = job_id.partition("_")[0]
    found = waiting.get(job_id, ())
    return found if array == job_id else found + waiting.get(array, ())


_Key = tuple[str, datetime]


class Awaited:
    """What the listings said of who waits for whom, also for jobs that nobody has recorded yet: of
    many new jobs only some are asked for their comment in one tick, and one may end before its turn.
    """

    def __init__(self) -> None:
        self._views: tuple[JobView, ...] = ()
        self._last: dict[_Key, tuple[Dependent, ...]] = {}
        self._alive: frozenset[_Key] = frozenset()
        self._waited: frozenset[_Key] = frozenset()

    def note(
        self, views: tuple[JobView, ...], waiting: Mapping[str, tuple[Dependent, ...]]
    ) -> None:
        """Take the next listing. What stood when a job was last seen alive is what stays."""
        last: dict[_Key, tuple[Dependent, ...]] = {}
        alive: set[_Key] = set()
        waited: set[_Key] = set()
        for view in views:
            key = (view.job_id, view.submitted_at)
            found = () if view.ended else waiting_for(view.job_id, waiting)
            if view.ended or view.completing:
                found = found or self._last.get(key, ())
            if found:
                last[key] = found
            if not view.ended or key in self._alive:
                alive.add(key)
            if view.dependency or key in self._waited:
                waited.add(key)
        self._views, self._last = views, last
        self._alive, self._waited = frozenset(alive), frozenset(waited)

    def let_go_by(self, ended: JobView) -> tuple[Dependent, ...]:
        """Whom an end may have let go; of a job that no listing showed alive, whoever began to be
        eligible then and was never seen to wait for another."""
        key = (ended.job_id, ended.submitted_at)
        if key in self._alive:
            return self._last.get(key, ())
        unseen = (v for v in self._views if (v.job_id, v.submitted_at) not in self._waited)
        return let_go_by(ended, unseen)


def let_go_by(ended: JobView, views: Iterable[JobView]) -> tuple[Dependent, ...]:
    """Jobs of the same user that had waited and became eligible when ``ended`` ended. Nobody has
    seen what they waited for; that they waited for something else is the less dangerous error."""
    end = ended.ended_at
    if end is None:
        return ()
    second = timedelta(seconds=1)
    return tuple(
        Dependent(view.job_id, LET_GO)
        for view in views
        if view.uid == ended.uid
        and view.job_id != ended.job_id
        and view.restarts == 0
        and view.eligible_at is not None
        and view.submitted_at <= end
        and view.submitted_at + second < view.eligible_at
        and end - second <= view.eligible_at <= end + LET_GO_WITHIN
    )
