"""Whom the others wait for, from a table of all of them."""

from __future__ import annotations

from middlewatch.wiring.analysis.slowest import Slowest, slowest

STEP = b'ts=05:33:30 node=n1 rank=0 msg="step" step=880 loss=1.4 s_per_step=2.9'


def table(slow: int | None, ranks: int = 8) -> list[bytes]:
    return [
        b'ts=05:34:28 rank=%d msg="timers" data_s=0.01 fwd_bwd_s=%.3f comm_wait_s=0.4'
        % (rank, 2.4 if rank == slow else 1.7 + rank / 100)
        for rank in range(ranks)
    ]


def test_the_rank_that_computes_longer_in_every_table_is_the_slowest() -> None:
    lines = [STEP, *table(5), STEP, *table(5), STEP]
    assert slowest(lines, 1) == Slowest(5, None, (*range(2, 10), *range(11, 19)))


def test_a_rank_that_was_slow_once_of_three_times_is_not_the_slowest() -> None:
    assert slowest([*table(5), STEP, *table(None), STEP, *table(None)], 1) is None


def test_another_rank_each_time_is_none() -> None:
    assert slowest([*table(5), STEP, *table(1), STEP, *table(3)], 1) is None


def test_tables_of_few_ranks_tell_nothing() -> None:
    assert slowest([*table(1, 3), STEP, *table(1, 3)], 1) is None


def test_what_was_before_the_slowdown_is_not_asked() -> None:
    lines = [*table(5), STEP, *table(2)]
    assert slowest(lines, 9) == Slowest(2, None, tuple(range(10, 18)))


def test_the_device_whose_clock_is_lower_than_the_others_is_the_slowest() -> None:
    clocks = b"gpu sm clocks MHz: 0:1410 1:1410 2:1155 3:1410  temp C: 0:62 1:58 2:87 3:61"
    assert slowest([STEP, clocks], 1) == Slowest(None, 2, (2,))
    assert slowest([STEP, clocks.replace(b"1155", b"1395")], 1) is None


def test_figures_that_are_no_clocks_name_no_device() -> None:
    assert slowest([b"layers 0:1410 1:1410 2:11 3:1410"], 1) is None
