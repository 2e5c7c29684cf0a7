"""Whoever stood still between announcing a command and sending it announces it once more."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from middlewatch.model.action import Answered, CommandResult
from middlewatch.model.journal import JournalEntry, JournalKind
from middlewatch.services.controller.record import announced_again

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
