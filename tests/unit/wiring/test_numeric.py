"""The numeric sets: the same every time, through the real fold, and counted rightly."""

from __future__ import annotations

import json

import pytest

from middlewatch.lab.streams import Fault, What, healthy, job, plain, stuck
from middlewatch.model.signal import SignalKind
from middlewatch.wiring.numeric import Report, Size, numeric, numeric_lines, play
from middlewatch.wiring.numeric.play import play_slowdowns
from middlewatch.wiring.numeric.sets import PHASES


@pytest.fixture(scope="module")
def report() -> Report:
    return numeric(Size.small())


def test_a_profile_and_a_seed_give_the_same_job_every_time() -> None:
    assert job(healthy(7), "7") == job(healthy(7), "7")
    assert job(healthy(7), "7") != job(healthy(7), "8")


def test_a_slow_job_is_the_same_as_a_healthy_one_until_its_fault() -> None:
    profile = plain(3)
    well, ill = job(profile, "3"), job(profile, "3", Fault(slow=0.5, at_step=700))
    assert ill.fault_step == 700
    before = [line for line in ill.lines if line.at_s < (ill.fault_s or 0)]
    assert before == list(well.lines[: len(before)])
    assert ill.lines != well.lines


@pytest.mark.parametrize("phase", PHASES)
def test_a_stuck_job_prints_nothing_more(phase: str) -> None:
    made = job(stuck(1), "1", PHASES[phase])
    assert made.ends_s is None
    assert (made.fault_s or 0.0) == (made.lines[-1].at_s if made.lines else 0.0)
    finished = any(line.what is What.FINISHED for line in made.lines)
    assert finished == (phase == "shutdown")


def test_watching_what_is_common_once_gives_the_same_as_watching_each_job() -> None:
    profile = plain(5)
    made = job(profile, "5", Fault(slow=0.3, at_step=800))
    whole = play(made).first(SignalKind.SLOW, made.fault_s or 0.0)
    (cut,) = play_slowdowns([made], 200)
    found = cut.first(SignalKind.SLOW, made.fault_s or 0.0)
    assert whole is not None
    assert found is not None
    assert (found.step, found.value) == (whole.step, whole.value)


def test_a_hang_in_training_is_told_on_the_virtual_clock() -> None:
    made = job(stuck(2), "2", PHASES["training"])
    told = play(made).first(SignalKind.SILENCE, made.fault_s or 0.0)
    assert told is not None


def test_all_sets_are_played_and_counted(report: Report) -> None:
    assert report.healthy.jobs == report.size.healthy
    assert report.healthy.hours > 10
    assert report.healthy.steps > 1000 * report.size.healthy
    assert {s.phase for s in report.stuck} == set(PHASES)
    assert all(s.found.of == report.size.slow for s in report.slowed)


def test_no_healthy_job_would_have_been_ended(report: Report) -> None:
    assert report.healthy.ended == 0


def test_large_slowdowns_and_all_hangs_are_found(report: Report) -> None:
    assert all(s.found.right == s.found.of for s in report.slowed if s.share >= 0.1)
    assert all(s.found.right == s.found.of for s in report.stuck)


def test_a_bound_is_given_with_every_zero(report: Report) -> None:
    bound = report.healthy.ended_at_most_per_1000_hours
    assert bound == pytest.approx(3000 / report.healthy.hours)


def test_what_is_simulated_is_called_simulated(report: Report) -> None:
    lines = list(numeric_lines(report))
    assert "simulated" in lines[0]
    assert "held-out" in lines[0]
    body = report.as_json()
    assert body["simulated"] is True
    assert json.loads(json.dumps(body)) == body
