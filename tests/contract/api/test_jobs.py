from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from middlewatch.model.attempt import EndedBy
from middlewatch.model.change import Change
from middlewatch.model.dependency import Condition, Dependency
from middlewatch.model.optin import JobMode, OptIn
from middlewatch.model.scheduler import JobState
from tests.contract.api.conftest import Api
from tests.contract.api.samples import ADVICE, ATTEMPT, NOW, attempt


def seed(api: Api, count: int = 7) -> list[str]:
    attempts = [attempt(str(100 + n), minute=n, workflow=f"wf-{n % 2}") for n in range(count)]
    api.store.apply(Change(attempts=tuple(attempts)))
    return [each.job_id for each in attempts]


def ids(body: dict[str, list[dict[str, str]]]) -> list[str]:
    return [job["jobId"] for job in body["jobs"]]


def test_empty_store_lists_no_jobs_in_the_documented_shape(api: Api) -> None:
    assert api.get("/v1/jobs") == {"jobs": [], "count": 0, "nextPageToken": ""}


def test_jobs_come_oldest_first_with_their_documented_fields(api: Api) -> None:
    names = seed(api)
    body = api.get("/v1/jobs")
    assert ids(body) == names
    assert body["count"] == len(names)
    job = body["jobs"][0]
    assert (job["workflowId"], job["jobRunId"], job["attemptIndex"]) == ("wf-0", "100-0", 0)
    assert job["nodes"] == ["gpu-001", "gpu-002"]


def test_page_token_is_a_decimal_offset_that_leads_through_all_pages(api: Api) -> None:
    names = seed(api)
    found: list[str] = []
    token = ""
    tokens = []
    while True:
        body = api.get("/v1/jobs", limit=3, pageToken=token)
        found += ids(body)
        token = body["nextPageToken"]
        tokens.append(token)
        if not token:
            break
    assert found == names
    assert tokens == ["3", "6", ""]


def test_last_full_page_promises_no_further_one(api: Api) -> None:
    seed(api, 6)
    assert api.get("/v1/jobs", limit=3, pageToken="3")["nextPageToken"] == ""


def test_page_number_counts_from_one(api: Api) -> None:
    names = seed(api)
    assert ids(api.get("/v1/jobs", limit=3, pageNumber=1)) == names[:3]
    assert ids(api.get("/v1/jobs", limit=3, pageNumber=3)) == names[6:]
    assert "count from 1" in api.refused("/v1/jobs", pageNumber=0)


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/workflows"])
def test_page_token_and_page_number_together_are_refused(api: Api, path: str) -> None:
    assert "exclude each other" in api.refused(path, pageToken="0", pageNumber=1)


@pytest.mark.parametrize(
    "path", ["/v1/jobs", "/v1/workflows", "/v1/jobs/by-scheduler-id/1", "/v1/advice"]
)
@pytest.mark.parametrize("limit", [0, -1, 251])
def test_limits_outside_one_to_250_are_refused(api: Api, path: str, limit: int) -> None:
    assert "1 to 250" in api.refused(path, limit=limit)


def test_far_offsets_find_an_empty_page(api: Api) -> None:
    seed(api)
    assert api.get("/v1/jobs", pageToken="9007199254740992")["jobs"] == []
    assert api.get("/v1/jobs", pageNumber=2**31 - 1, limit=250)["jobs"] == []


def test_filters_by_job_and_workflow_keep_what_matches_any_value(api: Api) -> None:
    seed(api)
    assert ids(api.get("/v1/jobs", jobIds=["101", "103"])) == ["101", "103"]
    assert ids(api.get("/v1/jobs", workflowIds=["wf-1"])) == ["101", "103", "105"]
    assert ids(api.get("/v1/jobs", workflowIds=["wf-1"], jobIds=["101", "102"])) == ["101"]


@pytest.mark.parametrize(
    "query",
    [
        {"jmState": "RUNNING", "reconciliationEligibleJobs": "true"},
        {"jmState": "RUNNING", "completedJobs": "true"},
        {"jmState": "RUNNING", "completedJobs": "false"},
        {"completedJobs": "true", "reconciliationEligibleJobs": "true"},
        {"completedJobs": "false", "reconciliationEligibleJobs": "true"},
    ],
)
def test_exclusive_filters_together_are_refused(api: Api, query: dict[str, str]) -> None:
    assert "exclude each other" in api.refused("/v1/jobs", **query)


