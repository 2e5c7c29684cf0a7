"""Several controllers for one cluster: who acts, from when on, and what is known on which host."""

from __future__ import annotations

from pathlib import Path

import pytest

from middlewatch.adapters.journal.file import FileJournal
from middlewatch.lab.simulated import Doom, Exit, Fate, SimulatedConfig, sleeper
from middlewatch.model.answer import Known
from middlewatch.model.journal import JournalKind
from middlewatch.model.scheduler import JobState
from middlewatch.reconciliation.deadlines import WatchdogConfig
from middlewatch.reconciliation.holds import standing
from middlewatch.reconciliation.watchdog import due, watchdog_actions
from middlewatch.services.controller.controller import Controller, ControllerConfig
from tests.integration.controller.world import World

TERM_S = ControllerConfig().lease_s
STILL_S = TERM_S + ControllerConfig().deadline_s
CRASHES = sleeper(3, Exit(1))


def failed(world: World, **options: object) -> str:
    job = world.submit(CRASHES, **options)
    world.wait(5)
    assert world.view(job).state is JobState.FAILED
    return job


def still(world: World, controller: Controller) -> float:
    """For how long it says that it must not act yet."""
    report = controller.tick(world.clock.now())
    assert report.leader
    return report.keeps_still_s


def test_who_takes_over_keeps_still_for_a_term_and_a_deadline(world: World) -> None:
    world.controller.tick(world.clock.now())
    world.wait(TERM_S + 1)
    other = world.another("c2")
    assert still(world, other) == pytest.approx(STILL_S, abs=1)
    attempt = world.attempt(failed(world))
    world.advise(attempt, "gpu-001")
    world.controller = other
    while (left := still(world, other)) > 1:
        assert world.verbs() == []
        world.wait(min(left - 0.5, 20))
    world.wait(1)
    world.run(30)
    assert world.verbs() == ["requeue", "update"]
    assert world.outcome(attempt) == "CONVERGED DESIRED_STATE_OBSERVED"


def test_whoever_comes_back_with_its_own_lease_acts_at_once(world: World) -> None:
    world.controller.tick(world.clock.now())
    world.wait(3 * TERM_S)
    assert still(world, world.another("c1")) == 0


def test_a_leader_that_resigned_is_followed_at_once(world: World) -> None:
    world.controller.tick(world.clock.now())
    assert not world.another("c2").tick(world.clock.now()).leader
    world.controller.resign()
    assert still(world, world.another("c2")) == 0


def test_neither_a_restart_nor_a_hand_over_shortens_the_time_of_keeping_still(
    world: World,
) -> None:
    world.controller.tick(world.clock.now())
    world.wait(TERM_S + 1)
    still(world, world.another("c2"))
    world.wait(30)
    again = world.another("c2")
    assert still(world, again) == pytest.approx(STILL_S - 30, abs=1)
    again.resign()
    assert still(world, world.another("c3")) == pytest.approx(STILL_S - 30, abs=1)


def test_a_follower_has_nothing_to_let_go_and_stops_at_once(world: World) -> None:
    attempt = world.attempt(failed(world))
    world.advise(attempt)
    world.turn()
    assert world.verbs() == ["requeue"]
    other = world.another("c2")
    assert other.drain(world.clock.now())
    assert not world.controller.drain(world.clock.now())


def test_a_lease_in_its_last_seconds_permits_no_command(world: World) -> None:
    attempt = world.attempt(failed(world))
    world.advise(attempt)
    config = ControllerConfig(lease_s=30.0)
    slow = Slow(world, config)
    slow.wait_s = 16.0
    assert slow.controller.tick(world.clock.now()).again
    assert world.verbs() == []
    slow.wait_s = 0.0
    slow.controller.tick(world.clock.now())
    assert world.verbs() == ["requeue"]


class Slow:
    """A controller whose first question to the scheduler takes ``wait_s``."""

    def __init__(self, world: World, config: ControllerConfig) -> None:
        self.wait_s = 0.0
        scheduler = world.scheduler
        slow = self

        class Waiting:
            cluster = scheduler.cluster

            def __getattr__(self, name: str) -> object:
                return getattr(scheduler, name)

            def detail(self, job_id: str) -> object:
                world.wait(slow.wait_s)
                return scheduler.detail(job_id)

        self.controller = Controller(
            store=world.for_controllers or world.store,
            scheduler=Waiting(),  # type: ignore[arg-type]
            journal=world.journal,
            clock=world.clock,
            deployment=world.deployment,
            policy=world.policy,
            holder="c1",
            config=config,
        )


