"""The real watcher over a log store: a job's lines reach it through a collector and a server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest

from middlewatch.adapters.logs import RecordCodec
from middlewatch.adapters.logstores import Labels, StoreLogs
from middlewatch.adapters.scan import Re2Scanner, read_catalogue
from middlewatch.lab.simulated import SimulatedTrainer
from middlewatch.model.action import Action, ActionKind
from middlewatch.model.signal import SignalKind
from middlewatch.services.watcher import Watch, Watcher, WatcherReport
from middlewatch.wiring.logsource import place_in
from tests.contract.logsource.worlds import SECOND, HandClock, StoreWorld, Wrote
from tests.integration.watcher.world import World, world

_CATALOGUE = read_catalogue()
_SCANNER = Re2Scanner(_CATALOGUE)


@dataclass
class Shipped:
    """A cluster whose jobs' lines are shipped to a store, and a watcher that reads them there."""

    here: World
    store: StoreWorld
    logs: StoreLogs
    shipped: int = 0
    away: bool = False
    speaking: tuple[str, ...] = ()
    """Nodes whose own logs are shipped, too: a line in each round."""
    job: str = ""
    reports: list[WatcherReport] = field(default_factory=list)

    def watch(self) -> None:
        """A process that has just started takes the watching over."""
        self.logs.close()
        self.logs = self.store.source()
        self.here.watcher = Watcher(
            store=self.here.store,
            scheduler=self.here.scheduler,
            logs=self.logs,
            scanner=_SCANNER,
            patterns=_CATALOGUE.by_id(),
            codec=RecordCodec(Watch),
            policy=self.here.policy,
            places=place_in(self.logs),
            neighbours=self.logs,
        )

    def run(self, seconds: float, every: float = 1) -> None:
        for _ in range(int(seconds / every)):
            self.here.pass_unwatched(every)
            self.store.clock.moment = self.here.now
            self.store.clock.passed += every
            if not self.away:
                self.ship()
            at = round(self.here.now.timestamp() * 1e6) * 1000 - self.store.began
            file = f"/logs/{self.store.job}/syslog"
            system = [Wrote(at, b"a unit", node, file, "-") for node in self.speaking]
            if system:
                self.store.write(*system)
            self.reports.append(self.here.watcher.tick(self.here.now))

    def ship(self) -> None:
        """What jobs printed since the last time, with their node and the time of each line."""
        printed = self.here.cluster.printed[self.shipped :]
        self.shipped += len(printed)
        if not printed:
            return
        nodes = self.here.scheduler.hostnames("n1") or ("n1",)
        (attempt,) = self.here.attempts(self.job)[-1:] or (None,)
        node = attempt.nodes[-1] if attempt is not None and attempt.nodes else nodes[0]
        lines = [
            Wrote(
                round(when.timestamp() * 1e6) * 1000 + n - self.store.began,
                line.encode(),
                f"{node}.cluster.example.org",
                f"/logs/{self.store.job}/out",
                job=job,
            )
            for n, (when, job, line) in enumerate(printed)
        ]
        self.store.write(*lines)

    @property
    def crashes(self) -> list[tuple[str, tuple[str, ...]]]:
        """Class and nodes of the failure lines of all attempts."""
        return [
            (signal.failure_class, signal.nodes)
            for attempt in self.here.attempts(self.job)
            for signal in self.here.signals(attempt, SignalKind.FAILURE_LINE)
        ]


@pytest.fixture
def shipped(tmp_path: Path, store: StoreWorld) -> Iterator[Shipped]:
    here = world(tmp_path)
    store.clock = HandClock(here.now)
    # Simulated jobs have the same numbers in every test, and the server is one for all of them.
    store.labels = Labels(job=f"job_{store.job}", match=f'filename=~"/logs/{store.job}/.*"')
    store.began = int(here.now.timestamp()) * SECOND
    made = Shipped(here, store, store.source())
    made.watch()
    yield made
    made.logs.close()


def submit(shipped: Shipped) -> None:
    shipped.job = shipped.here.submit(SimulatedTrainer(fault_at=25), nodes=2)


def test_crash_is_a_signal_with_its_node_and_its_time(shipped: Shipped) -> None:
    submit(shipped)
    shipped.run(40)
    (attempt,) = shipped.here.attempts(shipped.job)
    lines = shipped.here.signals(attempt, SignalKind.FAILURE_LINE)
    assert {line.failure_class for line in lines} == {"gpu_ecc_uncorrectable"}
    printed = next(when for when, _, line in shipped.here.cluster.printed if "Xid" in line)
    assert lines[0].nodes == (attempt.nodes[-1],)
    assert abs(lines[0].happened_at - printed) < timedelta(milliseconds=1)
    assert lines[0].learned_at - printed <= timedelta(seconds=2)
    progress = shipped.here.store.progress(attempt.id)
    assert progress is not None
    assert (progress.last_step, progress.checkpoint_step) == (25, 20)
    assert progress.log_drained_at is not None


def test_outage_hides_nothing_and_nothing_is_concluded_from_it(shipped: Shipped) -> None:
    if not shipped.store.stoppable:
        pytest.skip("a given Loki is not ours to stop")
    submit(shipped)
    shipped.run(10)
    shipped.store.stop()
    shipped.away = True
    try:
        # The crash happens meanwhile, and the job ends.
        shipped.run(120)
        shipped.watch()
        shipped.run(480)
        (attempt,) = shipped.here.attempts(shipped.job)
        assert not shipped.here.signals(attempt, SignalKind.SILENCE)
        assert not shipped.crashes
        assert any("no answer from" in error for error in shipped.reports[-1].errors)
        assert len(shipped.reports[-1].errors) == 1
        progress = shipped.here.store.progress(attempt.id)
        assert progress is None or progress.log_drained_at is None
    finally:
        shipped.store.start()
    shipped.away = False
    shipped.run(60)
    assert {kind for kind, _ in shipped.crashes} == {"gpu_ecc_uncorrectable"}
    assert not shipped.reports[-1].errors
    progress = shipped.here.store.progress(attempt.id)
    assert progress is not None
    assert (progress.last_step, progress.log_drained_at is not None) == (25, True)


