from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from middlewatch.contract.errors import ApiError, Code
from middlewatch.contract.gen.heimdall.v1 import heimdall_pb2
from middlewatch.contract.http import SERVICES, Match, Router, WrongVerb, bind, routes, to_json

ROUTER = Router(routes())

DOCUMENTED = {
    ("GET", "/v1/jobs"): "GetJobs",
    ("POST", "/v1/jobs"): "CreateOrUpdateJob",
    ("GET", "/v1/jobs/12345-0"): "GetJob",
    ("GET", "/v1/jobs/by-scheduler-id/12345"): "GetJobsBySchedulerId",
    ("GET", "/v1/workflows"): "GetWorkflows",
    ("GET", "/v1/workflows:lookup"): "GetWorkflow",
    ("GET", "/v1/advice"): "ListAdvice",
    ("PUT", "/v1/advice/x/reconciliation-status"): "UpdateAdviceReconciliationStatus",
    ("GET", "/v1/recovery/sequences"): "GetRecoverySequence",
    ("POST", "/v1/recovery/milestones"): "RecordRecoveryMilestone",
    ("GET", "/v1/audit/events"): "QueryAuditEvents",
    ("POST", "/v1/audit/events"): "CreateAuditEvents",
    ("GET", "/v1/keys"): "ListApiKeys",
    ("POST", "/v1/keys"): "CreateApiKey",
    ("GET", "/v1/keys/k"): "RetrieveApiKey",
    ("DELETE", "/v1/keys/k"): "DeleteApiKey",
    ("PUT", "/v1/keys/k/authorizations"): "UpdateApiKeyAuthorizations",
}


def match(verb: str, path: str) -> Match:
    found = ROUTER.match(verb, path)
    assert isinstance(found, Match)
    return found


def bound(verb: str, path: str, query: str = "", body: bytes = b"") -> Any:
    return bind(match(verb, path), query, body)


@pytest.mark.parametrize(("request_line", "rpc"), DOCUMENTED.items())
def test_documented_path_leads_to_its_call(request_line: tuple[str, str], rpc: str) -> None:
    assert match(*request_line).route.method.name == rpc


def test_every_call_of_every_service_has_a_path() -> None:
    assert {route.rpc for route in routes()} == {
        method.full_name for service in SERVICES for method in service.methods
    }


def test_no_two_calls_share_verb_and_path() -> None:
    places = [(route.verb, route.path) for route in routes()]
    assert len(places) == len(set(places))


def test_known_path_with_another_verb_names_the_verbs_that_it_has() -> None:
    assert ROUTER.match("PATCH", "/v1/keys/k") == WrongVerb(("DELETE", "GET"))


@pytest.mark.parametrize(
    "path", ["/", "", "/v1", "/v1/jobs/", "/v1/jobs/a/b", "/v1/workflows:other", "//v1/jobs"]
)
def test_unknown_path_leads_nowhere(path: str) -> None:
    assert ROUTER.match("GET", path) is None


def test_encoded_slash_stays_within_its_part_of_the_path() -> None:
    assert bound("GET", "/v1/jobs/by-scheduler-id/a%2Fb").scheduler_job_id == "a/b"


def test_colon_of_the_custom_verb_may_come_encoded() -> None:
    assert match("GET", "/v1/workflows%3Alookup").route.method.name == "GetWorkflow"


def test_path_that_is_no_text_is_refused() -> None:
    with pytest.raises(ApiError, match="not UTF-8"):
        ROUTER.match("GET", "/v1/jobs/%ff")


@pytest.mark.parametrize("name", ["completedJobs", "completed_jobs"])
def test_query_names_come_in_camel_case_or_snake_case(name: str) -> None:
    assert bound("GET", "/v1/jobs", f"{name}=true").completed_jobs is True


def test_three_states_of_completed_jobs_are_told_apart() -> None:
    assert not bound("GET", "/v1/jobs").HasField("completed_jobs")
    assert bound("GET", "/v1/jobs", "completedJobs=false").HasField("completed_jobs")
    assert bound("GET", "/v1/jobs", "completedJobs=false").completed_jobs is False


def test_attempt_index_zero_is_a_value_and_not_an_absence() -> None:
    assert bound("GET", "/v1/audit/events", "jobId=1&attemptIndex=0").HasField("attempt_index")
    assert not bound("GET", "/v1/audit/events", "jobId=1").HasField("attempt_index")


def test_list_in_the_query_is_a_repeated_name() -> None:
    assert list(bound("GET", "/v1/jobs", "jobIds=1&jobIds=2&job_ids=3").job_ids) == ["1", "2", "3"]


