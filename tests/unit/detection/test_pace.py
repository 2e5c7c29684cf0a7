"""A lasting loss of speed is told, with its numbers; pauses, noise and growing batches are not."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from middlewatch.detection.advance import Advance, judged
from middlewatch.detection.batch import Hit
from middlewatch.detection.pace import MOST_PLANS, network_seen, planned
from middlewatch.detection.state import DetectionState, fresh
from middlewatch.model.pattern import Pattern, PatternKind, ProgressForm
from middlewatch.model.policy import Policy
from middlewatch.model.signal import Domain, Signal, SignalKind
from tests.unit.attribution.made import attempt

STEP = Pattern("test.step", PatternKind.PROGRESS, "")
BAR = Pattern("test.bar", PatternKind.PROGRESS, "", form=ProgressForm.BAR)
TIMER = Pattern("test.timer", PatternKind.METRIC, "")
LINK = Pattern("test.link", PatternKind.HARMLESS, "", domain=Domain.NETWORK)
START = 1_772_366_400.0


class Log:
    """Step lines one after the other, and what came of them."""

    def __init__(self, noise: float = 0.01, seed: int = 1) -> None:
        self.state: DetectionState = fresh(attempt().id)
        self.signals: list[Signal] = []
        self.step = 0
        self.at_s = START
        self._offset = 0
        self._noise = noise
        self._chance = random.Random(seed)

    def steps(
        self,
        count: int,
        seconds: float = 1.0,
        *,
        taken: int = 1,
        told: bool = True,
        throughput: float | None = None,
        data_s: float | None = None,
        pattern: Pattern = STEP,
        paused: bool = False,
        line: str = "step",
        **groups: str,
    ) -> list[Signal]:
        """``count`` lines of ``taken`` steps each; the first follows a pause if ``paused``."""
        new: list[Signal] = []
        for number in range(count):
            own = seconds * (1 + self._chance.gauss(0, self._noise))
            self.step += taken
            self.at_s += own * taken
            self._offset += 100
            hit = Hit(pattern, "f#0", self._offset, line, tuple(groups.items()), "/out.log")
            advance = Advance(
                self.step,
                taken,
                own if told else None,
                None if self.step == taken or (paused and number == 0) else own * taken,
                throughput=None if throughput is None else throughput / own,
                data_s=data_s,
                at_s=self.at_s,
                own_clock="printed",
                hit=hit,
            )
            new += self._judge([advance])
        return new

    def table(self, name: str, low: float, high: float) -> None:
        self._behind((("timer", name), ("min_ms", str(low)), ("max_ms", str(high))))

    def ranks(self, name: str, milliseconds: Sequence[float]) -> None:
        self._behind((("timer", name),))
        for rank, value in enumerate(milliseconds):
            self._behind((("rank", str(rank)), ("max_ms", str(value))))

    def _behind(self, groups: tuple[tuple[str, str], ...]) -> None:
        self._offset += 10
        hit = Hit(TIMER, "f#0", self._offset, "timer", groups, "/out.log")
        self._judge([Advance(self.step, 0, at_s=self.at_s, hit=hit)])

    def network_trouble(self) -> None:
        hit = Hit(LINK, "f#0", self._offset, "link down", (), "/out.log")
        self.state = network_seen(self.state, hit, datetime.fromtimestamp(self.at_s, UTC))

    def plan(self) -> None:
        self.state = planned(self.state)

    def _judge(self, lines: Iterable[Advance]) -> tuple[Signal, ...]:
        now = datetime.fromtimestamp(self.at_s + 1, UTC)
        self.state, found = judged(self.state, tuple(lines), now, Policy())
        self.signals += found
        return found


def kinds(signals: Iterable[Signal]) -> list[SignalKind]:
    return [signal.kind for signal in signals]


@pytest.mark.parametrize(("slower", "within"), [(1.05, 50), (1.10, 50), (1.30, 5), (2.0, 5)])
def test_a_lasting_slowdown_is_told_within_its_iterations(slower: float, within: int) -> None:
    log = Log()
    log.steps(500)
    began = log.step
    found = log.steps(60, slower)
    assert kinds(found) == [SignalKind.SLOW]
    (signal,) = found
    told = int((signal.learned_at.timestamp() - 1 - log.at_s) // slower) + log.step - began
    assert told <= within
    assert signal.step is not None
    assert abs(signal.step - (began + 1)) <= 3
    drop = 100 * (1 - 1 / slower)
    assert signal.value == pytest.approx(drop, abs=2.0)
    assert "this job's own baseline" in signal.detail


def test_the_signal_points_at_the_line_where_it_began() -> None:
    log = Log()
    log.steps(300)
    first = log._offset + 100
    (signal,) = log.steps(20, 1.5)
    assert signal.source.position == str(first)
    assert signal.source.path == "/out.log"
    assert signal.happened_at < signal.learned_at


def test_lines_of_many_iterations_are_counted_in_iterations() -> None:
    log = Log(noise=0.004)
    log.steps(60, 104.0, taken=10)
    began = log.step
    found = log.steps(5, 104.0 * 1.052, taken=10)
    assert kinds(found) == [SignalKind.SLOW]
    assert found[0].step == began + 10


def test_a_creep_is_measured_against_what_was_before_it() -> None:
    log = Log(noise=0.012)
    log.steps(15, 1.48, taken=100)
    found: list[Signal] = []
    for more in range(1, 12):
        found += log.steps(1, 1.48 + 0.055 * more, taken=100)
    assert found
    assert all(kind is SignalKind.SLOW for kind in kinds(found))
    assert (found[-1].value or 0) > 15


def test_the_speed_that_comes_back_is_told_once() -> None:
    log = Log()
    log.steps(300)
    log.steps(40, 1.3)
    assert kinds(log.steps(40)) == [SignalKind.RECOVERED]
    assert log.signals[-1].failure_class == log.signals[0].failure_class
    assert "the speed is back" in log.signals[-1].detail
    assert log.steps(200) == []


def test_a_drop_that_grows_is_told_again_and_not_without_end() -> None:
    log = Log()
    log.steps(300)
    for factor in (1.1, 1.3, 1.8, 3.0):
        log.steps(60, factor)
    assert kinds(log.signals) == [SignalKind.SLOW] * 4
    drops = [signal.value or 0.0 for signal in log.signals]
    assert drops == sorted(drops)
    assert len({signal.key for signal in log.signals}) == 4


@pytest.mark.parametrize("noise", [0.0, 0.003, 0.02, 0.1])
def test_a_steady_job_is_not_slow(noise: float) -> None:
    log = Log(noise=noise)
    log.steps(3000)
    assert log.signals == []


def test_single_slow_steps_are_not_a_slow_job() -> None:
    log = Log()
    for _ in range(100):
        log.steps(19)
        log.steps(1, 8.0)
    assert log.signals == []


def test_a_slow_beginning_is_no_baseline_to_be_held_against() -> None:
    log = Log()
    log.steps(60, 1.5)
    log.steps(400)
    assert log.signals == []


def test_a_step_behind_an_announced_pause_is_passed_over() -> None:
    log = Log()
    log.steps(300)
    for _ in range(20):
        log.steps(1, 30.0, paused=True)
        log.steps(3)
    assert log.signals == []


def test_a_growing_batch_makes_steps_longer_and_no_slow_job() -> None:
    log = Log()
    for batch in (64, 128, 192, 256, 320):
        log.steps(80, 0.2 + batch / 64, batch_size=str(batch))
    assert log.signals == []


def test_a_throughput_that_stays_is_believed_before_the_time_of_a_step() -> None:
    log = Log()
    log.steps(200, 1.0, throughput=300.0)
    log.steps(200, 2.0, throughput=600.0)
    assert log.signals == []
    found = log.steps(30, 2.0, throughput=450.0)
    assert kinds(found) == [SignalKind.SLOW]
    assert "as printed" in found[0].detail


def test_a_job_that_starts_again_is_learnt_anew() -> None:
    log = Log()
    log.steps(300)
    log.step = 100
    log.steps(300, 1.4)
    assert log.signals == []


def test_clocks_tell_the_speed_where_the_lines_do_not() -> None:
    log = Log()
    log.steps(600, 2.5, told=False)
    assert log.signals == []
    assert kinds(log.steps(600, 3.5, told=False)) == [SignalKind.SLOW]


def test_a_bar_that_smooths_its_rate_is_not_believed() -> None:
    log = Log(noise=0.0)
    log.steps(200, 1.0, pattern=BAR)
    assert log.state.speed.rank == 1


def test_waiting_for_data_is_named_as_the_reason() -> None:
    log = Log()
    log.steps(100, 1.0, data_s=0.01)
    (signal,) = log.steps(20, 1.5, data_s=0.5)
    assert (signal.failure_class, signal.domain) == ("slow_input", Domain.STORAGE)
    assert "waiting for data" in signal.detail


def test_a_table_of_timers_names_the_input() -> None:
    log = Log(noise=0.005)
    for _ in range(20):
        log.state = replace(log.state, progress=replace(log.state.progress, step_time_s=1.48))
        log.steps(1, 1.48, taken=100)
        log.table("forward-backward ....", 1380, 1399)
        log.table("batch-generator ....", 6, 9)
    for more in range(1, 12):
        log.steps(1, 1.48 + 0.055 * more, taken=100)
        log.table("forward-backward ....", 1380 + 55 * more, 1399 + 55 * more)
        log.table("batch-generator ....", 6, 9 + 55 * more)
    assert {signal.failure_class for signal in log.signals} == {"slow_input"}


def test_trouble_with_the_network_makes_it_the_fabric() -> None:
    log = Log()
    log.steps(100)
    log.network_trouble()
    (signal,) = log.steps(20, 1.5)
    assert (signal.failure_class, signal.domain) == ("slow_fabric", Domain.NETWORK)


def test_the_slowest_rank_is_named() -> None:
    log = Log()
    for _ in range(50):
        log.steps(1)
        log.ranks("forward-compute", [400, 402, 401, 399])
    for _ in range(12):
        log.steps(1, 1.4)
        log.ranks("forward-compute", [400, 402, 790, 399])
    (signal,) = log.signals
    assert signal.failure_class == "slow_node"
    assert signal.ranks == (2,)
    assert "rank 2" in signal.detail


def test_all_ranks_alike_is_no_nodes_fault() -> None:
    log = Log()
    for _ in range(50):
        log.steps(1)
        log.ranks("forward-compute", [400, 402, 401, 399])
    for _ in range(12):
        log.steps(1, 1.4)
        log.ranks("forward-compute", [560, 562, 561, 559])
    (signal,) = log.signals
    assert signal.failure_class == "slow_job"
    assert signal.ranks == ()
    assert "no node is at fault" in signal.detail


def test_what_nothing_explains_blames_no_rank() -> None:
    log = Log()
    log.steps(100)
    (signal,) = log.steps(20, 1.2)
    assert (signal.failure_class, signal.ranks, signal.nodes) == ("slow_node", (), ())


def test_steps_that_may_be_larger_by_plan_blame_no_node() -> None:
    log = Log()
    log.steps(100)
    (signal,) = log.steps(60, 2.0)
    assert (signal.failure_class, signal.domain) == ("slow_job", Domain.UNKNOWN)
    assert "no node is seen to be at fault" in signal.detail
    (again,) = log.steps(60, 4.0)
    assert again.failure_class == "slow_job"


def test_steps_that_grow_without_end_blame_no_node() -> None:
    log = Log(noise=0.002)
    log.steps(300)
    grown = [signal for step in range(200) for signal in log.steps(1, 1 + step / 400)]
    assert {signal.failure_class for signal in grown} == {"slow_job"}


@pytest.mark.parametrize("words", ["10.3M tok/s", "tokens_per_sec: 580K", "358.0 TFLOP/s/GPU"])
def test_throughput_that_counts_work_tells_a_slow_machine_from_larger_steps(words: str) -> None:
    log = Log()
    log.steps(100, throughput=1000.0, line=words)
    (signal,) = log.steps(20, 2.0, throughput=1000.0, line=words)
    assert signal.failure_class == "slow_node"


def test_throughput_that_counts_samples_does_not() -> None:
    log = Log()
    log.steps(100, throughput=1000.0, line="imgs/s=1258")
    (signal,) = log.steps(20, 2.0, throughput=1000.0, line="imgs/s=1258")
    assert signal.failure_class == "slow_job"


def test_batch_that_stays_tells_a_slow_machine_from_larger_steps() -> None:
    log = Log()
    log.steps(100, batch_size="256")
    (signal,) = log.steps(20, 2.0, batch_size="256")
    assert signal.failure_class == "slow_node"


@pytest.mark.parametrize("words", ["curriculum seqlen: {} |", "seq_len={}", "sequence length: {}"])
def test_length_that_grows_in_the_step_lines_makes_no_slow_job(words: str) -> None:
    log = Log()
    for length, seconds in ((512, 1.0), (1024, 2.1), (2048, 4.5)):
        assert log.steps(80, seconds, line=words.format(length), batch_size="256") == []
    (signal,) = log.steps(30, 5.4, line=words.format(2048), batch_size="256")
    assert signal.failure_class == "slow_node"


def test_length_that_grows_a_little_with_every_line_makes_no_slow_job() -> None:
    log = Log()
    for length in range(512, 4096, 8):
        assert log.steps(1, length / 512, line=f"curriculum seqlen: {length} |") == []


def test_announced_plan_is_learnt_anew_and_a_slowdown_behind_it_is_told() -> None:
    log = Log()
    log.steps(100)
    log.plan()
    assert log.steps(100, 2.0) == []
    (signal,) = log.steps(30, 2.4)
    assert signal.failure_class == "slow_node"


def test_program_that_changes_its_plan_all_the_time_is_not_believed_for_ever() -> None:
    log = Log()
    for _ in range(MOST_PLANS):
        log.steps(10)
        log.plan()
    log.steps(60)
    log.plan()
    assert kinds(log.steps(20, 1.3)) == [SignalKind.SLOW]


def test_one_round_or_many_give_the_same() -> None:
    one, many = Log(seed=7), Log(seed=7)
    lines: list[Advance] = []
    collected: list[Advance] = []

    class Collecting(Log):
        def _judge(self, lines: Iterable[Advance]) -> tuple[Signal, ...]:
            collected.extend(lines)
            return ()

    collecting = Collecting(seed=7)
    for log in (many, collecting):
        log.steps(200)
        log.steps(30, 1.4)
        log.steps(60)
    lines = collected
    now = datetime.fromtimestamp(collecting.at_s + 1, UTC)
    one.state, found = judged(one.state, lines, now, Policy())
    assert [(s.key, s.value) for s in found] == [(s.key, s.value) for s in many.signals]
    assert one.state.speed.baseline.level == pytest.approx(many.state.speed.baseline.level or 0)
