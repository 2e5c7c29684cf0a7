"""What `mw recoveries` and `mw explain` say of one recovery."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from middlewatch.cli.explaining import story
from middlewatch.cli.in_short import in_short
from middlewatch.cli.recovered import HEADERS, _row, lines_of

RECOVERY: dict[str, Any] = {
    "id": "s1", "jobId": "4711", "attemptId": "a0", "attemptIndex": 0, "state": "verified",
    "why": "attempt 1 came to step 48, past step 47", "settled": True, "attempts": [1],
    "beganAt": "2026-01-02T03:04:01Z", "failureClass": "gpu_ecc",
    "lostStep": "47", "checkpointStep": "40", "loadedStep": "40", "resumedStep": "48",
    "totalSeconds": 20.0, "undividedSeconds": 0.0, "undivided": [], "largest": "recompute",
    "parts": [
        {"name": "detect", "seconds": 0.5}, {"name": "decide", "seconds": 0.0},
        {"name": "hold", "seconds": 1.5}, {"name": "release", "seconds": 1.0},
        {"name": "queue", "seconds": 2.0}, {"name": "start", "seconds": 5.0},
        {"name": "recompute", "seconds": 10.0},
    ],
    "clockOffSeconds": 0.0,
}  # fmt: skip
UNKNOWN = {
    **RECOVERY,
    "parts": [{"name": "detect", "seconds": 1.0}, {"name": "hold"}, {"name": "release"}],
    "undivided": ["hold", "release"],
    "undividedSeconds": 9.0,
    "totalSeconds": 10.0,
    "largest": "",
}


def cells(recovery: dict[str, Any]) -> dict[str, object]:
    return dict(zip(HEADERS, _row(recovery), strict=True))


def text(recovery: dict[str, Any]) -> str:
    return "\n".join(lines_of(recovery))


def test_row_tells_the_total_and_the_part_that_took_longest() -> None:
    row = cells(RECOVERY)
    assert (row["STATE"], row["TOTAL"], row["MOST"]) == ("verified", "20.0s", "recompute 10.0s")
    assert (row["LOST"], row["RESUMED"], row["CLASS"]) == ("47", "48", "gpu_ecc")
    assert cells({**RECOVERY, "totalSeconds": 4000.0})["TOTAL"] == "1:06:40"


def test_row_does_not_name_one_part_where_time_could_not_be_divided() -> None:
    assert cells(UNKNOWN)["MOST"] == "hold+release 9.0s"
    assert cells({"state": "under_way"})["MOST"] == "-"


def test_each_part_is_told_with_its_share() -> None:
    told = text(RECOVERY)
    assert "RECOVERY  of attempt 0: verified" in told
    assert "lost at step 47, newest checkpoint 40, went on from 40, past it with step 48" in told
    assert "  recompute     10.0 s   50 %  until it was past the lost step" in told
    assert "  total         20.0 s" in told
    assert "may still change" not in told


def test_what_is_not_known_is_told_as_such_and_never_as_nothing() -> None:
    told = text(UNKNOWN)
    assert told.count("not known") == 2
    assert "together       9.0 s         hold and release: nobody saw where one ended" in told
    assert "  hold           0.0 s" not in told


def test_clocks_that_differ_are_told() -> None:
    assert "a time lay 43.0 s before what it followed" in text(
        {**RECOVERY, "clockOffSeconds": 43.0}
    )
    assert "clocks" not in text(RECOVERY)


def test_recovery_over_several_attempts_names_them() -> None:
    again = {**RECOVERY, "attempts": [1, 2], "state": "restarted_not_recovered", "settled": False}
    head = text(again).splitlines()[1]
    assert head == (
        "RECOVERY  of attempt 0: restarted, not recovered, by attempts 1, 2 (may still change)"
    )


def test_explanation_ends_with_the_recovery() -> None:
    lines = list(
        story({"job": {"jobId": "4711"}, "issues": [{"id": "i"}], "recoveries": [RECOVERY]})
    )
    assert any(line.startswith("RECOVERY") for line in lines)


@pytest.mark.parametrize("state", ["restarted_not_recovered", "unverified"])
def test_in_short_says_that_a_restart_won_nothing(state: str) -> None:
    body = {
        "job": {"jobId": "4711", "heimdallJobId": "a0"},
        "advice": {"status": {"disposition": "CONVERGED"}},
        "recoveries": [{**RECOVERY, "state": state, "why": "attempt 1 ended at step 44"}],
    }
    word = state.replace("restarted_not_recovered", "restarted, not recovered")
    told = "\n".join(in_short(body))
    assert f"CONVERGED; {word} (attempt 1 ended at step 44)" in told
    assert word not in "\n".join(in_short({**body, "recoveries": [RECOVERY]}))
    other = [{**body["recoveries"][0], "attemptId": "a9"}]  # type: ignore[index]
    assert word not in "\n".join(in_short({**body, "recoveries": other}))


@given(st.sampled_from(sorted(RECOVERY)))
def test_missing_field_is_no_error(name: str) -> None:
    partial = {key: value for key, value in RECOVERY.items() if key != name}
    assert text(partial)
    assert cells(partial)
