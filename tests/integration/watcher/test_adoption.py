"""How many new jobs are asked about in one round: as many as the scheduler answers quickly."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from middlewatch.adapters.sql.store import open_store
from middlewatch.model.answer import Answer
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import JobDetail
from middlewatch.services.watcher import WatcherSettings
from tests.integration.watcher.scripted import ScriptedScheduler
from tests.integration.watcher.world import CLUSTER, COMMENT, made

JOBS = 300
BEGUN = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Taking(ScriptedScheduler):
    """Each question about a job takes its time, on the clock that the watcher has."""

    takes_s: float = 0.0
    seconds: float = 0.0

    def detail(self, job_id: str) -> Answer[JobDetail]:
        self.seconds += self.takes_s
        return super().detail(job_id)


@dataclass
class Stopwatch:
    scheduler: Taking

    def now(self) -> datetime:
        raise AssertionError("the watcher is told the time")

    def monotonic(self) -> float:
        return self.scheduler.seconds

    def sleep(self, seconds: float) -> None:
        raise AssertionError("the watcher waits for nobody")

    def token(self, size: int = 32) -> str:
        raise AssertionError("the watcher needs no chance")


@pytest.mark.parametrize(
    ("takes_s", "asked"),
    [(0.0, 64), (0.01, 20), (5.0, 8)],
    ids=["at once", "quickly", "slowly"],
)
def test_new_jobs_are_asked_about_as_quickly_as_the_scheduler_answers(
    tmp_path: Path, takes_s: float, asked: int
) -> None:
    scheduler = Taking(CLUSTER, BEGUN, takes_s=takes_s)
    for number in range(JOBS):
        scheduler.job(str(number), COMMENT, str(tmp_path / f"{number}.log"), uid=os.geteuid())
    store = open_store(tmp_path / "state" / "middlewatch.db")
    settings = WatcherSettings(details_per_tick=8, quick_per_tick=64, details_s=0.195)
    watcher = made(store, scheduler, Policy(), settings, clock=Stopwatch(scheduler))
    assert watcher.tick(BEGUN).details_read == asked
    assert watcher.tick(BEGUN).details_read == asked
    store.close()
