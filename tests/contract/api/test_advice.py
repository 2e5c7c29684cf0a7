from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from middlewatch.model.advice import Disposition, Reason, Status
from middlewatch.model.change import Change
from middlewatch.model.identity import ClusterId
from middlewatch.model.milestone import Operation
from tests.contract.api.conftest import Api
from tests.contract.api.samples import ADVICE, ATTEMPT, NOW, SEQUENCE, advice, attempt

DONE = "ADVICE_RECONCILIATION_DISPOSITION_CONVERGED"
OBSERVED = "ADVICE_RECONCILIATION_REASON_DESIRED_STATE_OBSERVED"
CONVERGED = {"observedGeneration": "1", "disposition": DONE, "reason": OBSERVED}
PATH = f"/v1/advice/{ATTEMPT.id}/reconciliation-status"


def seed(api: Api, count: int = 5) -> list[str]:
    attempts = [attempt(str(n), minute=n) for n in range(count)]
    api.store.apply(
        Change(attempts=tuple(attempts), advice=tuple(advice(each) for each in attempts))
    )
    return [each.job_id for each in attempts]


def ids(body: dict[str, Any]) -> list[str]:
    return [each["jobId"] for each in body["advice"]]


def test_documented_example_is_read_as_documented(api: Api) -> None:
    api.store.apply(Change(attempts=(ATTEMPT,), advice=(ADVICE,)))
    body = api.get("/v1/advice", onlyActive="true")
    assert body["count"] == 1
    shown = body["advice"][0]
    shown.pop("issues")
    assert shown == {
        "heimdallJobId": ATTEMPT.id,
        "jobId": "12345",
        "attemptIndex": 0,
        "schedulerMetadata": {"scheduler": "slurm", "environment": "customer-slurm"},
        "advice": {
            "state": "ADVICE_STATE_RESTARTED",
            "nodeConstraints": {"exclusions": ["gpu-001"]},
        },
        "generation": "1",
        "desiredStateChangedAt": "2026-09-23T14:00:00Z",
    }


def test_opaque_tokens_lead_through_all_pages(api: Api) -> None:
    names = seed(api)
    found: list[str] = []
    token = ""
    while True:
        body = api.get("/v1/advice", limit=2, page=token)
        found += ids(body)
        token = body["nextPageToken"]
        if not token:
            break
        assert not token.isdigit()
    assert found == names


def test_page_token_is_bound_to_its_filters(api: Api) -> None:
    seed(api)
    token = api.get("/v1/advice", limit=2, onlyActive="true")["nextPageToken"]
    assert "other filters" in api.refused("/v1/advice", limit=2, page=token)
    assert ids(api.get("/v1/advice", limit=3, onlyActive="true", page=token)) == ["2", "3", "4"]


@pytest.mark.parametrize("token", ["2", "nonsense", "Zjk5OTk5OTk5OTk5OTk5OTk5OTk5OS5hYmM", "%%"])
def test_page_token_that_is_not_ours_is_refused(api: Api, token: str) -> None:
    assert "page" in api.refused("/v1/advice", page=token)


def test_only_active_leaves_out_what_has_a_terminal_outcome(api: Api) -> None:
    names = seed(api, 2)
    api.call("PUT", f"/v1/advice/{attempt('0').id}/reconciliation-status", CONVERGED)
    assert ids(api.get("/v1/advice", onlyActive="true")) == names[1:]
    body = api.get("/v1/advice")
    assert ids(body) == names
    assert body["advice"][0]["reconciliationStatus"]["disposition"] == DONE


def test_report_is_recorded_with_its_line_of_the_trail(api: Api) -> None:
    api.store.apply(Change(attempts=(ATTEMPT,), advice=(ADVICE,)))
    status, body = api.call("PUT", PATH, {**CONVERGED, "detail": "seen running"})
    assert status == 200
    assert body["reconciliationStatus"] == {
        **CONVERGED,
        "observedAt": "2026-09-23T14:00:00Z",
        "detail": "seen running",
        "reporter": "admin",
    }
    event = api.get("/v1/audit/events", heimdallJobId=ATTEMPT.id)["items"][-1]
    assert event["eventType"] == "advice.outcome"
    assert event["payload"]["reason"] == "DESIRED_STATE_OBSERVED"