def test_completed_jobs_with_eligibility_false_is_no_conflict(api: Api) -> None:
    assert api.get("/v1/jobs", completedJobs="true", reconciliationEligibleJobs="false")


def states(api: Api) -> None:
    api.store.apply(
        Change(
            attempts=(
                attempt("1", state=JobState.RUNNING, by=None),
                attempt("2", state=JobState.FAILED, by=EndedBy.FAILURE, minute=1),
                attempt("3", state=JobState.COMPLETED, by=EndedBy.COMPLETION, minute=2),
                attempt("4", state=JobState.FAILED, by=EndedBy.REQUEUE, minute=3),
            )
        )
    )


def test_three_states_of_completed_jobs_select_three_listings(api: Api) -> None:
    states(api)
    assert ids(api.get("/v1/jobs")) == ["1", "2", "3", "4"]
    assert ids(api.get("/v1/jobs", completedJobs="false")) == ["1"]
    assert ids(api.get("/v1/jobs", completedJobs="true")) == ["2", "3", "4"]


def test_eligible_jobs_are_the_unfinished_and_those_that_failed(api: Api) -> None:
    states(api)
    assert ids(api.get("/v1/jobs", reconciliationEligibleJobs="true")) == ["1", "2"]


@pytest.mark.parametrize(
    ("word", "expected"),
    [("RUNNING", ["1"]), ("COMPLETED", ["3"]), ("JOB_STATUS_FAILED", ["2"]), ("REQUEUED", ["4"])],
)
def test_jobs_are_found_by_their_state(api: Api, word: str, expected: list[str]) -> None:
    states(api)
    assert ids(api.get("/v1/jobs", jmState=word)) == expected


def test_state_that_nobody_knows_is_refused_with_those_that_are(api: Api) -> None:
    assert "RUNNING" in api.refused("/v1/jobs", jmState="FLYING")


def test_end_times_bound_the_listing_inclusively(api: Api) -> None:
    early, late = NOW - timedelta(hours=2), NOW - timedelta(minutes=5)
    api.store.apply(
        Change(attempts=(attempt("1", ended=early), attempt("2", ended=late, minute=1)))
    )
    at = late.isoformat().replace("+00:00", "Z")
    assert ids(api.get("/v1/jobs", endTimeFrom=at)) == ["2"]
    assert ids(api.get("/v1/jobs", endTimeTo="2026-09-23T12:00:00Z")) == ["1"]


def test_job_is_found_by_reference_and_by_uuid_only_when_asked(api: Api) -> None:
    api.store.apply(Change(attempts=(ATTEMPT,)))
    assert api.get("/v1/jobs/12345-0")["job"]["heimdallJobId"] == ATTEMPT.id
    by_uuid = api.get(f"/v1/jobs/{ATTEMPT.id}", useHeimdallId="true")
    assert by_uuid["job"]["jobId"] == "12345"
    assert api.call("GET", f"/v1/jobs/{ATTEMPT.id}")[0] in {400, 404}
    assert api.call("GET", "/v1/jobs/12345-0", useHeimdallId="true")[0] == 400


def test_reference_is_split_at_its_last_hyphen(api: Api) -> None:
    api.store.apply(Change(attempts=(attempt("a-b", 3),)))
    assert api.get("/v1/jobs/a-b-3")["job"]["attemptIndex"] == 3


@pytest.mark.parametrize("name", ["12345", "12345-", "-0", "12345-x"])
def test_text_that_is_no_reference_is_refused_with_the_form_expected(api: Api, name: str) -> None:
    assert "useHeimdallId=true" in api.refused(f"/v1/jobs/{name}")


@pytest.mark.parametrize("name", ["12345-7", "12345-99999999999999999999"])
def test_job_that_is_not_known_is_not_found(api: Api, name: str) -> None:
    status, body = api.call("GET", f"/v1/jobs/{name}")
    assert (status, body["code"]) == (404, 5)


