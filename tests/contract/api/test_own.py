from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from middlewatch.model.action import Action, ActionKind, ActionRecord, Answered
from middlewatch.model.change import Change, Decision
from middlewatch.model.issue import Confidence, Issue, IssueState, Verdict, VerdictBasis
from middlewatch.model.milestone import Milestone, MilestoneKind
from middlewatch.model.signal import Domain, Progress
from middlewatch.services.gateway.access import Scope
from tests.contract.api.conftest import Api
from tests.contract.api.samples import ADVICE, ATTEMPT, NOW, SEQUENCE, attempt

SIGNALS = "/middlewatch/v1/signals"
POSTED = {
    "attempt": "12345-0",
    "position": "1",
    "patternId": "site.nvlink",
    "failureClass": "nvlink",
    "domain": "hardware",
    "severity": "fatal",
    "excerpt": "NVLink 3 down",
    "nodes": ["gpu-001"],
    "ranks": [4],
    "happenedAt": "2026-09-23T13:59:00Z",
}


def post(api: Api, *signals: dict[str, Any]) -> Any:
    status, body = api.call("POST", SIGNALS, {"signals": list(signals)}, scope=Scope.INGEST)
    assert status == 200, body
    return body


def test_posted_signal_is_stored_with_a_source_of_its_own(api: Api) -> None:
    api.store.apply(Change(attempts=(ATTEMPT,)))
    body = post(api, POSTED)
    assert (len(body["stored"]), body["duplicates"], body["capped"]) == (1, 0, 0)
    (signal,) = api.get(SIGNALS, attempt="12345")["signals"]
    assert signal["source"]["kind"] == "api"
    assert signal["source"]["identity"] == "ingest"
    assert (signal["kind"], signal["domain"], signal["ranks"]) == ("external", "hardware", [4])
    assert signal["happenedAt"] == "2026-09-23T13:59:00Z"


def test_same_place_of_the_same_source_is_one_signal(api: Api) -> None:
    api.store.apply(Change(attempts=(ATTEMPT,)))
    assert post(api, POSTED, POSTED)["duplicates"] == 1
    assert post(api, POSTED) == {
        "stored": [],
        "duplicates": 1,
        "capped": 0,
        "rejections": [],
    }
    assert len(post(api, {**POSTED, "position": "2"})["stored"]) == 1


def test_signals_past_the_cap_are_counted_and_leave_no_line_of_the_trail(api: Api) -> None:
    api.store.apply(Change(attempts=(ATTEMPT,)))
    body = post(api, *({**POSTED, "position": str(n)} for n in range(10)))
    assert (len(body["stored"]), body["capped"]) == (3, 7)
    assert len(api.get("/v1/audit/events", jobId="12345")["items"]) == 3
    shown = api.get("/middlewatch/v1/attempts/12345/explanation")["capped"]
    assert shown == [{"patternId": "site.nvlink", "count": "7"}]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"attempt": ""}, "attempt is missing"),
        ({"attempt": "777"}, "no attempt"),
        ({"kind": "scheduler_end"}, "only ours to see"),
        ({"kind": "gossip"}, "it can be"),
        ({"domain": "weather"}, "it can be"),
        ({"excerpt": "x" * 2001}, "at most 2000"),
        ({"happenedAt": "1950-01-01T00:00:00Z"}, "before 1970"),
        ({"happenedAt": "9999-12-31T23:59:59Z"}, "has not come yet"),
    ],
)
def test_wrong_signals_are_named_and_the_rest_is_taken(
    api: Api, change: dict[str, Any], says: str
) -> None:
    api.store.apply(Change(attempts=(ATTEMPT,)))
    body = post(api, {**POSTED, **change}, POSTED)
    assert len(body["stored"]) == 1
    (rejection,) = body["rejections"]
    assert rejection["index"] == 0
    assert says in rejection["reason"]


def test_signals_are_paged_by_opaque_tokens_bound_to_the_attempt(api: Api) -> None:
    other = attempt("9", minute=1)
    api.store.apply(Change(attempts=(ATTEMPT, other)))
    post(api, *({**POSTED, "position": str(n)} for n in range(3)))
    first = api.get(SIGNALS, attempt="12345", limit=2)
    rest = api.get(SIGNALS, attempt="12345", limit=2, page=first["nextPageToken"])
    assert [len(first["signals"]), len(rest["signals"])] == [2, 1]
    assert rest["nextPageToken"] == ""
    assert "other filters" in api.refused(SIGNALS, attempt="9", page=first["nextPageToken"])
    assert len(api.get(SIGNALS)["signals"]) == 3


