"""What may be called a refusal: only what slurmctld itself is known to decline with."""

from __future__ import annotations

from typing import Any

import pytest

from middlewatch.adapters.slurm.actions import action_argv, answer_of
from middlewatch.model.action import Action, ActionKind, Answered
from middlewatch.ports.errors import Refused
from tests.unit.adapters_slurm.scripted import RELEASES, cases, finished


def answered(case: dict[str, Any]) -> Answered:
    return answer_of(finished(case["argv"], stderr=case["stderr"], rc=case["rc"]))


@pytest.mark.parametrize("release", RELEASES)
def test_a_recorded_command_is_done_exactly_where_it_succeeded(release: str) -> None:
    found = cases(release)
    assert len(found) > 100
    wrong = [c["case"] for c in found if (answered(c) is Answered.DONE) is not (c["rc"] == 0)]
    assert wrong == []


@pytest.mark.parametrize("release", RELEASES)
def test_a_failure_without_slurmctlds_word_is_never_a_refusal(release: str) -> None:
    silent = ("Unexpected message", "timed out", "Unable to contact", "authentication", "No error")
    lost = [c for c in cases(release) if any(word in c["stderr"] for word in silent)]
    assert len(lost) > 10
    assert {answered(case) for case in lost} == {Answered.NO_ANSWER}


@pytest.mark.parametrize(
    "name",
    [
        "scontrol_requeue_on_pending_begin",
        "scontrol_requeue_on_noreq_running",
        "scontrol_requeue_purged_id",
        "scontrol_requeue_by_other_user",
        "scontrol_release_by_owner_of_admin_hold",
        "update_exc_running",
        "update_exc_unknown_node",
        "update_exc_plus",
        "err_update_exc_finished",
        "err_release_unknown",
        "requeuehold_array_task_pending",
        "requeuehold_het_second_rawid",
        "scancel_by_other_user",
        "update_unknown_field",
    ],
)
@pytest.mark.parametrize("release", RELEASES)
def test_slurmctlds_own_words_are_a_refusal(release: str, name: str) -> None:
    case = next(case for case in cases(release) if case["case"] == name)
    assert answered(case) is Answered.REFUSED


@pytest.mark.parametrize("release", RELEASES)
def test_a_partly_done_array_is_no_refusal(release: str) -> None:
    name = "requeue_array_some_finished"
    case = next(case for case in cases(release) if case["case"] == name)
    assert answered(case) is Answered.NO_ANSWER


def test_a_killed_command_gave_no_answer_whatever_it_had_said() -> None:
    said = "Job is pending execution for job 7\n"
    assert answer_of(finished(stderr=said, rc=None, problem="killed")) is Answered.NO_ANSWER
    assert answer_of(finished(stderr=said, rc=-9)) is Answered.NO_ANSWER


def test_a_silent_failure_gave_no_answer() -> None:
    assert answer_of(finished(rc=1)) is Answered.NO_ANSWER


def test_a_refusal_beside_a_word_that_we_do_not_know_is_no_answer() -> None:
    said = "Job is pending execution for job 7\nscontrol: error: something new\n"
    assert answer_of(finished(stderr=said, rc=1)) is Answered.NO_ANSWER


def test_each_action_is_one_command() -> None:
    job = "7_2"
    wanted = {
        ActionKind.REQUEUE: ("scontrol", "requeue", job),
        ActionKind.REQUEUE_HOLD: ("scontrol", "requeuehold", "State=SpecialExit", job),
        ActionKind.RELEASE: ("scontrol", "release", job),
        ActionKind.CANCEL: ("scancel", job),
    }
    assert {kind: action_argv(Action(kind, job, "")) for kind in wanted} == wanted


def test_an_update_is_one_request_with_all_its_fields() -> None:
    action = Action(ActionKind.UPDATE, "7", "", ("gpu-001", "gpu-002"), True, False)
    assert action_argv(action) == (
        "scontrol",
        "update",
        "jobid=7",
        "ExcNodeList=gpu-001,gpu-002",
        "StartTime=now",
        "Requeue=0",
    )


def test_an_empty_list_clears_the_exclusions_and_none_leaves_them() -> None:
    cleared = action_argv(Action(ActionKind.UPDATE, "7", "", exclusions=()))
    assert cleared[-1] == "ExcNodeList="
    left = action_argv(Action(ActionKind.UPDATE, "7", "", start_now=True))
    assert not any(word.startswith("ExcNodeList") for word in left)


def test_hundreds_of_nodes_are_one_word_of_one_command() -> None:
    nodes = tuple(f"rack-{number:04d}-gpu" for number in range(1000))
    argv = action_argv(Action(ActionKind.UPDATE, "7", "t", exclusions=nodes, start_now=True))
    assert argv == (
        "scontrol",
        "update",
        "jobid=7",
        f"ExcNodeList={','.join(nodes)}",
        "StartTime=now",
    )


def test_a_list_that_no_command_can_hold_is_refused_with_what_to_do() -> None:
    nodes = tuple(f"rack-{number:05d}-gpu" for number in range(10_000))
    with pytest.raises(Refused, match=r"10000 nodes .* do not fit into one command: shorten"):
        action_argv(Action(ActionKind.UPDATE, "7", "t", exclusions=nodes))


def test_an_update_that_changes_nothing_is_refused() -> None:
    with pytest.raises(Refused, match="changes nothing"):
        action_argv(Action(ActionKind.UPDATE, "7", ""))


@pytest.mark.parametrize("node", ["a,b", "ALL nodes", "gpu-[1-3]", "--x", ""])
def test_no_node_expression_reaches_a_command_line(node: str) -> None:
    with pytest.raises(Refused):
        action_argv(Action(ActionKind.UPDATE, "7", "", exclusions=(node,)))
