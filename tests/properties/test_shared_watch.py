"""However watchers come, go, die, freeze and return: every line of every job is seen, and once.

Three watchers over one store, in virtual time. One may stop anywhere: between two rounds, just
before or just after a transaction, or stand still in front of one while the others take its jobs.
What the store has in the end is compared with the lines that were written.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)

from middlewatch.adapters.logs import FileLogs, RecordCodec
from middlewatch.adapters.scan import Re2Scanner, read_catalogue
from middlewatch.adapters.sql.store import SqlStore, open_store
from middlewatch.model.change import Applied, Change
from middlewatch.model.identity import ClusterId
from middlewatch.model.scheduler import JobState
from middlewatch.model.sharing import pool_of
from middlewatch.model.signal import SignalKind
from middlewatch.ports.errors import Conflict
from middlewatch.ports.store import Store
from middlewatch.services.watcher import Watch, Watcher, WatcherSettings
from middlewatch.services.watcher.share import Part
from tests.integration.watcher.scripted import ScriptedScheduler

CLUSTER = ClusterId("slurm", "prod")
POOL = pool_of("watcher", CLUSTER)
COMMENT = '{"middlewatch":{"environment":"prod","mode":"action"}}'
BEGUN = datetime(2026, 1, 1, tzinfo=UTC)
TERM_S = 30.0
WATCHERS = 3
JOBS = 6
FAILURE = (
    "n2 kernel: NVRM: Xid (PCI:0000:3b:00): 48, pid=4242, name=python3, An uncorrectable double "
    "bit error (DBE) has been detected on GPU in the framebuffer at partition 0, subpartition 1.\n"
)
CATALOGUE = read_catalogue()
SCANNER = Re2Scanner(CATALOGUE)
SETTINGS = WatcherSettings(states_per_tick=1, details_per_tick=JOBS)
"""Few states are written in a tick, so that much is lost with a watcher that dies."""


class Killed(BaseException):
    """What `kill -9` is to a process."""


@dataclass
class Time:
    now: datetime = BEGUN
    store_is_ahead: timedelta = timedelta()

    def of_store(self) -> datetime:
        return self.now + self.store_is_ahead


@dataclass
class Fence:
    """What was tried under tokens that had moved."""

    refused: int = 0
    let_in: int = 0


class Stalling:
    """A store in whose door one watcher can be made to stop."""

    def __init__(self, store: Store, fence: Fence) -> None:
        self._store = store
        self._fence = fence
        self.before: Callable[[], None] | None = None
        self.after: Callable[[], None] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def apply(self, change: Change) -> Applied:
        assert change.shards
        return cast("Applied", self._passing(lambda: self._apply(change)))

    def _apply(self, change: Change) -> Applied:
        stand = self._store.sharing(POOL).shards
        late = any(stand[shard.number] != shard for shard in change.shards)
        try:
            applied = self._store.apply(change)
        except Conflict:
            self._fence.refused += late
            raise
        self._fence.let_in += late
        return applied

    def share_out(self, *given: Any) -> Any:
        return self._passing(lambda: self._store.share_out(*given))

    def _passing(self, act: Callable[[], Any]) -> Any:
        before, self.before = self.before, None
        if before is not None:
            before()
        answer = act()
        after, self.after = self.after, None
        if after is not None:
            after()
        return answer


@dataclass
class One:
    """One watcher's process."""

    store: Stalling
    watcher: Watcher
    busy: bool = False


@dataclass
class Printed:
    """What a job has written."""

    log: Path
    failures: list[int] = field(default_factory=list)
    step: int = 0


