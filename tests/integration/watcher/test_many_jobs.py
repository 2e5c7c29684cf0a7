"""Comments and accounting of many jobs, from a scheduler that can be asked about many at once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from middlewatch.adapters.sql.store import SqlStore, open_store
from middlewatch.model.answer import Answer, Known, Unknown
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import AccountingRecord, JobDetail, JobState
from middlewatch.services.watcher import Watcher, WatcherSettings
from tests.integration.watcher.scripted import ScriptedScheduler
from tests.integration.watcher.world import CLUSTER, COMMENT, made

JOBS = 300
BEGUN = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Together:
    """The scripted scheduler, asked about many jobs with one command. ``silent``: that command
    brings no answer; ``unworthy``: it is not worth its cost."""

    one: ScriptedScheduler
    silent: bool = False
    unworthy: bool = False
    asked: list[int] = field(default_factory=list)
    accounts: list[int] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.one, name)

    def details(self, job_ids: Sequence[str]) -> dict[str, Answer[JobDetail]]:
        self.asked.append(len(job_ids))
        if self.unworthy:
            return {}
        if self.silent:
            return dict.fromkeys(job_ids, Unknown("no answer", self.one.now))
        return {job_id: Known(self.one.details[job_id], self.one.now) for job_id in job_ids}

    def accountings(
        self, job_ids: Sequence[str]
    ) -> dict[str, Answer[tuple[AccountingRecord, ...]]]:
        self.accounts.append(len(job_ids))
        records = self.one.records or {}
        return {job_id: Known(records.get(job_id, ()), self.one.now) for job_id in job_ids}


@dataclass
class Site:
    scheduler: Together
    store: SqlStore
    watcher: Watcher

    def tick(self, seconds: float = 1.0) -> list[str]:
        self.scheduler.one.now += timedelta(seconds=seconds)
        return self.watcher.tick(self.scheduler.one.now).errors

    def attempts(self) -> int:
        return len(self.store.live_attempts(CLUSTER))


@pytest.fixture
def site(tmp_path: Path) -> Site:
    scheduler = Together(ScriptedScheduler(CLUSTER, BEGUN))
    for number in range(JOBS):
        log = tmp_path / f"{number}.log"
        log.touch()
        comment = COMMENT if number % 2 else ""
        scheduler.one.job(str(number + 1), comment, str(log), uid=os.geteuid())
    store = open_store(tmp_path / "state" / "middlewatch.db")
    watcher = made(store, scheduler, Policy(), WatcherSettings())
    return Site(scheduler, store, watcher)


def test_three_hundred_new_jobs_are_known_after_one_question(site: Site) -> None:
    assert site.tick() == []
    assert site.attempts() == JOBS // 2
    assert site.scheduler.asked == [JOBS]
    assert site.scheduler.one.detail_calls == 0


def test_those_who_did_not_opt_in_are_asked_again_together_and_not_at_each_listing(
    site: Site,
) -> None:
    site.tick()
    for _ in range(10):
        site.tick()
    assert site.scheduler.asked == [JOBS]
    job = site.scheduler.one.details["1"]
    site.scheduler.one.details["1"] = replace(job, comment=COMMENT)
    for _ in range(70):
        site.tick()
    assert site.attempts() == JOBS // 2 + 1
    # Those who opted in each 15 s, the others each minute.
    assert len(site.scheduler.asked) <= 8
    assert site.scheduler.one.detail_calls == 0


def test_where_a_question_about_all_has_no_answer_each_is_asked_about_alone_for_a_while(
    site: Site,
) -> None:
    site.scheduler.silent = True
    site.tick()
    assert 0 < site.scheduler.one.detail_calls <= 64
    site.scheduler.silent = False
    for _ in range(5):
        site.tick()
    assert len(site.scheduler.asked) == 1
    for _ in range(60):
        site.tick()
    assert site.attempts() == JOBS // 2
    assert len(site.scheduler.asked) > 1


def test_where_one_question_for_all_is_not_worth_it_each_is_asked_about_in_its_turn(
    site: Site,
) -> None:
    site.scheduler.unworthy = True
    site.tick()
    assert 0 < site.scheduler.one.detail_calls <= 64
    assert site.attempts() <= 64


def test_many_that_vanished_are_looked_up_in_accounting_with_one_command(site: Site) -> None:
    site.tick()
    scheduler = site.scheduler.one
    scheduler.records = {
        job_id: (ended(job_id, view.submitted_at),) for job_id, view in scheduler.views.items()
    }
    scheduler.views.clear()
    site.tick()
    assert site.scheduler.accounts == [JOBS // 2]
    assert scheduler.accounting_calls == 0
    assert site.attempts() == 0


def ended(job_id: str, submitted_at: datetime) -> AccountingRecord:
    return AccountingRecord(
        job_id=job_id,
        submitted_at=submitted_at,
        state=JobState.COMPLETED,
        requeued=False,
        exit_code=0,
        exit_signal=None,
        started_at=submitted_at,
        ended_at=submitted_at + timedelta(seconds=1),
        node_list="n1",
        cancelled_by=None,
        batch_completed=True,
        failed_node="",
        user="alice",
    )
