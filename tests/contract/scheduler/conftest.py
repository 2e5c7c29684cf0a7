"""The worlds of the scheduler's contract.

Over SSH those tests are left out that wait long for Slurm itself and send nothing that the others
do not; as the jobs' owner and as an Operator those are run where rights could make a difference:
``MIDDLEWATCH_TEST_TRANSPORTS=all`` runs all of them. Through slurmrestd what it can do is run, some of
it by default and all of it with the same variable. On releases other than the machine's those are
run whose answers differ by release or are read in another way: ``MIDDLEWATCH_TEST_RELEASES=all``
runs all of them on each.

``MIDDLEWATCH_TEST_LAB=FOLDER`` tries the running lab in that folder instead of the session's own.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.adapters.slurm.ssh import SshCommands
from middlewatch.lab.cluster import Cluster
from tests.contract.scheduler.worlds import Real, Simulated, World
from tests.identities import CommandsAs, private_data
from tests.labfixture import ReleaseLab
from tests.slurmrestd import Server, serving
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

TELLING = {
    "owner": frozenset(
        {
            "test_one_update_sets_the_exclusions_and_lets_the_successor_start",
            "test_a_requeue_hold_is_marked_stays_and_is_released",
            "test_an_operators_hold_on_top_of_a_requeue_hold_is_seen_in_the_detail_only",
        }
    ),
    "operator": frozenset(
        {"test_the_fence_refuses_a_late_requeue_and_can_be_lifted_while_the_job_runs"}
    ),
    "owner-private": frozenset(
        {
            "test_a_job_never_heard_of_is_missing_in_a_known_look_and_absent_in_detail",
            "test_the_listing_is_whole_and_names_its_cluster",
        }
    ),
}
"""By identity: what is run of the suite by default."""


OTHER_RELEASES = ("24.11", "newest")
SAME_ON_EACH = frozenset(
    {
        # Slow, and no release does or spells it differently from another.
        "test_a_command_without_an_answer_takes_effect_when_slurmctld_goes_on",
        "test_an_operators_hold_inside_the_window_stays_through_our_update",
        "test_an_update_replaces_the_exclusions_and_they_survive_the_next_requeue",
        "test_a_dependent_waits_while_its_running_parent_is_requeued",
        "test_excluding_a_node_that_the_user_requires_makes_the_job_impossible",
        "test_an_operators_hold_on_a_running_job_outlives_its_end_and_a_requeue",
        "test_a_requeued_running_job_waits_for_its_begin_time_under_a_new_submit_time",
        "test_the_new_restart_count_stands_beside_the_old_submit_time_while_completing",
        "test_the_fence_also_refuses_the_requeue_of_what_has_ended",
        "test_a_release_of_a_job_that_is_not_held_changes_nothing",
        "test_the_end_of_a_failed_parent_lets_afterany_go_and_spoils_afterok_for_good",
        "test_excluding_every_node_holds_the_job_until_a_shorter_list_lets_it_start",
        "test_a_requeued_failed_job_is_pending_at_once_and_still_shows_its_exit_code",
        "test_a_requeue_hold_outlives_a_cancel_without_its_mark_and_cannot_be_released_meanwhile",
        # Part of every recovery (`tests/e2e/test_releases.py`).
        "test_one_update_sets_the_exclusions_and_lets_the_successor_start",
        "test_the_fence_refuses_a_late_requeue_and_can_be_lifted_while_the_job_runs",
    }
)


BY_REST = {
    "rest-24.11": frozenset(
        {
            "test_a_cancelled_job_ends_and_accounting_names_who_cancelled",
            "test_a_cancel_of_an_ended_or_unknown_job_is_silent",
            "test_a_job_never_heard_of_is_missing_in_a_known_look_and_absent_in_detail",
            "test_text_of_a_user_appears_in_no_listing",
            "test_the_listing_is_whole_and_names_its_cluster",
            "test_partitions_list_their_nodes_by_single_names",
            "test_what_is_no_job_number_reaches_no_command_line",
            "test_a_running_job_takes_no_constraints",
            "test_an_unknown_node_refuses_the_whole_update",
            "test_an_operators_requeue_hold_lacks_the_mark_of_ours",
        }
    ),
    "rest-newest": frozenset(
        {
            "test_an_operators_hold_on_top_of_a_requeue_hold_is_seen_in_the_detail_only",
            "test_a_cancelled_job_ends_and_accounting_names_who_cancelled",
            "test_a_cancel_of_an_ended_or_unknown_job_is_silent",
            "test_accounting_keeps_one_record_per_attempt",
            "test_a_job_never_heard_of_is_missing_in_a_known_look_and_absent_in_detail",
            "test_the_listing_is_whole_and_names_its_cluster",
            "test_a_requeue_of_a_pending_job_is_refused_and_changes_nothing",
            "test_a_requeue_hold_is_marked_stays_and_is_released",
            "test_a_requeue_of_an_unknown_job_is_refused",
            "test_a_requeue_of_what_is_being_requeued_is_refused",
        }
    ),
}
"""By slurmrestd: what is run of the suite by default."""
NOT_BY_REST = {
    # A single task cannot be changed through any slurmrestd; 24.11's requeues nothing.
    "rest-newest": frozenset({"test_array_tasks_are_jobs_of_their_own"}),
    "rest-24.11": frozenset(
        {
            "test_array_tasks_are_jobs_of_their_own",
            "test_an_operators_hold_inside_the_window_stays_through_our_update",
            "test_an_operators_hold_on_a_running_job_shows_as_priority_zero_and_outlives_a_requeue",
            "test_an_operators_hold_on_a_running_job_outlives_its_end_and_a_requeue",
            "test_an_operators_hold_on_top_of_a_requeue_hold_is_seen_in_the_detail_only",
            "test_accounting_keeps_one_record_per_attempt",
            "test_a_dependent_waits_while_its_running_parent_is_requeued",
            "test_a_command_without_an_answer_takes_effect_when_slurmctld_goes_on",
            "test_a_requeued_running_job_waits_for_its_begin_time_under_a_new_submit_time",
            "test_the_new_restart_count_stands_beside_the_old_submit_time_while_completing",
            "test_a_requeued_failed_job_is_pending_at_once_and_still_shows_its_exit_code",
            "test_one_update_sets_the_exclusions_and_lets_the_successor_start",
            "test_an_update_replaces_the_exclusions_and_they_survive_the_next_requeue",
            "test_a_requeue_of_a_pending_job_is_refused_and_changes_nothing",
            "test_the_fence_refuses_a_late_requeue_and_can_be_lifted_while_the_job_runs",
            "test_a_requeue_hold_is_marked_stays_and_is_released",
            "test_a_requeue_hold_outlives_a_cancel_without_its_mark_and_cannot_be_released_meanwhile",
            "test_a_completed_job_is_revived_by_a_requeue_and_its_batch_record_still_says_so",
            "test_a_requeue_of_an_unknown_job_is_refused",
            "test_a_job_cancelled_while_it_waited_is_revived_and_accounting_shows_that_it_never_began",
            "test_a_requeue_of_what_is_being_requeued_is_refused",
        }
    ),
}
"""By slurmrestd: what asks for something that it cannot do, and that we refuse unsent
(`tests/integration/slurm_rest`)."""


def left_out(name: str) -> bool:
    """Whether a test is one of those that are run only where all are asked for."""
    test, _, world = name.removesuffix("]").partition("[")
    if world in OTHER_RELEASES:
        return test in SAME_ON_EACH and os.environ.get("MIDDLEWATCH_TEST_RELEASES") != "all"
    if test in NOT_BY_REST.get(world, ()):
        return True
    if os.environ.get("MIDDLEWATCH_TEST_TRANSPORTS") == "all":
        return False
    if world in BY_REST:
        return test not in BY_REST[world]
    if world in TELLING:
        return test not in TELLING[world]
    return world == "ssh" and test in SLOW_AND_THE_SAME


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out, as deselected, what another way, user or release need not repeat."""
    not_now = [item for item in items if left_out(item.name)]
    if not_now:
        config.hook.pytest_deselected(items=not_now)
        items[:] = [item for item in items if item not in not_now]