def test_every_attempt_of_a_scheduler_job_is_listed_in_pages(api: Api) -> None:
    attempts = tuple(attempt("77", n, minute=n) for n in range(3))
    api.store.apply(Change(attempts=(*attempts, attempt("78"))))
    path = "/v1/jobs/by-scheduler-id/77"
    body = api.get(path, limit=2)
    assert [job["attemptIndex"] for job in body["jobs"]] == [0, 1]
    assert body["nextPageToken"] == "2"
    rest = api.get(path, limit=2, page="2")
    assert [job["attemptIndex"] for job in rest["jobs"]] == [2]
    assert rest["nextPageToken"] == ""
    assert "decimal" in api.refused(path, page="x")


def test_job_shows_the_wish_of_its_advice(api: Api) -> None:
    api.store.apply(Change(attempts=(ATTEMPT,), advice=(ADVICE,)))
    assert api.get("/v1/jobs/12345-0")["job"]["desiredState"] == "ADVICE_STATE_RESTARTED"


def test_workflows_are_listed_and_looked_up_by_any_id(api: Api) -> None:
    api.store.apply(
        Change(attempts=(attempt("1", workflow="a/b c"), attempt("2", workflow="w2", minute=1)))
    )
    body = api.get("/v1/workflows")
    assert [workflow["workflowId"] for workflow in body["workflows"]] == ["a/b c", "w2"]
    found = api.get("/v1/workflows:lookup", workflowId="a/b c")
    assert found["workflow"]["workflowId"] == "a/b c"
    assert found["workflow"]["startTime"] == "2026-09-23T13:00:00Z"


def test_workflow_lookup_needs_a_known_workflow(api: Api) -> None:
    assert "workflowId is missing" in api.refused("/v1/workflows:lookup")
    assert api.call("GET", "/v1/workflows:lookup", workflowId="none")[0] == 404


UPSERT = {
    "workflowId": "wf",
    "jobId": "500",
    "attemptIndex": 0,
    "jobName": "train",
    "allocatedNodes": ["n1", "n2"],
    "gpuCountPerNode": 8,
    "nodeConstraints": {"exclusions": ["n9"]},
    "state": "JOB_STATUS_RUNNING",
}


def test_upsert_creates_an_attempt_and_answers_with_it(api: Api) -> None:
    status, body = api.call("POST", "/v1/jobs", UPSERT)
    assert status == 200
    job = body["job"]
    assert (job["jobId"], job["state"], job["gpuCountPerNode"]) == ("500", "JOB_STATUS_RUNNING", 8)
    assert job["nodeConstraints"] == {"exclusions": ["n9"]}
    assert api.get("/v1/jobs/500-0")["job"] == job


def test_id_of_an_upsert_follows_from_job_and_attempt_index(api: Api) -> None:
    first = api.call("POST", "/v1/jobs", UPSERT)[1]["job"]["heimdallJobId"]
    again = api.call("POST", "/v1/jobs", UPSERT)[1]["job"]["heimdallJobId"]
    other = api.call("POST", "/v1/jobs", {**UPSERT, "attemptIndex": 1})[1]["job"]["heimdallJobId"]
    assert first == again
    assert first != other
    assert [job["attemptIndex"] for job in api.get("/v1/jobs")["jobs"]] == [0, 1]


def test_id_of_an_upsert_with_a_submit_time_is_the_one_that_the_watcher_would_give(
    api: Api,
) -> None:
    sent = {**UPSERT, "submitTime": "2026-09-23T13:00:00Z"}
    job = api.call("POST", "/v1/jobs", sent)[1]["job"]
    assert job["heimdallJobId"] == attempt("500").id


def test_upsert_updates_what_it_tells_and_keeps_the_rest(api: Api) -> None:
    api.call("POST", "/v1/jobs", UPSERT)
    told = {"workflowId": "wf", "jobId": "500", "attemptIndex": 0, "state": "JOB_STATUS_FAILED"}
    job = api.call("POST", "/v1/jobs", told)[1]["job"]
    assert (job["state"], job["nodes"]) == ("JOB_STATUS_FAILED", ["n1", "n2"])


