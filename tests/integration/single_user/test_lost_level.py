"""An Operator whose level is taken away while it looks: what Slurm hides then is not gone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.adapters.slurm.scheduler import SlurmScheduler
from middlewatch.lab.cluster import Cluster
from middlewatch.model.answer import Answer, Known, Unknown
from middlewatch.model.scheduler import Snapshot
from tests.identities import CommandsAs, private_data
from tests.integration.controller.world import CLUSTER

LIMIT_S = 120.0


@contextmanager
def without_level(lab: Cluster) -> Iterator[None]:
    """The lab's Operator as an ordinary user."""
    change = ["sacctmgr", "-i", "modify", "user", lab.spec.operator, "set"]
    lab.run([*change, "adminlevel=None"])
    try:
        yield
    finally:
        lab.run([*change, "adminlevel=Operator"])


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + LIMIT_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.slurm
def test_what_a_lost_level_hides_is_never_taken_for_gone(lab: Cluster) -> None:
    def sees(answer: Answer[Snapshot]) -> bool:
        return isinstance(answer, Known) and answer.value.job(job) is not None

    job = lab.submit("#!/bin/sh\nsleep 600\n", extra=("--hold",))
    commands = CommandsAs(lab, lab.spec.operator)
    uid = commands.user()[0]
    with private_data(lab, "jobs"):
        looks, lists = (SlurmScheduler(CLUSTER, commands, SystemClock()) for _ in range(2))
        until(lambda: sees(lists.listing()) and sees(looks.look([job])))
        with without_level(lab):
            end = time.monotonic() + LIMIT_S
            while sees(first := lists.listing()):
                assert time.monotonic() < end
                time.sleep(0.1)
            assert isinstance(first, Unknown)
            later = lists.listing()
            assert isinstance(later, Known)
            assert later.value.only_uid == uid
            for _ in range(3):
                assert isinstance(looks.look([job]), Unknown)
        # Given back, it counts again when the level has been read anew.
        fresh = SlurmScheduler(CLUSTER, commands, SystemClock())
        until(lambda: sees(fresh.listing()) and sees(fresh.look([job])))
