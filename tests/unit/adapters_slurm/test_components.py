"""Components of a heterogeneous job, shown as the one job that they are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from middlewatch.adapters.slurm.components import together, whole_jobs, with_components
from middlewatch.adapters.slurm.listing import Row
from middlewatch.model.answer import Known
from middlewatch.model.scheduler import JobDetail, JobFlag, JobState, JobView
from tests.unit.reconciliation.worlds import detail, target

LEADER = target(JobState.RUNNING, heterogeneous=True, node_list="n1", node_count=1)
SECOND = replace(LEADER, node_list="n[2-3]", node_count=2, partitions=("gpu",))


def of(**changes: Any) -> JobDetail:
    known = detail(**changes)
    assert isinstance(known, Known)
    found: JobDetail = known.value
    return found


def test_a_job_has_the_nodes_and_partitions_of_all_its_components() -> None:
    whole = together(LEADER, (SECOND,))
    assert (whole.node_list, whole.node_count) == ("n1,n[2-3]", 3)
    assert whole.partitions == ("train", "gpu")
    assert (whole.job_id, whole.state, whole.apart) == (LEADER.job_id, JobState.RUNNING, "")


def test_a_hold_on_one_component_holds_the_job() -> None:
    held = replace(SECOND, priority=0, reason="JobHeldAdmin")
    whole = together(LEADER, (held,))
    assert whole.held
    assert whole.reason == "JobHeldAdmin"


def test_a_component_that_still_ends_keeps_the_job_ending() -> None:
    ended = replace(LEADER, state=JobState.FAILED)
    ending = replace(SECOND, state=JobState.FAILED, flags=frozenset({JobFlag.COMPLETING}))
    assert together(ended, (ending,)).completing


@pytest.mark.parametrize(
    "other", [replace(SECOND, state=JobState.CANCELLED), replace(SECOND, restarts=1)]
)
def test_components_that_do_not_stand_alike_are_told(other: JobView) -> None:
    assert "component 1 of 2" in together(LEADER, (other,)).apart


def test_a_leader_whose_components_are_not_shown_is_not_taken_for_the_whole() -> None:
    assert together(LEADER, ()).apart != ""


def test_a_listing_shows_each_job_once_and_others_as_they_are() -> None:
    plain = target(job_id="9")
    rows = [
        Row(LEADER, "lab", "123", component=False),
        Row(SECOND, "lab", "124", component=True),
        Row(plain, "lab", "9", component=False),
    ]
    shown = [row.view for row in whole_jobs(rows)]
    assert shown == [together(LEADER, (SECOND,)), plain]


def test_every_components_nodes_count_and_different_lists_are_told() -> None:
    one, other = of(excluded_nodes=("n1",)), of(excluded_nodes=("n2",), required_nodes=("n5",))
    both = with_components(one, (other,))
    assert both.excluded_nodes == ("n1", "n2")
    assert both.required_nodes == (*one.required_nodes, "n5")
    assert both.uneven
    assert not with_components(one, (of(excluded_nodes=("n1",)),)).uneven


@pytest.mark.parametrize(("second", "whole"), [(True, True), (None, None), (False, False)])
def test_an_operators_hold_on_any_component_is_one_on_the_job(
    second: bool | None, whole: bool | None
) -> None:
    one, other = of(held_by_operator=False), of(held_by_operator=second)
    assert with_components(one, (other,)).held_by_operator is whole
