"""A hold of ours that outstays its release-by is noticed while it stands, and only where it is one."""

from __future__ import annotations

from datetime import timedelta

import pytest

from middlewatch.lab.simulated import SimulatedCluster, sleeper
from tools.faults.simulated.patience import SLACK_S, Patience
from tools.faults.simulated.told import Deed
from tools.faults.simulated.witness import Witness

HOLD = "our requeue-hold stands"


class Held:
    """A job that a requeue-hold of ours keeps waiting, to be let go within 50 seconds."""

    def __init__(self) -> None:
        self.cluster = SimulatedCluster()
        self.witness = Witness(self.cluster)
        self.patience = Patience(self.cluster, self.witness)
        self.job_id = self.cluster.submit(sleeper())
        self.pass_time(2)
        self.cluster.requeue(self.job_id, hold=True, special=True)
        self.pass_time(2)
        job = self.cluster.jobs[self.job_id]
        assert job.pending
        lineage, now = self.witness.lineage(job), self.cluster.now
        deed = Deed(now, "up", "requeue_hold", self.job_id, "", True, lineage, 0, False)
        self.witness.deeds.append(deed)
        self.witness.release_by[(lineage, HOLD)] = now + timedelta(seconds=50)

    def pass_time(self, seconds: float) -> None:
        self.cluster.advance(self.cluster.now + timedelta(seconds=seconds))

    def wait(self, seconds: float, *, able: bool = True, clocks_off_s: float = 0.0) -> None:
        for _ in range(round(seconds / 2)):
            self.pass_time(2)
            self.patience.look(2, able=able, clocks_off_s=clocks_off_s)

    @property
    def counts(self) -> list[str]:
        return [found.count for found in self.witness.found]


@pytest.fixture
def held() -> Held:
    return Held()


def test_a_hold_may_stand_until_its_release_by_and_the_slack_after_it(held: Held) -> None:
    held.wait(50 + SLACK_S)
    assert held.counts == []
    held.wait(4)
    assert held.counts == ["held_forever"]
    held.wait(20)
    assert held.counts == ["held_forever"]


def test_the_time_in_which_nobody_could_act_does_not_count(held: Held) -> None:
    held.wait(50 + 3 * SLACK_S, able=False)
    held.wait(SLACK_S - 1)
    assert held.counts == []
    held.wait(4)
    assert held.counts == ["held_forever"]


def test_clocks_that_were_set_give_as_much_longer(held: Held) -> None:
    held.wait(50 + SLACK_S + 20, clocks_off_s=20)
    assert held.counts == []


def test_what_was_let_go_in_time_is_no_finding(held: Held) -> None:
    held.wait(50 + SLACK_S)
    held.cluster.release(held.job_id)
    held.wait(2 * SLACK_S)
    assert held.counts == []
    assert held.patience.over == {}
