"""A few hundred of the schedules that `make faults` plays by the thousand, and that they can be believed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tools.faults.simulated import play as stage
from tools.faults.simulated.drawn import drawn
from tools.faults.simulated.explore import explore
from tools.faults.together import simulation_went_wrong

FIRST, COUNT = 20_001, 160


@pytest.fixture(autouse=True)
def _nothing_stays() -> Iterator[None]:
    yield
    stage.leave()


def test_whatever_goes_wrong_a_recovery_leaves_nothing_behind() -> None:
    told: list[str] = []
    explored = explore(FIRST, COUNT, workers=2, say=told.append)
    assert simulation_went_wrong(explored) == [], "\n".join(told)
    assert explored.played == COUNT
    # The schedules reach what they are drawn for: processes die, commands are sent, jobs recover.
    assert explored.kills > COUNT // 5
    assert explored.commands > COUNT
    assert explored.outcomes["RESTARTED CONVERGED DESIRED_STATE_OBSERVED"] > COUNT // 3


@pytest.mark.parametrize("seed", [173, 819, 1372])
def test_the_same_seed_is_the_same_story_to_the_letter(seed: int) -> None:
    first = stage.play(seed, trace=True)
    again = stage.play(seed, trace=True)
    assert first.trace == again.trace
    assert len(first.trace) > 8
    assert drawn(seed) == first.drawn


@pytest.mark.parametrize("seed", [1, 4, 7])
def test_what_is_read_again_from_memory_is_what_the_store_would_say(seed: int) -> None:
    told = stage.play(seed, trace=True)
    asked = stage.play(seed, trace=True, remembers=False)
    assert told.reads > 0
    assert asked.reads == 0
    assert asked.trace == told.trace