def story(api: Api) -> None:
    issue = Issue("issue-1", ATTEMPT.id, "ecc", IssueState.OPEN, "k", (), NOW, NOW, "ECC error")
    verdict = Verdict(
        "issue-1",
        ATTEMPT.id,
        Domain.HARDWARE,
        "ecc",
        ("gpu-001",),
        (3,),
        VerdictBasis.LINE_NAMES_NODE,
        Confidence.HIGH,
        "the line names gpu-001",
        NOW,
    )
    decision = Decision("d1", ATTEMPT.id, NOW, "advise", "default", '{"a":1}', '{"b":2}', 1)
    action = ActionRecord(
        "a1",
        ATTEMPT.id,
        1,
        Action(ActionKind.REQUEUE, "12345", "restart"),
        Answered.DONE,
        NOW,
        NOW,
        0,
        ("scontrol", "requeue", "12345"),
    )
    milestones = (
        Milestone(SEQUENCE.id, "m2", NOW + timedelta(seconds=1), NOW, MilestoneKind.HELD),
        Milestone(SEQUENCE.id, "m1", NOW, NOW, MilestoneKind.DETECTED),
    )
    api.store.apply(
        Change(
            attempts=(ATTEMPT, attempt("12345", 1, minute=30, by=None)),
            progress=(Progress(ATTEMPT.id, last_step=41, checkpoint_step=40),),
            issues=(issue,),
            verdicts=(verdict,),
            decisions=(decision,),
            sequences=(SEQUENCE,),
            advice=(ADVICE,),
            actions=(action,),
            milestones=milestones,
        )
    )


def test_one_attempts_story_is_told_whole(api: Api) -> None:
    story(api)
    told = api.get("/middlewatch/v1/attempts/12345-0/explanation")
    assert told["job"]["jobId"] == "12345"
    assert told["progress"]["lastStep"] == "41"
    assert told["issues"][0]["summary"] == "ECC error"
    assert told["verdicts"][0]["nodes"] == ["gpu-001"]
    assert told["decisions"][0]["inputs"] == '{"a":1}'
    assert told["advice"]["desired"] == "RESTARTED"
    assert told["actions"][0]["argv"] == ["scontrol", "requeue", "12345"]
    assert [milestone["kind"] for milestone in told["milestones"]] == ["detected", "held"]
    assert [job["attemptIndex"] for job in told["siblings"]] == [1]


def test_attempt_is_named_by_uuid_by_reference_or_by_job(api: Api) -> None:
    story(api)

    def index(name: str) -> int:
        told = api.get(f"/middlewatch/v1/attempts/{name}/explanation")
        return int(told["job"]["attemptIndex"])

    assert index(ATTEMPT.id) == 0
    assert index("12345-0") == 0
    assert index("12345") == 1


def test_vanished_attempt_is_not_the_newest_of_its_job(api: Api) -> None:
    ghost = replace(attempt("12345", 1, minute=30), vanished=True)
    api.store.apply(Change(attempts=(ATTEMPT, ghost)))
    told = api.get("/middlewatch/v1/attempts/12345/explanation")
    assert told["job"]["attemptIndex"] == 0


def test_unknown_attempt_is_not_found(api: Api) -> None:
    status, body = api.call("GET", "/middlewatch/v1/attempts/nobody/explanation")
    assert status == 404
    assert "UUID" in body["message"]


def test_issues_verdicts_and_decisions_are_listed(api: Api) -> None:
    story(api)
    assert api.get("/middlewatch/v1/issues")["count"] == 1
    assert api.get("/middlewatch/v1/issues", attempt="12345-1")["count"] == 0
    (verdict,) = api.get("/middlewatch/v1/verdicts", attempt="12345-0")["verdicts"]
    assert verdict["basis"] == "line_names_node"
    (decision,) = api.get("/middlewatch/v1/decisions", attempt="12345-0")["decisions"]
    assert decision["generation"] == "1"


def test_leases_are_listed_with_their_tokens(api: Api) -> None:
    api.store.acquire_lease("controller", "host-1", 30, NOW)
    assert api.get("/middlewatch/v1/leases")["leases"] == [
        {
            "name": "controller",
            "holder": "host-1",
            "token": "1",
            "expiresAt": "2026-09-23T14:00:30Z",
        }
    ]


def test_health_names_the_loops_that_have_not_ticked_lately(api: Api) -> None:
    api.ages.update({"watcher": 1.5, "controller": 61.0, "manager": None})
    body = api.get("/middlewatch/v1/health")
    assert body["ready"] is False
    assert body["loops"] == [
        {"name": "controller", "ageSeconds": 61.0, "fresh": False},
        {"name": "manager", "fresh": False},
        {"name": "watcher", "ageSeconds": 1.5, "fresh": True},
    ]
