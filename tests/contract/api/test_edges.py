from __future__ import annotations

import pytest

from middlewatch.contract.http import routes
from middlewatch.services.gateway.access import NEEDED, Scope
from tests.contract.api.conftest import Api

KEYS = [
    ("GET", "/v1/keys"),
    ("POST", "/v1/keys"),
    ("GET", "/v1/keys/abc"),
    ("DELETE", "/v1/keys/abc"),
    ("PUT", "/v1/keys/abc/authorizations"),
]


@pytest.mark.parametrize(("verb", "path"), KEYS)
def test_key_endpoints_always_answer_that_they_are_disabled(api: Api, verb: str, path: str) -> None:
    status, body = api.call(verb, path)
    assert status == 500
    assert body == {"code": 13, "message": "API key management is disabled", "details": []}


def test_unknown_path_and_wrong_verb_answer_in_json(api: Api) -> None:
    status, body = api.call("GET", "/v2/jobs")
    assert (status, body["code"]) == (404, 5)
    response = api.client.request(
        "PATCH", "/v1/jobs", headers={"Authorization": f"Bearer {api.tokens[Scope.ADMIN]}"}
    )
    assert response.status_code == 405
    assert response.headers["allow"] == "GET, POST"
    assert response.json()["code"] == 12


@pytest.mark.parametrize("verb", ["HEAD", "OPTIONS", "TRACE", "POST"])
@pytest.mark.parametrize("path", ["/healthz", "/metrics", "/openapi.json"])
def test_plain_paths_are_for_get_alone(api: Api, verb: str, path: str) -> None:
    assert api.client.request(verb, path).status_code == 405


def test_call_without_a_token_is_told_where_the_first_one_lies(api: Api) -> None:
    response = api.client.get("/v1/jobs")
    assert response.status_code == 401
    assert response.headers["www-authenticate"].startswith("Bearer")
    assert "'token'" in response.json()["message"]


@pytest.mark.parametrize("header", ["Bearer wrong", "Bearer ", "Basic abc", "Bearer mw_x_y"])
def test_wrong_token_is_unauthenticated(api: Api, header: str) -> None:
    status, body = api.call("GET", "/v1/jobs", scope=None, headers={"Authorization": header})
    assert (status, body["code"]) == (401, 16)


@pytest.mark.parametrize("route", routes(), ids=lambda route: route.method.name)
@pytest.mark.parametrize("scope", Scope)
def test_each_call_needs_its_scope_and_admin_has_all(api: Api, route, scope: Scope) -> None:  # type: ignore[no-untyped-def]
    wanted = {*NEEDED.get(route.rpc, (Scope.READ,)), Scope.ADMIN}
    path = route.path.replace("{", "").replace("}", "")
    body = {} if route.verb in {"POST", "PUT"} else None
    status, answer = api.call(route.verb, path, body, scope=scope)
    if scope in wanted:
        assert status not in {401, 403}
    else:
        assert (status, answer["code"]) == (403, 7)
        assert scope.value in answer["message"]


def test_revoked_token_stops_working(api: Api) -> None:
    from dataclasses import replace

    (record,) = [t for t in api.store.tokens() if t.name == "read"]
    assert api.call("GET", "/v1/jobs", scope=Scope.READ)[0] == 200
    api.store.add_token(replace(record, revoked=True))
    api.clock.sleep(10)
    assert api.call("GET", "/v1/jobs", scope=Scope.READ)[0] == 401


def test_token_made_a_moment_ago_works_at_once(api: Api) -> None:
    from middlewatch.services.gateway.tokens import make_token

    assert api.call("GET", "/v1/jobs", scope=Scope.READ)[0] == 200
    text = make_token(api.store, api.clock, "new", (Scope.READ,))
    headers = {"Authorization": f"Bearer {text}"}
    api.clock.sleep(0.1)
    assert api.call("GET", "/v1/jobs", scope=None, headers=headers)[0] == 200


def test_body_that_is_too_large_is_refused(api: Api) -> None:
    status, body = api.call("POST", "/v1/jobs", {"workflowId": "x" * 200_000})
    assert status == 413
    assert "100000 bytes" in body["message"]


def test_body_that_is_not_declared_as_json_is_refused(api: Api) -> None:
    response = api.client.post(
        "/v1/jobs",
        content=b'{"workflowId":"w"}',
        headers={
            "Authorization": f"Bearer {api.tokens[Scope.ADMIN]}",
            "Content-Type": "text/plain",
        },
    )
    assert response.status_code == 415
    assert "application/json" in response.json()["message"]


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "169.254.169.254"])
def test_host_header_of_another_machine_is_refused(api: Api, host: str) -> None:
    assert api.client.get("/healthz", headers={"Host": host}).status_code == 421


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:8080", "[::1]:8080", "127.0.0.1:9"])
def test_host_headers_of_this_machine_are_taken(api: Api, host: str) -> None:
    assert api.client.get("/healthz", headers={"Host": host}).status_code == 200


def test_liveness_needs_nothing_and_readiness_the_store_and_fresh_loops(api: Api) -> None:
    assert api.client.get("/livez").json() == {"status": "ok"}
    assert api.client.get("/readyz").status_code == 200
    api.ages["watcher"] = 600.0
    answer = api.client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["missing"] == ["loop watcher has not ticked lately"]


def test_readiness_fails_while_the_store_is_gone(api: Api) -> None:
    api.store.close()
    api.store.database.path.unlink()
    api.store.database.path.mkdir()
    answer = api.client.get("/readyz")
    assert answer.status_code == 503
    assert "store" in answer.json()["missing"][0]


def test_metrics_count_calls_by_name_and_show_loop_ages(api: Api) -> None:
    api.ages["watcher"] = 2.0
    api.get("/v1/jobs")
    api.refused("/v1/jobs", limit=0)
    assert api.client.get("/metrics").status_code == 401
    text = api.client.get(
        "/metrics", headers={"Authorization": f"Bearer {api.tokens[Scope.READ]}"}
    ).text
    name = 'rpc="heimdall.v1.HeimdallService.GetJobs"'
    assert f'middlewatch_api_requests_total{{code="0",{name}}} 1.0' in text
    assert f'middlewatch_api_requests_total{{code="3",{name}}} 1.0' in text
    assert 'middlewatch_loop_age_seconds{loop="watcher"} 2.0' in text


def test_description_is_served_to_anybody(api: Api) -> None:
    body = api.client.get("/openapi.json").json()
    assert body["openapi"] == "3.1.0"
    assert "/v1/advice" in body["paths"]


def test_unforeseen_error_is_shown_as_a_number_and_nothing_else(api: Api) -> None:
    api.ages["watcher"] = "no number"  # type: ignore[assignment]
    status, body = api.call("GET", "/middlewatch/v1/health")
    assert status == 500
    assert body["message"].startswith("an unforeseen error; the gateway's log has it as number ")
    assert "Traceback" not in str(body)
    assert "TypeError" not in str(body)
