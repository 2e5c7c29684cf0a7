"""Sample journal entries, rows and details for the tests of the watchdog's rule."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from middlewatch.model.answer import Answer, Known
from middlewatch.model.journal import JournalEntry, JournalKind
from middlewatch.model.scheduler import (
    ClusterFacts,
    JobDetail,
    JobFlag,
    JobState,
    JobView,
    Snapshot,
)
from middlewatch.reconciliation.deadlines import WatchdogConfig

T0 = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
"""When attempt 0 was submitted."""
CONFIG = WatchdogConfig(max_hold_s=600, interval_s=5)
FACTS = ClusterFacts("alpha", "24.11.5", 121.0, 10.0, 300.0, 30.0)
HELD = frozenset({JobFlag.SPECIAL_EXIT})


def after(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


ACTED = after(100)
"""When we acted on attempt 0."""
DEADLINE = after(400)
PAST = after(401)


def entry(kind: JournalKind = JournalKind.HOLD, **changes: Any) -> JournalEntry:
    """An entry about job 7: acted on attempt 0, expecting attempt 1, released by `DEADLINE`."""
    return replace(JournalEntry(kind, ACTED, "alpha", "7", T0, 1, release_by=DEADLINE), **changes)


def exclusion(**changes: Any) -> JournalEntry:
    values: dict[str, Any] = {"user_exclusions": ("n1",), "ours": ("n2", "n3")}
    return entry(JournalKind.EXCLUDE, **(values | changes))


def fence(**changes: Any) -> JournalEntry:
    values: dict[str, Any] = {"owner_requeue": True}
    return entry(JournalKind.FENCE, **(values | changes))


def held(**changes: Any) -> JobView:
    """Attempt 1 of job 7 in the requeue-hold that we took, its begin time over."""
    return replace(
        JobView(
            job_id="7",
            state=JobState.PENDING,
            flags=HELD,
            reason="job_requeued_in_held_state",
            priority=0,
            restarts=1,
            submitted_at=after(102),
            eligible_at=after(223),
            requeueable=True,
        ),
        **changes,
    )


def impossible(**changes: Any) -> JobView:
    return held(flags=frozenset(), reason="BadConstraints", **changes)


def waiting(**changes: Any) -> JobView:
    """Attempt 1 behind Slurm's begin time, not held."""
    values: dict[str, Any] = {
        "flags": frozenset(),
        "reason": "BeginTime",
        "priority": 100,
        "submitted_at": after(350),
        "eligible_at": after(471),
    }
    return held(**(values | changes))


def running(**changes: Any) -> JobView:
    values: dict[str, Any] = {
        "state": JobState.RUNNING,
        "flags": frozenset(),
        "reason": "None",
        "priority": 100,
    }
    return held(**(values | changes))


def detail(view: JobView, **changes: Any) -> Known[JobDetail]:
    return Known(
        replace(
            JobDetail(
                job_id=view.job_id,
                submitted_at=view.submitted_at,
                comment="",
                name="train",
                work_dir="/home/alice",
                stdout="/home/alice/slurm-7.out",
                stderr="/home/alice/slurm-7.out",
                excluded_nodes=(),
                required_nodes=(),
                requeueable=view.requeueable,
                held_by_operator=False,
            ),
            **changes,
        ),
        view.submitted_at,
    )


def snapshot(*views: JobView, cluster: str = "alpha") -> Snapshot:
    return Snapshot(cluster, PAST, views)


def look(*views: JobView, cluster: str = "alpha") -> Answer[Snapshot]:
    return Known(snapshot(*views, cluster=cluster), PAST)
