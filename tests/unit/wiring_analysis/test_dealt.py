"""Lists of hosts with the ranks that they were given."""

from __future__ import annotations

import pytest

from middlewatch.wiring.analysis.dealt import dealt
from middlewatch.wiring.analysis.places import places_in

TWO = [("elk-1", 4), ("elk-2", 4)]


@pytest.mark.parametrize(
    "text",
    [
        b"*** elk-1(0-3) elk-2(4-7) ***",
        b"layout: ranks r0-r3 elk-1, r4-r7 elk-2",
        b"[start] elk-1: ranks 0..3\n[start] elk-2: ranks 4..7\n",
        b"host elk-1 addr 10.4.4.1 ranks 0..3\nhost elk-2 addr 10.4.4.2 ranks 4..7\n",
        b"0-3 on elk-1; 4-7 on elk-2",
        b"mpirun -np 8 -H elk-1:4,elk-2:4 python train.py",
        b"elk-1 slots=4\nelk-2 slots=4\n",
        b"elk-1=[0-3] elk-2=[4-7]",
    ],
)
def test_every_rank_once_and_in_order_is_a_deal(text: bytes) -> None:
    assert dealt(text) == TWO


@pytest.mark.parametrize(
    "text",
    [
        b"elk-1: 2026-11-30 elk-2: 2026-12-01",
        b"elk-1(4-7) elk-2(8-11)",
        b"elk-1(0-3) elk-2(5-8)",
        b"elk-1:0-3 elk-1:4-7",
        b"connect elk-1:29500, elk-2:29500",
        b"NUMA node0: 0-7 node1: 8-15",
        b"stage0: 0-7, stage1: 8-15",
        b"numa0 cpus 0-95 numa1 cpus 96-191",
    ],
)
def test_other_numbers_are_none(text: bytes) -> None:
    assert dealt(text) == []


def test_a_deal_tells_the_world_and_the_local_ranks() -> None:
    places = places_in(b"layout: ranks r0-r3 elk-1, r4-r7 elk-2\n")

    assert places.world == 8
    assert (places.node_of(6), places.local_of(6)) == ("elk-2", 2)
