"""The gates before each action: as the job shows itself now, not as it was once recorded."""

from __future__ import annotations

from dataclasses import replace

from middlewatch.model.answer import Known, Unknown
from middlewatch.model.gates import Deployment, GateName, Mode
from middlewatch.model.optin import directive, read_comment
from middlewatch.model.scheduler import JobState, JobView, Snapshot
from middlewatch.services.controller.gather import detail_of, gates_now
from tests.unit.reconciliation.worlds import (
    CLUSTER,
    T0,
    advice,
    attempt,
    detail,
    successor,
    target,
)

DEPLOYMENT = Deployment(CLUSTER, "lab", Mode.ACTION, True, ("train",))
ACTION = directive("prod", "action").removeprefix("#SBATCH --comment='").removesuffix("'")
RECORD = attempt(opt_in=read_comment(ACTION, "prod"))


def closed(view: JobView, **changes: object) -> GateName | None:
    look = Known(Snapshot("lab", T0, (view,)), T0)
    gates = gates_now(DEPLOYMENT, replace(RECORD, **changes), look, None, advice())  # type: ignore[arg-type]
    gate = gates.first_closed()
    return None if gate is None else gate.name


def test_the_gates_are_open_where_the_job_is_as_it_was_recorded() -> None:
    assert closed(target()) is None


def test_a_waiting_successor_that_may_go_elsewhere_closes_the_gate_of_partitions() -> None:
    moved = successor(partitions=("train", "other"))
    assert closed(moved) is GateName.PARTITION_ALLOWLIST


def test_a_partition_that_the_job_may_go_back_to_counts_while_it_runs_in_another() -> None:
    both = ("train", "other")
    running = target(JobState.RUNNING)
    assert closed(running, partitions=both) is GateName.PARTITION_ALLOWLIST


def test_the_comment_of_now_counts_more_than_the_recorded_one() -> None:
    off = detail(comment=ACTION.replace("action", "off"))
    look = Known(Snapshot("lab", T0, (target(),)), T0)
    gate = gates_now(DEPLOYMENT, RECORD, look, off, advice()).first_closed()
    assert gate is not None
    assert gate.name is GateName.JOB_OPT_IN


def test_the_detail_of_another_attempt_than_the_one_looked_at_is_none() -> None:
    of_successor = detail(submitted_at=successor().submitted_at)
    assert isinstance(detail_of(of_successor, target()), Unknown)
    assert detail_of(of_successor, successor()) is of_successor
    assert detail_of(None, target()) is None
