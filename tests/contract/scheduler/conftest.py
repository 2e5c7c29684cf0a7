"""The worlds of the scheduler's contract.

Over SSH those tests are left out that wait long for Slurm itself and send nothing that the others
do not: ``MIDDLEWATCH_TEST_TRANSPORTS=all`` runs them as well.

``MIDDLEWATCH_TEST_LAB=FOLDER`` tries the running lab in that folder (of another release, in a
chroot) instead of the session's own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.adapters.slurm.ssh import SshCommands
from middlewatch.lab.cluster import Cluster
from tests.contract.scheduler.worlds import Real, Simulated, World
from tests.sshd import running

SLOW_AND_THE_SAME = frozenset(
    {
        "test_accounting_keeps_one_record_per_attempt",
        "test_an_operators_hold_inside_the_window_stays_through_our_update",
        "test_a_completed_job_is_revived_by_a_requeue_and_its_batch_record_still_says_so",
        "test_an_update_replaces_the_exclusions_and_they_survive_the_next_requeue",
        "test_a_cancelled_job_ends_and_accounting_names_who_cancelled",
        "test_excluding_every_node_holds_the_job_until_a_shorter_list_lets_it_start",
        "test_a_dependent_waits_while_its_running_parent_is_requeued",
        "test_excluding_a_node_that_the_user_requires_makes_the_job_impossible",
        "test_the_end_of_a_failed_parent_lets_afterany_go_and_spoils_afterok_for_good",
    }
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out, as deselected, what SSH need not repeat."""
    if os.environ.get("MIDDLEWATCH_TEST_TRANSPORTS") == "all":
        return
    left_out = [
        item
        for item in items
        if item.name.endswith("[ssh]") and item.name.removesuffix("[ssh]") in SLOW_AND_THE_SAME
    ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture(scope="session")
def gate(slurm_lab: Cluster) -> Iterator[SshCommands]:
    """The lab's commands behind a real sshd, over one connection for the whole session."""
    with running("--conf", slurm_lab.env()["SLURM_CONF"]) as server:
        commands = SshCommands(SystemClock(), server.target)
        yield commands
        commands.close()


@pytest.fixture(
    params=[
        pytest.param("22.05.8", id="simulated-22.05"),
        pytest.param("26.05.5", id="simulated-26.05"),
        pytest.param("slurm", id="slurm", marks=pytest.mark.slurm),
        pytest.param("ssh", id="ssh", marks=pytest.mark.slurm),
    ]
)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """An idle cluster behind the scheduler port."""
    if request.param == "ssh":
        lab = request.getfixturevalue("lab")
        yield Real(lab, request.getfixturevalue("gate"))
        return
    if request.param != "slurm":
        yield Simulated(request.param)
        return
    other = os.environ.get("MIDDLEWATCH_TEST_LAB")
    if other is None:
        yield Real(request.getfixturevalue("lab"))
        return
    lab = Cluster.load(Path(other))
    lab.tidy()
    yield Real(lab)
    lab.tidy()