def test_single_value_given_twice_is_refused() -> None:
    with pytest.raises(ApiError, match="limit is given 2 times"):
        bound("GET", "/v1/jobs", "limit=1&limit=2")


def test_unknown_parameters_and_enum_words_of_the_query_are_ignored() -> None:
    request = bound("GET", "/v1/recovery/sequences", "operation=RECOVERY_OPERATION_NEW&zzz=1")
    assert request.operation == heimdall_pb2.RECOVERY_OPERATION_UNSPECIFIED


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("limit=", "no whole decimal number"),
        ("limit=1e3", "no whole decimal number"),
        ("limit=2147483648", "not within"),
        ("pageNumber=%D9%A1", "no whole decimal number"),
        ("completedJobs=perhaps", "neither true nor false"),
        ("endTimeFrom=yesterday", "RFC 3339"),
        ("endTimeFrom=2024-01-15", "RFC 3339"),
        ("jmState=%ff", "not UTF-8"),
        ("jmState=%00", "NUL"),
        ("&".join(["zzz=1"] * 1001), "more than 1000"),
    ],
)
def test_query_that_cannot_be_understood_is_refused_with_its_reason(query: str, says: str) -> None:
    with pytest.raises(ApiError, match=says) as caught:
        bound("GET", "/v1/jobs", query)
    assert caught.value.code is Code.INVALID_ARGUMENT


def test_microseconds_beyond_32_bits_are_bound_from_text() -> None:
    request = bound("GET", "/v1/audit/events", "jobId=1&minEventProducedAt=1700000000000000")
    assert request.min_event_produced_at == 1_700_000_000_000_000


def test_body_takes_both_spellings_and_ignores_what_it_does_not_know() -> None:
    request = bound(
        "POST",
        "/v1/jobs",
        body=b'{"workflow_id":"w","jobId":"7","state":"JOB_STATUS_NEW","later":{"x":[1]}}',
    )
    assert (request.workflow_id, request.job_id, request.state) == ("w", "7", 0)


def test_body_of_the_report_is_the_status_itself_and_the_path_names_the_attempt() -> None:
    request = bound(
        "PUT",
        "/v1/advice/abc/reconciliation-status",
        body=b'{"observedGeneration":"9007199254740993"}',
    )
    assert request.heimdall_job_id == "abc"
    assert request.reconciliation_status.observed_generation == 9_007_199_254_740_993


def test_path_wins_over_the_same_field_in_the_body() -> None:
    request = bound("PUT", "/v1/keys/k/authorizations", body=b'{"keyId":"other"}')
    assert request.key_id == "k"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"[1]", "must be a JSON object"),
        (b"{", "is not JSON"),
        (b"\xff", "not UTF-8"),
        (b'{"workflowId":1}', "does not fit"),
        (b'{"workflowId":"a","workflowId":"b"}', "more than once"),
        (b'{"workflowId":"\\u0000"}', "NUL"),
        (b'{"workflowId":"\\ud800"}', "surrogate"),
        (b'{"gpuCountPerNode":NaN}', "no JSON"),
        (b'{"gpuCountPerNode":4294967296}', "does not fit"),
        (b'{"submitTime":"yesterday"}', "does not fit"),
        (b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
        (b'{"gpuCountPerNode":' + b"9" * 5000 + b"}", "is not JSON|does not fit"),
    ],
)
def test_body_that_cannot_be_understood_is_refused_with_its_reason(body: bytes, says: str) -> None:
    with pytest.raises(ApiError, match=says) as caught:
        bound("POST", "/v1/jobs", body=body)
    assert caught.value.code is Code.INVALID_ARGUMENT


def refusal(body: bytes) -> Code | None:
    """With which code the body is refused; None if it is taken. Other exceptions fly."""
    try:
        bound("POST", "/v1/jobs", body=body)
    except ApiError as error:
        return error.code
    return None


@given(st.binary(max_size=200))
def test_no_body_at_all_breaks_the_binding(body: bytes) -> None:
    assert refusal(body) in {None, Code.INVALID_ARGUMENT}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    ),
    st.sampled_from([field.json_name for field in heimdall_pb2.Job.DESCRIPTOR.fields]),
)
def test_no_json_value_in_any_field_breaks_the_binding(value: object, name: str) -> None:
    assert refusal(json.dumps({name: value}).encode()) in {None, Code.INVALID_ARGUMENT}


def test_response_shows_empty_fields_and_leaves_out_what_nobody_set() -> None:
    text = to_json(heimdall_pb2.Job(workflow_id="w")).decode()
    assert '"attemptIndex":0' in text
    assert '"nodes":[]' in text
    assert "startTime" not in text
    assert "desiredState" not in text
