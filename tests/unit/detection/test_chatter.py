"""Which rounds may take the short way through the fold."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from middlewatch.detection.batch import Batch, Unreadable
from middlewatch.detection.chatter import after_chatter
from middlewatch.detection.observe import observe
from middlewatch.detection.state import DetectionState, fresh
from middlewatch.model.activity import Activity, ActivityKind, Growth
from middlewatch.model.attempt import Attempt
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import JobState
from tests.unit.detection.given import CRASH, STEP, T0, at, attempt, ended, hit

NEWS: dict[str, Any] = {
    "hits": (hit(CRASH),),
    "unreadable": (Unreadable("/log", "permission", "permission denied"),),
    "drained": True,
    "caught_up": False,
    "readable": False,
    "activity": (Activity(ActivityKind.GPU_POWER, (), T0, 60.0),),
    "growth": Growth("/checkpoints", T0),
    "lost": 1,
    "measured": False,
    "sampled": False,
}
SILENT = {"attempt", "output_at"}


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


def test_job_that_has_not_stepped_yet_takes_the_whole_way() -> None:
    assert short(Batch(attempt()), fresh(attempt().id)) is None


def test_silence_that_nears_its_limit_takes_the_whole_way() -> None:
    now = at(20 + Policy().silence_floor_s)
    assert after_chatter(stepping(), Batch(attempt()), now, now, Policy()) is None
