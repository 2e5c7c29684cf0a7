"""A rollback stops what is new at once, also for a controller that was there before, and lets go."""

from __future__ import annotations

import pytest

from middlewatch.adapters.journal.file import FileJournal
from middlewatch.model.gates import GateName
from middlewatch.model.journal import JournalEntry
from middlewatch.model.rollback import NOTE, Rollback, as_text
from tests.integration.controller.test_restarts import failed
from tests.integration.controller.world import World


def roll_back(world: World) -> None:
    text = as_text(Rollback(world.cluster.now, "oncall", "two wrong restarts"))
    world.store.put_notes(((NOTE, text),))


def test_nothing_new_is_begun_and_the_reason_is_named(world: World) -> None:
    job = failed(world)
    attempt = world.attempt(job)
    world.advise(attempt, "gpu-001")
    roll_back(world)
    world.run(5)
    assert world.outcome(attempt) == "ABANDONED NOT_PERMITTED"
    assert world.verbs() == []
    advice = world.store.advice(attempt.id)
    assert advice is not None
    assert advice.status is not None
    assert GateName.DEPLOYMENT_MODE.value in advice.status.detail
    assert "two wrong restarts" in advice.status.detail


def test_what_is_held_is_let_go_without_what_was_meant_for_it(world: World) -> None:
    job = failed(world)
    attempt = world.attempt(job)
    world.advise(attempt, "gpu-001")
    while "requeue" not in world.verbs():
        world.turn()
    roll_back(world)
    world.run(300)
    assert world.store.advice_page(True, 0, 1) == ()
    assert not world.view(job).held
    assert world.excluded(job) == ()


def test_undone_it_permits_new_decisions_and_not_the_old_one(world: World) -> None:
    job = failed(world)
    attempt = world.attempt(job)
    world.advise(attempt, "gpu-001")
    roll_back(world)
    world.run(5)
    world.store.put_notes(((NOTE, ""),))
    for _ in range(5):
        world.turn()
    assert world.verbs() == []
    other = failed(world)
    world.advise(world.attempt(other), "gpu-001")
    world.run(60)
    assert world.verbs() == ["requeue", "update"]


class RolledBackMeanwhile(FileJournal):
    """Somebody rolls back while the announcement of a command is being written."""

    world: World

    def append(self, entry: JournalEntry) -> None:
        roll_back(self.world)
        super().append(entry)


def test_a_rollback_between_the_decision_and_the_command_is_heard(world: World) -> None:
    job = failed(world)
    attempt = world.attempt(job)
    world.advise(attempt, "gpu-001")
    journal = RolledBackMeanwhile(world.folder)
    journal.world = world
    world.controller = world.another(journal=journal)
    world.run(30)
    assert world.verbs() == []
    assert world.outcome(attempt) == "ABANDONED NOT_PERMITTED"


@pytest.mark.parametrize("text", ["rolled back", "{}", '{"at":"yesterday","by":"a","reason":"b"}'])
def test_a_note_that_cannot_be_read_stops_as_well(world: World, text: str) -> None:
    job = failed(world)
    attempt = world.attempt(job)
    world.advise(attempt, "gpu-001")
    world.store.put_notes(((NOTE, text),))
    world.run(5)
    assert world.outcome(attempt) == "ABANDONED NOT_PERMITTED"
    assert world.verbs() == []
