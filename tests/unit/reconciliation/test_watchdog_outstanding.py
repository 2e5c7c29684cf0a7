"""When the watchdog may stop caring about an obligation."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pytest

from middlewatch.model.journal import JournalEntry, JournalKind
from middlewatch.model.scheduler import ClusterFacts, JobFlag, JobState, JobView
from middlewatch.reconciliation.holds import standing
from middlewatch.reconciliation.outstanding import Standing, standing_of
from tests.unit.reconciliation.owed import (
    ACTED,
    CONFIG,
    FACTS,
    HELD,
    PAST,
    T0,
    after,
    entry,
    exclusion,
    fence,
    held,
    impossible,
    running,
    snapshot,
    waiting,
)


def judged(
    *entries: JournalEntry,
    view: JobView | None,
    now: datetime = PAST,
    facts: ClusterFacts | None = FACTS,
) -> Standing:
    (owed,) = standing(entries)
    views = () if view is None else (view,)
    return standing_of(owed, snapshot(*views), facts, now, CONFIG)


WINDOW = entry(JournalKind.WINDOW)
BEFORE = running(restarts=0, submitted_at=T0)


@pytest.mark.parametrize(
    ("owed", "view", "expected"),
    [
        (entry(), held(), Standing.STANDS),
        (entry(), held(submitted_at=T0, flags=HELD | {JobFlag.COMPLETING}), Standing.STANDS),
        (entry(), None, Standing.OVER),
        (entry(), BEFORE, Standing.OVER),
        (entry(), held(restarts=2), Standing.STANDS),
        (entry(), held(restarts=2, submitted_at=after(450)), Standing.OVER),
        (entry(), held(restarts=3), Standing.OVER),
        (entry(), running(restarts=2), Standing.OVER),
        (entry(), held(submitted_at=after(-9)), Standing.OVER),
        (entry(), held(flags=frozenset()), Standing.OVER),
        (entry(), waiting(), Standing.OVER),
        (entry(), running(), Standing.OVER),
        (entry(), held(state=JobState.CANCELLED), Standing.OVER),
        (WINDOW, waiting(), Standing.STANDS),
        (WINDOW, waiting(eligible_at=after(360)), Standing.OVER),
        (WINDOW, waiting(priority=0), Standing.OVER),
        (WINDOW, running(), Standing.OVER),
        (fence(), running(requeueable=False), Standing.STANDS),
        (fence(), held(requeueable=False), Standing.STANDS),
        (fence(), running(), Standing.OVER),
        (fence(), running(requeueable=False, state=JobState.COMPLETED), Standing.OVER),
        (fence(owner_requeue=None), running(requeueable=False), Standing.OVER),
        (exclusion(), impossible(), Standing.LURKS),
        (exclusion(), waiting(), Standing.LURKS),
        (exclusion(), waiting(restarts=2), Standing.LURKS),
        (exclusion(), running(), Standing.RESTS),
        (exclusion(), running(state=JobState.FAILED), Standing.OVER),
        (exclusion(), None, Standing.OVER),
        (exclusion(), BEFORE, Standing.OVER),
    ],
)
def test_one_look_judges_an_obligation(
    owed: JournalEntry, view: JobView | None, expected: Standing
) -> None:
    assert judged(owed, view=view) is expected


@pytest.mark.parametrize("owed", [entry(), WINDOW, fence(), exclusion()])
def test_before_its_deadline_an_attempt_to_come_is_waited_for(owed: JournalEntry) -> None:
    assert judged(owed, view=BEFORE, now=after(150)) is not Standing.OVER


@pytest.mark.parametrize("owed", [entry(), WINDOW, fence(), exclusion()])
def test_while_a_command_may_be_under_way_everything_stands(owed: JournalEntry) -> None:
    assert judged(owed, view=None, now=after(114)) is Standing.STANDS
    assert judged(owed, view=None, now=after(115)) is Standing.OVER


def test_the_most_stubborn_part_decides() -> None:
    assert judged(entry(), exclusion(), view=running()) is Standing.RESTS
    assert judged(exclusion(), fence(), view=running(requeueable=False)) is Standing.STANDS


def test_without_facts_a_begin_time_to_come_stands() -> None:
    assert judged(WINDOW, view=waiting(), facts=None) is Standing.STANDS


def test_another_clusters_obligation_is_not_judged() -> None:
    (owed,) = standing([replace(entry(), cluster_name="beta")])
    assert standing_of(owed, snapshot(), FACTS, PAST, CONFIG) is Standing.UNSEEN
    assert ACTED < PAST