@pytest.fixture(scope="session")
def gate(slurm_lab: Cluster) -> Iterator[SshCommands]:
    """The lab's commands behind a real sshd, over one connection for the whole session."""
    with running("--conf", slurm_lab.env()["SLURM_CONF"]) as server:
        commands = SshCommands(SystemClock(), server.target)
        yield commands
        commands.close()


@pytest.fixture(scope="session")
def restd(release_labs: ReleaseLab) -> Iterator[Callable[[str], Server]]:
    """slurmrestd of a release, started at its first use."""
    with contextlib.ExitStack() as stack:
        started: dict[str, Server] = {}

        def of(release: str) -> Server:
            if release not in started:
                started[release] = stack.enter_context(serving(release_labs(release)))
            return started[release]

        yield of


@pytest.fixture(
    params=[
        pytest.param("22.05.8", id="simulated-22.05"),
        pytest.param("24.11.5", id="simulated-24.11"),
        pytest.param("26.05.5", id="simulated-26.05"),
        pytest.param("slurm", id="slurm", marks=pytest.mark.slurm),
        *(pytest.param(name, id=name, marks=pytest.mark.slurm) for name in OTHER_RELEASES),
        *(pytest.param(f"rest-{name}", marks=pytest.mark.slurm) for name in OTHER_RELEASES),
        pytest.param("ssh", id="ssh", marks=pytest.mark.slurm),
        pytest.param("owner", id="owner", marks=pytest.mark.slurm),
        pytest.param("owner-private", id="owner-private", marks=pytest.mark.slurm),
        pytest.param("operator", id="operator", marks=pytest.mark.slurm),
    ]
)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """An idle cluster behind the scheduler port."""
    if request.param == "ssh":
        lab = request.getfixturevalue("lab")
        yield Real(lab, request.getfixturevalue("gate"))
        return
    if request.param in OTHER_RELEASES:
        release_lab: ReleaseLab = request.getfixturevalue("release_lab")
        yield Real(release_lab(request.param))
        return
    if request.param.startswith("rest-"):
        release = request.param.removeprefix("rest-")
        of_release: ReleaseLab = request.getfixturevalue("release_lab")
        server: Server = request.getfixturevalue("restd")(release)
        yield Real(of_release(release), scheduler=server.scheduler())
        return
    if request.param in TELLING:
        with as_somebody(request.getfixturevalue("lab"), request.param) as found:
            yield found
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


@contextlib.contextmanager
def as_somebody(lab: Cluster, identity: str) -> Iterator[World]:
    """The lab with the rights of the jobs' owner, or of an Operator."""
    if identity == "operator":
        yield Real(lab, CommandsAs(lab, lab.spec.operator))
        return
    with contextlib.ExitStack() as stack:
        if identity == "owner-private":
            stack.enter_context(private_data(lab, "jobs", "users", "accounts", "usage"))
        yield Real(lab, CommandsAs(lab, lab.spec.job_users[0]))
