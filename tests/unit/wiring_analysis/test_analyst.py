"""Small logs through everything: what the live system would have seen, decided and advised."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from middlewatch.wiring.analysis import Analyst
from middlewatch.wiring.analysis.facts import read_facts

STEP_S = 5.0


@cache
def analyst() -> Analyst:
    return Analyst.ready()


def step(number: int) -> str:
    return (
        f" iteration {number:8d}/   50000 | consumed samples: 512 | elapsed time per iteration "
        "(ms): 5000.0 | global batch size:   512 | lm loss: 4.0E+00 | grad norm: 0.312 |"
    )


def told(*lines: str | tuple[float, str], facts: dict[str, Any]) -> dict[str, Any]:
    """The analysis of lines that are `STEP_S` apart, or as far behind the one before as said."""
    now, times, texts = 0.0, [], []
    for line in lines:
        after, text = line if isinstance(line, tuple) else (STEP_S, line)
        now += after
        times.append(now)
        texts.append(text)
    data = "".join(text + "\n" for text in texts).encode()
    return analyst().analyse(data, read_facts(facts), tuple(times)).as_json()


STEPS = tuple(step(number) for number in range(1, 101))
DIED = (
    "[rank3]: Traceback (most recent call last):",
    '[rank3]:   File "train.py", line 9, in step',
    "[rank3]: KeyError: 'labels'",
)
TIME_UP = (
    "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-03-01T10:00:00 DUE TO TIME LIMIT ***"
)


def test_a_running_job_is_healthy_and_raises_nothing() -> None:
    said = told(*STEPS, facts={"state": "RUNNING"})
    assert (said["kind"], said["class"], said["alarms"]) == ("healthy", "none", [])
    assert said["last_progress_step"] == 100
    assert said["restart"]["advisable"] == "not-applicable"


def test_a_failure_from_which_the_job_goes_on_is_no_failure() -> None:
    for more in (1, 5):
        after = tuple(step(number) for number in range(101, 101 + more))
        said = told(*STEPS, *DIED, *after, facts={"state": "RUNNING"})
        assert (said["kind"], said["first_cause"], said["alarms"]) == ("healthy", None, [])


def test_a_crash_that_ended_the_job_raises_an_alarm_that_acts() -> None:
    said = told(*STEPS, *DIED, facts={"state": "FAILED", "exit_code": "1:0"})
    assert (said["kind"], said["class"]) == ("crash", "user_exception")
    assert said["first_cause"]["lines"] == [[101, 103]]
    assert said["first_cause"]["rank"] == 3
    assert said["alarms"][-1]["would_act"]
    assert said["restart"]["advisable"] == "no"


def test_what_is_printed_while_the_time_limit_ends_a_job_never_acts() -> None:
    lines = (*STEPS, TIME_UP, *((1.0, line) for line in DIED), (40.0, "bye"))
    said = told(*lines, facts={"state": "TIMEOUT"})
    assert (said["kind"], said["class"]) == ("preempted", "time_limit")
    assert not any(alarm["would_act"] for alarm in said["alarms"])


def test_silence_until_somebody_looks_is_a_hang_that_only_alarms() -> None:
    facts = {
        "state": "RUNNING",
        "log_last_write": "2026-03-01 10:00:00",
        "observed_at": "2026-03-01 11:00:00",
    }
    said = told(*STEPS, facts=facts)
    assert (said["kind"], said["class"], said["onset_line"]) == ("hang", "silent_hang", 100)
    assert [alarm["would_act"] for alarm in said["alarms"]] == [False]
    assert STEP_S * 100 < said["alarms"][0]["at_s"] < STEP_S * 100 + 3600


def test_a_job_that_stood_still_until_it_was_cancelled_has_hung() -> None:
    stop = TIME_UP.replace(" DUE TO TIME LIMIT", "")
    said = told(*STEPS, (3600.0, stop), facts={"state": "CANCELLED by 1001"})
    assert (said["kind"], said["class"]) == ("hang", "silent_hang")
    assert not any(alarm["would_act"] for alarm in said["alarms"])


@pytest.mark.parametrize(
    ("state", "advisable"), [("PREEMPTED", "yes"), ("PREEMPTED->PENDING", "no")]
)
def test_a_preempted_job_is_restarted_by_a_person_unless_it_was_put_back(
    state: str, advisable: str
) -> None:
    preempted = TIME_UP.replace("TIME LIMIT", "PREEMPTION")
    said = told(*STEPS, preempted, facts={"state": state})
    assert (said["kind"], said["class"]) == ("preempted", "preemption")
    assert said["restart"]["advisable"] == advisable
    assert not any(alarm["would_act"] for alarm in said["alarms"])


def test_the_second_time_in_the_same_place_is_not_tried_again() -> None:
    killed = "srun: error: n1: task 3: Killed"
    again = "==== restart 1 of job 7 on nodes n1 ===="
    once = told(*STEPS, killed, facts={"state": "FAILED"})
    twice = told(*STEPS, killed, again, *STEPS, killed, facts={"state": "FAILED"})
    assert (once["class"], twice["class"]) == ("killed_unknown", "killed_unknown")
    assert (once["restart"]["advisable"], twice["restart"]["advisable"]) == ("yes", "no")


def test_ranks_without_a_node_are_placed_by_the_banner() -> None:
    banner = "==== job 7 (x) on 2 nodes: aa-01 aa-02 ===="
    world = "using world size: 16, data-parallel size: 16"
    died = tuple(line.replace("rank3", "rank11") for line in DIED)
    said = told(banner, world, *STEPS, *died, facts={"state": "FAILED"})
    first = said["first_cause"]
    assert (first["rank"], first["local_rank"], first["node"]) == (11, 3, "aa-02")


def test_what_would_be_needed_to_say_more_is_named() -> None:
    said = told(*STEPS, facts={"state": "FAILED", "exit_code": "137:0"})
    assert any("kernel" in text for text in said["unseen"])


def test_lines_behind_a_divergence_are_told_with_it() -> None:
    bad = tuple(step(number).replace("4.0E+00", "nan") for number in range(101, 111))
    found = told(*STEPS, *bad, facts={"state": "RUNNING"})
    assert found["class"] == "numerical_divergence"
    assert found["first_cause"]["lines"] == [[101, 101]]
    assert found["cascade_lines"] == [[102, 110]]


def test_line_that_a_program_told_long_before_its_end_is_no_part_of_it() -> None:
    warned = "caught SIGUSR1, will save at the next multiple of 500"
    found = told(*STEPS[:40], warned, *STEPS[40:], TIME_UP, facts={"state": "TIMEOUT"})
    assert found["class"] == "time_limit"
    assert found["cascade_lines"] == []
