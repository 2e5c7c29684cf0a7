"""The port on scripted commands: what is Known, Absent, Unknown, and what is never asked."""

from __future__ import annotations

from typing import Any

import pytest

from middlewatch.model.action import Action, ActionKind, Answered
from middlewatch.model.answer import Absent, Known, Unknown
from middlewatch.model.identity import ClusterId
from tests.unit.adapters_slurm.scripted import CONFIG, Answers, recording, scheduler
from tests.unit.adapters_slurm.test_listing import HEADER, line

DOWN = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"
GONE = "slurm_load_jobs error: Invalid job id specified\n"


def answering(squeue: tuple[str, str, int | None], config: str = CONFIG, **others: Any) -> Answers:
    def answer(argv: tuple[str, ...]) -> tuple[str, str, int | None]:
        if argv[:3] == ("scontrol", "show", "config"):
            return config, "", 0
        if argv[0] == "squeue":
            return squeue
        return others[argv[0]]

    return answer


def test_a_whole_listing_is_known_and_carries_slurmctlds_own_name() -> None:
    port, _, _ = scheduler(answering((HEADER + line(), "", 0)))
    answer = port.listing()
    assert isinstance(answer, Known)
    assert answer.value.cluster_name == "lab"
    assert [view.job_id for view in answer.value.jobs] == ["7"]
    assert port.cluster == ClusterId("slurm", "test")


@pytest.mark.parametrize(
    "squeue",
    [
        ("", DOWN, 1),
        ("", "", 0),
        ("", "", None),
        (HEADER, "", None),
        (HEADER + line(), "squeue: error: Invalid job format specification: Requeue\n", 0),
        (HEADER + line(Requeue=""), "", 0),
        (HEADER + line(Cluster="other"), "", 0),
        (HEADER + line()[:-1], "", 0),
    ],
)
def test_anything_less_is_unknown_with_its_reason(squeue: tuple[str, str, int | None]) -> None:
    port, _, _ = scheduler(answering(squeue))
    answer = port.listing()
    assert isinstance(answer, Unknown)
    assert answer.why


def test_the_clusters_name_is_asked_for_again_when_it_is_old() -> None:
    port, commands, clock = scheduler(answering((HEADER, "", 0)))
    for _ in range(5):
        port.listing()
    assert sum(argv[0] == "scontrol" for argv in commands.asked) == 1
    clock.sleep(31)
    port.listing()
    assert sum(argv[0] == "scontrol" for argv in commands.asked) == 2


def test_without_slurmctlds_own_name_there_is_no_listing() -> None:
    port, _, _ = scheduler(answering((HEADER, "", 0), config="nothing\n"))
    assert isinstance(port.listing(), Unknown)


def test_a_listing_that_private_data_filters_is_not_complete() -> None:
    hidden = CONFIG + "PrivateData             = jobs\n"
    port, _, _ = scheduler(answering((HEADER, "", 0), config=hidden))
    port._sees_all = False
    answer = port.listing()
    assert isinstance(answer, Unknown)
    assert "PrivateData" in answer.why
    assert isinstance(port.look(["7"]), Unknown)


def test_a_single_job_that_slurm_does_not_know_is_known_to_be_missing() -> None:
    port, _, _ = scheduler(answering(("", GONE, 1)))
    answer = port.look(["7"])
    assert isinstance(answer, Known)
    assert answer.value.jobs == ()
    assert isinstance(port.detail("7"), Absent)


@pytest.mark.parametrize("stderr", [DOWN, GONE + DOWN, "", "slurmctld: Invalid job id specified?"])
def test_any_other_failure_of_a_look_is_unknown(stderr: str) -> None:
    port, _, _ = scheduler(answering(("", stderr, 1)))
    assert isinstance(port.look(["7"]), Unknown)
    assert isinstance(port.detail("7"), Unknown)


def test_a_failed_look_at_several_is_never_absence() -> None:
    port, _, _ = scheduler(answering(("", GONE, 1)))
    assert isinstance(port.look(["7", "8"]), Unknown)


def test_a_look_gives_only_what_was_asked_for() -> None:
    # Asked for an array's waiting tasks, squeue lists those that run as well.
    text = HEADER + line() + line(JobID="8", JobArrayID="7_0")
    port, _, _ = scheduler(answering((text, "", 0)))
    answer = port.look(["7"])
    assert isinstance(answer, Known)
    assert [view.job_id for view in answer.value.jobs] == ["7"]


def test_a_look_at_nothing_asks_squeue_nothing() -> None:
    port, commands, _ = scheduler(answering(("", "", 1)))
    answer = port.look([])
    assert isinstance(answer, Known)
    assert all(argv[0] != "squeue" for argv in commands.asked)


def test_what_is_no_job_number_is_not_even_asked_about() -> None:
    port, commands, _ = scheduler(answering((HEADER, "", 0)))
    assert isinstance(port.look(["7 --all"]), Unknown)
    assert isinstance(port.detail("$(reboot)"), Unknown)
    assert isinstance(port.accounting("-a"), Unknown)
    result = port.perform(Action(ActionKind.CANCEL, "--user=root", ""), 5.0)
    assert result.answered is Answered.REFUSED
    assert commands.asked == []


