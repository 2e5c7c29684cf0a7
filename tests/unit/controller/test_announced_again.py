"""Whoever stood still between announcing a command and sending it announces it once more."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from middlewatch.model.action import Action, ActionKind, ActionRecord, Answered, CommandResult
from middlewatch.model.identity import AttemptKey, ClusterId
from middlewatch.model.journal import JournalEntry, JournalKind
from middlewatch.services.controller.record import announced_again, performed

T0 = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
HOLD = JournalEntry(JournalKind.HOLD, T0, "alpha", "7", T0, 1, T0 + timedelta(seconds=300))
EXCLUDE = JournalEntry(JournalKind.EXCLUDE, T0, "alpha", "7", T0, 1, ours=("n1",))


def again(ended_s: float, answered: Answered = Answered.DONE) -> tuple[JournalEntry, ...]:
    ended = T0 + timedelta(seconds=ended_s)
    result = CommandResult(answered, (), 0, "", ended, ended)
    return announced_again((HOLD, EXCLUDE), T0, result, 15.0, 30.0)


@pytest.mark.parametrize("ended_s", [0.1, 15.0, 16.0])
def test_a_command_that_ended_within_its_deadline_was_announced_well_enough(ended_s: float) -> None:
    assert again(ended_s) == ()


@pytest.mark.parametrize("answered", [Answered.DONE, Answered.NO_ANSWER])
def test_what_may_have_been_settled_meanwhile_stands_in_the_journal_again(
    answered: Answered,
) -> None:
    hold, exclude = again(70.0, answered)
    now = T0 + timedelta(seconds=70)
    assert (hold.kind, hold.at, hold.release_by) == (
        JournalKind.HOLD,
        now,
        now + timedelta(seconds=30),
    )
    assert (exclude.ours, exclude.at, exclude.release_by) == (("n1",), now, None)


def test_a_late_command_that_was_refused_leaves_nothing() -> None:
    assert again(70.0, Answered.REFUSED) == ()


@pytest.mark.parametrize(("sent_s", "counts_from_s"), [(0.3, 0.3), (4.9, 4.9), (70.0, 0.0)])
def test_a_command_counts_from_when_it_was_planned_where_its_sender_stood_still(
    sent_s: float, counts_from_s: float
) -> None:
    planned = ActionRecord(
        "a1",
        AttemptKey(ClusterId("slurm", "alpha"), "7", T0).attempt_id(),
        1,
        Action(ActionKind.REQUEUE, "7", "test"),
        Answered.IN_FLIGHT,
        T0,
    )
    sent = T0 + timedelta(seconds=sent_s)
    ended = sent + timedelta(seconds=0.2)
    done = performed(planned, CommandResult(Answered.DONE, ("scontrol",), 0, "", sent, ended))
    assert done.started_at == T0 + timedelta(seconds=counts_from_s)
    assert (done.ended_at, done.answered) == (ended, Answered.DONE)
