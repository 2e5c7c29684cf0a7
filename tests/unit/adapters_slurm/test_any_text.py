"""Whatever Slurm's commands print, the readers answer or say that they cannot read it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

import middlewatch
from middlewatch.adapters.slurm.accounting import fields_of, read_accounting
from middlewatch.adapters.slurm.cluster import facts_from, read_config, read_partitions
from middlewatch.adapters.slurm.detail import from_json
from middlewatch.adapters.slurm.listing import COLUMNS, SEPARATOR, read_listing
from middlewatch.adapters.slurm.outputs import Naming, output_path
from middlewatch.ports.errors import Unreadable
from tests.unit.adapters_slurm.test_listing import HEADER, line

NAMES = [name for name, _ in COLUMNS]
NUMBERS = st.sampled_from(
    ["0", "-1", "1e9", "9" * 13, "253402300800", "inf", "\u0663", "1_0", "7K"]
)
CELL = st.one_of(NUMBERS, st.text(max_size=12), st.sampled_from(["N/A", "(null)", "0:0", "7_[1]"]))


@given(st.dictionaries(st.sampled_from(NAMES), CELL, max_size=4))
def test_a_row_is_read_or_refused(changes: dict[str, str]) -> None:
    try:
        rows = read_listing(HEADER + line() + line(**changes))
    except Unreadable:
        return
    assert len(rows) == 2
    assert rows[0].view.job_id == "7"


@given(st.text())
def test_any_text_is_a_listing_or_refused(text: str) -> None:
    with contextlib.suppress(Unreadable):
        assert isinstance(read_listing(text), tuple)


@given(st.lists(CELL, min_size=8, max_size=8))
def test_an_accounting_row_is_read_or_refused(cells: list[str]) -> None:
    text = SEPARATOR.join(fields_of(())) + "\n" + SEPARATOR.join(cells) + "\n"
    with contextlib.suppress(Unreadable):
        assert len(read_accounting(text, cells[0], ())) <= 1


@given(st.recursive(st.none() | st.integers() | st.text(max_size=5), st.lists, max_leaves=5))
def test_a_json_value_of_any_kind_is_read_or_refused(value: object) -> None:
    keys = ("submit_time", "priority", "comment", "name", "nodes", "requeue", "standard_output")
    for key in keys:
        text = json.dumps({"jobs": [{"job_id": 7, key: value}]})
        with contextlib.suppress(Unreadable):
            assert from_json(text, "7", lambda _text: ()).job_id == "7"


@given(st.text())
def test_any_text_is_a_configuration_or_refused(text: str) -> None:
    base = "ClusterName = c\nSLURM_VERSION = 1\n"
    with contextlib.suppress(Unreadable):
        assert facts_from(read_config(base + text)).message_timeout_s >= 0


@given(st.text())
def test_any_text_is_a_list_of_nodes_or_refused(text: str) -> None:
    with contextlib.suppress(Unreadable):
        views = read_partitions(text, lambda name: (name,))
        assert all(set(view.usable) <= set(view.nodes) for view in views)


@given(st.text())
def test_any_pattern_becomes_an_absolute_path(pattern: str) -> None:
    assert output_path(pattern, Naming(7, "n", "u", "/h")).startswith("/")


def test_the_adapter_needs_nothing_but_the_standard_library() -> None:
    source = Path(middlewatch.__file__).parents[1]
    code = "import middlewatch.adapters.slurm.scheduler, middlewatch.adapters.clock.system"
    # -S: no site-packages at all. The watchdog relies on it.
    subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={**os.environ, "PYTHONPATH": str(source)},
        check=True,
    )
