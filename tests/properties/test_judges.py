"""Whatever a job prints, the judges of speed and numbers neither raise nor grow, and what they
remember comes back from the store as it was."""

from __future__ import annotations

from datetime import UTC, datetime
from math import inf, nan

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from middlewatch.detection.advance import Advance, judged
from middlewatch.detection.batch import Hit
from middlewatch.detection.state import DetectionState, fresh
from middlewatch.model.identity import AttemptId
from middlewatch.model.pattern import Pattern, PatternKind, ProgressForm
from middlewatch.model.policy import Policy
from middlewatch.model.signal import Signal

FORMS = tuple(Pattern(f"p.{form}", PatternKind.PROGRESS, "", form=form) for form in ProgressForm)
TEXTS = ("0", "1", "-1", "1e308", "1e-308", "64", "nan", "inf", "x", "", "3.2K")
NAMES = ("batch_size", "skipped", "nan_steps", "loss_scale", "timer", "max_ms", "min_ms", "rank")
LIMIT = 20_000
"""Bytes of one job's state, as the store holds it."""

seconds = st.none() | st.sampled_from((0.0, 1e-9, 0.5, 1.0, 2.0, 86_400.0, 1e300, -1.0))
figures = st.none() | st.sampled_from((0.0, 1.0, 2.5, -3.0, 1e308, -1e308, 1e-308, inf, -inf, nan))
finite = st.none() | st.sampled_from((0.0, 1.0, 2.5, -3.0, 1e308, 1e-308))
groups = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(TEXTS)), max_size=4)
advances = st.builds(
    lambda pairs, form, stream, offset, step, **given: Advance(
        step, hit=Hit(FORMS[form], stream, offset, "line", tuple(pairs), "/out"), **given
    ),
    pairs=groups,
    form=st.integers(0, len(FORMS) - 1),
    stream=st.sampled_from(("f#0", "f#1")),
    offset=st.integers(0, 10**12),
    step=st.integers(0, 60) | st.sampled_from((10**6, 10**15)),
    taken=st.integers(0, 3) | st.sampled_from((10**15,)),
    own_s=seconds,
    interval_s=seconds,
    throughput=finite,
    data_s=seconds,
    loss=figures,
    grad_norm=figures,
    at_s=st.floats(1.7e9, 1.8e9),
    own_clock=st.sampled_from(("", "written", "printed")),
)


def told(state: DetectionState, lines: list[Advance]) -> tuple[DetectionState, tuple[Signal, ...]]:
    return judged(state, lines, datetime(2027, 1, 15, tzinfo=UTC), Policy())


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(advances, max_size=12), max_size=8), st.integers(1, 12))
def test_no_line_can_raise_and_what_is_remembered_is_bounded(
    rounds: list[list[Advance]], times: int
) -> None:
    state = fresh(AttemptId("a"))
    keys: list[str] = []
    for lines in rounds * times:
        state, found = told(state, lines)
        keys += [signal.key for signal in found]
        stored = msgspec.json.encode(state)
        assert len(stored) <= LIMIT
        assert msgspec.json.encode(msgspec.json.decode(stored, type=DetectionState)) == stored
    assert len(keys) <= 200


@settings(max_examples=60, deadline=None)
@given(st.lists(advances, max_size=60), st.integers(0, 60))
def test_where_a_round_ends_changes_nothing_that_is_said(lines: list[Advance], cut: int) -> None:
    first, before = told(fresh(AttemptId("a")), lines[:cut])
    _, after = told(first, lines[cut:])
    _, whole = told(fresh(AttemptId("a")), lines)
    assert [s.key for s in (*before, *after)] == [s.key for s in whole]