def test_what_another_host_has_left_standing_is_written_down_for_our_own_watchdog(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, SimulatedConfig(begin_delay_s=11.0))
    own = ("gpu-003",)
    job = failed(world, excluded=own)
    attempt = world.attempt(job)
    world.advise(attempt, "gpu-001")
    world.faults.commands.append(Doom(Fate.REPLY_LOST))
    world.turn()
    assert world.verbs() == ["requeuehold"]
    world.wait(TERM_S + 1)
    ours = FileJournal(tmp_path / "other")
    world.controller = world.another("c2", journal=ours)
    still(world, world.controller)
    world.wait(STILL_S)
    world.turn()
    kinds = {entry.kind: entry for entry in ours.entries()}
    announced = {entry.kind: entry for entry in world.journal.entries()}
    assert kinds[JournalKind.HOLD].restarts_expected == 1
    hold = announced[JournalKind.HOLD].release_by
    inherited = kinds[JournalKind.HOLD].release_by
    assert hold is not None
    assert inherited is not None
    assert abs((inherited - hold).total_seconds()) < 2
    world.run(60)
    assert world.outcome(attempt) == "CONVERGED DESIRED_STATE_OBSERVED"
    (excluded,) = [e for e in ours.entries() if e.kind is JournalKind.EXCLUDE][:1]
    assert (excluded.user_exclusions, excluded.ours) == (own, ("gpu-001",))


def test_exclusions_of_ours_from_another_host_are_not_taken_for_the_users(world: World) -> None:
    # Four nodes: the user's own, ours of the first failure, ours of the second, and one left.
    job = failed(world, excluded=("gpu-004",))
    first = world.attempt(job)
    world.advise(first, "gpu-001")
    world.run(30)
    assert world.excluded(job) == ("gpu-001", "gpu-004")
    world.wait(8)
    assert world.view(job).state is JobState.FAILED
    second = world.attempt(job)
    world.advise(second, "gpu-002", "gpu-003")
    world.controller.resign()
    ours = FileJournal(world.folder / "other")
    world.controller = world.another("c2", journal=ours)
    world.run(60)
    # No node was left: ours were shortened, those of the other host too; the user's own stays.
    assert "gpu-004" in world.excluded(job)
    lines = [entry for entry in ours.entries() if entry.kind is JournalKind.EXCLUDE]
    assert lines
    assert {entry.user_exclusions for entry in lines} == {("gpu-004",)}
    assert {"gpu-001", "gpu-002", "gpu-003"} in [set(entry.ours) for entry in lines]
    assert world.outcome(second) == "CONVERGED DESIRED_STATE_OBSERVED"


def test_the_other_hosts_watchdog_can_undo_from_its_own_journal_what_we_left(world: World) -> None:
    """All of ours goes and all of the user's stays, wherever which part was added."""
    job = failed(world, excluded=("gpu-004",))
    first = world.attempt(job)
    world.advise(first, "gpu-001")
    world.run(30)
    world.wait(8)
    second = world.attempt(job)
    world.advise(second, "gpu-002", "gpu-003")
    world.controller.resign()
    ours = FileJournal(world.folder / "other")
    dies = world.another("c2", journal=ours)
    while "gpu-002" not in world.excluded(job):
        dies.tick(world.clock.now())
        world.wait(0.5)
    world.wait(2)
    assert world.view(job).reason == "BadConstraints"
    config = WatchdogConfig(max_hold_s=30.0)
    world.wait(31)
    look = world.scheduler.look([job])
    facts = world.scheduler.facts()
    assert isinstance(facts, Known)
    found = due(standing(ours.entries()), look, facts.value, world.cluster.now, config)
    details = {job: world.scheduler.detail(job)}
    plan = watchdog_actions(found, details, facts.value, world.cluster.now, config)
    (planned,) = plan.planned
    assert planned.action.exclusions == ("gpu-004",)
