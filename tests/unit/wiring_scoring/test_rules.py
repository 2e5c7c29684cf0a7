"""The rules of scoring, on cases small enough to count by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from middlewatch.wiring.analysis.facts import Facts, read_facts
from middlewatch.wiring.scoring.labels import Label
from middlewatch.wiring.scoring.rules import Judged, judge

FAILED = read_facts({"state": "FAILED", "exit_code": "1:0"})


def label(**given: Any) -> Label:
    """A crash in lines 10 to 13 with consequences in 14 to 20."""
    values: dict[str, Any] = {
        "id": "c1",
        "log": Path("c1.log"),
        "times": None,
        "seen": True,
        "kind": "crash",
        "classes": ("gpu_off_bus", "gpu_memory_fault"),
        "first": ((10, 13),),
        "rank": 3,
        "local_rank": 3,
        "node": "n1",
        "cascade": ((14, 20),),
        "onset": 10,
        "last_step": 90,
        "checkpoint_step": 50,
        "advisable": "only-with-node-excluded",
        "nodes": ("n1",),
        "facts": FAILED,
    }
    return Label(**{**values, **given})


def good(**given: Any) -> Label:
    values: dict[str, Any] = {
        "kind": "healthy",
        "classes": ("none",),
        "first": (),
        "rank": None,
        "local_rank": None,
        "node": None,
        "cascade": (),
        "onset": None,
        "advisable": "not-applicable",
        "nodes": (),
        "facts": Facts(),
    }
    return label(**{**values, **given})


def said(**given: Any) -> dict[str, Any]:
    """What a right analysis of `label()` says."""
    first = {"lines": [[10, 13]], "rank": 3, "local_rank": 3, "node": "n1"}
    alarm = {"line": 20, "at_s": 25.0, "kind": "crash", "class": "gpu_off_bus", "would_act": True}
    values: dict[str, Any] = {
        "kind": "crash",
        "class": "gpu_off_bus",
        "first_cause": {**first, **given.pop("first", {})},
        "cascade_lines": [[14, 20]],
        "last_progress_step": 90,
        "last_checkpoint_step": 50,
        "implicated_nodes": ["n1"],
        "restart": {"advisable": "only-with-node-excluded"},
        "alarms": [alarm],
    }
    return {**values, **given}


def nothing_said(**given: Any) -> dict[str, Any]:
    values: dict[str, Any] = {
        "kind": "healthy",
        "class": "none",
        "first_cause": None,
        "cascade_lines": [],
        "restart": {"advisable": "not-applicable"},
        "alarms": [],
    }
    return said(**{**values, **given})


TIMES = tuple(float(number) for number in range(30))


def counts(judged: Judged) -> tuple[int, int, int, int]:
    return judged.reported, judged.right, judged.labelled, judged.found


def test_a_right_analysis_is_right_in_everything() -> None:
    judged = judge(label(), said(), times=TIMES)
    assert counts(judged) == (2, 2, 2, 2)
    assert all(answer is True for _, answer in judged.answers)
    assert judged.told == ()
    assert (judged.missed, judged.false_alarms, judged.acting_false_alarms) == (False, 0, 0)


def test_a_deliberately_wrong_analysis_scores_nothing() -> None:
    judged = judge(
        label(),
        said(
            kind="hang",
            first={"lines": [[1, 2]], "rank": 7, "local_rank": 1, "node": "n2"},
            cascade_lines=[[3, 4]],
            last_progress_step=89,
            last_checkpoint_step=None,
            implicated_nodes=[],
            restart={"advisable": "yes"},
            alarms=[],
            **{"class": "user_exception"},
        ),
        times=TIMES,
    )
    assert counts(judged) == (2, 0, 2, 0)
    assert all(answer is False for _, answer in judged.answers)
    assert judged.missed
    assert len(judged.told) == len(judged.answers) + 2


@pytest.mark.parametrize(
    ("reported", "right"),
    [
        ([[10, 13]], 1),
        ([[9, 9]], 1),  # one line of slack
        ([[8, 8]], 0),
        ([[21, 21]], 1),
        ([[6, 13]], 1),  # five of eight lines, slack counted
        ([[1, 13]], 0),  # five of thirteen
        ([[10, 20]], 1),  # over two labelled ranges
        ([[13, 10]], 0),
        ([[10, 10], [12, 12], [2, 2]], 2),
    ],
)
def test_a_reported_range_is_right_when_half_of_it_is_labelled(
    reported: list[list[int]], right: int
) -> None:
    judged = judge(label(), said(first={"lines": reported}, cascade_lines=[]))
    assert judged.right == right


@pytest.mark.parametrize(
    ("reported", "found"),
    [
        ([[10, 10]], 1),
        ([[10, 20]], 2),
        ([[9, 9]], 0),  # right by slack, but it touches nothing
        ([[1, 10]], 0),  # it touches, but is wrong itself
        ([[13, 14]], 2),
    ],
)
def test_a_labelled_range_is_found_when_a_right_one_touches_it(
    reported: list[list[int]], found: int
) -> None:
    judged = judge(label(), said(first={"lines": reported}, cascade_lines=[]))
    assert judged.found == found


def test_on_a_good_log_every_reported_range_is_wrong() -> None:
    judged = judge(good(cascade=((14, 20),)), said())
    assert counts(judged) == (2, 0, 0, 0)


@pytest.mark.parametrize(
    ("lines", "right"),
    [
        ([[12, 12]], True),
        ([[12, 15]], True),
        ([[12, 16]], False),
        ([[14, 20]], False),
        ([[1, 1], [2, 2], [11, 11]], True),
        ([[1, 1], [2, 2], [3, 3], [11, 11]], False),
        ([], False),
    ],
)
def test_the_first_cause_is_sought_in_three_ranges_without_slack(
    lines: list[list[int]], right: bool
) -> None:
    assert judge(label(), said(first={"lines": lines})).answer("first_line") is right


def test_what_the_label_does_not_know_is_not_asked() -> None:
    judged = judge(label(first=(), rank=None, local_rank=None, node=None), said())
    names = ("first_line", "first_rank", "first_local_rank", "first_node")
    assert [judged.answer(name) for name in names] == [None] * 4


@pytest.mark.parametrize("named", ["gpu_off_bus", "gpu_memory_fault"])
def test_every_acceptable_class_is_right(named: str) -> None:
    assert judge(label(), said(**{"class": named})).answer("class") is True


@pytest.mark.parametrize(
    ("should", "was", "right"),
    [
        ("yes", "yes", True),
        ("yes", "unclear", False),
        ("unclear", "unclear", True),
        ("unclear", "yes", True),
        ("unclear", "no", True),
        ("unclear", "only-with-node-excluded", False),
        ("only-with-node-excluded", "yes", False),
    ],
)
def test_advice_must_be_equal_unless_the_label_is_unclear(
    should: str, was: str, right: bool
) -> None:
    judged = judge(label(advisable=should), said(restart={"advisable": was}))
    assert judged.answer("restart") is right


@pytest.mark.parametrize("was", ["no", "not-applicable"])
@pytest.mark.parametrize("kind", ["healthy", "completed"])
def test_on_good_logs_no_and_not_applicable_are_the_same(kind: str, was: str) -> None:
    judged = judge(good(kind=kind), nothing_said(restart={"advisable": was}))
    assert judged.answer("restart") is True


def test_a_step_that_follows_from_epochs_alone_may_be_off_by_one_interval() -> None:
    data = b"".join(b"{'loss': 1.0, 'epoch': %.2f}\n" % (n / 10) for n in range(1, 21))
    assert judge(label(last_step=200), said(last_progress_step=191), data=data).answer("last_step")
    assert not judge(label(last_step=200), said(last_progress_step=180), data=data).answer(
        "last_step"
    )
    printed = data + b" 10%| 200/2000 [00:10<01:30]\n"
    assert not judge(label(last_step=200), said(last_progress_step=191), data=printed).answer(
        "last_step"
    )


def alarm(kind: str = "crash", line: int = 12, at_s: float = 14.0, act: bool = True) -> Any:
    return {"line": line, "at_s": at_s, "kind": kind, "class": "x", "would_act": act}


@pytest.mark.parametrize(
    ("given", "alarms", "needs", "missed"),
    [
        ({}, [alarm()], True, False),
        ({}, [alarm(act=False)], True, True),
        ({"advisable": "yes"}, [], True, True),
        ({"advisable": "no"}, [], False, False),
        ({"facts": read_facts({"state": "RUNNING"})}, [], False, False),
        ({"kind": "hang"}, [alarm("hang", act=False)], True, False),
        ({"kind": "hang"}, [alarm("crash")], True, True),
        ({"kind": "slow"}, [], True, True),
        ({"kind": "preempted", "advisable": "yes"}, [], False, False),
    ],
)
def test_alarms_that_must_come(
    given: dict[str, Any], alarms: list[Any], needs: bool, missed: bool
) -> None:
    judged = judge(label(**given), said(alarms=alarms))
    assert (judged.needs, judged.missed) == (needs, missed)


def test_the_delay_runs_from_the_onset_to_the_first_alarm_of_the_kind() -> None:
    early = alarm(line=4, at_s=5.0)
    other = alarm("hang", line=11, at_s=12.0)
    judged = judge(label(), said(alarms=[early, other, alarm(), alarm(line=20)]), times=TIMES)
    assert (judged.delay_s, judged.delay_lines) == (5.0, 2)


@pytest.mark.parametrize("kind", ["healthy", "completed"])
def test_any_alarm_on_a_good_log_is_false_and_one_that_acts_is_worse(kind: str) -> None:
    judged = judge(good(kind=kind), nothing_said(alarms=[alarm(act=False), alarm()]))
    assert (judged.false_alarms, judged.acting_false_alarms) == (2, 1)


@pytest.mark.parametrize("kind", ["preempted", "user_stop"])
def test_of_a_job_that_was_stopped_only_an_acting_alarm_is_false(kind: str) -> None:
    judged = judge(label(kind=kind), said(alarms=[alarm(kind, act=False), alarm()]))
    assert (judged.false_alarms, judged.acting_false_alarms) == (0, 1)
