"""A silent job that is looked at from another side, from the watcher's tick to the decision."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest

from middlewatch.adapters.logs.growth import CheckpointDirectories
from middlewatch.adapters.web import Access
from middlewatch.lab.metrics_servers import Prometheus, Series
from middlewatch.lab.packages import METRICS, available
from middlewatch.lab.simulated import EPOCH, SimulatedTrainer
from middlewatch.model.activity import ActivityKind, NodeSeries
from middlewatch.model.advice import Advice, DecisionBasis, DesiredState
from middlewatch.model.answer import Absent, Answer, Known, Unknown
from middlewatch.model.attempt import Attempt
from middlewatch.model.gates import Deployment, Mode
from middlewatch.model.signal import SignalKind, SourceKind
from middlewatch.ports.metrics import Metrics, StepSeries
from middlewatch.services.manager.manager import Manager
from middlewatch.services.watcher import Evidence
from tests.integration.watcher.world import CLUSTER, COMMENT, World, world
from tests.webs import metrics_server

WITNESS = SignalKind.SECOND_WITNESS
HANG_AT = 80
STEP_S = 10.0
_NODES = [f"gpu-{number:03}" for number in range(1, 5)]
Curve = Callable[[ActivityKind, str, float], float | None]


@dataclass
class ToldMetrics:
    """A metrics server that measures what the test says, each quarter of a minute. ``curve`` is
    given seconds since the epoch of the simulation; None: nothing was measured."""

    curve: Curve
    kinds: tuple[ActivityKind, ...] = (ActivityKind.GPU_POWER,)
    window_s: float = 60.0
    counts_steps: bool = False
    steps_of: Callable[[float], tuple[str, int]] | None = None
    away: str = ""
    asked: list[tuple[str, float]] = field(default_factory=list)

    def activity(
        self,
        kind: ActivityKind,
        nodes: Sequence[str],
        job_id: str,
        start: datetime,
        end: datetime,
    ) -> Answer[tuple[NodeSeries, ...]]:
        self.asked.append((kind.value, _since(end)))
        if self.away:
            return Unknown(self.away, end)
        found = [NodeSeries(n, tuple(self._samples(kind, n, start, end))) for n in nodes]
        found = [series for series in found if series.samples]
        return Known(tuple(found), end) if found else Absent(end)

    def _samples(
        self, kind: ActivityKind, node: str, start: datetime, end: datetime
    ) -> Iterator[tuple[float, float]]:
        for number in range(int(_since(start)) // 15 + 1, int(_since(end)) // 15 + 1):
            value = self.curve(kind, node, number * 15.0)
            if value is not None:
                yield EPOCH.timestamp() + number * 15.0, value

    def measured(self, at: datetime) -> Answer[frozenset[str]]:
        self.asked.append(("measured", _since(at)))
        if self.away:
            return Unknown(self.away, at)
        if self.curve(self.kinds[0], "any", _since(at)) is None:
            return Absent(at)
        return Known(frozenset(_NODES), at)

    def steps(self, start: datetime, end: datetime) -> Answer[tuple[StepSeries, ...]]:
        self.asked.append(("steps", _since(end)))
        if self.away:
            return Unknown(self.away, end)
        if self.steps_of is None:
            return Absent(end)
        found: dict[str, list[tuple[float, int]]] = {}
        for number in range(int(_since(start)) // 15 + 1, int(_since(end)) // 15 + 1):
            job, step = self.steps_of(number * 15.0)
            found.setdefault(job, []).append((EPOCH.timestamp() + number * 15.0, step))
        return Known(tuple(StepSeries(job, tuple(s)) for job, s in found.items()), end)


def _since(moment: datetime) -> float:
    return (moment - EPOCH).total_seconds()


def trainer(**given: object) -> SimulatedTrainer:
    fields = {"steps": 5000, "step_s": STEP_S, "fault": "hang", "fault_at": HANG_AT} | given
    return SimulatedTrainer(**fields)  # type: ignore[arg-type]


def hung_at() -> float:
    return 2 + STEP_S * (HANG_AT + 1)


def falls(to: float) -> Curve:
    """520 W while it trains and ``to`` while it hangs."""
    return lambda _kind, _node, t: (520.0 if t <= hung_at() else to) + t % 60 / 20


def site(folder: Path, metrics: Metrics | None = None, **given: object) -> World:
    return world(folder, evidence=Evidence(metrics, **given))  # type: ignore[arg-type]


def manager(here: World) -> Manager:
    facts = here.scheduler.facts()
    assert isinstance(facts, Known)
    allowed = Deployment(CLUSTER, facts.value.name, Mode.ACTION, True, ("*",))
    return Manager(
        store=here.store, scheduler=here.scheduler, deployment=allowed, policy=here.policy
    )


def decided(here: World, job: str) -> tuple[Attempt, Advice | None]:
    """What the manager makes of what the watcher has stored."""
    for _ in range(3):
        manager(here).tick(here.now)
    (attempt,) = here.attempts(job)
    return attempt, here.store.advice(attempt.id)


def test_silent_job_whose_power_fell_is_restarted_on_the_second_witness(tmp_path: Path) -> None:
    here = site(tmp_path, ToldMetrics(falls(95)))
    job = here.submit(trainer(), nodes=2)
    here.run(hung_at() + 900, every=5)
    attempt, advice = decided(here, job)
    assert len(here.signals(attempt, SignalKind.SILENCE)) == 1
    (witness,) = here.signals(attempt, WITNESS)
    assert (witness.source.kind, witness.source.identity) == (SourceKind.METRICS, "gpu_power")
    assert witness.nodes == ()
    assert "power on 2 of 2 nodes is 9" in witness.detail
    assert advice is not None
    assert advice.desired is DesiredState.RESTARTED
    assert advice.basis is DecisionBasis.SECOND_WITNESS
    assert advice.exclusions == ()


def test_silent_job_that_keeps_its_power_is_an_alarm_and_no_more(tmp_path: Path) -> None:
    here = site(tmp_path, ToldMetrics(falls(505)))
    job = here.submit(trainer(), nodes=2)
    here.run(hung_at() + 900, every=5)
    attempt, advice = decided(here, job)
    assert len(here.signals(attempt, SignalKind.SILENCE)) == 1
    assert here.signals(attempt, WITNESS) == []
    assert advice is None


def test_one_still_node_among_working_ones_is_told_by_name(tmp_path: Path) -> None:
    def curve(kind: ActivityKind, node: str, t: float) -> float | None:
        return falls(95 if node.endswith("3") else 500)(kind, node, t)

    here = site(tmp_path, ToldMetrics(curve))
    job = here.submit(trainer(), nodes=4)
    here.run(hung_at() + 900, every=5)
    attempt, advice = decided(here, job)
    (witness,) = here.signals(attempt, WITNESS)
    assert witness.nodes == ("gpu-003",)
    (verdict,) = here.store.verdicts(attempt.id)
    assert verdict.nodes == ("gpu-003",)
    assert advice is not None
    assert advice.basis is DecisionBasis.SECOND_WITNESS


def test_metrics_of_a_job_that_trains_are_never_asked_for(tmp_path: Path) -> None:
    metrics = ToldMetrics(falls(95))
    here = site(tmp_path, metrics)
    here.submit(trainer(fault=None), nodes=2)
    here.run(1200, every=5)
    assert {what for what, _ in metrics.asked} == {"measured"}


def test_silent_job_is_asked_about_seldom(tmp_path: Path) -> None:
    metrics = ToldMetrics(falls(505))
    here = site(tmp_path, metrics, every_s=60.0)
    here.submit(trainer(), nodes=2)
    here.run(hung_at() + 1200, every=5)
    times = [at for what, at in metrics.asked if what == "gpu_power"]
    assert times
    assert all(b - a >= 60 for a, b in pairwise(times))


def test_server_that_does_not_answer_concludes_nothing_and_is_told(tmp_path: Path) -> None:
    metrics = ToldMetrics(falls(95), away="no answer from the metrics server")
    here = site(tmp_path, metrics)
    job = here.submit(trainer(), nodes=2)
    here.run(hung_at() + 600, every=5)
    attempt, advice = decided(here, job)
    assert here.signals(attempt, WITNESS) == []
    assert advice is None
    # It is told for as long as it lasts, so that it begins and ends but once in the log.
    assert [here.run(5, every=5).errors for _ in range(20)] == [[metrics.away]] * 20
    metrics.away = ""
    assert here.run(300, every=5).errors == []
    assert len(here.signals(attempt, WITNESS)) == 1


def test_kind_that_is_missing_may_excuse_the_job_so_that_the_others_wait(tmp_path: Path) -> None:
    class Half(ToldMetrics):
        def activity(
            self,
            kind: ActivityKind,
            nodes: Sequence[str],
            job_id: str,
            start: datetime,
            end: datetime,
        ) -> Answer[tuple[NodeSeries, ...]]:
            if kind is ActivityKind.GPU_POWER:
                return Unknown("too slow", end)
            return super().activity(kind, nodes, job_id, start, end)

    kinds = (ActivityKind.CPU_TIME, ActivityKind.GPU_POWER)
    here = site(tmp_path, Half(lambda _k, _n, t: 24.0 if t <= hung_at() else 0.1, kinds))
    job = here.submit(trainer(), nodes=2)
    here.run(hung_at() + 600, every=5)
    (attempt,) = here.attempts(job)
    assert here.signals(attempt, WITNESS) == []


def test_witness_is_told_once_in_a_silence_also_by_another_watcher(tmp_path: Path) -> None:
    here = site(tmp_path, ToldMetrics(falls(95)))
    job = here.submit(trainer(), nodes=2)
    here.run(hung_at() + 600, every=5)
    here.restart()
    here.run(300, every=5)
    (attempt,) = here.attempts(job)
    assert len(here.signals(attempt, WITNESS)) == 1


def test_nodes_that_nobody_measures_are_told_in_the_record_and_are_no_issue(
    tmp_path: Path,
) -> None:
    here = site(tmp_path, ToldMetrics(lambda _k, _n, _t: None))
    job = here.submit(trainer(fault=None), nodes=2)
    here.run(600, every=5)
    (attempt,) = here.attempts(job)
    progress = here.store.progress(attempt.id)
    assert progress is not None
    assert [unseen.what for unseen in progress.unseen] == ["metrics"]
    assert here.signals(attempt, SignalKind.BLIND) == []


def test_measured_nodes_are_not_told(tmp_path: Path) -> None:
    here = site(tmp_path, ToldMetrics(falls(500)))
    job = here.submit(trainer(fault=None), nodes=2)
    here.run(600, every=5)
    (attempt,) = here.attempts(job)
    progress = here.store.progress(attempt.id)
    assert progress is not None
    assert progress.unseen == ()


# -- steps from metrics --------------------------------------------------------------------------


def counted(job: list[str], stops: float) -> ToldMetrics:
    return ToldMetrics(
        falls(500),
        counts_steps=True,
        steps_of=lambda t: (job[0] if job else "none", int(min(t, stops) // 10)),
    )


def test_job_whose_log_prints_no_step_is_watched_by_its_counter(tmp_path: Path) -> None:
    jobs: list[str] = []
    here = site(tmp_path, counted(jobs, 900.0), every_s=15.0)
    jobs.append(here.submit(trainer(startup_s=1e6), nodes=1))
    here.log.write_text("hello\n")
    os.utime(here.log, (EPOCH.timestamp() + 1,) * 2)
    here.run(900, every=5)
    (attempt,) = here.attempts(jobs[0])
    progress = here.store.progress(attempt.id)
    assert progress is not None
    assert progress.last_step is not None
    assert progress.last_step >= 85
    assert here.signals(attempt, SignalKind.SILENCE) == []
    here.run(900, every=5)
    assert len(here.signals(attempt, SignalKind.SILENCE)) == 1


def test_printed_steps_are_preferred_to_the_counter(tmp_path: Path) -> None:
    jobs: list[str] = []
    here = site(tmp_path, counted(jobs, 1e9), every_s=15.0)
    jobs.append(here.submit(trainer(fault=None, step_s=20.0), nodes=1))
    here.run(900, every=5)
    (attempt,) = here.attempts(jobs[0])
    progress = here.store.progress(attempt.id)
    assert progress is not None
    assert progress.last_step is not None
    assert 35 <= progress.last_step <= 45


def test_counter_of_the_attempt_before_is_not_this_ones(tmp_path: Path) -> None:
    jobs: list[str] = []
    here = site(tmp_path, counted(jobs, 1e9), every_s=15.0)
    jobs.append(here.submit(trainer(startup_s=1e6), nodes=1))
    here.run(50, every=5)
    (attempt,) = here.attempts(jobs[0])
    progress = here.store.progress(attempt.id)
    assert progress is None or progress.last_step is None


def test_counter_that_is_measured_no_more_is_not_silent(tmp_path: Path) -> None:
    jobs: list[str] = []
    metrics = counted(jobs, 1e9)
    here = site(tmp_path, metrics, every_s=15.0)
    jobs.append(here.submit(trainer(startup_s=1e6), nodes=1))
    here.log.write_text("hello\n")
    os.utime(here.log, (EPOCH.timestamp() + 1,) * 2)
    here.run(900, every=5)
    metrics.away = "no answer from the metrics server"
    here.run(1200, every=5)
    metrics.away, metrics.steps_of = "", None
    here.run(1200, every=5)
    (attempt,) = here.attempts(jobs[0])
    progress = here.store.progress(attempt.id)
    assert progress is not None
    assert progress.last_step is not None
    assert here.signals(attempt, SignalKind.SILENCE) == []


# -- the checkpoint directory --------------------------------------------------------------------


class Frozen:
    """The simulation's clock."""

    def __init__(self) -> None:
        self.here: World | None = None

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC) if self.here is None else self.here.now

    def monotonic(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        raise AssertionError("nobody sleeps here")

    def token(self, size: int = 32) -> str:
        raise AssertionError("nothing here needs chance")


@dataclass
class Saving:
    here: World
    folder: Path
    job: str

    def save(self, name: str) -> None:
        """A checkpoint is written now."""
        (self.folder / name).write_text("weights")
        for path in (self.folder / name, self.folder):
            os.utime(path, (self.here.now.timestamp(),) * 2)

    def train(self, seconds: float) -> None:
        """Let time pass; a checkpoint each two hundred seconds of it."""
        for _ in range(int(seconds // 200)):
            self.here.run(200, every=10)
            self.save(f"at-{self.here.now:%H%M%S}")


def saving(tmp_path: Path, comment: str = COMMENT) -> Saving:
    clock = Frozen()
    directories = CheckpointDirectories(clock, patience_s=60.0)
    here = world(tmp_path, evidence=Evidence(None, directories))
    clock.here = here
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    script = trainer(checkpoint_every=20, folder=str(folder))
    job = here.submit(script, nodes=2, comment=comment.replace("FOLDER", str(folder)))
    return Saving(here, folder, job)


def test_directory_that_does_not_grow_testifies_after_three_saves_were_missed(
    tmp_path: Path,
) -> None:
    run = saving(tmp_path)
    run.train(810)
    run.here.run(400, every=10)
    (attempt,) = run.here.attempts(run.job)
    assert run.here.signals(attempt, SignalKind.SILENCE)
    assert run.here.signals(attempt, WITNESS) == []
    run.here.run(500, every=10)
    (witness,) = run.here.signals(attempt, WITNESS)
    assert witness.source.kind is SourceKind.FILES
    assert witness.source.path == str(run.folder)
    assert "it used to save every 20" in witness.detail
    # A program that does not step does not save: beside mere silence it permits nothing.
    assert decided(run.here, run.job)[1] is None


def test_directory_that_grows_in_the_silence_does_not_testify(tmp_path: Path) -> None:
    run = saving(tmp_path)
    run.train(2200)
    (attempt,) = run.here.attempts(run.job)
    assert run.here.signals(attempt, SignalKind.SILENCE)
    assert run.here.signals(attempt, WITNESS) == []


def test_directory_that_never_grew_is_another_one(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    os.utime(other, (EPOCH.timestamp() - 9000,) * 2)
    given = {"environment": "prod", "mode": "action", "checkpoints": str(other)}
    run = saving(tmp_path, json.dumps({"middlewatch": given}))
    run.train(810)
    run.here.run(1500, every=10)
    (attempt,) = run.here.attempts(run.job)
    assert attempt.opt_in.checkpoints == str(other)
    assert run.here.signals(attempt, WITNESS) == []


# -- on a real server ----------------------------------------------------------------------------


def test_decision_on_a_real_prometheus(tmp_path: Path) -> None:
    state = available(METRICS)
    if not state.ok:
        pytest.skip(state.reason)
    times = [15.0 * n for n in range(int(hung_at() + 900) // 15)]
    past = [
        Series(
            "DCGM_FI_DEV_POWER_USAGE",
            (("Hostname", f"{node}.cluster.local"), ("gpu", str(gpu))),
            tuple(
                (EPOCH.timestamp() + t, falls(95)(ActivityKind.GPU_POWER, node, t) or 0.0)
                for t in times
            ),
        )
        for node in _nodes(tmp_path)
        for gpu in range(2)
    ]
    server = Prometheus(tmp_path / "prometheus")
    server.load(past)
    server.start()
    try:
        clock = Frozen()
        metrics = metrics_server(Access(server.url, timeout_s=60.0), clock)
        here = world(tmp_path / "site", evidence=Evidence(metrics))
        clock.here = here
        job = here.submit(trainer(), nodes=2)
        here.run(hung_at() + 900, every=5)
        attempt, advice = decided(here, job)
        (witness,) = here.signals(attempt, WITNESS)
        metrics.close()
    finally:
        server.stop()
    assert witness.source.identity == "gpu_power"
    assert advice is not None
    assert advice.basis is DecisionBasis.SECOND_WITNESS


def _nodes(folder: Path) -> tuple[str, ...]:
    """Where the simulation places a job of two nodes."""
    here = world(folder / "trial")
    job = here.submit(trainer(), nodes=2)
    here.run(5)
    (attempt,) = here.attempts(job)
    return attempt.nodes
