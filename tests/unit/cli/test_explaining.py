"""The story of one attempt, as lines."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from middlewatch.cli.explaining import story

GATES = [
    {"name": "deployment_mode", "open": False, "detail": "deployment mode is monitor"},
    {"name": "job_opt_in", "open": True, "detail": "the job's opt-in is action"},
]
BODY: dict[str, Any] = {
    "job": {
        "jobId": "4711", "attemptIndex": 0, "jobName": "train", "state": "JOB_STATUS_FAILED",
        "heimdallJobId": "0b2f0c1e-57b4-5c53-8f6e-2a9d3f1f6c10", "nodes": ["n1", "n2"],
        "additionalProperties": {"user": "games", "optInMode": "action", "endedBy": "failure"},
        "endTime": "2026-01-02T03:04:05Z",
    },
    "progress": {"phase": "training", "lastStep": "47", "checkpointStep": "40", "stepTimeSeconds": 0.2},
    "signals": [
        {
            "key": "k1", "kind": "failure_line", "patternId": "gpu.ecc", "nodes": ["n2"], "ranks": [1],
            "happenedAt": "2026-01-02T03:04:01Z", "excerpt": "CUDA error: uncorrectable ECC",
            "source": {"kind": "log", "path": "/home/games/out", "position": "120"},
        }
    ],
    "issues": [{"id": "i1", "failureClass": "gpu_ecc", "state": "open", "firstCause": "k1", "cascade": ["k2"]}],
    "verdicts": [
        {"issueId": "i1", "domain": "hardware", "nodes": ["n2"], "basis": "line_names_rank",
         "confidence": "medium", "explanation": "rank 1 ran on n2"}
    ],
    "decisions": [
        {
            "id": "d1", "at": "2026-01-02T03:04:06Z", "result": "advise", "policyVersion": "abc123",
            "inputs": json.dumps({"mode": "action"}),
            "outcome": json.dumps({
                "intent": {"desired": "RESTARTED", "exclusions": ["n2"],
                           "basis": "attempt_ended_in_failure", "explanation": "it failed",
                           "gates": {"gates": GATES}},
                "budgets": [{"name": "restarts_of_job", "used": 1, "limit": 20, "allowed": True, "applies": True, "note": ""}],
                "exclusions": {"nodes": ["n2"], "dropped": [{"node": "n1", "why": "required_by_job"}]},
            }),
        }
    ],
    "advice": {
        "desired": "RESTARTED", "exclusions": ["n2"], "generation": "1",
        "status": {"disposition": "ABANDONED", "reason": "NOT_PERMITTED", "detail": "deployment mode is monitor"},
    },
    "statuses": [
        {"observedAt": "2026-01-02T03:04:07Z", "observedGeneration": "1", "disposition": "ABANDONED",
         "reason": "NOT_PERMITTED", "detail": "deployment mode is monitor"}
    ],
    "actions": [
        {"kind": "requeue", "argv": ["scontrol", "requeue", "4711"], "answered": "done", "exitCode": 0,
         "startedAt": "2026-01-02T03:04:08Z", "why": "attempt 0 failed"}
    ],
    "milestones": [
        {"kind": "fault", "at": "2026-01-02T03:04:01Z", "step": "47"},
        {"kind": "running", "at": "2026-01-02T03:04:11Z"},
    ],
}  # fmt: skip


def text_of(body: dict[str, Any]) -> str:
    return "\n".join(story(body))


HEADINGS = ("IN SHORT", "SEEN", "BELIEVED", "DECIDED", "ADVICE", "DONE", "CONFIRMED")


def test_the_story_goes_from_what_was_seen_to_what_was_confirmed() -> None:
    text = text_of(BODY)
    places = [text.index("\n" + w) for w in HEADINGS]
    assert places == sorted(places)


def test_basis_budgets_gates_and_policy_are_shown() -> None:
    text = text_of(BODY)
    assert "attempt_ended_in_failure" in text
    assert "restarts_of_job: 1 of 20 used, within" in text
    assert "policy abc123" in text
    assert "CLOSED deployment mode is monitor" in text
    assert "WOULD HAVE" in text
    assert "n1 is not excluded: required_by_job" in text


def test_the_commands_and_their_answers_are_shown() -> None:
    assert "scontrol requeue 4711 -> done (exit 0)" in text_of(BODY)


def test_milestones_count_from_the_first() -> None:
    assert "RUNNING      +10.0 s" in text_of(BODY)


def test_open_gates_are_no_would_have() -> None:
    body = json.loads(json.dumps(BODY))
    outcome = json.loads(body["decisions"][0]["outcome"])
    for gate in outcome["intent"]["gates"]["gates"]:
        gate["open"] = True
    body["decisions"][0]["outcome"] = json.dumps(outcome)
    assert "WOULD HAVE" not in text_of(body)


def test_an_attempt_without_a_story_says_so() -> None:
    assert "Nothing was decided" in text_of({"job": BODY["job"]})


@given(st.sampled_from(sorted(BODY)))
def test_a_missing_part_is_no_error(part: str) -> None:
    assert text_of({key: value for key, value in BODY.items() if key != part})


def test_milestones_are_told_in_the_order_of_time_however_their_fractions_are_written() -> None:
    milestones = [
        {"kind": "resumed", "at": "2026-01-02T03:04:23.500Z", "step": "41"},
        {"kind": "running", "at": "2026-01-02T03:04:23Z"},
    ]
    lines = list(story({**BODY, "milestones": milestones}))
    kinds = [line.split()[1] for line in lines[lines.index("CONFIRMED") + 1 :]]
    assert kinds == ["RUNNING", "RESUMED"]


def test_a_decision_to_wait_does_not_claim_that_something_would_have_been_done() -> None:
    waiting = {
        "id": "d2", "at": "2026-01-02T03:04:06Z", "result": "waiting_for_witness",
        "inputs": json.dumps({"gates": {"gates": GATES}}),
        "outcome": json.dumps({"basis": "waiting_for_witness", "explanation": "it still runs"}),
    }  # fmt: skip
    lines = list(story({**BODY, "decisions": [waiting]}))
    assert not any("WOULD HAVE" in line for line in lines)
    assert any("WOULD HAVE" in line for line in story(BODY))


def test_what_a_held_job_waits_for_is_told_parent_by_parent() -> None:
    outcome = {
        "basis": "parent_failed",
        "explanation": "It stays held for good: afterok:42: attempt 0 ended FAILED, for good.",
        "parents": [
            {"dependency": "afterok:41", "standing": "met", "why": "attempt 1 ended COMPLETED"},
            {"dependency": "afterok:42", "standing": "never", "why": "attempt 0 ended FAILED"},
        ],
    }
    told = text_of(
        {
            "job": {
                "jobId": "50",
                "additionalProperties": {
                    "optInMode": "action",
                    "dependsOn": ["afterok:41", "afterok:42"],
                },
            },
            "decisions": [
                {"result": "parent_failed", "outcome": json.dumps(outcome), "inputs": "{}"}
            ],
        }
    )
    assert "depends on  afterok:41, afterok:42" in told
    assert "parent      afterok:41 met: attempt 1 ended COMPLETED" in told
    assert "parent      afterok:42 never: attempt 0 ended FAILED" in told
    assert "stays held for good" in told
    assert "scontrol release 50" in told