class Shared(RuleBasedStateMachine):
    empty = Path()
    fence = Fence()

    def __init__(self) -> None:
        super().__init__()
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.folder = Path(tempfile.mkdtemp(prefix="shared-", dir=memory))
        (self.folder / "state").mkdir(mode=0o700)
        shutil.copy(self.empty, self.folder / "state" / "state.db")
        self.time = Time()
        self.store = self._open()
        self.scheduler = ScriptedScheduler(CLUSTER, BEGUN)
        self.jobs: dict[str, Printed] = {}
        self.running: dict[int, One] = {}

    def _open(self) -> SqlStore:
        return open_store(self.folder / "state" / "state.db", clock=self.time.of_store)

    def _passes(self, seconds: float) -> None:
        self.time.now += timedelta(seconds=seconds)
        self.scheduler.now = self.time.now

    def _made(self, n: int) -> One:
        store = Stalling(self.store, self.fence)
        seen = cast("Store", store)
        watcher = Watcher(
            store=seen,
            scheduler=self.scheduler,
            logs=FileLogs(),
            scanner=SCANNER,
            patterns=CATALOGUE.by_id(),
            codec=RecordCodec(Watch),
            settings=SETTINGS,
            share=Part(seen, POOL, f"w{n}", TERM_S),
        )
        return One(store, watcher)

    def _tick(self, n: int) -> None:
        one = self.running.get(n)
        if one is None or one.busy:
            return
        one.busy = True
        try:
            report = one.watcher.tick(self.time.now)
            assert report.errors == []
        except Killed:
            del self.running[n]
        finally:
            one.busy = False

    # -- what may happen -------------------------------------------------------------------------

    @initialize()
    def begins(self) -> None:
        self.submit()
        self.start(0)

    @rule()
    def submit(self) -> None:
        if len(self.jobs) < JOBS:
            job_id = str(17 * len(self.jobs) + 1)
            log = self.folder / f"slurm-{job_id}.out"
            log.touch()
            self.jobs[job_id] = Printed(log)
            self.scheduler.job(job_id, COMMENT, str(log), uid=os.geteuid())

    @rule(n=st.integers(0, WATCHERS - 1))
    def start(self, n: int) -> None:
        self.running.setdefault(n, self._made(n))

    @rule(n=st.integers(0, WATCHERS - 1), seconds=st.sampled_from((0.5, 1.0, 11.0)))
    def tick(self, n: int, seconds: float) -> None:
        self._passes(seconds)
        self._tick(n)

    @rule(rounds=st.integers(1, 4))
    def all_tick(self, rounds: int) -> None:
        for _ in range(rounds):
            self._passes(1)
            for n in range(WATCHERS):
                self._tick(n)

    @rule(job=st.integers(0, JOBS - 1), lines=st.lists(st.booleans(), min_size=1, max_size=6))
    def prints(self, job: int, lines: list[bool]) -> None:
        number, printed = list(self.jobs.items())[job % len(self.jobs)]
        if self.scheduler.views[number].ended:
            return
        with printed.log.open("a") as file:
            for fails in lines:
                if fails:
                    printed.failures.append(file.tell())
                    file.write(FAILURE)
                else:
                    printed.step += 1
                    file.write(
                        f" [2026-01-01 00:00:00] iteration {printed.step:8d}/    1000 | elapsed "
                        "time per iteration (ms): 500.0 | lm loss: 1.000000E+00 |\n"
                    )

    @rule(job=st.integers(0, JOBS - 1))
    def ends(self, job: int) -> None:
        number = list(self.jobs)[job % len(self.jobs)]
        if not self.scheduler.views[number].ended:
            self.scheduler.change(
                number, state=JobState.FAILED, ended_at=self.time.now, exit_code=1
            )

    @rule(n=st.integers(0, WATCHERS - 1))
    def killed_between_rounds(self, n: int) -> None:
        self.running.pop(n, None)

    @rule(n=st.integers(0, WATCHERS - 1), written=st.booleans())
    def killed_at_its_next_write(self, n: int, written: bool) -> None:
        def die() -> None:
            raise Killed

        if n in self.running:
            store = self.running[n].store
            store.before, store.after = (None, die) if written else (die, None)

    @rule(n=st.integers(0, WATCHERS - 1))
    def leaves(self, n: int) -> None:
        one = self.running.pop(n, None)
        if one is not None:
            one.store.before = one.store.after = None
            one.watcher.finish(self.time.now)

    @rule(
        n=st.integers(0, WATCHERS - 1),
        seconds=st.sampled_from((1.0, TERM_S, 3 * TERM_S)),
        rounds=st.integers(1, 3),
        fails=st.booleans(),
    )
    def freezes_before_a_write(self, n: int, seconds: float, rounds: int, fails: bool) -> None:
        def freeze() -> None:
            self._passes(seconds)
            for _ in range(rounds):
                for other in range(WATCHERS):
                    self._tick(other)

        if n in self.running:
            for job in range(len(self.jobs)):
                self.prints(job, [fails, False])
            self.start((n + 1) % WATCHERS)
            self.running[n].store.before = freeze
            self.tick(n, 1.0)

    @rule(seconds=st.sampled_from((TERM_S, 3 * TERM_S)))
    def all_freeze(self, seconds: float) -> None:
        self._passes(seconds)

    @rule(seconds=st.sampled_from((-86_400.0, -10.0, 10.0, 86_400.0)))
    def stores_clock_is_set(self, seconds: float) -> None:
        self.time.store_is_ahead += timedelta(seconds=seconds)

    # -- and in the end --------------------------------------------------------------------------

    def teardown(self) -> None:
        try:
            self._settled()
            self._check()
        finally:
            self.store.close()
            shutil.rmtree(self.folder)

    def _settled(self) -> None:
        for one in self.running.values():
            one.store.before = one.store.after = None
        self.start(0)
        for _ in range(4):
            self._passes(TERM_S)
            for n in range(WATCHERS):
                self._tick(n)
        for _ in range(2 * WATCHERS):
            self._passes(1)
            for n in range(WATCHERS):
                self._tick(n)
        self.present = frozenset(self.running)
        self.shares = [shard.holder for shard in self.store.sharing(POOL).shards]
        for n in list(self.running):
            self.leaves(n)

    def _check(self) -> None:
        assert set(self.shares) == {f"w{n}" for n in self.present}
        assert self.fence.let_in == 0
        for number, printed in self.jobs.items():
            (attempt,) = self.store.attempts_of_job(CLUSTER, number)
            found = [signal for _, signal in self.store.signals(attempt.id)]
            failures = [
                int(signal.source.position)
                for signal in found
                if signal.kind is SignalKind.FAILURE_LINE
            ]
            assert sorted(failures) == printed.failures
            assert self.store.capped_counts(attempt.id) == {}
            ended = [s for s in found if s.kind is SignalKind.SCHEDULER_END]
            assert len(ended) == self.scheduler.views[number].ended
            kept, progress = self.store.watch_state(attempt.id), self.store.progress(attempt.id)
            assert kept is not None
            assert progress is not None
            (tail,) = RecordCodec(Watch).decode(kept.state).tails
            read = 0 if tail.cursor is None else tail.cursor.offset
            assert read == printed.log.stat().st_size
            assert progress.last_step == (printed.step or None)


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("empty") / "state.db"
    open_store(path).close()
    return path


def test_every_line_is_seen_once_whoever_watches(empty: Path) -> None:
    class Machine(Shared):
        pass

    Machine.empty = empty
    Machine.fence = Fence()
    run_state_machine_as_test(
        Machine,
        settings=settings(
            max_examples=int(os.environ.get("SHARED_EXAMPLES", "30")),
            stateful_step_count=30,
            deadline=None,
            # To make a failing story shorter takes longer than to read it.
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
        ),
    )
    # Or nobody was ever late, and nothing was shown.
    assert Machine.fence.refused > 0
