"""The lawful transitions of advice: reports and revisions."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from middlewatch.model.advice import (
    DecisionBasis,
    DesiredState,
    Disposition,
    Intent,
    Reason,
    RefusedReport,
    Status,
    reported,
    revised,
)
from middlewatch.model.identity import ClusterId
from tests.unit.reconciliation.worlds import CLUSTER, OPEN, T0, advice

LATER = T0 + timedelta(minutes=5)


def status(
    disposition: Disposition = Disposition.CONVERGED,
    reason: Reason = Reason.DESIRED_STATE_OBSERVED,
    generation: int = 1,
) -> Status:
    return Status(generation, disposition, reason, LATER)


def intent(**changes: object) -> Intent:
    value = Intent(
        desired=DesiredState.RESTARTED,
        exclusions=("gpu-001",),
        owner=CLUSTER,
        basis=DecisionBasis.ATTEMPT_ENDED_IN_FAILURE,
        gates=OPEN,
        policy_version="p1",
        may_end_running=False,
        issue_ids=("i2",),
    )
    return replace(value, **changes)  # type: ignore[arg-type]


def test_advice_is_active_until_its_generation_has_a_terminal_outcome() -> None:
    fresh = advice()
    assert fresh.active
    assert reported(fresh, status(Disposition.PENDING, Reason.IN_PROGRESS)).active
    assert not reported(fresh, status()).active
    assert not reported(fresh, status(Disposition.ABANDONED, Reason.STALE_ATTEMPT)).active


def test_a_report_for_generation_1_never_closes_generation_2() -> None:
    second = revised(advice(), intent(exclusions=("gpu-001", "gpu-002")), LATER)
    assert second.generation == 2
    with pytest.raises(RefusedReport, match="generation 1"):
        reported(second, status(generation=1))


def test_the_same_report_twice_is_one_report() -> None:
    once = reported(advice(), status())
    assert reported(once, replace(status(), detail="again", observed_at=LATER)) is once


def test_what_is_waited_for_is_told_as_it_is_now() -> None:
    waiting = status(Disposition.PENDING, Reason.IN_PROGRESS)
    first = reported(advice(), replace(waiting, detail="one second after pending"))
    assert reported(first, replace(waiting, detail="one second after pending")) is first
    later = reported(first, replace(waiting, detail="the log is being read"))
    assert later.status is not None
    assert later.status.detail == "the log is being read"


def test_a_second_different_outcome_is_refused() -> None:
    once = reported(advice(), status())
    with pytest.raises(RefusedReport, match="already ended"):
        reported(once, status(Disposition.ABANDONED, Reason.STALE_ATTEMPT))
    with pytest.raises(RefusedReport, match="already ended"):
        reported(once, status(Disposition.PENDING, Reason.IN_PROGRESS))


@pytest.mark.parametrize(
    ("disposition", "reason"),
    [
        (Disposition.CONVERGED, Reason.STALE_ATTEMPT),
        (Disposition.ABANDONED, Reason.DESIRED_STATE_OBSERVED),
        (Disposition.PENDING, Reason.ALREADY_SATISFIED),
    ],
)
def test_a_reason_must_go_with_its_disposition(disposition: Disposition, reason: Reason) -> None:
    with pytest.raises(RefusedReport):
        reported(advice(), status(disposition, reason))


def test_more_evidence_alone_raises_no_generation_and_prolongs_no_life() -> None:
    closed = reported(advice(), status())
    after = revised(closed, intent(), LATER)
    assert after.generation == 1
    assert after.desired_state_changed_at == T0
    assert not after.active
    assert after.issue_ids == ("i2",)


@pytest.mark.parametrize(
    "changes",
    [
        {"desired": DesiredState.TERMINATED},
        {"exclusions": ("gpu-001", "gpu-002")},
        {"exclusions": ()},
        {"owner": ClusterId("slurm", "other")},
    ],
)
def test_state_constraints_and_routing_each_raise_the_generation(
    changes: dict[str, object],
) -> None:
    after = revised(reported(advice(), status()), intent(**changes), LATER)
    assert after.generation == 2
    assert after.desired_state_changed_at == LATER
    assert after.status is None
    assert after.active


def test_the_order_of_exclusions_is_no_change() -> None:
    first = advice(exclusions=("a", "b"))
    assert revised(first, intent(exclusions=("b", "a", "b")), LATER).generation == 1


def test_what_was_not_permitted_can_be_decided_anew() -> None:
    closed = reported(advice(), status(Disposition.ABANDONED, Reason.NOT_PERMITTED))
    assert revised(closed, intent(), LATER).generation == 1
    assert revised(closed, intent(), LATER, decided_anew=True).generation == 2


def test_a_revision_keeps_its_target() -> None:
    after = revised(advice(), intent(desired=DesiredState.TERMINATED), LATER)
    before = advice()
    assert (after.attempt_id, after.job_id, after.attempt_index, after.submitted_at) == (
        before.attempt_id,
        before.job_id,
        before.attempt_index,
        before.submitted_at,
    )
