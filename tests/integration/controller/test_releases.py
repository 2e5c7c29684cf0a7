"""RELEASED on the simulated Slurm: what converges, what does not reopen it, what drains."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from middlewatch.model.advice import DesiredState
from middlewatch.model.attempt import Attempt
from middlewatch.model.change import Change
from middlewatch.model.dependency import Dependency
from middlewatch.model.optin import directive, read_comment
from middlewatch.model.scheduler import JobState
from tests.integration.controller.test_restarts import TRAINS
from tests.integration.controller.world import World


def held(world: World) -> Attempt:
    return world.attempt(world.submit(TRAINS, nodes=1, hold=True))


def test_a_later_hold_does_not_reopen_a_release_that_converged(world: World) -> None:
    # Too few nodes are free for it to start at once.
    world.submit(TRAINS, nodes=4, slots=8)
    attempt = world.attempt(world.submit(TRAINS, nodes=2, slots=8, hold=True))
    world.advise(attempt, desired=DesiredState.RELEASED)
    world.run(30)
    assert world.outcome(attempt) == "CONVERGED DESIRED_STATE_OBSERVED"
    world.cluster.hold(attempt.job_id, by_operator=True)
    world.wait(5)
    world.run(30)
    assert world.verbs() == ["release"]
    assert world.view(attempt.job_id).held


def test_a_job_that_its_owner_let_go_meanwhile_is_satisfied(world: World) -> None:
    attempt = held(world)
    world.cluster.release(attempt.job_id)
    world.advise(attempt, desired=DesiredState.RELEASED)
    world.run(30)
    assert world.verbs() == []
    assert world.outcome(attempt) == "CONVERGED ALREADY_SATISFIED"


def test_a_job_that_was_cancelled_while_held_was_never_let_go(world: World) -> None:
    attempt = held(world)
    world.advise(attempt, desired=DesiredState.RELEASED)
    world.cluster.cancel(attempt.job_id, by="alice")
    world.run(30)
    assert world.verbs() == []
    assert world.outcome(attempt) == "ABANDONED TARGET_ENDED"


def test_a_release_is_durable(world: World) -> None:
    attempt = held(world)
    world.advise(attempt, desired=DesiredState.RELEASED)
    world.faults.unreachable = True
    world.wait(timedelta(days=3).total_seconds())
    world.turn()
    world.faults.unreachable = False
    world.run(60)
    assert world.outcome(attempt) == "CONVERGED DESIRED_STATE_OBSERVED"
    assert world.view(attempt.job_id).state is JobState.RUNNING


def test_a_controller_that_drains_begins_no_release(world: World) -> None:
    attempt = held(world)
    world.advise(attempt, desired=DesiredState.RELEASED)
    assert world.controller.drain(world.clock.now())
    assert world.verbs() == []
    world.run(30)
    assert world.verbs() == ["release"]


def test_an_operators_hold_is_never_lifted(world: World) -> None:
    attempt = held(world)
    world.cluster.hold(attempt.job_id, by_operator=True)
    world.advise(attempt, desired=DesiredState.RELEASED)
    world.run(30)
    assert world.verbs() == []
    assert world.outcome(attempt) == "ABANDONED OPERATOR_HOLD"


def declaring(*jobs: str) -> str:
    line = directive("sim", "action", depends_on=tuple(Dependency(job) for job in jobs))
    return line.removeprefix("#SBATCH --comment='").removesuffix("'")


@pytest.mark.parametrize("now", [declaring("1", "7"), declaring("7"), declaring()])
def test_what_its_owner_declares_before_the_command_keeps_it_held(world: World, now: str) -> None:
    world.submit(TRAINS, nodes=1)
    decided = declaring("1")
    job = world.submit(TRAINS, nodes=1, hold=True, comment=decided)
    seen = world.attempt(job)
    attempt = replace(
        seen,
        version=seen.version + 1,
        held=True,
        opt_in=read_comment(decided, "sim"),
        let_go_after=(Dependency("1"),),
    )
    world.store.apply(Change(attempts=(attempt,)))
    world.advise(attempt, desired=DesiredState.RELEASED)
    world.cluster.jobs[job].comment = now
    world.run(30)
    assert world.verbs() == []
    assert world.outcome(attempt) == "ABANDONED NOT_PERMITTED"
    assert world.view(job).held
