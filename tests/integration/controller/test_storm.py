"""Many jobs that fail in one moment: each is restarted once, from a look that shows it and is fresh."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from middlewatch.lab.simulated import Exit, SimulatedConfig, SimulatedScheduler, sleeper
from middlewatch.model.action import Action, ActionKind, CommandResult
from middlewatch.model.answer import Answer, Known
from middlewatch.model.attempt import Attempt, seen_again
from middlewatch.model.change import Change
from middlewatch.model.scheduler import AccountingRecord, JobDetail, JobState, Snapshot
from tests.integration.controller.world import COMMENT, World

JOBS = 40
COMMAND_S = 0.03
TOLD = ("gpu-001", "gpu-002")


class Slow(SimulatedScheduler):
    """Each command takes a moment; many jobs may be asked about at once. Keeps who was shown when."""

    shown: dict[str, datetime]
    together: list[int]
    ages: list[timedelta]
    meanwhile: Callable[[], None] | None
    """What happens while the next command waits for its answer."""

    def begin(self) -> None:
        self.shown, self.together, self.ages = {}, [], []
        self.meanwhile = None

    def _pass(self) -> None:
        self._world.advance(self._world.now + timedelta(seconds=COMMAND_S))

    def look(self, job_ids: Sequence[str]) -> Answer[Snapshot]:
        answer = super().look(job_ids)
        self.shown.update(dict.fromkeys(job_ids, self._world.now))
        self._pass()
        return answer

    def details(self, job_ids: Sequence[str]) -> dict[str, Answer[JobDetail]]:
        self.together.append(len(job_ids))
        found = {job_id: super(Slow, self).detail(job_id) for job_id in job_ids}
        self._pass()
        return found

    def detail(self, job_id: str) -> Answer[JobDetail]:
        answer = super().detail(job_id)
        self._pass()
        return answer

    def accountings(
        self, job_ids: Sequence[str]
    ) -> dict[str, Answer[tuple[AccountingRecord, ...]]]:
        return {job_id: self.accounting(job_id) for job_id in job_ids}

    def perform(self, action: Action, deadline_s: float) -> CommandResult:
        if action.kind is ActionKind.REQUEUE:
            self.ages.append(self._world.now - self.shown[action.job_id])
        self._pass()
        hang, self.meanwhile = self.meanwhile, None
        if hang is not None:
            hang()
        return super().perform(action, deadline_s)


@pytest.fixture
def storm(tmp_path: Path) -> World:
    nodes = tuple(f"gpu-{n:03d}" for n in range(1, 41))
    world = World(tmp_path, SimulatedConfig(nodes=nodes))
    slow = Slow(world.cluster, world.scheduler.cluster, observer=world.issued.append)
    slow.begin()
    world.scheduler = slow
    world.controller = world.another()
    return world


def test_forty_at_once_are_each_restarted_by_two_commands(storm: World) -> None:
    jobs = [
        storm.cluster.submit(sleeper(30, Exit(1)), nodes=1, comment=COMMENT) for _ in range(JOBS)
    ]
    storm.wait(60)
    attempts = [told(storm, job) for job in jobs]
    for attempt in attempts:
        storm.advise(attempt, *TOLD)
    storm.run(60)
    assert {storm.outcome(attempt) for attempt in attempts} == {"CONVERGED DESIRED_STATE_OBSERVED"}
    assert sorted(storm.verbs()) == ["requeue"] * JOBS + ["update"] * JOBS
    for job in jobs:
        assert storm.view(job).restarts == 1
        assert storm.excluded(job) == TOLD
    scheduler = storm.scheduler
    assert isinstance(scheduler, Slow)
    assert len(scheduler.ages) == JOBS
    assert max(scheduler.ages) <= timedelta(seconds=1.1)
    assert max(scheduler.together) > 1


def test_who_is_held_or_gone_among_them_is_no_reason_to_touch_or_to_leave_the_others(
    storm: World,
) -> None:
    jobs = [storm.cluster.submit(sleeper(30, Exit(1)), nodes=1, comment=COMMENT) for _ in range(12)]
    storm.wait(60)
    attempts = [told(storm, job) for job in jobs]
    for attempt in attempts:
        storm.advise(attempt)
    del storm.cluster.jobs[jobs[3]]
    storm.run(60)
    outcomes = [storm.outcome(attempt) for attempt in attempts]
    assert outcomes.pop(3) == "ABANDONED TARGET_GONE"
    assert set(outcomes) == {"CONVERGED DESIRED_STATE_OBSERVED"}
    assert storm.verbs().count("requeue") == 11


def test_who_takes_his_opt_in_back_while_another_ones_command_hangs_is_left_alone(
    storm: World,
) -> None:
    jobs = [storm.cluster.submit(sleeper(30, Exit(1)), nodes=1, comment=COMMENT) for _ in range(5)]
    storm.wait(60)
    attempts = [told(storm, job) for job in jobs]
    for attempt in attempts:
        stored = storm.store.attempt(attempt.id)
        assert stored is not None
        # The watcher has stored the end, so that all are asked about together.
        ended = seen_again(stored, storm.view(attempt.job_id), storm.cluster.now)
        storm.store.apply(Change(attempts=(ended,)))
        storm.advise(attempt)
    scheduler = storm.scheduler
    assert isinstance(scheduler, Slow)

    def ten_seconds() -> None:
        storm.cluster.jobs[jobs[4]].comment = COMMENT.replace('"action"', '"off"')
        storm.wait(10)

    scheduler.meanwhile = ten_seconds
    storm.run(60)
    assert scheduler.together[0] == 5
    outcomes = [storm.outcome(attempt) for attempt in attempts]
    assert outcomes.pop() == "ABANDONED NOT_PERMITTED"
    assert set(outcomes) == {"CONVERGED DESIRED_STATE_OBSERVED"}
    assert storm.view(jobs[4]).restarts == 0


def told(world: World, job: str) -> Attempt:
    assert world.view(job).state is JobState.FAILED
    detail = world.scheduler.detail(job)
    assert isinstance(detail, Known)
    return world.attempt(job)
