"""What must hold of the fold, whatever lines come in whatever rounds."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from middlewatch.adapters.logs import RecordCodec
from middlewatch.detection.batch import Batch, Hit
from middlewatch.detection.limits import acting_limit, silence_limit
from middlewatch.detection.observe import observe
from middlewatch.detection.state import DetectionState, fresh
from middlewatch.model.policy import Policy
from middlewatch.model.signal import SILENT, Signal, SignalKind
from tests.unit.detection import given as g

PATTERNS = (
    g.CRASH,
    g.VAGUE,
    g.WATCHDOG,
    g.CASCADE,
    g.LAUNCHER,
    g.TRACEBACK,
    g.EXCEPTION,
    g.HARMLESS,
    g.IGNORED,
    g.RESTARTING,
    g.STEP,
    g.BAR,
    g.TICK,
    g.OWN,
    g.TOTAL,
    g.SAVING,
    g.SAVING_SILENTLY,
    g.SAVED,
    g.LOADED,
    g.EVALUATION,
    g.SHUTDOWN,
    g.PLAN,
    g.FIRST_STEP,
    g.COMPILING,
)

numbers = st.one_of(st.none(), st.integers(0, 60), st.just("9" * 30), st.just("x"))
raw_hits = st.tuples(st.sampled_from(PATTERNS), numbers, numbers, st.integers(0, 2))
rounds = st.lists(
    st.tuples(st.floats(0, 400, allow_nan=False), st.lists(raw_hits, max_size=5)), max_size=25
)
codec = RecordCodec(DetectionState)


def batches(story: list[tuple[float, list[tuple]]]) -> list[tuple[float, tuple[Hit, ...]]]:
    offset = 0
    when = 0.0
    out = []
    for wait, raw in story:
        when += wait
        hits = []
        for pattern, step, total, rank in raw:
            offset += 50
            hits.append(g.hit(pattern, offset=offset, step=step, total=total, rank=rank))
        out.append((when, tuple(hits)))
    return out


def folded(
    story: list[tuple[float, tuple[Hit, ...]]], *, stored: bool = False
) -> tuple[DetectionState, list[Signal]]:
    state = fresh(g.attempt().id, resume_above=20)
    signals: list[Signal] = []
    for when, hits in story:
        batch = Batch(g.attempt(), hits, g.at(when) if hits else None)
        found = observe(state, batch, g.at(when))
        state = found.state
        if stored:
            state = codec.decode(codec.encode(state))
        signals.extend(found.signals)
    return state, signals


@given(rounds)
def test_every_signal_has_a_key_of_its_own(story) -> None:
    _, signals = folded(batches(story))
    assert len({signal.key for signal in signals}) == len(signals)


@given(rounds)
def test_same_story_gives_the_same_signals(story) -> None:
    assert folded(batches(story)) == folded(batches(story))


@given(rounds)
def test_state_that_was_stored_and_read_back_goes_on_the_same(story) -> None:
    assert folded(batches(story), stored=True) == folded(batches(story))


@given(rounds)
def test_nothing_happens_after_it_is_learnt(story) -> None:
    _, signals = folded(batches(story))
    assert all(signal.happened_at <= signal.learned_at for signal in signals)


@given(rounds)
def test_evidence_of_no_recovery_needs_a_failure_line_before_it(story) -> None:
    _, signals = folded(batches(story))
    armed = False
    for signal in signals:
        if signal.kind in {
            SignalKind.FAILURE_LINE,
            SignalKind.WATCHDOG_LINE,
            SignalKind.LAUNCHER_END,
        }:
            armed = True
        if signal.kind is SignalKind.NO_PROGRESS_AFTER_FAILURE:
            assert armed


@given(rounds)
def test_state_is_bounded(story) -> None:
    state, _ = folded(batches(story))
    assert len(codec.encode(state)) < 20_000


@given(rounds, st.floats(1, 10_000))
def test_silence_is_told_at_most_once_between_two_steps(story, wait: float) -> None:
    state, _ = folded(batches(story))
    end = sum(pause for pause, _ in story)
    told = 0
    for number in range(1, 6):
        now = g.at(end) + timedelta(seconds=wait * number)
        found = observe(state, Batch(g.attempt()), now)
        state = found.state
        told += sum(signal.kind is SignalKind.SILENCE for signal in found.signals)
    assert told <= 1


@given(rounds, st.floats(1, 10_000))
def test_alarm_comes_no_later_than_the_silence_counts_and_in_that_order(story, wait: float) -> None:
    state, _ = folded(batches(story))
    assert silence_limit(state, Policy()).seconds <= acting_limit(state, Policy()).seconds
    end = sum(pause for pause, _ in story)
    told = []
    for number in range(1, 6):
        found = observe(state, Batch(g.attempt()), g.at(end) + timedelta(seconds=wait * number))
        state = found.state
        told += [signal.kind for signal in found.signals if signal.kind in SILENT]
    assert told in ([], [SignalKind.SILENCE], [SignalKind.OVERDUE], sorted(SILENT))
