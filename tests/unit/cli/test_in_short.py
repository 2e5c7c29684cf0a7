"""What the top of an explanation tells somebody who was woken."""

from __future__ import annotations

from typing import Any

from middlewatch.cli.in_short import in_short


def told(**body: Any) -> dict[str, str]:
    lines = list(in_short(body))
    assert lines[:2] == ["", "IN SHORT"]
    return {line[2:13].strip(): line[14:] for line in lines[2:]}


JOB = {"jobId": "4711", "attemptIndex": 0, "additionalProperties": {"optInMode": "action"}}
ENDED = {**JOB, "additionalProperties": {"optInMode": "action", "endedBy": "failure"}}
ISSUE = {"id": "i1", "failureClass": "gpu_ecc"}
VERDICT = {"issueId": "i1", "domain": "hardware", "nodes": ["n2"]}


def advice(disposition: str, reason: str, gates: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        "desired": "RESTARTED",
        "exclusions": ["n2"],
        "gates": [{"name": name, "open": False} for name in gates],
        "status": {"disposition": disposition, "reason": reason},
    }


def test_a_recovery_is_told_in_four_lines() -> None:
    found = told(
        job=ENDED,
        siblings=[{"attemptIndex": 1, "state": "JOB_STATUS_RUNNING", "nodes": ["n1", "n3"]}],
        issues=[ISSUE],
        verdicts=[VERDICT],
        advice=advice("CONVERGED", "DESIRED_STATE_OBSERVED"),
        milestones=[
            {"kind": "fault", "at": "2026-01-02T03:04:00Z", "step": "47"},
            {"kind": "resumed", "at": "2026-01-02T03:04:08.5Z", "step": "48"},
        ],
    )
    assert found["happened"] == "gpu_ecc (hardware, n2) in step 47; attempt ended by failure"
    assert found["decided"] == "RESTARTED without n2"
    assert found["came of it"] == (
        "CONVERGED; attempt 1 RUNNING on n[1,3]; past the fault with step 48, 8.5 s after it"
    )
    assert found["to do"].startswith("look at n2")


def test_what_was_not_permitted_names_the_settings_that_permit_it_next_time() -> None:
    found = told(
        job=ENDED,
        issues=[ISSUE],
        advice=advice("ABANDONED", "NOT_PERMITTED", ("deployment_mode", "partition_allowlist")),
    )
    assert found["decided"] == "would have: RESTARTED without n2"
    assert "scontrol requeue 4711" in found["to do"]
    assert 'deployment.mode = "action"' in found["to do"]
    assert "deployment.partitions" in found["to do"]
    assert "comment" not in found["to do"]


def test_an_operators_hold_is_named_with_the_command_that_lifts_it() -> None:
    found = told(job=ENDED, issues=[ISSUE], advice=advice("PENDING", "OPERATOR_HOLD"))
    assert found["to do"] == "an operator holds it: scontrol release 4711"


def test_a_job_that_cannot_be_requeued_is_to_be_submitted_again() -> None:
    found = told(
        job=ENDED,
        issues=[ISSUE],
        decisions=[{"result": "not_requeueable", "outcome": '{"explanation": "Requeue=0"}'}],
    )
    assert found["decided"] == "nothing is advised: Requeue=0"
    assert "submit it again" in found["to do"]
    assert "came of it" not in found


def test_a_job_that_has_not_opted_in_is_said_not_to_be_read() -> None:
    job = {"jobId": "1", "additionalProperties": {"optInMode": "off"}}
    assert "has not opted in" in told(job=job)["happened"]


def test_what_is_under_way_shows_the_last_command_and_what_the_successor_waits_for() -> None:
    found = told(
        job=ENDED,
        siblings=[
            {
                "attemptIndex": 1,
                "state": "JOB_STATUS_PENDING",
                "additionalProperties": {"reason": "BeginTime"},
            }
        ],
        issues=[ISSUE],
        advice=advice("PENDING", "IN_PROGRESS"),
        actions=[{"argv": ["scontrol", "update", "jobid=1"], "answered": "done"}],
    )
    assert "scontrol update jobid=1 -> done" in found["came of it"]
    assert found["came of it"].endswith("attempt 1 PENDING (BeginTime)")


def test_what_recovered_by_itself_is_said_to_have() -> None:
    found = told(job=JOB, issues=[{**ISSUE, "state": "recovered"}], verdicts=[VERDICT])
    assert found == {"happened": "gpu_ecc (hardware, n2); it recovered by itself"}


def test_a_quiet_job_has_one_line() -> None:
    assert told(job=JOB) == {"happened": "no trouble was seen"}
