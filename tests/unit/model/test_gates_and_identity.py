"""All gates must be open; ids are the same everywhere."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from middlewatch.model.gates import Deployment, GateName, Mode, gates_for
from middlewatch.model.identity import (
    AttemptKey,
    BadReferenceError,
    ClusterId,
    NaiveTimeError,
    parse_attempt_reference,
    utc,
)
from middlewatch.model.optin import JobMode, OptIn
from middlewatch.model.scheduler import ActsFor
from tests.unit.reconciliation.worlds import CLUSTER, SUBMITTED, attempt

ALLOWED = Deployment(CLUSTER, "lab", Mode.ACTION, True, ("train",))
ALICE = ActsFor(2001, "alice", everybody=False)
OPTED_IN = attempt(opt_in=OptIn(JobMode.ACTION, "prod", "middlewatch"))


def closed(
    deployment: Deployment = ALLOWED,
    job: object = OPTED_IN,
    seen: str | None = "lab",
    failure_class: str = "",
) -> list[GateName]:
    gates = gates_for(deployment, job, seen, failure_class)  # type: ignore[arg-type]
    return [gate.name for gate in gates.gates if not gate.open]


def test_all_gates_open_permit() -> None:
    assert gates_for(ALLOWED, OPTED_IN, "lab").open


@pytest.mark.parametrize(
    ("shut", "gate"),
    [
        ({"deployment": replace(ALLOWED, mode=Mode.MONITOR)}, GateName.DEPLOYMENT_MODE),
        (
            {"deployment": replace(ALLOWED, acknowledge_scheduler_actions=False)},
            GateName.ACKNOWLEDGED,
        ),
        ({"deployment": replace(ALLOWED, partitions=())}, GateName.PARTITION_ALLOWLIST),
        ({"job": replace(OPTED_IN, partitions=("train", "x"))}, GateName.PARTITION_ALLOWLIST),
        ({"job": replace(OPTED_IN, partitions=())}, GateName.PARTITION_ALLOWLIST),
        ({"job": replace(OPTED_IN, opt_in=OptIn())}, GateName.JOB_OPT_IN),
        ({"job": replace(OPTED_IN, opt_in=OptIn(JobMode.OBSERVE))}, GateName.JOB_OPT_IN),
        ({"job": replace(OPTED_IN, opt_in=OptIn(JobMode.ACTION, "x"))}, GateName.JOB_OPT_IN),
        ({"seen": "other"}, GateName.OWNERSHIP),
        ({"seen": None}, GateName.OWNERSHIP),
        ({"job": replace(OPTED_IN, cluster=ClusterId("slurm", "x"))}, GateName.OWNERSHIP),
        ({"failure_class": "slow_node"}, GateName.CLASS_OPT_IN),
        ({"deployment": replace(ALLOWED, only_for=ALICE)}, GateName.JOB_OWNER),
        (
            {
                "deployment": replace(ALLOWED, only_for=ALICE),
                "job": replace(OPTED_IN, uid=2002, user="bob"),
            },
            GateName.JOB_OWNER,
        ),
    ],
)
def test_each_gate_alone_forbids(shut: dict[str, object], gate: GateName) -> None:
    assert gate in closed(**shut)  # type: ignore[arg-type]


def test_a_users_own_deployment_acts_for_the_users_own_jobs() -> None:
    own = replace(OPTED_IN, uid=2001, user="alice")
    assert closed(replace(ALLOWED, only_for=ALICE), own) == []
    strangers = gates_for(
        replace(ALLOWED, only_for=ALICE), replace(own, uid=2002, user="bob"), "lab"
    )
    gate = strangers.first_closed()
    assert gate is not None
    assert "belongs to bob (2002)" in gate.detail
    assert "alice (2001) alone" in gate.detail


def test_a_deployment_for_everybody_asks_nobody_for_the_owner() -> None:
    everybody = replace(ALLOWED, only_for=replace(ALICE, everybody=True))
    assert closed(everybody, replace(OPTED_IN, uid=2002)) == []


def test_no_gates_at_all_is_not_open() -> None:
    from middlewatch.model.gates import Gates

    assert not Gates(()).open


def test_an_attempts_id_is_the_same_everywhere() -> None:
    key = AttemptKey(CLUSTER, "123", SUBMITTED)
    elsewhere = SUBMITTED.astimezone(timezone(timedelta(hours=5)))
    assert key.attempt_id() == AttemptKey(CLUSTER, "123", elsewhere).attempt_id()
    # Written down: a changed namespace or name would orphan every stored record.
    assert key.attempt_id() == "4c84ce3d-4b0f-53b3-bb95-ff5d2bc03b99"


@pytest.mark.parametrize(
    "other",
    [
        AttemptKey(ClusterId("slurm", "x"), "123", SUBMITTED),
        AttemptKey(CLUSTER, "124", SUBMITTED),
        AttemptKey(CLUSTER, "123", SUBMITTED + timedelta(seconds=1)),
    ],
)
def test_another_key_has_another_id(other: AttemptKey) -> None:
    assert other.attempt_id() != AttemptKey(CLUSTER, "123", SUBMITTED).attempt_id()


def test_times_without_a_zone_are_refused() -> None:
    with pytest.raises(NaiveTimeError):
        utc(datetime(2026, 1, 1, tzinfo=UTC).replace(tzinfo=None))
    assert utc(datetime(2026, 1, 1, tzinfo=UTC)).tzinfo is UTC


@pytest.mark.parametrize(
    ("text", "expected"),
    [("12345-0", ("12345", 0)), ("12_3-10", ("12_3", 10)), ("a-b-2", ("a-b", 2))],
)
def test_references_split_at_the_last_hyphen(text: str, expected: tuple[str, int]) -> None:
    assert parse_attempt_reference(text) == expected


@pytest.mark.parametrize("text", ["", "12345", "-1", "12345-", "12345-x", "1-٣", "1--"])
def test_other_references_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(BadReferenceError, match="12345-0"):
        parse_attempt_reference(text)
