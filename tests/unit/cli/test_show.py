"""Tables as squeue makes them, times as Slurm writes them."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from middlewatch.cli import show


def test_a_table_has_upper_case_headers_and_no_boxes(capsys: pytest.CaptureFixture[str]) -> None:
    show.table(("JOBID", "NAME"), [(1, "a"), (4711, "longer name")], right=("JOBID",))
    assert capsys.readouterr().out == "JOBID NAME\n    1 a\n 4711 longer name\n"


def test_headers_can_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    show.table(("JOBID", "NAME"), [(1, "a")], header=False)
    assert capsys.readouterr().out == "1     a\n"


def test_what_is_piped_is_never_cut(capsys: pytest.CaptureFixture[str]) -> None:
    show.table(("NOTE",), [("x" * 5000,)])
    assert "x" * 5000 in capsys.readouterr().out


@given(st.lists(st.text(max_size=40), min_size=1, max_size=5))
def test_whatever_is_in_a_cell_stays_in_its_line(texts: list[str]) -> None:
    import contextlib
    import io

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        show.table(("A",), [(text,) for text in texts])
    assert out.getvalue().count("\n") == len(texts) + 1
    assert "\x1b" not in out.getvalue()


@given(st.text(max_size=60))
def test_a_said_line_stays_one_line(text: str) -> None:
    import contextlib
    import io

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        show.say(f"JobName={text}")
    assert out.getvalue().count("\n") == 1


@given(st.dictionaries(st.text(max_size=10), st.text(max_size=40), max_size=5))
def test_json_is_ascii_and_keeps_every_character(body: dict[str, str]) -> None:
    import contextlib
    import io

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        show.as_json({"body": body})
    assert out.getvalue().isascii()
    assert "\x1b" not in out.getvalue()
    assert json.loads(out.getvalue()) == {"schema_version": 1, "body": body}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0:00"), (59.9, "0:59"), (61, "1:01"), (3661, "1:01:01"), (90061, "1-01:01:01"), (None, "-"), (-5, "-")],
)  # fmt: skip
def test_durations_are_written_as_slurm_writes_them(seconds: float | None, text: str) -> None:
    assert show.span(seconds) == text


def test_a_time_of_the_api_is_read_with_its_zone() -> None:
    assert show.moment("2026-01-02T03:04:05Z") == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert show.moment("nonsense") is None
    assert show.moment(None) is None


@pytest.mark.parametrize(
    ("nodes", "text"),
    [
        ((), ""),
        (("gpu-007",), "gpu-007"),
        (("gpu-001", "gpu-002", "gpu-003", "gpu-007"), "gpu-[001-003,007]"),
        (("n1", "n2", "login", "n10"), "n[1-2],n10,login"),
        (("b2", "a1", "a3", "a1"), "b2,a[1,3]"),
    ],
)
def test_nodes_are_folded_as_slurm_folds_them(nodes: tuple[str, ...], text: str) -> None:
    assert show.folded(nodes) == text
