"""What `mw jobs` says of one attempt."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from middlewatch.cli.reading import HEADERS, _row

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def cells(**job: Any) -> dict[str, object]:
    return dict(zip(HEADERS, _row(job, NOW), strict=True))


def status(disposition: str, reason: str) -> dict[str, str]:
    return {
        "disposition": f"ADVICE_RECONCILIATION_DISPOSITION_{disposition}",
        "reason": f"ADVICE_RECONCILIATION_REASON_{reason}",
    }


@pytest.mark.parametrize(
    ("reported", "note"),
    [
        (status("CONVERGED", "DESIRED_STATE_OBSERVED"), "advice: RESTARTED CONVERGED"),
        (
            status("ABANDONED", "NOT_PERMITTED")
            | {"detail": "gate deployment_mode was closed: deployment mode is monitor"},
            "would have: RESTARTED (deployment_mode)",
        ),
        (
            status("ABANDONED", "NOT_PERMITTED")
            | {"detail": "gate job_opt_in has closed: the job's opt-in is observe"},
            "would have: RESTARTED (job_opt_in)",
        ),
        (
            status("ABANDONED", "NOT_PERMITTED")
            | {"detail": "gate requeueable: the job was submitted with --no-requeue"},
            "refused: RESTARTED (requeueable: the job was submitted with --no-requeue)",
        ),
        (
            status("ABANDONED", "NOT_PERMITTED") | {"detail": "x" * 200},
            f"refused: RESTARTED ({'x' * 89}…)",
        ),
        (status("ABANDONED", "NOT_PERMITTED"), "refused: RESTARTED"),
        (status("PENDING", "OPERATOR_HOLD"), "advice: RESTARTED PENDING OPERATOR_HOLD"),
        (None, "advice: RESTARTED OPEN"),
    ],
)
def test_the_note_tells_what_came_of_the_advice(reported: Any, note: str) -> None:
    job = {"desiredState": "ADVICE_STATE_RESTARTED", "reconciliationStatus": reported}
    assert cells(**job)["NOTE"] == note


def test_progress_is_the_last_step_and_the_newest_checkpoint() -> None:
    told = {"phase": "training", "lastStep": "47", "totalSteps": "500", "checkpointStep": "40"}
    assert cells(progress=told)["PROGRESS"] == "47/500 saved 40"
    assert cells(progress={"phase": "starting"})["PROGRESS"] == "starting"
    assert cells()["PROGRESS"] == "-"


@pytest.mark.parametrize(
    ("progress", "seen"),
    [
        ({}, "end only"),
        ({"lastOutputAt": "2026-01-02T03:04:00Z"}, "output 0:05"),
        ({"lastStepAt": "2026-01-02T03:04:01Z"}, "step 0:04"),
        (
            {"lastOutputAt": "2026-01-02T03:04:00Z", "unseen": ["progress"]},
            "output 0:05",
        ),
        (
            {
                "lastStepAt": "2026-01-02T02:00:00Z",
                "unseen": ["log"],
                "unseenSince": "2026-01-02T03:00:05Z",
            },
            "blind 4:00",
        ),
    ],
)
def test_what_is_seen_of_a_live_job_and_how_old_it_is(progress: dict[str, Any], seen: str) -> None:
    extra = {"optInMode": "observe"}
    shown = cells(state="JOB_STATUS_RUNNING", progress=progress, additionalProperties=extra)
    assert shown["SEEN"] == seen


def test_nothing_is_claimed_of_jobs_that_are_not_watched_or_do_not_run() -> None:
    assert cells(state="JOB_STATUS_RUNNING")["SEEN"] == "-"
    extra = {"optInMode": "observe"}
    assert cells(state="JOB_STATUS_PENDING", additionalProperties=extra)["SEEN"] == "-"


def test_the_note_tells_what_a_held_job_waits_for() -> None:
    waits = {"held": True, "waitsFor": "It waits for afterok:42: attempt 1 is RUNNING."}
    assert cells(additionalProperties=waits)["NOTE"] == waits["waitsFor"]
    assert cells(additionalProperties={"held": True})["NOTE"] == "held"
