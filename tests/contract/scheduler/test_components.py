"""A heterogeneous job is requeued, constrained and let go whole, by commands that name its leader."""

from __future__ import annotations

import pytest

from middlewatch.model.action import ActionKind
from middlewatch.model.answer import Known
from tests.contract.scheduler.test_requeue import done, pending, running
from tests.contract.scheduler.worlds import Real, World, seen, until


@pytest.fixture
def real(world: World) -> Real:
    assert isinstance(world, Real)
    return world


REAL = [
    pytest.param(name, id=name, marks=pytest.mark.slurm) for name in ("slurm", "24.11", "newest")
]


@pytest.mark.parametrize("world", REAL, indirect=True)
def test_a_job_of_two_components_is_restarted_whole_without_a_node(real: Real) -> None:
    job = real.submit_two_components()
    first = until(real, job, running)
    assert (first.node_count, first.apart) == (3, "")
    bad = real.scheduler.hostnames(first.node_list)[0]
    real.let_pass(1.2)
    done(real, ActionKind.REQUEUE, job)
    until(real, job, lambda view: pending(view) and not view.apart)
    real.let_pass(1.2)
    done(real, ActionKind.UPDATE, job, exclusions=(bad,), start_now=True)
    again = until(real, job, lambda view: running(view) and not view.apart)
    assert (again.restarts, again.node_count) == (1, 3)
    assert bad not in real.scheduler.hostnames(again.node_list)
    detail = real.scheduler.detail(job)
    assert isinstance(detail, Known)
    assert detail.value.excluded_nodes == (bad,)
    assert not detail.value.uneven


@pytest.mark.parametrize("world", REAL, indirect=True)
def test_a_component_that_is_held_or_cancelled_alone_is_seen(real: Real) -> None:
    job = real.submit_two_components()
    until(real, job, running)
    real.hold_by_operator(f"{job}+1")
    held = seen(real, job)
    assert held is not None
    assert held.held
    real.cancel_by_owner(f"{job}+1")
    assert until(real, job, lambda view: bool(view.apart) and not view.completing).restarts == 0
    real.cancel_by_owner(job)
