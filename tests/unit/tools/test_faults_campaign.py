"""What the raw lines of fault schedules add up to, and when a run does not count as a good one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tools.faults import campaign
from tools.faults.campaign import run, summary, went_wrong
from tools.faults.verdict import APART, COUNTS

CAME = [{"event": "after requeue: kill all", "reached": True}]
NOT = [{"event": "after requeue: kill all", "reached": False}]


def line(seed: int, **changes: Any) -> dict[str, Any]:
    return {
        "seed": seed,
        "slurm_version": "22.05.8",
        "verdict": "right",
        "findings": [],
        "beside": [],
        "events": CAME,
        "stop_code": 0,
        **changes,
    }


FOUND = [{"count": "held_forever", "number": 2, "text": "held"}]
BESIDE = [{"count": "revived_then_undone", "number": 1, "text": "undone"}]


def test_schedules_are_counted_by_release_and_findings_are_added_up() -> None:
    lines = [
        line(1, beside=BESIDE),
        line(2, slurm_version="24.11.5", events=[*CAME, *NOT]),
        line(4, verdict="wrong", findings=FOUND),
        line(7, events=NOT),
        {"seed": 10, "verdict": "error", "error": "no lab", "findings": [], "beside": []},
    ]
    made = summary(lines, 5, 12.0)
    assert made["real_schedules"] == {"22.05.8": 2, "24.11.5": 1}
    assert (made["held_forever"], made["revived_then_undone"]) == (2, 1)
    assert (made["events"], made["events_reached"]) == (4, 3)
    assert (made["schedules_without_event"], made["harness_errors"]) == (1, 1)
    assert made["seeds"] == [1, 2, 4, 7, 10]
    assert made["seeds_not_right"] == [4, 10]
    assert {*COUNTS, *APART} <= set(made)
    problems = went_wrong(made)
    assert any("held_forever is 2" in problem for problem in problems)
    assert any("could not be played" in problem for problem in problems)


def test_a_run_is_good_only_if_all_was_played_and_stopped_clean() -> None:
    good = [line(1), line(4)]
    assert went_wrong(summary(good, 2, 1.0)) == []
    assert went_wrong(summary(good, 3, 1.0)) == ["only 2 of 3 schedules were played"]
    assert went_wrong(summary([line(1), line(4, stop_code=-9)], 2, 1.0)) != []


def test_again_plays_only_what_was_not_right_and_keeps_the_rest(tmp_path: Path) -> None:
    out = tmp_path / "faults.json"
    lines = [line(1), line(4, beside=BESIDE)]
    wrong = line(7, verdict="wrong", findings=FOUND)
    raw = tmp_path / "faults-raw.jsonl"
    raw.write_text("".join(json.dumps(one) + "\n" for one in (*lines, wrong)))
    out.write_text(json.dumps({"seconds": 100.0, "commit": "abc"}))
    result = run((1, 4), side_by_side=1, out=out, name="none", say=lambda _: None, again=True)
    assert result["played_again"] == []
    assert result["commit_before"] == "abc"
    assert (result["seeds"], result["revived_then_undone"]) == ([1, 4], 1)
    assert result["seconds"] >= 100.0
    assert [json.loads(one)["seed"] for one in raw.read_text().splitlines()] == [1, 4]
    assert campaign.went_wrong(result) == []
