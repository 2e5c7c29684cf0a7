"""Steps of several counters, and which of them may be compared."""

from __future__ import annotations

import pytest

from middlewatch.model.steps import Reached, StepCounter, furthest_of

STEP, OTHER = StepCounter("megatron.step", 1), StepCounter("plain.step", 1)
BAR, LOOP = StepCounter("hf.bar", 0), StepCounter("loop.step", -2)


@pytest.mark.parametrize(
    ("reached", "lost", "beyond"),
    [
        (Reached(41, STEP), Reached(40, STEP), True),
        (Reached(40, STEP), Reached(40, STEP), False),
        (Reached(2000, LOOP), Reached(40, STEP), False),
        (Reached(2000, OTHER), Reached(40, STEP), False),
        # Records of versions that wrote no counter down are compared as those did.
        (Reached(41), Reached(40, STEP), True),
        (Reached(41, STEP), Reached(40), True),
        (Reached(None, STEP), Reached(40, STEP), False),
        (Reached(41, STEP), Reached(), False),
    ],
)
def test_only_a_step_of_the_same_counter_lies_beyond(
    reached: Reached, lost: Reached, beyond: bool
) -> None:
    assert reached.beyond(lost) is beyond


@pytest.mark.parametrize(
    ("reached", "lost", "doubt"),
    [
        (Reached(2000, OTHER), Reached(40, STEP), True),
        (Reached(2000, BAR), Reached(40, STEP), True),
        (Reached(30, STEP), Reached(2000, LOOP), True),
        (Reached(2000, LOOP), Reached(40, STEP), False),
        (Reached(2000, LOOP), Reached(40, BAR), False),
        (Reached(30, STEP), Reached(40, STEP), False),
        (Reached(30), Reached(40, STEP), False),
        (Reached(None, OTHER), Reached(40, STEP), False),
    ],
)
def test_another_counter_leaves_a_doubt_unless_it_is_a_loop_beside_a_better_one(
    reached: Reached, lost: Reached, doubt: bool
) -> None:
    assert reached.another_of(lost) is doubt


def test_furthest_is_told_of_the_most_explicit_counter() -> None:
    assert furthest_of() == Reached()
    assert furthest_of(Reached(), Reached(None, STEP)) == Reached()
    assert furthest_of(Reached(37), Reached(35)) == Reached(37)
    assert furthest_of(Reached(40, STEP), Reached(35, STEP)) == Reached(40, STEP)
    assert furthest_of(Reached(2000, LOOP), Reached(40, STEP)) == Reached(40, STEP)
    assert furthest_of(Reached(40, STEP), Reached(2000, LOOP)) == Reached(40, STEP)
    assert furthest_of(Reached(40, STEP), Reached(2000, OTHER)) == Reached(40, STEP)
    assert furthest_of(Reached(50), Reached(40, STEP)) == Reached(50, STEP)