def test_same_report_twice_is_one_report(api: Api) -> None:
    api.store.apply(Change(attempts=(ATTEMPT,), advice=(ADVICE,)))
    first = api.call("PUT", PATH, CONVERGED)
    number = api.store.last_audit_number()
    api.clock.sleep(60)
    assert api.call("PUT", PATH, {**CONVERGED, "detail": "again"}) == first
    assert api.store.last_audit_number() == number
    assert len(api.store.statuses(ATTEMPT.id)) == 1


@pytest.mark.parametrize("generation", ["2", "9223372036854775807"])
def test_report_about_another_generation_is_a_conflict(api: Api, generation: str) -> None:
    api.store.apply(Change(attempts=(ATTEMPT,), advice=(ADVICE,)))
    status, body = api.call("PUT", PATH, {**CONVERGED, "observedGeneration": generation})
    assert (status, body["code"]) == (409, 9)
    assert "the current one is 1" in body["message"]
    stored = api.store.advice(ATTEMPT.id)
    assert stored is not None
    assert stored.status is None


def test_report_about_an_old_generation_closes_nothing(api: Api) -> None:
    api.store.apply(Change(attempts=(ATTEMPT,), advice=(ADVICE,)))
    stored = api.store.advice(ATTEMPT.id)
    assert stored is not None
    api.store.apply(Change(advice=(replace(stored, generation=2, exclusions=()),)))
    assert api.call("PUT", PATH, CONVERGED)[0] == 409
    assert ids(api.get("/v1/advice", onlyActive="true")) == ["12345"]


def test_second_different_outcome_is_a_conflict(api: Api) -> None:
    api.store.apply(Change(attempts=(ATTEMPT,), advice=(ADVICE,)))
    api.call("PUT", PATH, CONVERGED)
    other = {
        "observedGeneration": 1,
        "disposition": "ADVICE_RECONCILIATION_DISPOSITION_ABANDONED",
        "reason": "ADVICE_RECONCILIATION_REASON_STALE_ATTEMPT",
    }
    status, body = api.call("PUT", PATH, other)
    assert (status, body["code"]) == (409, 9)
    assert "already ended" in body["message"]


def test_report_of_another_controllers_reason_still_closes_the_generation(api: Api) -> None:
    api.store.apply(Change(attempts=(ATTEMPT,), advice=(ADVICE,)))
    body = {
        "observedGeneration": "1",
        "disposition": "ADVICE_RECONCILIATION_DISPOSITION_ABANDONED",
        "reason": "ADVICE_RECONCILIATION_REASON_OF_TOMORROW",
    }
    assert api.call("PUT", PATH, body)[0] == 200
    assert api.get("/v1/advice", onlyActive="true")["advice"] == []


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "observedGeneration"),
        ({"observedGeneration": "1"}, "disposition"),
        ({"observedGeneration": "0", "disposition": DONE}, "observedGeneration"),
        (
            {
                "observedGeneration": "1",
                "disposition": DONE,
                "reason": "ADVICE_RECONCILIATION_REASON_STALE_ATTEMPT",
            },
            "does not go with",
        ),
        ({**CONVERGED, "detail": "x" * 5000}, "at most 4096"),
    ],
)
def test_malformed_report_is_refused_with_its_reason(
    api: Api, body: dict[str, str], says: str
) -> None:
    api.store.apply(Change(attempts=(ATTEMPT,), advice=(ADVICE,)))
    status, answer = api.call("PUT", PATH, body)
    assert status == 400
    assert says in answer["message"]


def test_report_about_nothing_is_not_found_and_about_nonsense_refused(api: Api) -> None:
    assert api.call("PUT", PATH, CONVERGED)[0] == 404
    assert api.call("PUT", "/v1/advice/12345-0/reconciliation-status", CONVERGED)[0] == 400


KEY = {
    "schedulerSystem": "slurm",
    "schedulerScope": "customer-slurm",
    "jobId": "12345",
    "sourceAttemptIndex": 0,
    "operation": "RECOVERY_OPERATION_RESTART",
}


def test_recovery_sequence_is_found_by_its_five_parts(api: Api) -> None:
    api.store.apply(Change(sequences=(SEQUENCE,)))
    assert api.get("/v1/recovery/sequences", **KEY) == {
        "recoveryContext": {
            "sequenceId": SEQUENCE.id,
            "traceparent": SEQUENCE.traceparent,
            "tracestate": "",
        }
    }


