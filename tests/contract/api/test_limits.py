"""Limits over the API: read, changed with a reason, previewed."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from middlewatch.model.change import Change
from middlewatch.model.optin import JobMode, OptIn
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import JobState
from middlewatch.model.signal import Pause, Phase, Progress, Unseen
from middlewatch.services.gateway.access import Scope
from tests.contract.api.conftest import Api
from tests.contract.api.samples import ATTEMPT, NOW, attempt

LIMITS = "/middlewatch/v1/limits"
PREVIEW = "/middlewatch/v1/limits:preview"


def setting(name: str, seconds: float) -> list[dict[str, Any]]:
    return [{"name": name, "seconds": seconds}]


def change(api: Api, version: int, **body: Any) -> tuple[int, Any]:
    sent = {"version": str(version), "reason": "the new file system saves slowly", **body}
    return api.call("POST", LIMITS, sent)


def by_name(body: Any) -> dict[str, Any]:
    return {limit["name"]: limit for limit in body["limits"]}


def test_limits_are_those_of_the_settings_at_first(api: Api) -> None:
    body = api.get(LIMITS)
    floor = by_name(body)["silence_floor_s"]
    assert body["version"] == "0"
    assert (floor["seconds"], floor["configuredSeconds"], floor["changed"]) == (
        Policy().silence_floor_s,
        Policy().silence_floor_s,
        False,
    )


def test_change_is_in_force_and_in_the_trail(api: Api) -> None:
    status, body = change(api, 0, limits=setting("silence_floor_s", 600))
    assert status == 200, body
    assert by_name(body)["silence_floor_s"]["seconds"] == 600
    assert by_name(api.get(LIMITS))["silence_floor_s"]["changed"] is True
    (event,) = api.get("/middlewatch/v1/audit", eventType="limits.changed")["items"]
    assert "saves slowly" in str(event)
    status, body = change(api, 1, reset=["silence_floor_s"])
    assert by_name(body)["silence_floor_s"]["seconds"] == Policy().silence_floor_s
    assert body["version"] == "2"


def test_change_of_something_older_is_a_conflict(api: Api) -> None:
    change(api, 0, limits=setting("silence_floor_s", 600))
    status, body = change(api, 0, limits=setting("silence_floor_s", 700))
    assert status == 409
    assert "version 1" in body["message"]
    assert by_name(api.get(LIMITS))["silence_floor_s"]["seconds"] == 600


@pytest.mark.parametrize("scope", [Scope.READ, Scope.INGEST, Scope.CONTROLLER])
def test_only_an_administrator_changes_limits(api: Api, scope: Scope) -> None:
    sent = {"version": "0", "reason": "x", "limits": setting("silence_floor_s", 600)}
    status, _ = api.call("POST", LIMITS, sent, scope=scope)
    assert status == 403


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"limits": setting("silence", 5)}, "is no limit"),
        ({"limits": setting("silence_floor_s", 0)}, "give 1 s"),
        ({"limits": setting("silence_floor_s", 5) * 2}, "given twice"),
        (
            {"limits": setting("silence_floor_s", 5), "reset": ["silence_floor_s"]},
            "both set and reset",
        ),
        ({"limits": setting("silence_floor_s", 5), "reason": ""}, "reason"),
    ],
)
def test_change_that_makes_no_sense_is_refused(api: Api, body: dict[str, Any], why: str) -> None:
    status, answer = change(api, 0, **body)
    assert status == 400
    assert why in answer["message"]


def with_silence(api: Api, length_s: float, **fields: Any) -> None:
    pause = Pause(
        NOW - timedelta(hours=1), length_s, Phase.TRAINING, limit_s=60.0, limit="silence_floor_s"
    )
    progress = Progress(ATTEMPT.id, updated_at=NOW, pauses=(replace(pause, **fields),))
    api.store.apply(Change(attempts=(ATTEMPT,), progress=(progress,)))


def preview(api: Api, **body: Any) -> Any:
    status, answer = api.call("POST", PREVIEW, body, scope=Scope.READ)
    assert status == 200, answer
    return answer


def test_preview_names_the_alarms_that_would_go(api: Api) -> None:
    with_silence(api, 100.0)
    answer = preview(api, limits=setting("silence_floor_s", 120))
    assert (answer["attempts"], answer["alarmsNow"], answer["alarmsThen"]) == (1, 1, 0)
    (gone,) = answer["go"]
    assert (gone["jobId"], gone["pause"]["seconds"]) == (ATTEMPT.job_id, 100)
    assert gone["wouldBeLimitSeconds"] == 120
    assert answer["come"] == []
    assert by_name(api.get(LIMITS))["silence_floor_s"]["seconds"] == Policy().silence_floor_s


def test_preview_names_the_alarms_that_would_come(api: Api) -> None:
    with_silence(api, 40.0)
    answer = preview(api, limits=setting("silence_floor_s", 30))
    assert (answer["alarmsNow"], answer["alarmsThen"]) == (0, 1)
    assert len(answer["come"]) == 1


def test_habit_of_the_job_is_kept_in_a_preview(api: Api) -> None:
    with_silence(api, 40.0, learnt_s=90.0)
    assert preview(api, limits=setting("silence_floor_s", 30))["come"] == []


def test_preview_looks_only_as_far_back_as_asked(api: Api) -> None:
    with_silence(api, 100.0)
    answer = preview(api, limits=setting("silence_floor_s", 120), seconds=60)
    assert (answer["alarmsNow"], answer["go"]) == (0, [])
    status, _ = api.call("POST", PREVIEW, {"seconds": -1}, scope=Scope.READ)
    assert status == 400


def test_unseen_things_are_shown_with_an_attempt(api: Api) -> None:
    unseen = (Unseen("log", NOW, "/out is a FIFO"),)
    progress = Progress(ATTEMPT.id, updated_at=NOW, unseen=unseen, loss=2.5)
    api.store.apply(Change(attempts=(attempt(),), progress=(progress,)))
    body = api.get(f"/middlewatch/v1/attempts/{ATTEMPT.id}/explanation")
    (told,) = body["progress"]["unseen"]
    assert (told["what"], told["why"]) == ("log", "/out is a FIFO")
    assert body["progress"]["loss"] == 2.5


def test_metrics_count_what_is_seen_of_running_attempts(api: Api) -> None:
    live = replace(attempt(state=JobState.RUNNING, by=None), opt_in=OptIn(mode=JobMode.OBSERVE))
    unseen = (Unseen("log", NOW, "/out is a FIFO"),)
    api.store.apply(Change(attempts=(live,), progress=(Progress(live.id, unseen=unseen),)))
    response = api.client.get(
        "/metrics", headers={"Authorization": f"Bearer {api.tokens[Scope.READ]}"}
    )
    assert 'middlewatch_watched_attempts{seen="blind"} 1.0' in response.text
    assert 'middlewatch_watched_attempts{seen="step"} 0.0' in response.text
