"""The watcher on a real Slurm: who owns which lines when Slurm itself truncates and appends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.adapters.slurm.command import Commands
from middlewatch.adapters.slurm.scheduler import SlurmScheduler
from middlewatch.adapters.sql.store import SqlStore, open_store
from middlewatch.lab.cluster import Cluster
from middlewatch.lab.jobs import TrainerOptions
from middlewatch.lab.patience import pause, wait_for
from middlewatch.model.attempt import Attempt, EndedBy
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import JobState
from middlewatch.model.signal import Progress, Signal, SignalKind
from middlewatch.services.watcher import Watcher, WatcherSettings
from tests.integration.watcher.world import CLUSTER, COMMENT, made

pytestmark = pytest.mark.slurm


@dataclass
class Watched:
    lab: Cluster
    clock: SystemClock
    store: SqlStore
    watcher: Watcher

    def until(self, what: Callable[[], bool], seconds: float = 60.0) -> None:
        def tick() -> bool:
            report = self.watcher.tick(self.clock.now())
            assert report.errors == []
            return what()

        assert wait_for(tick, seconds, every_s=0.3)

    def attempts(self, job: str) -> tuple[Attempt, ...]:
        return self.store.attempts_of_job(CLUSTER, job)

    def signals(self, attempt: Attempt, *kinds: SignalKind) -> list[Signal]:
        found = [signal for _, signal in self.store.signals(attempt.id)]
        return [signal for signal in found if not kinds or signal.kind in kinds]

    def progress(self, attempt: Attempt) -> Progress:
        found = self.store.progress(attempt.id)
        assert found is not None
        return found

    def has_ended(self, job: str, index: int) -> Callable[[], bool]:
        def ended() -> bool:
            attempts = self.attempts(job)
            end = attempts[index].end if len(attempts) > index else None
            return end is not None and end.final

        return ended

    def restart(self, job: str) -> None:
        """Requeue and let go, as the controller does."""
        self.lab.run(["scontrol", "requeue", job])
        self.lab.wait_state(job, "PENDING")
        for _ in range(5):
            pause(0.3)
            self.watcher.tick(self.clock.now())
        self.lab.run(["scontrol", "update", f"jobid={job}", "StartTime=now"])


@pytest.fixture
def watched(lab: Cluster, tmp_path: Path) -> Watched:
    clock = SystemClock()
    commands = Commands(clock, environ=lab.env())
    scheduler = SlurmScheduler(CLUSTER, commands, clock)
    store = open_store(tmp_path / "state" / "middlewatch.db")
    watcher = made(store, scheduler, Policy(), WatcherSettings())
    return Watched(lab, clock, store, watcher)


def options(**fields: object) -> TrainerOptions:
    plain: dict[str, object] = {"nodes": 2, "steps": 60, "step_seconds": 0.05, "comment": COMMENT}
    return TrainerOptions(**{**plain, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize("append", [False, True])
@pytest.mark.parametrize("form", ["megatron", "plain", "hf"])
def test_attempts_of_one_file_are_told_apart(watched: Watched, form: str, append: bool) -> None:
    job = watched.lab.submit(options(format=form, fault="crash-cuda", fault_at=38, append=append))
    watched.until(watched.has_ended(job, 0))
    (first,) = watched.attempts(job)
    assert first.end is not None
    assert first.end.by is EndedBy.FAILURE
    failures = watched.signals(first, SignalKind.FAILURE_LINE)
    assert "gpu_ecc_uncorrectable" in {signal.failure_class for signal in failures}
    assert 37 <= (watched.progress(first).last_step or 0) <= 38
    watched.restart(job)
    watched.until(watched.has_ended(job, 1))
    second = watched.attempts(job)[1]
    assert second.end is not None
    assert second.end.by is EndedBy.COMPLETION
    assert watched.signals(second, SignalKind.FAILURE_LINE, SignalKind.RECOVERED) == []
    progress = watched.progress(second)
    assert (progress.loaded_step, progress.first_step, progress.last_step) == (30, 31, 60)


def test_owners_cancel_is_told_from_the_operators(watched: Watched) -> None:
    lab = watched.lab
    ours = lab.submit(options(steps=100_000))
    theirs = lab.submit(options(steps=100_000))
    lab.wait_state(ours, "RUNNING")
    lab.wait_state(theirs, "RUNNING")
    watched.watcher.tick(watched.clock.now())
    lab.run(["scancel", ours], user=lab.spec.job_users[0])
    lab.run(["scancel", theirs])
    watched.until(lambda: watched.has_ended(ours, 0)() and watched.has_ended(theirs, 0)())
    ends = [watched.attempts(job)[0].end for job in (ours, theirs)]
    assert [end.by if end else None for end in ends] == [EndedBy.OWNER, EndedBy.OPERATOR]


def test_relaunch_inside_the_job_is_a_recovery(watched: Watched) -> None:
    job = watched.lab.submit(
        options(fault="crash-python", fault_at=25, relaunch=1, steps=200, step_seconds=0.1)
    )
    watched.until(watched.has_ended(job, 0), 90)
    (attempt,) = watched.attempts(job)
    assert attempt.state is JobState.COMPLETED
    kinds = [signal.kind for signal in watched.signals(attempt)]
    assert SignalKind.FAILURE_LINE in kinds
    assert SignalKind.RECOVERED in kinds
    assert SignalKind.NO_PROGRESS_AFTER_FAILURE not in kinds