@pytest.mark.parametrize("name", KEY)
def test_recovery_sequence_needs_each_of_its_parts(api: Api, name: str) -> None:
    api.store.apply(Change(sequences=(SEQUENCE,)))
    query = {key: value for key, value in KEY.items() if key != name}
    assert name in api.refused("/v1/recovery/sequences", **query)


def test_missing_recovery_sequence_is_not_found_and_not_made(api: Api) -> None:
    status, body = api.call("GET", "/v1/recovery/sequences", **KEY)
    assert (status, body["code"]) == (404, 5)
    assert api.store.sequence_by_id(SEQUENCE.id) is None


MILESTONE = {
    "sequenceId": SEQUENCE.id,
    "idempotencyKey": "requeue-1",
    "operation": "RECOVERY_OPERATION_RESTART",
    "action": "RECOVERY_SCHEDULER_ACTION_SLURM_REQUEUE_HOLD",
}


def test_milestone_is_recorded_once_per_key(api: Api) -> None:
    api.store.apply(Change(attempts=(ATTEMPT,), sequences=(SEQUENCE,)))
    assert api.call("POST", "/v1/recovery/milestones", MILESTONE) == (200, {})
    number = api.store.last_audit_number()
    assert api.call("POST", "/v1/recovery/milestones", {**MILESTONE, "detail": "again"})[0] == 200
    assert [m.idempotency_key for m in api.store.milestones(SEQUENCE.id)] == ["requeue-1"]
    assert api.store.last_audit_number() == number


def test_milestone_takes_the_time_at_which_it_happened(api: Api) -> None:
    api.store.apply(Change(sequences=(SEQUENCE,)))
    at = NOW - timedelta(seconds=5)
    api.call("POST", "/v1/recovery/milestones", {**MILESTONE, "occurredAt": at.isoformat()})
    (stored,) = api.store.milestones(SEQUENCE.id)
    assert (stored.at, stored.learned_at) == (at, NOW)


@pytest.mark.parametrize(
    ("change", "status", "says"),
    [
        ({"sequenceId": "nonsense"}, 400, "UUID"),
        ({"sequenceId": ATTEMPT.id}, 404, "no recovery sequence"),
        ({"idempotencyKey": ""}, 400, "idempotencyKey is missing"),
        ({"operation": "RECOVERY_OPERATION_UNSPECIFIED"}, 400, "operation"),
        ({"operation": "RECOVERY_OPERATION_TERMINATE"}, 400, "is about RESTART"),
        ({"action": "RECOVERY_SCHEDULER_ACTION_UNSPECIFIED"}, 400, "action"),
    ],
)
def test_milestone_that_cannot_be_is_refused_with_its_reason(
    api: Api, change: dict[str, str], status: int, says: str
) -> None:
    api.store.apply(Change(sequences=(SEQUENCE,)))
    answered, body = api.call("POST", "/v1/recovery/milestones", {**MILESTONE, **change})
    assert answered == status
    assert says in body["message"]
    assert api.store.milestones(SEQUENCE.id) == ()


def test_milestone_of_constraint_only_recovery_needs_no_word_that_the_wire_lacks(api: Api) -> None:
    api.store.apply(Change(sequences=(replace(SEQUENCE, operation=Operation.CONSTRAIN),)))
    body = {
        **MILESTONE,
        "operation": "RECOVERY_OPERATION_UNSPECIFIED",
        "action": "RECOVERY_SCHEDULER_ACTION_SLURM_UPDATE_CONSTRAINTS",
    }
    assert api.call("POST", "/v1/recovery/milestones", body)[0] == 200


def test_whole_advice_records_are_listed_by_owner(api: Api) -> None:
    status = Status(1, Disposition.PENDING, Reason.IN_PROGRESS, NOW)
    other = advice(attempt("9"), owner=ClusterId("slurm", "other"))
    api.store.apply(
        Change(attempts=(ATTEMPT, attempt("9")), advice=(replace(ADVICE, status=status), other))
    )
    path = "/middlewatch/v1/advice"
    assert len(api.get(path)["advice"]) == 2
    mine = api.get(path, scheduler="slurm", environment="customer-slurm", onlyActive="true")
    (shown,) = mine["advice"]
    assert shown["gates"] == [
        {"name": "deployment_mode", "open": True, "detail": "deployment mode is action"}
    ]
    assert shown["status"]["disposition"] == "PENDING"
    assert "together" in api.refused(path, scheduler="slurm")
