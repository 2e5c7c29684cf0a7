"""A slurmctld that hangs: nothing is known, and what was asked may still be done."""

from __future__ import annotations

from middlewatch.model.action import Action, ActionKind, Answered
from middlewatch.model.answer import Unknown
from tests.contract.scheduler.test_requeue import pending, running
from tests.contract.scheduler.worlds import World, until


def test_a_command_without_an_answer_takes_effect_when_slurmctld_goes_on(world: World) -> None:
    job = world.submit("run")
    until(world, job, running)
    world.hang()
    try:
        result = world.scheduler.perform(Action(ActionKind.REQUEUE, job, "contract"), 3.0)
        look = world.scheduler.look([job])
    finally:
        world.go_on()
    assert result.answered is Answered.NO_ANSWER
    assert isinstance(look, Unknown)
    assert until(world, job, pending).restarts == 1
