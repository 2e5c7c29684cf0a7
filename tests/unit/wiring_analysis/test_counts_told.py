"""Counts of plain loops: as they are written, and what stands beside them."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from middlewatch.wiring.analysis import Analyst


@cache
def analyst() -> Analyst:
    return Analyst.ready()


def told(*lines: tuple[float, str]) -> dict[str, Any]:
    data = "".join(text + "\n" for _, text in lines).encode()
    return analyst().analyse(data, None, tuple(at for at, _ in lines)).as_json()


@pytest.mark.parametrize(
    "form",
    [
        "ETA 3:02:11 | Step: {:,} | Loss: 2.31 | Tokens: 4,501,504",
        "step {:,}: train loss 2.31, val loss 2.2",
        "iter {:,}/100,000 loss 2.31 lr 1e-4",
    ],
)
def test_a_count_with_separators_goes_on_behind_a_thousand(form: str) -> None:
    said = told(*((2.0 * n, form.format(n)) for n in range(800, 1300)))
    assert (said["last_progress_step"], said["alarms"]) == (1299, [])


@pytest.mark.parametrize("form", ["seqlen {}", "seq_len: {}", "'seq_length': {}"])
def test_longer_sequences_that_are_printed_are_no_slowdown(form: str) -> None:
    lines, at = [], 0.0
    for n in range(1, 900):
        length = 2048 if n < 500 else 4096
        took = length / 2048 * (1.0 + 0.01 * (n % 3))
        at += took
        lines.append((at, f"step {n} | {form.format(length)} | loss 2.1 | {took:.2f} s/step"))
    said = told(*lines)
    assert (said["kind"], said["alarms"]) == ("healthy", [])