def test_lines_of_two_attempts_of_one_job_are_told_apart(shipped: Shipped) -> None:
    submit(shipped)
    shipped.run(40)
    first = shipped.crashes
    shipped.here.scheduler.perform(Action(ActionKind.REQUEUE, shipped.job, "test"), 5)
    shipped.run(5)
    shipped.here.scheduler.perform(
        Action(ActionKind.UPDATE, shipped.job, "test", start_now=True), 5
    )
    shipped.run(40)
    before, after = shipped.here.attempts(shipped.job)
    assert first
    assert len(shipped.here.signals(before, SignalKind.FAILURE_LINE)) == len(first)
    reached = shipped.here.store.progress(after.id)
    assert reached is not None
    assert reached.first_step is not None
    assert reached.first_step > 1


def test_process_that_is_replaced_all_the_time_loses_and_repeats_nothing(
    shipped: Shipped,
) -> None:
    submit(shipped)
    for _ in range(30):
        shipped.run(2)
        shipped.watch()
    (attempt,) = shipped.here.attempts(shipped.job)
    lines = shipped.here.signals(attempt, SignalKind.FAILURE_LINE)
    assert [line.pattern_id for line in lines].count("kernel.xid") <= 1
    told = [(line.pattern_id, line.happened_at) for line in lines]
    assert len(set(told)) == len(told)
    progress = shipped.here.store.progress(attempt.id)
    assert progress is not None
    assert (progress.first_step, progress.last_step) == (1, 25)


def test_job_that_cannot_be_seen_for_long_is_told_of_and_not_called_silent(
    shipped: Shipped,
) -> None:
    if not shipped.store.stoppable:
        pytest.skip("a given Loki is not ours to stop")
    shipped.job = shipped.here.submit(SimulatedTrainer(steps=2000, fault=None), nodes=2)
    shipped.run(10)
    shipped.store.stop()
    shipped.away = True
    try:
        shipped.run(300)
    finally:
        shipped.store.start()
    (attempt,) = shipped.here.attempts(shipped.job)
    (blind,) = shipped.here.signals(attempt, SignalKind.BLIND)
    assert "no answer from" in blind.detail
    shipped.away = False
    shipped.run(30)
    told = [signal.kind for signal in shipped.here.signals(attempt)]
    assert told == [SignalKind.BLIND, SignalKind.SEEN_AGAIN]


def test_attempt_that_waits_for_the_log_of_the_one_before_is_told_of(shipped: Shipped) -> None:
    if not shipped.store.stoppable:
        pytest.skip("a given Loki is not ours to stop")
    shipped.job = shipped.here.submit(SimulatedTrainer(steps=2000, fault=None), nodes=2)
    shipped.run(20)
    shipped.store.stop()
    shipped.away = True
    try:
        shipped.run(15)
        shipped.here.scheduler.perform(Action(ActionKind.REQUEUE, shipped.job, "test"), 5)
        shipped.run(5)
        shipped.here.scheduler.perform(
            Action(ActionKind.UPDATE, shipped.job, "test", start_now=True), 5
        )
        shipped.run(160, every=5)
    finally:
        shipped.store.start()
    _, after = shipped.here.attempts(shipped.job)
    (blind,) = shipped.here.signals(after, SignalKind.BLIND)
    assert "the attempt before it" in blind.detail
    assert not shipped.here.signals(after, SignalKind.SILENCE, SignalKind.OVERDUE)


OWN, ELSEWHERE = "{}.cluster.example.org", "login1"
ALARMS = (SignalKind.SILENCE, SignalKind.OVERDUE)


@pytest.mark.parametrize(
    ("still_speaking", "told"),
    [((ELSEWHERE,), "collector"), ((), "anybody"), ((OWN, ELSEWHERE), "")],
)
def test_silence_in_which_others_fell_silent_too_is_blindness_and_no_alarm(
    shipped: Shipped, still_speaking: tuple[str, ...], told: str
) -> None:
    shipped.job = shipped.here.submit(SimulatedTrainer(steps=2000, fault=None), nodes=2)
    shipped.run(2)
    (attempt,) = shipped.here.attempts(shipped.job)
    node = attempt.nodes[-1]
    shipped.speaking = (OWN.format(node), ELSEWHERE)
    shipped.run(60, every=4)
    # No line of the job comes to the store any more; those of others do, or do not.
    shipped.away = True
    shipped.speaking = tuple(name.format(node) for name in still_speaking)
    shipped.run(280, every=5)
    assert bool(shipped.here.signals(attempt, *ALARMS)) == (not told)
    blind = shipped.here.signals(attempt, SignalKind.BLIND)
    assert [told in signal.detail for signal in blind] == ([True] if told else [])
    if told:
        shipped.away, shipped.speaking = False, (OWN.format(node), ELSEWHERE)
        shipped.run(5)
        kinds = [signal.kind for signal in shipped.here.signals(attempt)]
        assert kinds == [SignalKind.BLIND, SignalKind.SEEN_AGAIN]
