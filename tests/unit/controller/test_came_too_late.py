"""A command whose look had grown too old before it could be sent: nobody has refused it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from middlewatch.model.action import NOT_SENT, ActionKind, ActionRecord, Answered
from middlewatch.reconciliation.in_flight import WITHHELD_BACKOFF_S, refused_until
from middlewatch.services.controller.hand import TOO_OLD, came_too_late
from tests.unit.reconciliation.worlds import at, record, situation, target

KINDS = (ActionKind.REQUEUE,)


def withheld(seconds: float, text: str = TOO_OLD) -> ActionRecord:
    return replace(record(ActionKind.REQUEUE, seconds, Answered.REFUSED), text=text)


def rests_s(*actions: ActionRecord) -> float:
    """How long after the last of them the next one may be sent."""
    over = at(1000)
    last = actions[-1].ended_at
    assert last is not None
    made = situation(target(), actions=actions)
    resting = refused_until(made, KINDS, last)
    assert resting is not None
    assert resting[0] < over
    return (resting[0] - last).total_seconds()


def test_what_was_withheld_rests_for_seconds_and_is_no_refusal() -> None:
    assert rests_s(withheld(1)) == 1.0
    assert rests_s(*[withheld(n) for n in range(1, 9)]) == WITHHELD_BACKOFF_S
    refusals = [record(ActionKind.REQUEUE, n, Answered.REFUSED) for n in range(1, 9)]
    assert rests_s(*refusals) == 60.0
    assert rests_s(*refusals, withheld(20)) == 1.0
    assert rests_s(withheld(1), refusals[4]) == 1.0


def test_its_reason_names_whoever_did_not_send_it() -> None:
    made = situation(target(), actions=(withheld(1),))
    assert refused_until(made, KINDS, at(1.2)) == (at(2.1), TOO_OLD)
    refused = record(ActionKind.REQUEUE, 1, Answered.REFUSED)
    resting = refused_until(situation(target(), actions=(refused,)), KINDS, at(1.2))
    assert resting is not None
    assert resting[1] == "the scheduler refused the requeue: refused for a test"


@pytest.mark.parametrize(
    ("last", "kind", "late"),
    [
        (withheld(1), ActionKind.REQUEUE, True),
        (withheld(1), ActionKind.CANCEL, True),
        (withheld(1), ActionKind.UPDATE, False),
        (withheld(1, NOT_SENT + "the lease might have ended first"), ActionKind.REQUEUE, False),
        (record(ActionKind.REQUEUE, 1, Answered.REFUSED), ActionKind.REQUEUE, False),
    ],
)
def test_only_after_its_look_was_too_old_a_command_gets_one_of_its_own(
    last: ActionRecord, kind: ActionKind, late: bool
) -> None:
    action = record(kind, 5).action
    assert came_too_late(situation(target(), actions=(last,)), action) is late
    assert not came_too_late(situation(target()), action)
