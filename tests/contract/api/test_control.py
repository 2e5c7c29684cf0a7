"""The door for a controller elsewhere: whose it is, and what it cannot write."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

import pytest

from middlewatch.contract import control
from middlewatch.model.advice import Advice, Disposition, Reason, Status
from middlewatch.model.attempt import Attempt
from middlewatch.model.change import Change, Lease
from middlewatch.model.rollback import NOTE as ROLLED_BACK
from middlewatch.model.rollback import Rollback, as_text
from middlewatch.model.scheduler import JobState
from middlewatch.services.gateway.access import Scope
from tests.contract.api.conftest import Api
from tests.contract.api.samples import ADVICE, ATTEMPT, CLUSTER, NOW, SEQUENCE

PATH = "/middlewatch/v1/control"
R = TypeVar("R")


def call(api: Api, name: str, record: object, **changes: Any) -> tuple[int, Any]:
    body = {
        "scheduler": CLUSTER.scheduler,
        "environment": CLUSTER.environment,
        "call": name,
        "body": control.encode(record),
        **changes,
    }
    return api.call("POST", PATH, body, scope=Scope.CONTROLLER)


def answered(api: Api, name: str, record: object, kind: type[R]) -> R:
    status, body = call(api, name, record)
    assert status == 200, body
    return control.decode(body["body"], kind)


@pytest.fixture
def stored(api: Api) -> Api:
    advice = replace(ADVICE, status=None)
    api.store.apply(Change(attempts=(ATTEMPT,), sequences=(SEQUENCE,), advice=(advice,)))
    return api


def lease(api: Api, holder: str = "away") -> Lease:
    given = answered(api, control.LEASE, control.LeaseAsked(holder, 60.0), control.LeaseGiven)
    assert given.lease is not None
    return given.lease


def present(api: Api) -> Advice:
    advice = api.store.advice(ATTEMPT.id)
    assert advice is not None
    return advice


def seen(api: Api) -> Attempt:
    attempt = api.store.attempt(ATTEMPT.id)
    assert attempt is not None
    return attempt


def pending(advice: Advice, detail: str = "waits") -> Advice:
    status = Status(advice.generation, Disposition.PENDING, Reason.IN_PROGRESS, NOW, detail, "away")
    return replace(advice, status=status)


@pytest.mark.parametrize("scope", [Scope.READ, Scope.INGEST])
def test_only_a_controllers_token_opens_it(api: Api, scope: Scope) -> None:
    status, _ = api.call("POST", PATH, {}, scope=scope)
    assert status == 403


def test_work_is_the_advice_with_what_belongs_to_it(stored: Api) -> None:
    given = answered(stored, control.WORK, control.WorkAsked(), control.WorkGiven)
    assert [one.advice.attempt_id for one in given.work] == [ATTEMPT.id]
    assert given.work[0].attempt == seen(stored)
    only = control.WorkAsked(only=(ATTEMPT.id,))
    assert answered(stored, control.WORK, only, control.WorkGiven).work == given.work


def test_another_cluster_gets_and_writes_nothing_of_it(stored: Api) -> None:
    held = lease(stored)
    other = {"environment": "another"}
    status, body = call(stored, control.WORK, control.WorkAsked(), **other)
    assert status == 200
    assert control.decode(body["body"], control.WorkGiven).work == ()
    only = control.WorkAsked(only=(ATTEMPT.id,))
    _, body = call(stored, control.WORK, only, **other)
    assert control.decode(body["body"], control.WorkGiven).work == ()
    change = control.ControlChange(
        replace(held, name="controller/another"), advice=(pending(present(stored)),)
    )
    status, _ = call(stored, control.CHANGE, change, **other)
    assert status == 404
    status, _ = call(stored, control.CHANGE, control.ControlChange(held), **other)
    assert status == 400


def test_of_advice_only_the_status_counts(stored: Api) -> None:
    before = present(stored)
    forged = replace(pending(before), exclusions=("gpu-9",), may_end_running=True)
    held = lease(stored)
    answered(stored, control.CHANGE, control.ControlChange(held, advice=(forged,)), control.Changed)
    after = present(stored)
    assert after.status == forged.status
    assert replace(after, status=None, version=before.version) == before


def test_of_an_attempt_only_what_a_look_shows_counts(stored: Api) -> None:
    before = seen(stored)
    forged = replace(before, state=JobState.FAILED, user="root", uid=0, nodes=("x",), stdout="/x")
    change = control.ControlChange(lease(stored), attempts=(forged,))
    answered(stored, control.CHANGE, change, control.Changed)
    after = seen(stored)
    assert after.state is JobState.FAILED
    assert (after.user, after.uid, after.nodes, after.stdout) == (
        before.user,
        before.uid,
        before.nodes,
        before.stdout,
    )


def test_a_lease_that_another_one_has_writes_nothing(stored: Api) -> None:
    held = lease(stored)
    stored.clock.moment += timedelta(seconds=120)
    newer = lease(stored, "other")
    assert newer.token > held.token
    # Whatever the late one believes of its end.
    late = replace(held, expires_at=held.expires_at + timedelta(days=1))
    change = control.ControlChange(late, advice=(pending(present(stored)),))
    status, body = call(stored, control.CHANGE, change)
    assert (status, body["code"]) == (409, 10)
    change = control.ControlChange(None, advice=(pending(present(stored)),))
    assert call(stored, control.CHANGE, change)[0] == 400


def test_a_second_controller_is_told_that_there_is_a_leader(stored: Api) -> None:
    lease(stored)
    asked = control.LeaseAsked("second", 60.0)
    assert answered(stored, control.LEASE, asked, control.LeaseGiven).lease is None


def test_waiting_ends_with_a_new_generation_and_with_its_time(stored: Api) -> None:
    asked = control.WorkAsked(known="", wait_s=5.0)
    known = answered(stored, control.WORK, asked, control.WorkGiven).digest
    began = stored.clock.seconds
    again = control.WorkAsked(known=known, wait_s=3.0)
    assert answered(stored, control.WORK, again, control.WorkGiven).digest == known
    assert stored.clock.seconds - began >= 3.0


def test_the_name_of_the_cluster_is_kept_as_it_was_first_seen(api: Api) -> None:
    for seen_, kept in (("", ""), ("lab", "lab"), ("other", "lab"), ("", "lab")):
        given = answered(api, control.NAME, control.NameSeen(seen_), control.NameSeen)
        assert given.name == kept


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("lease", "{}"),
        ("lease", '{"holder": "a", "ttl_s": -1}'),
        ("lease", '{"holder": "a", "ttl_s": 1e300}'),
        ("change", '{"advice": [1]}'),
        ("change", "[" * 50_000),
        ("work", "nonsense"),
        ("else", "{}"),
    ],
)
def test_what_cannot_be_understood_is_refused(api: Api, name: str, body: str) -> None:
    status, answer = api.call(
        "POST",
        PATH,
        {"scheduler": "slurm", "environment": "prod", "call": name, "body": body},
        scope=Scope.CONTROLLER,
    )
    assert status == 400, answer


def test_another_release_is_told_so(api: Api) -> None:
    status, body = call(api, control.NAME, control.NameSeen(), version="99.0")
    assert status == 409
    assert "99.0" in body["message"]


def test_a_rollback_reaches_a_controller_elsewhere_with_its_work(stored: Api) -> None:
    asked = control.WorkAsked()
    assert answered(stored, control.WORK, asked, control.WorkGiven).rolled_back == ""
    text = as_text(Rollback(NOW, "oncall", "wrong restarts"))
    stored.store.put_notes(((ROLLED_BACK, text),))
    assert answered(stored, control.WORK, asked, control.WorkGiven).rolled_back == text
    only = control.WorkAsked(only=(ATTEMPT.id,))
    assert answered(stored, control.WORK, only, control.WorkGiven).rolled_back == text


def test_a_rollback_is_told_to_whoever_announces_a_command(stored: Api) -> None:
    change = control.ControlChange(lease(stored))
    assert answered(stored, control.CHANGE, change, control.Changed).rolled_back == ""
    text = as_text(Rollback(NOW, "oncall", "wrong restarts"))
    stored.store.put_notes(((ROLLED_BACK, text),))
    assert answered(stored, control.CHANGE, change, control.Changed).rolled_back == text