def test_end_of_an_attempt_is_not_taken_back(api: Api) -> None:
    api.call("POST", "/v1/jobs", {**UPSERT, "state": "JOB_STATUS_COMPLETED"})
    job = api.call("POST", "/v1/jobs", UPSERT)[1]["job"]
    assert job["state"] == "JOB_STATUS_COMPLETED"


def test_repeated_upsert_writes_no_second_line_of_the_trail(api: Api) -> None:
    api.call("POST", "/v1/jobs", UPSERT)
    before = api.store.last_audit_number()
    api.call("POST", "/v1/jobs", UPSERT)
    assert api.store.last_audit_number() == before


def test_upsert_does_not_overwrite_what_the_watcher_saw(api: Api) -> None:
    api.store.apply(Change(attempts=(ATTEMPT,)))
    told = {
        "workflowId": "mine",
        "heimdallJobId": ATTEMPT.id,
        "state": "JOB_STATUS_COMPLETED",
        "allocatedNodes": ["elsewhere"],
    }
    job = api.call("POST", "/v1/jobs", told)[1]["job"]
    assert (job["workflowId"], job["state"]) == ("mine", "JOB_STATUS_FAILED")
    assert job["nodes"] == ["gpu-001", "gpu-002"]


def test_nobody_can_tell_a_later_attempt_of_a_job_that_the_watcher_sees(api: Api) -> None:
    api.store.apply(Change(attempts=(ATTEMPT,)))
    told = {
        "workflowId": "w",
        "jobId": "12345",
        "attemptIndex": 1,
        "submitTime": "2026-09-23T13:30:00Z",
    }
    status, body = api.call("POST", "/v1/jobs", told)
    assert (status, body["code"]) == (409, 9)
    assert "watched here" in body["message"]
    assert len(api.get("/v1/jobs")["jobs"]) == 1


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"workflowId": ""}, "workflowId is missing"),
        ({"workflowId": "x" * 257}, "at most 256"),
        ({"jobId": ""}, "jobId is missing"),
        ({"attemptIndex": -1}, "count from 0"),
        ({"heimdallJobId": "nonsense"}, "UUID"),
        ({"gpuCountPerNode": -1}, "negative"),
        ({"allocatedNodes": [""]}, "allocatedNodes"),
        ({"submitTime": "2026-09-24T00:00:00Z"}, "has not come yet"),
        ({"submitTime": "1960-01-01T00:00:00Z"}, "before 1970"),
    ],
)
def test_upsert_that_cannot_be_is_refused_with_its_reason(
    api: Api, change: dict[str, object], says: str
) -> None:
    status, body = api.call("POST", "/v1/jobs", {**UPSERT, **change})
    assert status == 400
    assert says in body["message"]
    assert api.get("/v1/jobs")["jobs"] == []


def test_what_a_held_job_waits_for_is_shown(api: Api) -> None:
    opt_in = OptIn(JobMode.ACTION, depends_on=(Dependency("7", Condition.AFTERANY),))
    held = replace(
        attempt("900", state=JobState.PENDING, by=None), opt_in=opt_in, waits_for="It waits for 7."
    )
    api.store.apply(Change(attempts=(held,)))
    shown = api.get("/v1/jobs/900-0")["job"]["additionalProperties"]
    assert (shown["dependsOn"], shown["waitsFor"]) == (["afterany:7"], "It waits for 7.")
    plain = replace(attempt("901"))
    api.store.apply(Change(attempts=(plain,)))
    shown = api.get("/v1/jobs/901-0")["job"]["additionalProperties"]
    assert (shown["dependsOn"], shown["waitsFor"]) == ([], "")


def test_a_dependency_cannot_be_declared_here_and_nobody_is_left_to_believe_so(api: Api) -> None:
    told = {**UPSERT, "additionalProperties": {"dependsOn": ["afterok:7"]}}
    status, body = api.call("POST", "/v1/jobs", told)
    assert (status, body["code"]) == (400, 3)
    assert "comment" in body["message"]
    assert api.get("/v1/jobs")["jobs"] == []
