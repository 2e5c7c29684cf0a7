"""Ranks and nodes as lines name them."""

from __future__ import annotations

import pytest

from middlewatch.detection.names import hosts, nodes_of, numbers, ranks_of, writer_of
from tests.unit.detection.given import CRASH, hit


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("12", (12,)),
        ("8-11,13-15", (8, 9, 10, 11, 13, 14, 15)),
        ("0", (0,)),
        ("", ()),
        ("a,b", ()),
        ("3,x,5", (3, 5)),
        ("5-3", ()),
    ],
)
def test_task_lists_are_read(expression: str, expected: tuple[int, ...]) -> None:
    assert numbers(expression) == expected


def test_task_list_of_a_million_is_cut() -> None:
    assert len(numbers("0-999999")) == 64


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("worker-3", ("worker-3",)),
        ("n[01-03,07]", ("n01", "n02", "n03", "n07")),
        ("n[9-11],login1", ("n9", "n10", "n11", "login1")),
        ("", ()),
        ("rack[1-2]-a", ("rack1-a", "rack2-a")),
    ],
)
def test_host_expressions_are_read(expression: str, expected: tuple[str, ...]) -> None:
    assert hosts(expression) == expected


def test_host_expression_of_a_million_is_cut() -> None:
    assert len(hosts("n[0-999999]")) == 64


def test_own_rank_of_a_line_beats_the_label_before_it() -> None:
    assert ranks_of(hit(CRASH, label=4, rank=3)) == (3,)


def test_label_of_srun_is_a_rank() -> None:
    assert ranks_of(hit(CRASH, label=4)) == (4,)


def test_line_that_names_nobody_names_nobody() -> None:
    assert ranks_of(hit(CRASH)) == ()
    assert nodes_of(hit(CRASH)) == ()


def test_node_that_is_no_host_name_is_not_believed() -> None:
    assert nodes_of(hit(CRASH, node="../../etc")) == ()


def test_list_of_hosts_beats_a_single_node() -> None:
    assert nodes_of(hit(CRASH, node="x", hosts="n[1-2]")) == ("n1", "n2")


def test_writer_is_told_by_label_and_rank() -> None:
    assert writer_of(hit(CRASH, label=1, rank=1)) != writer_of(hit(CRASH, label=1))
