"""The gates before each action: as the job shows itself now, not as it was once recorded."""

from __future__ import annotations

from dataclasses import replace

import pytest

from middlewatch.model.action import ActionKind
from middlewatch.model.advice import DesiredState, Disposition, Reason
from middlewatch.model.answer import Known, Unknown
from middlewatch.model.dependency import Dependency
from middlewatch.model.gates import Deployment, GateName, Mode
from middlewatch.model.optin import directive, read_comment
from middlewatch.model.scheduler import JobState, JobView, Snapshot
from middlewatch.reconciliation.plan import next_step
from middlewatch.reconciliation.situation import Act, Report, Step
from middlewatch.services.controller.gather import detail_of, gates_now
from tests.unit.reconciliation.worlds import (
    CLUSTER,
    T0,
    advice,
    at,
    attempt,
    detail,
    situation,
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


def comment(*jobs: str) -> str:
    line = directive("prod", "action", depends_on=tuple(Dependency(job) for job in jobs))
    return line.removeprefix("#SBATCH --comment='").removesuffix("'")


def release_of(decided: tuple[str, ...], recorded: str, now: str | None) -> Step:
    """The next step about a held job whose release was decided for those jobs, whose record has one
    comment and that shows another (None: nobody has read it yet)."""
    held = target(JobState.PENDING, priority=0, reason="JobHeldUser", started_at=None)
    stored = attempt(
        state=JobState.PENDING,
        held=True,
        end=None,
        opt_in=read_comment(recorded, "prod"),
        let_go_after=tuple(Dependency(job) for job in decided),
    )
    look = Known(Snapshot("lab", T0, (held,)), T0)
    read = None if now is None else detail(comment=now)
    wanted = advice(DesiredState.RELEASED)
    gates = gates_now(DEPLOYMENT, stored, look, read, wanted)
    return next_step(
        situation(held, advice=wanted, gates=gates, attempt=stored, detail=read), at(1)
    )


@pytest.mark.parametrize("now", [comment("7", "8"), comment("8")])
def test_a_release_goes_where_all_that_is_declared_was_done_when_it_was_decided(now: str) -> None:
    step = release_of(("7", "8"), comment("7", "8"), now)
    assert isinstance(step, Act)
    assert step.action.kind is ActionKind.RELEASE


@pytest.mark.parametrize(
    "now",
    [
        comment("7", "9"),
        comment("7").replace("afterok", "afternotok"),
        comment("7").replace("afterok:7", "seven"),
        ACTION,
    ],
)
def test_no_release_goes_where_the_comment_now_declares_something_else(now: str) -> None:
    step = release_of(("7",), comment("7"), now)
    assert isinstance(step, Report)
    assert (step.disposition, step.reason) == (Disposition.ABANDONED, Reason.NOT_PERMITTED)
    assert step.detail.startswith(f"gate {GateName.DEPENDENCIES.value} ")


def test_a_declaration_that_was_changed_long_before_the_command_needs_no_second_reading() -> None:
    step = release_of(("7",), comment("9"), None)
    assert isinstance(step, Report)
    assert "afterok:9" in step.detail


def test_a_job_that_has_run_may_declare_what_it_likes() -> None:
    ran = attempt(opt_in=read_comment(comment("9"), "prod"), let_go_after=(Dependency("7"),))
    look = Known(Snapshot("lab", T0, (target(),)), T0)
    assert gates_now(DEPLOYMENT, ran, look, None, advice()).open
