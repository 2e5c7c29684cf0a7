"""Queries with gaps, and names that cannot leave theirs."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from middlewatch.adapters.metrics.queries import (
    DEFAULTS,
    LONGEST_QUERY,
    BadQueryError,
    Queries,
    node_of,
)
from middlewatch.model.activity import ActivityKind

POWER = ActivityKind.GPU_POWER
BARE = Queries(activity={POWER: 'up{job="$job",n=~"$nodes"}'})
_STRING = r'"(?:[^"\\\n]|\\.)*"'
NODE_NAMES = st.text("abcdefghijklmnopqrstuvwxyzABC0123456789.-_", min_size=1, max_size=40)


def told(query: str) -> tuple[str, str]:
    """What stands in the two gaps, as PromQL reads the strings."""
    found = re.fullmatch(rf"up\{{job=({_STRING}),n=~({_STRING})\}}", query)
    assert found is not None, query
    unescaped = [
        re.sub(
            r"\\(U[0-9a-f]{8}|.)",
            lambda m: chr(int(m[1][1:], 16)) if len(m[1]) > 1 else m[1],
            text[1:-1],
        )
        for text in found.groups()
    ]
    return unescaped[0], unescaped[1]


@given(st.text(max_size=60), st.lists(NODE_NAMES, min_size=1, max_size=5))
def test_names_stay_in_their_gaps(job: str, nodes: list[str]) -> None:
    (query,) = BARE.ask(POWER, nodes, job)
    read, pattern = told(query)
    assert read == job
    for node in nodes:
        for label in (node, f"{node}:9100", f"{node}.cluster.local:9400"):
            assert re.fullmatch(pattern, label)


@given(NODE_NAMES, NODE_NAMES)
def test_name_matches_no_other_node(one: str, other: str) -> None:
    (query,) = BARE.ask(POWER, [one], "1")
    matches = bool(re.fullmatch(told(query)[1], other))
    domain = other.removeprefix(one)
    assert matches == (
        other == one or (other.startswith(one) and bool(re.fullmatch(r"\.[A-Za-z0-9.-]+", domain)))
    )


@given(st.lists(st.text(max_size=300), max_size=3))
def test_any_text_for_a_name_asks_for_nothing_or_for_that_name(names: list[str]) -> None:
    for query in BARE.ask(POWER, names, "1"):
        told(query)


@pytest.mark.parametrize("kind", list(ActivityKind))
def test_default_queries_of_many_nodes_are_cut_to_a_length_that_servers_take(
    kind: ActivityKind,
) -> None:
    nodes = [f"a-rather-long-name-of-a-node-{number}" for number in range(1000)]
    queries = list(Queries().ask(kind, nodes, "1"))
    assert len(queries) > 1
    assert all(len(query) < LONGEST_QUERY + 1500 for query in queries)
    assert "$" not in "".join(queries).replace("$)", "")
    assert set(DEFAULTS) == set(ActivityKind)


def test_labels_are_those_of_the_exporters_unless_the_site_says_otherwise() -> None:
    assert Queries().label_of(POWER) == "Hostname"
    assert Queries().label_of(ActivityKind.CPU_TIME) == "instance"
    assert Queries(node_label="node").label_of(POWER) == "node"


@pytest.mark.parametrize(
    "wrong",
    [
        {"node_label": 'x"} or up{y="'},
        {"job_label": "job id"},
        {"activity": {POWER: "DCGM_FI_DEV_POWER_USAGE"}},
    ],
)
def test_what_cannot_be_used_is_refused_by_name(wrong: dict[str, object]) -> None:
    with pytest.raises(BadQueryError, match=r"label|gpu_power"):
        Queries(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("label", "node"),
    [
        ("n1", "n1"),
        ("n1:9100", "n1"),
        ("n1.cluster.local:9400", "n1"),
        ("n10", ""),
        ("", ""),
        (":9100", ""),
        ("n1:port", ""),
    ],
)
def test_labels_value_names_a_node(label: str, node: str) -> None:
    assert node_of(label, {"n1": "n1"}) == node
