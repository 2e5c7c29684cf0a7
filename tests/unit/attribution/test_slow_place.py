"""A slow rank that was measured against all others has a place; a slow job has none."""

from __future__ import annotations

from middlewatch.attribution import issues_from
from middlewatch.attribution.culprit import Culprit, culprit_of
from middlewatch.attribution.places import Places
from middlewatch.model.signal import Domain, Signal, SignalKind
from tests.unit.attribution.made import attempt, signal

TWO = Places(nodes=("n1", "n2"), ordered=True, world=16)


def place_of(found: Signal) -> Culprit:
    (issue,) = issues_from((found,), (), attempt())
    return culprit_of(issue, (found,), TWO)


def test_the_one_slow_rank_is_the_place_and_its_node_follows() -> None:
    found = signal(SignalKind.SLOW, 10, "slow_node", domain=Domain.HARDWARE, ranks=(9,))
    place = place_of(found)
    assert (place.rank, place.node) == (9, "n2")


def test_a_job_that_is_slow_as_a_whole_has_no_place() -> None:
    for failure_class in ("slow_node", "slow_job", "slow_input", "slow_fabric"):
        assert place_of(signal(SignalKind.SLOW, 10, failure_class)) == Culprit()
