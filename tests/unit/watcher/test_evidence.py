"""How seldom the watcher asks others, and how little it waits for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from middlewatch.detection.batch import Batch
from middlewatch.detection.state import DetectionState, fresh
from middlewatch.model.activity import ActivityKind, NodeSeries
from middlewatch.model.answer import Absent, Answer, Known, Unknown
from middlewatch.model.attempt import Attempt
from middlewatch.model.identity import AttemptId
from middlewatch.ports.metrics import StepSeries
from middlewatch.services.watcher.evidence import (
    QUESTIONS_PER_TICK,
    REMEMBERED,
    REST_TIMES,
    Evidence,
)
from middlewatch.services.watcher.report import WatcherReport
from tests.unit.detection.given import at, attempt

KINDS = (ActivityKind.GPU_POWER, ActivityKind.CPU_TIME, ActivityKind.DISK_IO)


@dataclass
class Clock:
    seconds: float = 0.0

    def now(self) -> datetime:
        return at(self.seconds)

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds

    def token(self, size: int = 32) -> str:
        raise AssertionError("nothing here needs chance")


@dataclass
class Slow:
    """Answers everything, each question taking ``takes_s`` of the clock's time."""

    clock: Clock
    takes_s: float = 0.0
    kinds: tuple[ActivityKind, ...] = KINDS
    window_s: float = 60.0
    counts_steps: bool = False
    fails: frozenset[ActivityKind] = frozenset()
    asked: list[tuple[str, ActivityKind]] = field(default_factory=list)
    refuses: bool = False
    steps_from: list[tuple[datetime, datetime]] = field(default_factory=list)

    def activity(
        self,
        kind: ActivityKind,
        nodes: Sequence[str],
        job_id: str,
        start: datetime,
        end: datetime,
    ) -> Answer[tuple[NodeSeries, ...]]:
        self.clock.sleep(self.takes_s)
        self.asked.append((job_id, kind))
        if kind in self.fails:
            return Unknown("it did not answer", end)
        return Known(tuple(NodeSeries(node, ((1.0, 2.0),)) for node in nodes), end)

    def measured(self, at_: datetime) -> Answer[frozenset[str]]:
        return Absent(at_)

    def steps(self, start: datetime, end: datetime) -> Answer[tuple[StepSeries, ...]]:
        self.steps_from.append((start, end))
        return Unknown("no such query", end) if self.refuses else Absent(end)


def silent(job: str) -> tuple[Attempt, DetectionState]:
    one = attempt(job_id=job, id=AttemptId(f"id-{job}"), nodes=("n1", "n2"))
    state = fresh(one.id)
    progress = replace(state.progress, first_step_at=at(10), last_step=5, first_step=1)
    state = replace(
        state, progress=progress, silence_reported=True, alive_at=at(100), advanced_at=at(100)
    )
    return one, state


def look(evidence: Evidence, clock: Clock, *jobs: str) -> tuple[dict[str, int], WatcherReport]:
    """One tick over silent jobs: how many activities came with each one's batch."""
    report = WatcherReport()
    now = at(200 + clock.seconds)
    evidence.begin(now, report)
    found = {}
    for job in jobs:
        one, state = silent(job)
        found[job] = len(evidence.onto(Batch(one), state, now, report).activity)
    return found, report


def test_all_kinds_of_one_look_come_together() -> None:
    clock = Clock()
    evidence = Evidence(Slow(clock), clock=clock)
    assert look(evidence, clock, "1")[0] == {"1": 3}
    assert look(evidence, clock, "1")[0] == {"1": 0}


def test_questions_of_a_tick_are_bounded_and_the_rest_comes_later() -> None:
    clock = Clock()
    metrics = Slow(clock)
    evidence = Evidence(metrics, clock=clock)
    jobs = [str(n) for n in range(5)]
    first, _ = look(evidence, clock, *jobs)
    assert len(metrics.asked) <= QUESTIONS_PER_TICK
    clock.sleep(1)
    second, _ = look(evidence, clock, *jobs)
    assert all(first[job] + second[job] == 3 for job in jobs)


def test_slow_server_is_asked_the_less_the_slower_it_is() -> None:
    clock = Clock()
    metrics = Slow(clock, takes_s=1.5)
    evidence = Evidence(metrics, clock=clock, every_s=1.0)
    for _ in range(300):
        look(evidence, clock, "1", "2", "3")
        clock.sleep(1)
    asking = len(metrics.asked) * 1.5
    assert metrics.asked
    assert asking <= clock.seconds / REST_TIMES + 1.5


def test_kind_without_an_answer_ends_the_look_and_is_told_once() -> None:
    clock = Clock()
    metrics = Slow(clock, fails=frozenset({ActivityKind.CPU_TIME}))
    evidence = Evidence(metrics, clock=clock)
    found, report = look(evidence, clock, "1", "2")
    assert found == {"1": 0, "2": 0}
    assert report.errors == ["it did not answer"]
    assert ("1", ActivityKind.DISK_IO) not in metrics.asked


def test_job_that_is_not_read_to_its_end_is_not_asked_about() -> None:
    clock = Clock()
    metrics = Slow(clock)
    evidence = Evidence(metrics, clock=clock)
    one, state = silent("1")
    evidence.begin(at(300), WatcherReport())
    for batch in (Batch(one, caught_up=False), Batch(one, readable=False)):
        evidence.onto(batch, state, at(300), WatcherReport())
    assert metrics.asked == []


def test_steps_that_are_refused_are_not_asked_for_in_every_tick_and_are_made_up_for() -> None:
    clock = Clock()
    metrics = Slow(clock, counts_steps=True, refuses=True)
    evidence = Evidence(metrics, clock=clock, every_s=30.0)
    look(evidence, clock)
    metrics.refuses = False
    clock.sleep(30)
    look(evidence, clock)
    metrics.refuses = True
    for _ in range(120):
        clock.sleep(1)
        assert ("no such query" in look(evidence, clock)[1].errors) == (clock.seconds >= 60)
    asked = [end for _, end in metrics.steps_from]
    assert asked == [at(200 + 30 * n) for n in range(6)]
    # What was asked in vain is asked again, from where the last answer ended.
    assert metrics.steps_from[-1][0] == at(230) - timedelta(seconds=60)


def test_what_is_remembered_is_bounded() -> None:
    clock = Clock()
    evidence = Evidence(Slow(clock, kinds=(ActivityKind.GPU_POWER,)), clock=clock)
    for number in range(REMEMBERED + 50):
        look(evidence, clock, str(number))
    assert len(evidence._looks) <= REMEMBERED


def test_site_without_metrics_changes_nothing() -> None:
    one, state = silent("1")
    batch = Batch(one)
    evidence = Evidence()
    evidence.begin(at(300), WatcherReport())
    assert evidence.onto(batch, state, at(300) + timedelta(hours=1), WatcherReport()) is batch
