"""A number that comes back: what we wrote down about the job that had it before is not the new one's."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from middlewatch.model.journal import JournalEntry, JournalKind
from middlewatch.reconciliation.holds import our_exclusions
from tests.unit.reconciliation.worlds import SUBMITTED, T0


def line(restarts: int, minutes: int, *ours: str) -> JournalEntry:
    """We excluded nodes for the attempt with that count, when we acted on the one before it."""
    return JournalEntry(
        JournalKind.EXCLUDE,
        T0,
        "alpha",
        "7",
        SUBMITTED + timedelta(minutes=minutes),
        restarts,
        ours=ours,
    )


@pytest.mark.parametrize(
    ("index", "minutes", "ours"),
    [
        # The job itself: its first attempt was acted on at minute 0, its second at minute 10.
        (0, 0, ("n1", "n2")),
        (1, 10, ("n1", "n2")),
        (2, 20, ("n1", "n2")),
        # Another one that got the number at minute 60, and has not been restarted so often.
        (0, 60, None),
        (1, 60, ("n1",)),
    ],
)
def test_which_exclusions_are_ours_is_asked_of_that_job_not_of_its_number(
    index: int, minutes: int, ours: tuple[str, ...] | None
) -> None:
    lines = [line(1, 0, "n1"), line(2, 10, "n2")]
    submitted = SUBMITTED + timedelta(minutes=minutes)
    assert our_exclusions(lines, "alpha", "7", submitted, index) == ours


@given(
    before=st.lists(st.integers(1, 1000), min_size=1, max_size=5),
    gap=st.integers(1, 1000),
)
def test_the_first_attempt_of_a_job_has_nothing_of_an_earlier_one_and_keeps_its_own(
    before: list[int], gap: int
) -> None:
    minute, lines = 0, []
    for restarts, waited in enumerate(before, start=1):
        lines.append(line(restarts, minute, f"old{restarts}"))
        minute += waited
    own = line(1, minute + gap, "new")
    submitted = SUBMITTED + timedelta(minutes=minute + gap)
    assert our_exclusions(lines, "alpha", "7", submitted, 0) is None
    assert our_exclusions([*lines, own], "alpha", "7", submitted, 0) == ("new",)