def test_on_22_05_each_field_is_the_whole_answer_of_its_own_question() -> None:
    values = {
        "%k": "x\nJobId=9 JobState=FAILED\n",
        "%j": "a|b\n",
        "%Z": "/home/u\n",
        "STDOUT:|": "/home/u/%j.log|\n",
        "StdErr:|": "/home/u/%j.log|\n",
        "%x": "n1\n",
        "%n": "(null)\n",
    }

    def answer(argv: tuple[str, ...]) -> tuple[str, str, int | None]:
        if argv[0] == "scontrol":
            return CONFIG, "", 0
        return (HEADER + line(), "", 0) if "-h" not in argv else (values[argv[-1]], "", 0)

    port, commands, _ = scheduler(answer)
    found = port.detail("7")
    assert isinstance(found, Known)
    detail = found.value
    assert detail.comment == "x\nJobId=9 JobState=FAILED"
    assert (detail.name, detail.work_dir) == ("a|b", "/home/u")
    assert detail.stdout == detail.stderr == "/home/u/7.log"
    assert (detail.excluded_nodes, detail.required_nodes) == (("n1",), ())
    assert detail.held_by_operator is False
    assert sum("-h" in argv for argv in commands.asked) == len(values)


def test_on_22_05_only_json_shows_an_operators_hold_over_a_requeue_hold() -> None:
    text = recording("22.05.8", "squeue_json_admin_hold.json")
    row = line(
        JobID="96", JobArrayID="96", State="PENDING", PriorityLong="0",
        Reason="job requeued in held state", NodeList="",
    )  # fmt: skip

    def answer(argv: tuple[str, ...]) -> tuple[str, str, int | None]:
        if argv[0] == "scontrol":
            return CONFIG, "", 0
        if "--json" in argv:
            return text, "", 0
        return (
            (HEADER + row, "", 0)
            if "-h" not in argv
            else ("|\n" if ":" in argv[-1] else "\n", "", 0)
        )

    port, _, _ = scheduler(answer)
    found = port.detail("96")
    assert isinstance(found, Known)
    assert found.value.held_by_operator is True


@pytest.mark.parametrize("release", ["24.11.5", "26.05.5"])
def test_newer_releases_are_asked_once_for_json(release: str) -> None:
    text = recording(release, "scontrol_show_job_json_requeueheld.json")
    config = recording(release, "scontrol_show_config.txt")
    port, commands, _ = scheduler(answering((text, "", 0), config=config))
    found = port.detail("235")
    assert isinstance(found, Known)
    assert found.value.requeueable is True
    assert sum(argv[0] == "squeue" for argv in commands.asked) == 1


def test_json_without_the_job_is_unknown_and_not_absent() -> None:
    config = recording("24.11.5", "scontrol_show_config.txt")
    empty = '{"jobs": [], "errors": [], "warnings": []}'
    port, _, _ = scheduler(answering((empty, "", 0), config=config))
    assert isinstance(port.detail("235"), Unknown)


def test_no_accounting_is_absent_and_silent_accounting_is_unknown() -> None:
    disabled = ("", "Slurm accounting storage is disabled\n", 1)
    refused = ("", "sacct: error: Problem talking to the database: Connection refused\n", 1)
    port, _, _ = scheduler(answering((HEADER, "", 0), sacct=disabled))
    assert isinstance(port.accounting("7"), Absent)
    port, _, _ = scheduler(answering((HEADER, "", 0), sacct=refused))
    assert isinstance(port.accounting("7"), Unknown)


def test_accounting_answers_while_slurmctld_is_down() -> None:
    def answer(argv: tuple[str, ...]) -> tuple[str, str, int | None]:
        if argv[0] == "sacct":
            return recording("22.05.8", "accounting_completed.txt"), "", 0
        return "", DOWN, 1

    port, _, _ = scheduler(answer)
    found = port.accounting("4")
    assert isinstance(found, Known)
    assert len(found.value) == 1


@pytest.mark.parametrize("release", ["22.05.8", "24.11.5", "26.05.5"])
def test_partitions_are_read_from_each_releases_nodes(release: str) -> None:
    port, _, _ = scheduler(
        answering((HEADER, "", 0), sinfo=(recording(release, "nodes.txt"), "", 0))
    )
    found = port.partitions()
    assert isinstance(found, Known)
    train = next(view for view in found.value if view.name == "train")
    assert train.nodes == tuple(f"gpu-{number:03d}" for number in range(1, 6))
    assert set(train.nodes) - set(train.usable) == {"gpu-002"}


def test_a_result_carries_the_literal_command_and_its_answer() -> None:
    said = "Job is pending execution for job 7\n"
    port, commands, _ = scheduler(lambda _argv: ("", said, 1))
    result = port.perform(Action(ActionKind.REQUEUE, "7", ""), 5.0)
    assert result.answered is Answered.REFUSED
    assert result.argv == commands.asked[-1] == ("scontrol", "requeue", "7")
    assert (result.exit_code, result.text) == (1, said.strip())
