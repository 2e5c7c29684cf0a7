"""Witnesses in the fold: when they are heard, and how often."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from middlewatch.detection.batch import Batch
from middlewatch.detection.observe import Observation, observe
from middlewatch.detection.state import DetectionState, Suspicion, fresh
from middlewatch.detection.testimony import quiet, wants_growth
from middlewatch.model.activity import Activity, ActivityKind, Growth, NodeSeries
from middlewatch.model.signal import Phase, Signal, SignalKind, SourceKind
from tests.unit.detection.given import SAVED, Story, at, attempt, hit

JOB = attempt(nodes=("n1", "n2"))
SILENT, NOW = 2000.0, 2400.0


def silent_state(**given: object) -> DetectionState:
    state = fresh(JOB.id)
    progress = replace(
        state.progress, first_step=1, last_step=90, first_step_at=at(20), last_step_at=at(SILENT)
    )
    known = {
        "progress": progress,
        "alive_at": at(SILENT),
        "advanced_at": at(SILENT),
        "output_at": at(SILENT),
        "started_at": at(0),
        "silence_reported": True,
        "intervals": (10.0,) * 30,
    }
    return replace(state, **(known | given))  # type: ignore[arg-type]


def power(after: float) -> tuple[Activity, ...]:
    begin = at(0).timestamp()
    samples = tuple(
        (begin + t, 500.0 if t <= SILENT else after) for t in range(0, int(NOW) + 1, 15)
    )
    nodes = tuple(NodeSeries(name, samples) for name in JOB.nodes)
    return (Activity(ActivityKind.GPU_POWER, nodes, at(NOW), 60.0),)


def seen(state: DetectionState, **given: object) -> Observation:
    return observe(state, Batch(JOB, **given), at(NOW))  # type: ignore[arg-type]


def heard(found: Observation) -> list[Signal]:
    return [one for one in found.signals if one.kind is SignalKind.SECOND_WITNESS]


def test_still_nodes_are_heard_once_in_a_silence() -> None:
    first = seen(silent_state(), activity=power(80))
    (witness,) = heard(first)
    assert witness.source.kind is SourceKind.METRICS
    assert witness.failure_class == "silent_hang"
    assert heard(seen(first.state, activity=power(80))) == []


def test_same_silence_gives_the_same_key() -> None:
    one = heard(seen(silent_state(), activity=power(80)))
    other = heard(seen(silent_state(), activity=power(90)))
    assert one[0].key == other[0].key


def test_next_silence_is_heard_anew() -> None:
    first = seen(silent_state(), activity=power(80))
    later = replace(first.state, silence_reported=False, alive_at=at(NOW - 5))
    between = seen(later)
    assert between.state.witnessed == ()


def test_job_that_is_not_silent_has_no_witness_against_it() -> None:
    going = silent_state(silence_reported=False, alive_at=at(NOW - 10), advanced_at=at(NOW - 10))
    assert heard(seen(going, activity=power(80))) == []


def test_witness_beside_a_failure_line_has_no_class_of_its_own() -> None:
    doubt = Suspicion("key", "gpu_ecc_uncorrectable", at(SILENT), reported=True)
    (witness,) = heard(
        seen(silent_state(silence_reported=False, suspicion=doubt), activity=power(80))
    )
    assert witness.failure_class == ""
    assert witness.source.position == "key"


def test_job_that_never_stepped_has_no_past_to_be_compared_with() -> None:
    state = silent_state()
    state = replace(state, progress=replace(state.progress, first_step_at=None))
    assert quiet(state) is None
    assert heard(seen(state, activity=power(80))) == []


@pytest.mark.parametrize("given", [{"caught_up": False}, {"readable": False}, {"sampled": False}])
def test_nothing_is_heard_while_the_job_itself_is_not_seen(given: dict[str, bool]) -> None:
    assert heard(seen(silent_state(), activity=power(80), **given)) == []


# -- checkpoints ---------------------------------------------------------------------------------


def saver(**given: object) -> DetectionState:
    state = silent_state(save_intervals=(100.0, 100.0, 110.0), saved_in="/ckpt", **given)
    return replace(state, progress=replace(state.progress, checkpoint_at=at(1990)))


@pytest.mark.parametrize(("newest", "speaks"), [(1990, True), (2100, False), (2390, False)])
def test_directory_speaks_after_three_of_its_own_intervals(newest: float, speaks: bool) -> None:
    found = heard(seen(saver(), growth=Growth("/ckpt", at(newest))))
    assert [one.source.kind for one in found] == [SourceKind.FILES] * speaks


@pytest.mark.parametrize("newest", [-5000, NOW + 60])
def test_time_outside_the_attempt_says_nothing(newest: float) -> None:
    assert heard(seen(saver(), growth=Growth("/ckpt", at(newest)))) == []


def test_job_that_saved_but_once_has_no_interval() -> None:
    state = replace(saver(), save_intervals=(100.0,))
    assert not wants_growth(state, at(NOW))
    assert heard(seen(state, growth=Growth("/ckpt", at(1990)))) == []


def test_directory_is_wanted_only_when_it_could_speak() -> None:
    assert wants_growth(saver(), at(NOW))
    assert not wants_growth(saver(), at(2200))


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/scratch/run7", "/scratch/run7"),
        ("/scratch/run7/checkpoint-20", "/scratch/run7"),
        ("/scratch/run7/step20/", "/scratch/run7"),
        ("/scratch/run7/model.pt", "/scratch/run7"),
        ("relative/run7", ""),
        ("/" + "x" * 2000, ""),
    ],
)
def test_place_and_pace_of_saves_are_learnt_from_their_lines(path: str, place: str) -> None:
    story = Story(of=JOB)
    state = story.state
    for number, step in enumerate((10, 20, 30)):
        told = hit(SAVED, number, step=step, path=path.replace("20", str(step)))
        now = at(100.0 * (number + 1))
        state = observe(state, Batch(JOB, (told,), output_at=now), now).state
    assert state.save_intervals == (100.0, 100.0)
    assert state.saved_in == place


def test_memory_of_saves_is_bounded() -> None:
    state = fresh(JOB.id)
    for number in range(50):
        now = at(60.0 * (number + 1))
        told = hit(SAVED, number, step=number + 1)
        state = observe(state, Batch(JOB, (told,), output_at=now), now).state
    assert len(state.save_intervals) == 8
    assert quiet(state) is None
    assert now - at(0) == timedelta(seconds=3000)


def test_no_witness_is_heard_against_a_job_that_evaluates() -> None:
    evaluating = silent_state(alive_at=at(NOW - 5))
    assert heard(seen(evaluating, activity=power(80))) == []
    grown = saver(alive_at=at(NOW - 5))
    assert heard(seen(grown, growth=Growth("/ckpt", at(1990)))) == []


def test_no_witness_is_heard_in_an_announced_evaluation_behind_a_failure_line() -> None:
    doubt = Suspicion("key", "killed_unknown", at(SILENT))
    state = silent_state(silence_reported=False, suspicion=doubt, phase_at=at(SILENT))
    progress = replace(state.progress, phase=Phase.EVALUATION)
    assert heard(seen(replace(state, progress=progress), activity=power(80))) == []


def test_directory_is_late_only_if_it_is_late_in_the_silence() -> None:
    # It had last been written long before the job fell silent, which it had a right to.
    state = replace(saver(), save_intervals=(150.0, 150.0, 150.0))
    assert heard(seen(state, growth=Growth("/ckpt", at(1500)))) == []
