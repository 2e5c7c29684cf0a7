"""What one watcher does in a round because there are others: over a real store, in virtual time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from middlewatch.adapters.logs import FileLogs, RecordCodec
from middlewatch.adapters.scan import Re2Scanner, read_catalogue
from middlewatch.adapters.sql.store import SqlStore, open_store
from middlewatch.model.answer import Answer
from middlewatch.model.identity import AttemptKey, ClusterId
from middlewatch.model.scheduler import Snapshot
from middlewatch.model.sharing import pool_of
from middlewatch.model.signal import SignalKind
from middlewatch.ports.errors import Conflict
from middlewatch.services.watcher import Watch, Watcher, WatcherReport, WatcherSettings
from middlewatch.services.watcher.share import Part
from tests.integration.watcher.scripted import ScriptedScheduler

CLUSTER = ClusterId("slurm", "prod")
POOL = pool_of("watcher", CLUSTER)
COMMENT = '{"middlewatch":{"environment":"prod","mode":"action"}}'
BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
TERM_S = 30.0
JOBS = 30
CATALOGUE = read_catalogue()
SCANNER = Re2Scanner(CATALOGUE)
LINE = (
    "n2 kernel: NVRM: Xid (PCI:0000:3b:00): 48, pid=4242, name=python3, An uncorrectable double "
    "bit error (DBE) has been detected on GPU in the framebuffer at partition 0, subpartition 1.\n"
)


@dataclass
class Counting(ScriptedScheduler):
    listings: int = 0
    meanwhile: Callable[[], None] = field(default=lambda: None)

    def listing(self) -> Answer[Snapshot]:
        self.listings += 1
        self.meanwhile()
        return super().listing()


@dataclass
class Time:
    """Virtual time, and a clock for those who measure."""

    at: datetime = BEGUN

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return (self.at - BEGUN).total_seconds()

    def sleep(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)

    def token(self, size: int = 32) -> str:
        raise AssertionError("nobody here needs a secret")


class Site:
    def __init__(self, folder: Path) -> None:
        self.time = Time()
        self.store: SqlStore = open_store(folder / "state" / "state.db", clock=self.time.now)
        self.scheduler = Counting(CLUSTER, BEGUN)
        self.logs = {str(n): folder / f"slurm-{n}.out" for n in range(1, JOBS + 1)}
        for job_id, log in self.logs.items():
            log.touch()
            self.scheduler.job(job_id, COMMENT, str(log), uid=os.geteuid())
        self.shares: dict[str, Part] = {}
        self.watchers: dict[str, Watcher] = {}

    def start(self, name: str) -> None:
        share = self.shares[name] = Part(self.store, POOL, name, TERM_S, self.time)
        self.watchers[name] = Watcher(
            store=self.store,
            scheduler=self.scheduler,
            logs=FileLogs(),
            scanner=SCANNER,
            patterns=CATALOGUE.by_id(),
            codec=RecordCodec(Watch),
            settings=WatcherSettings(details_per_tick=JOBS),
            share=share,
        )

    def tick(self, *names: str) -> list[WatcherReport]:
        self.time.sleep(1)
        self.scheduler.now = self.time.now()
        return [self.watchers[name].tick(self.time.now()) for name in names]

    def failures(self, job_id: str) -> int:
        attempt_id = AttemptKey(CLUSTER, job_id, BEGUN).attempt_id()
        found = [signal for _, signal in self.store.signals(attempt_id)]
        return sum(signal.kind is SignalKind.FAILURE_LINE for signal in found)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.store.close()


def shared(site: Site, *names: str) -> None:
    for name in names:
        site.start(name)
    for _ in range(2 * len(names)):
        site.tick(*names)


def test_one_watcher_alone_has_everything_and_lists_in_every_round(site: Site) -> None:
    site.start("a")
    for rounds in range(1, 6):
        (report,) = site.tick("a")
        assert (report.watchers, report.share) == (1, 1.0)
        assert site.scheduler.listings == rounds
        assert report.jobs_listed == report.watched == JOBS


def test_watchers_together_list_as_often_as_one_would(site: Site) -> None:
    shared(site, "a", "b", "c")
    before = site.scheduler.listings
    for _ in range(12):
        reports = site.tick("a", "b", "c")
        assert [report.jobs_listed for report in reports] == [JOBS] * 3
        assert all(report.listing_unknown is None for report in reports)
    assert site.scheduler.listings - before == 12


def test_each_watches_its_own_jobs_and_none_is_left_out(site: Site) -> None:
    shared(site, "a", "b", "c")
    reports = site.tick("a", "b", "c")
    assert sum(report.watched for report in reports) == JOBS
    assert sum(report.share for report in reports) == pytest.approx(1)
    assert all(0.2 < report.share < 0.5 for report in reports)


def test_line_is_read_in_the_next_round_also_where_another_lists(site: Site) -> None:
    shared(site, "a", "b", "c")
    for rounds in range(1, 7):
        for log in site.logs.values():
            with log.open("a") as file:
                file.write(LINE)
        site.tick("a", "b", "c")
        assert {site.failures(job) for job in site.logs} == {rounds}


def test_jobs_of_a_dead_watcher_are_watched_when_its_term_is_over(site: Site) -> None:
    shared(site, "a", "b")
    site.logs["1"].write_text(LINE)
    dead, other = ("a", "b") if site.shares["a"].owns("1") else ("b", "a")
    for _ in range(int(TERM_S)):
        site.tick(other)
    (report,) = site.tick(other)
    assert (report.watchers, report.share, site.failures("1")) == (1, 1.0, 1)
    assert not any(shard.holder == dead for shard in site.store.sharing(POOL).shards)


def test_frozen_watcher_that_returns_takes_only_what_is_its_own_again(site: Site) -> None:
    shared(site, "a", "b")
    for _ in range(int(TERM_S) + 1):
        site.tick("b")
    (first,) = site.tick("a")
    assert (first.share, first.conflicts) == (0, 0)
    site.tick("a", "b")
    site.tick("a", "b")
    reports = site.tick("a", "b")
    assert sum(report.share for report in reports) == 1
    assert reports[0].share > 0.3
    assert sum(report.watched for report in reports) == JOBS


def test_round_that_takes_longer_than_a_term_keeps_its_jobs(site: Site) -> None:
    shared(site, "a", "b")
    before = site.store.sharing(POOL).shards

    def slowly() -> None:
        site.scheduler.meanwhile = lambda: None
        site.time.sleep(TERM_S * 0.6)
        site.shares["a"].keep()
        site.time.sleep(TERM_S * 0.6)
        site.tick("b")

    site.scheduler.meanwhile = slowly
    site.tick("a")
    site.tick("a")
    assert site.store.sharing(POOL).shards == before


def test_watcher_that_leaves_has_given_everything_back(site: Site) -> None:
    shared(site, "a", "b")
    site.watchers["a"].finish(site.time.now())
    assert site.shares["a"].held == 0
    (report,) = site.tick("b")
    assert (report.watchers, report.share) == (1, 1.0)


def test_nothing_is_written_about_a_job_of_another(site: Site) -> None:
    shared(site, "a", "b")
    own = next(job for job in site.logs if site.shares["a"].owns(job))
    others = next(job for job in site.logs if not site.shares["a"].owns(job))
    assert [shard.holder for shard in site.shares["a"].of([own])] == ["a"]
    with pytest.raises(Conflict, match="are not 'a''s"):
        site.shares["a"].of([own, others])


def test_file_that_begins_anew_is_believed_only_after_a_listing(site: Site) -> None:
    shared(site, "a", "b")
    job = next(job for job in site.logs if site.shares["a"].owns(job))
    site.logs[job].write_text("a line that is gone soon, and long enough\n" * 50)

    def lists() -> bool:
        before = site.scheduler.listings
        site.tick("a")
        return site.scheduler.listings > before

    while lists():
        pass
    site.logs[job].write_text(LINE)
    assert (lists(), site.failures(job)) == (True, 0)
    assert (lists(), site.failures(job)) == (False, 0)
    assert (lists(), site.failures(job)) == (True, 1)
