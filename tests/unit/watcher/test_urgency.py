"""Which jobs are asked about first when there are more than one tick can ask about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from middlewatch.model.scheduler import JobState, JobView
from middlewatch.services.watcher.urgency import urgency

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def job(name: str, state: JobState, restarts: int = 0, ended_ago_s: float | None = None) -> JobView:
    return JobView(
        job_id=name,
        state=state,
        flags=frozenset(),
        reason="None",
        priority=1,
        restarts=restarts,
        submitted_at=NOW - timedelta(hours=1),
        ended_at=None if ended_ago_s is None else NOW - timedelta(seconds=ended_ago_s),
    )


def order(*views: JobView) -> list[str]:
    return [view.job_id for view in sorted(views, key=lambda view: urgency(view, NOW))]


def test_what_runs_comes_before_what_waits() -> None:
    assert order(job("waits", JobState.PENDING), job("runs", JobState.RUNNING)) == ["runs", "waits"]


def test_a_requeued_job_comes_before_those_that_never_ran() -> None:
    waits = [job(str(number), JobState.PENDING) for number in range(3)]
    assert order(*waits, job("again", JobState.PENDING, restarts=1))[0] == "again"


def test_a_job_that_has_just_crashed_is_not_behind_old_ones() -> None:
    old = [job(f"old {n}", JobState.CANCELLED, ended_ago_s=90.0 + n) for n in range(3)]
    crashed = job("crashed", JobState.FAILED, ended_ago_s=1.0)
    waits = job("waits", JobState.PENDING)
    assert order(*old, waits, crashed) == ["crashed", "waits", "old 0", "old 1", "old 2"]


def test_an_end_without_a_time_counts_as_old() -> None:
    untimed = job("untimed", JobState.FAILED)
    assert order(untimed, job("waits", JobState.PENDING)) == ["waits", "untimed"]
