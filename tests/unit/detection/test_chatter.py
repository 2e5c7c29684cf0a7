"""Which rounds may take the short way through the fold."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import timedelta
from typing import Any

import pytest

from middlewatch.detection.batch import Batch, Unreadable
from middlewatch.detection.chatter import after_chatter
from middlewatch.detection.limits import grace_s
from middlewatch.detection.observe import observe, weigh
from middlewatch.detection.state import DetectionState, fresh
from middlewatch.model.activity import Activity, ActivityKind, Growth
from middlewatch.model.attempt import Attempt
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import JobState
from middlewatch.model.signal import SignalKind
from tests.unit.detection.given import CRASH, STEP, T0, at, attempt, ended, hit

NEWS: dict[str, Any] = {
    "hits": (hit(CRASH),),
    "unreadable": (Unreadable("/log", "permission", "permission denied"),),
    "drained": True,
    "readable": False,
    "activity": (Activity(ActivityKind.GPU_POWER, (), T0, 60.0),),
    "growth": Growth("/checkpoints", T0),
    "lost": 1,
    "measured": False,
}
SILENT = {"attempt", "output_at", "caught_up", "sampled"}


def stepping() -> DetectionState:
    state = fresh(attempt().id)
    for step in range(1, 20):
        batch = Batch(attempt(), (hit(STEP, offset=step, step=step, total=1000),), at(step))
        state = observe(state, batch, at(step)).state
    return state


def short(batch: Batch, state: DetectionState | None = None) -> DetectionState | None:
    return after_chatter(state or stepping(), batch, at(20), at(20), Policy())


def test_output_that_means_nothing_takes_the_short_way() -> None:
    after = short(Batch(attempt(), output_at=at(20)))
    assert after is not None
    assert after.output_at == after.progress.last_output_at == at(20)


@pytest.mark.parametrize("name", sorted({field.name for field in fields(Batch)} - SILENT))
def test_whatever_else_a_round_may_bring_takes_the_whole_way(name: str) -> None:
    assert short(replace(Batch(attempt()), **{name: NEWS[name]})) is None


@pytest.mark.parametrize(
    "job",
    [ended(), attempt(vanished=True), attempt(completing=True), attempt(state=JobState.SUSPENDED)],
    ids=["ended", "vanished", "completing", "suspended"],
)
def test_attempt_that_does_not_simply_run_takes_the_whole_way(job: Attempt) -> None:
    assert short(Batch(job)) is None


@pytest.mark.parametrize(("caught_up", "sampled"), [(False, True), (True, False)])
def test_round_that_could_not_judge_a_silence_is_none_the_worse_for_it(
    caught_up: bool, sampled: bool
) -> None:
    batch = Batch(attempt(), output_at=at(20), caught_up=caught_up, sampled=sampled)
    assert short(batch) == weigh(stepping(), batch, at(20), at(20), Policy()).state


def test_first_look_at_a_job_takes_the_whole_way() -> None:
    assert short(Batch(attempt()), fresh(attempt().id)) is None


def test_job_that_prints_before_its_first_step_takes_the_short_way_until_one_is_overdue() -> None:
    state = observe(fresh(attempt().id), Batch(attempt(), output_at=at(1)), at(1)).state
    overdue = state.started_at
    assert overdue is not None
    overdue += timedelta(seconds=Policy().first_step_limit_s)
    before = overdue - timedelta(seconds=1)
    printed = Batch(attempt(), output_at=before)
    state = observe(state, printed, before).state
    assert after_chatter(state, printed, before, before, Policy()) is not None
    assert after_chatter(state, printed, overdue, overdue, Policy()) is None


def test_job_whose_progress_nobody_can_read_takes_the_short_way_when_that_was_told() -> None:
    now = at(1)
    state = observe(fresh(attempt().id), Batch(attempt(), output_at=now), now).state
    now = at(2 + Policy().first_step_limit_s)
    printed = Batch(attempt(), output_at=now)
    told = observe(state, printed, now)
    assert [signal.kind for signal in told.signals] == [SignalKind.BLIND]
    assert after_chatter(told.state, printed, now, now, Policy()) is not None


def test_job_that_prints_behind_a_failure_takes_the_short_way_within_its_grace() -> None:
    failed = observe(stepping(), Batch(attempt(), (hit(CRASH, offset=99),), at(20)), at(20)).state
    assert failed.suspicion is not None
    grace = grace_s(failed, Policy())
    for seconds, expected in ((grace - 1, True), (grace, False)):
        now = at(20 + seconds)
        limits = Policy(silence_floor_s=10 * grace)
        after = after_chatter(failed, Batch(attempt(), output_at=now), now, now, limits)
        assert (after is not None) is expected


def test_silence_that_nears_its_limit_takes_the_whole_way() -> None:
    now = at(20 + Policy().silence_floor_s)
    assert after_chatter(stepping(), Batch(attempt()), now, now, Policy()) is None
