"""What must hold of steps, pace and state, whatever a log prints and in whatever pieces."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from middlewatch.adapters.logs import RecordCodec
from middlewatch.detection.batch import Batch, Hit
from middlewatch.detection.hang import due
from middlewatch.detection.observe import observe
from middlewatch.detection.state import DetectionState, fresh
from middlewatch.model.pattern import Pattern
from middlewatch.model.policy import Policy
from middlewatch.model.signal import SignalKind
from middlewatch.model.steps import StepCounter
from tests.unit.detection import given as g

MOST_BYTES = 20_000
PATTERNS = (
    *(g.CRASH, g.WATCHDOG, g.CASCADE, g.LAUNCHER, g.TRACEBACK, g.EXCEPTION, g.STACK, g.ATTEMPT),
    *(g.RESTARTING, g.STEP, g.STEP, g.STEP, g.BAR, g.TICK, g.OTHER, g.OWN, g.TOTAL, g.METRIC),
    *(g.SAVING, g.SAVING_SILENTLY, g.SAVED, g.LOADED, g.EVALUATION, g.COMPILING, g.STARTING),
    g.SHUTDOWN,
)
codec = RecordCodec(DetectionState)
numbers = st.one_of(st.none(), st.integers(0, 10**15), st.sampled_from(["9" * 40, "-1", "x", ""]))
figures = st.one_of(st.none(), st.floats(), st.sampled_from(["nan", "inf", "1e999", "3.3K", "-"]))
stamps = st.sampled_from(
    [
        "",
        "2026-03-01 12:00:00 ",
        "[E228 23:59:59.123456789 x] ",
        "12/31 00:00:00 ",
        "Feb 29 12:00:00 ",
        "2026-02-30 25:61:61 ",
    ]
)


@st.composite
def hits(draw: st.DrawFn) -> Hit:
    groups = {
        "step": draw(numbers),
        "total": draw(numbers),
        "epoch": draw(st.one_of(numbers, figures)),
        "epochs": draw(numbers),
        "loss": draw(figures),
        "grad_norm": draw(figures),
        "step_ms": draw(figures),
        "throughput": draw(figures),
        "data_s": draw(figures),
        "rank": draw(st.one_of(st.none(), st.integers(0, 9999), st.just("r" * 4000))),
    }
    pattern = draw(st.sampled_from(PATTERNS))
    stream = draw(st.sampled_from(["f#0", "s" * 4000]))
    line = draw(stamps) + draw(st.text(max_size=20))
    return g.hit(pattern, offset=1, line=line, stream=stream, **groups)


@settings(max_examples=40)
@given(st.lists(st.lists(hits(), max_size=6), max_size=8), st.floats(0, 1e6))
def test_any_lines_leave_a_small_state_that_can_be_stored(
    rounds: list[list[Hit]], pause: float
) -> None:
    state = fresh(g.attempt().id, resume_above=10)
    offset = 0
    for number, found in enumerate(rounds):
        placed = []
        for hit in found:
            offset += 100
            placed.append(replace(hit, offset=offset))
        now = g.at(number * pause)
        state = observe(state, Batch(g.attempt(), tuple(placed), now), now).state
        encoded = codec.encode(state)
        assert len(encoded) <= MOST_BYTES
        assert codec.decode(encoded) == state


@settings(max_examples=40)
@given(
    st.lists(st.integers(1, 400), min_size=1, max_size=80),
    st.lists(st.integers(1, 20), max_size=10),
)
def test_steps_and_pace_do_not_depend_on_the_pieces_that_lines_are_read_in(
    taken: list[int], pieces: list[int]
) -> None:
    lines, step = [], 0
    for number, some in enumerate(taken):
        step += some
        hit = g.hit(g.STEP, offset=100 * number + 1, step=step, total=10**6, loss=number / 7)
        lines.append(replace(hit, written_at=g.at(number * 3.0 - 1000)))
    whole = _folded([lines])
    cut, at = [], 0
    for size in (*pieces, len(lines)):
        cut.append(lines[at : at + size])
        at += size
    apart = _folded(cut)
    assert replace(whole.progress, updated_at=None) == replace(apart.progress, updated_at=None)
    assert (whole.intervals, whole.step_times) == (apart.intervals, apart.step_times)
    assert whole.pauses == apart.pauses


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.sampled_from([g.STEP, g.OTHER, g.BAR, g.OWN]), st.integers(1, 60)),
        min_size=1,
        max_size=60,
    ),
    st.lists(st.integers(1, 20), max_size=10),
)
def test_only_a_line_of_the_counter_that_was_lost_passes_its_step(
    printed: list[tuple[Pattern, int]], pieces: list[int]
) -> None:
    lines = [
        replace(
            g.hit(pattern, offset=100 * number + 1, step=step, total=1000),
            written_at=g.at(number * 3.0 - 1000),
        )
        for number, (pattern, step) in enumerate(printed)
    ]
    cut, at = [], 0
    for size in (*pieces, len(lines)):
        cut.append(lines[at : at + size])
        at += size
    begun = replace(fresh(g.attempt().id, 25), resume_of=StepCounter(g.STEP.id, 1), resume_by=1)
    for way in ([lines], cut):
        found = _folded(way, begun)
        passed = {step for pattern, step in printed if pattern is g.STEP and step > 25}
        assert found.resumed_step is None or found.resumed_step in passed
        reached = found.progress.reached
        if reached.step is not None:
            assert reached.of is not None
            assert (reached.of.name, reached.step) in {(p.id, step) for p, step in printed}


def _folded(pieces: list[list[Hit]], begun: DetectionState | None = None) -> DetectionState:
    state = begun or fresh(g.attempt().id)
    for piece in pieces:
        batch = Batch(g.attempt(), tuple(piece), g.at(1) if piece else None)
        state = observe(state, batch, g.at(1)).state
    return state


@settings(max_examples=30)
@given(st.floats(0.05, 400), st.integers(5, 60), st.integers(0, 99))
def test_hang_of_a_job_with_a_known_pace_is_told_within_a_minute_or_three_intervals(
    every: float, count: int, offset: int
) -> None:
    state, when = fresh(g.attempt().id), 0.0
    policy = Policy()
    first = 1000 * offset + 1
    for number in range(count):
        when = number * every
        hit = g.hit(g.STEP, offset=number + 1, step=first + number, total=10**9)
        state = observe(state, Batch(g.attempt(), (hit,), g.at(when)), g.at(when), policy).state
    at = due(state, policy)
    assert at is not None
    round_step = (first + count - 1) % 100 == 0
    assert (at - g.at(when)).total_seconds() <= max(300.0 if round_step else 60.0, 3 * every)


@settings(max_examples=30)
@given(st.floats(1, 100), st.floats(1.0, 2.3), st.integers(10, 60))
def test_steps_of_varying_length_are_no_hang(every: float, times: float, count: int) -> None:
    state, when = fresh(g.attempt().id), 0.0
    for number in range(count):
        gap = every * (times if number % 3 == 2 else 1.0)
        for part in (0.5, 0.99):
            look = g.at(when + gap * part)
            found = observe(state, Batch(g.attempt()), look)
            state = found.state
            assert not [s for s in found.signals if s.kind is SignalKind.SILENCE]
        when += gap
        hit = g.hit(g.STEP, offset=number + 1, step=number + 1, total=10**9)
        state = observe(state, Batch(g.attempt(), (hit,), g.at(when)), g.at(when)).state
