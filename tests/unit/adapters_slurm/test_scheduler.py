"""The port on scripted commands: what is Known, Absent, Unknown, and what is never asked."""

from __future__ import annotations

from typing import Any

import pytest

from middlewatch.adapters.slurm.listing import listing_argv
from middlewatch.adapters.slurm.reach import admin_level
from middlewatch.adapters.slurm.scheduler import SlurmScheduler
from middlewatch.model.action import Action, ActionKind, Answered
from middlewatch.model.answer import Absent, Known, Unknown
from middlewatch.model.identity import ClusterId
from middlewatch.model.scheduler import ActsFor, JobScope
from tests.unit.adapters_slurm.scripted import (
    CONFIG,
    Answers,
    HandClock,
    ScriptedCommands,
    recording,
    scheduler,
)
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


def answering_to_alice(
    squeue: str, *, level: str = "None", private: str = "jobs", sacctmgr: str | None = None
) -> Answers:
    """slurmctld as an ordinary user, or one of that level, meets it. Level "" is not told."""
    config = (
        CONFIG + f"PrivateData             = {private}\nSlurmUser               = slurm(64030)\n"
    )
    told = f"UserName=alice(2001) DefAccount=r DefWckey= AdminLevel={level}\n"

    def answers(argv: tuple[str, ...]) -> tuple[str, str, int | None]:
        if argv[:3] == ("scontrol", "show", "assoc_mgr"):
            return (told, "", 0) if level else ("", "slurm_load_assoc_mgr_info error", 1)
        if argv[0] == "sacctmgr":
            return ("", "Connection refused", 1) if sacctmgr is None else (sacctmgr, "", 0)
        return (config, "", 0) if argv[0] == "scontrol" else (squeue, "", 0)

    return answers


def as_alice(answers: Answers, scope: JobScope) -> tuple[SlurmScheduler, ScriptedCommands]:
    commands = ScriptedCommands(answers, HandClock())
    commands.who = (2001, "alice")
    port = SlurmScheduler(ClusterId("slurm", "t"), commands, HandClock(), scope=scope)  # type: ignore[arg-type]
    return port, commands


MIXED = HEADER + line(JobID="7", JobArrayID="7", UserID="2001", UserName="alice")
MIXED += line(JobID="8", JobArrayID="8", UserID="2002", UserName="bob")


def test_everybodys_listing_that_private_data_filters_is_not_complete() -> None:
    port, _ = as_alice(answering_to_alice(MIXED), JobScope.ALL)
    for answer in (port.listing(), port.look(["7"])):
        assert isinstance(answer, Unknown)
        assert "PrivateData" in answer.why
        assert "slurm.scope" in answer.why


@pytest.mark.parametrize("private", ["none", "jobs"])
def test_an_ordinary_users_listing_is_complete_for_the_users_own_jobs(private: str) -> None:
    port, commands = as_alice(answering_to_alice(MIXED, private=private), JobScope.AUTO)
    answer = port.listing()
    assert isinstance(answer, Known)
    assert [view.job_id for view in answer.value.jobs] == ["7"]
    assert answer.value.only_uid == 2001
    assert listing_argv(uid=2001) in commands.asked
    whose = port.acts_for()
    assert isinstance(whose, Known)
    assert whose.value == ActsFor(2001, "alice", everybody=False)


def test_to_look_at_what_is_shown_no_right_is_needed() -> None:
    def jobs(private: str, scope: JobScope) -> list[str]:
        commands = ScriptedCommands(answering_to_alice(MIXED, private=private), HandClock())
        commands.who = (2001, "alice")
        port = SlurmScheduler(
            ClusterId("slurm", "t"),
            commands,  # type: ignore[arg-type]
            HandClock(),
            scope=scope,
            lists_all_shown=True,
        )
        whose = port.acts_for()
        assert isinstance(whose, Known)
        assert not whose.value.everybody
        answer = port.listing()
        assert isinstance(answer, Known)
        assert (answer.value.only_uid is None) is (len(answer.value.jobs) == 2)
        return [view.job_id for view in answer.value.jobs]

    assert jobs("none", JobScope.AUTO) == ["7", "8"]
    assert jobs("jobs", JobScope.AUTO) == ["7"]
    assert jobs("none", JobScope.OWN) == ["7"]


@pytest.mark.parametrize("level", ["Operator", "Administrator"])
def test_an_operators_listing_is_everybodys_also_with_private_data(level: str) -> None:
    port, _ = as_alice(answering_to_alice(MIXED, level=level), JobScope.AUTO)
    answer = port.listing()
    assert isinstance(answer, Known)
    assert [view.job_id for view in answer.value.jobs] == ["7", "8"]
    assert answer.value.only_uid is None


def test_an_operator_may_be_told_to_look_after_own_jobs_alone() -> None:
    port, commands = as_alice(answering_to_alice(MIXED, level="Operator"), JobScope.OWN)
    answer = port.listing()
    assert isinstance(answer, Known)
    assert [view.job_id for view in answer.value.jobs] == ["7"]
    assert not [argv for argv in commands.asked if "assoc_mgr" in argv]


def test_a_level_that_slurmctld_does_not_tell_is_asked_of_accounting() -> None:
    port, _ = as_alice(answering_to_alice(MIXED, level="", sacctmgr="Operator\n"), JobScope.AUTO)
    whose = port.acts_for()
    assert isinstance(whose, Known)
    assert whose.value.everybody


def test_a_level_that_nobody_tells_is_not_known_and_is_asked_for_again() -> None:
    told = {"level": ""}

    def answers(argv: tuple[str, ...]) -> tuple[str, str, int | None]:
        return answering_to_alice(MIXED, level=told["level"])(argv)

    port, _ = as_alice(answers, JobScope.AUTO)
    assert isinstance(port.acts_for(), Unknown)
    assert isinstance(port.listing(), Unknown)
    told["level"] = "Operator"
    assert isinstance(port.listing(), Known)


class Levelled:
    """Slurm under PrivateData=jobs, as alice meets it whose level comes and goes."""

    def __init__(self, scope: JobScope = JobScope.AUTO) -> None:
        self.level, self.mine, self.others = "Operator", MINE, OTHERS
        self.clock = HandClock()
        self.commands = ScriptedCommands(self._answer, self.clock)
        self.commands.who = (2001, "alice")
        self.port = SlurmScheduler(
            ClusterId("slurm", "t"),
            self.commands,  # type: ignore[arg-type]
            self.clock,
            scope=scope,
        )

    def _answer(self, argv: tuple[str, ...]) -> tuple[str, str, int | None]:
        shown = HEADER + self.mine + (self.others if self.level != "None" else "")
        return answering_to_alice(shown, level=self.level)(argv)

    def asked_for_the_level(self) -> int:
        return sum("assoc_mgr" in argv for argv in self.commands.asked)

    def jobs(self) -> list[str]:
        answer = self.port.listing()
        assert isinstance(answer, Known)
        return [view.job_id for view in answer.value.jobs]


MINE = line(JobID="7", JobArrayID="7", UserID="2001", UserName="alice")
OTHERS = line(JobID="8", JobArrayID="8", UserID="2002", UserName="bob")


def test_what_a_lost_level_hides_is_not_gone() -> None:
    slurm = Levelled()
    assert slurm.jobs() == ["7", "8"]
    slurm.level = "None"
    answer = slurm.port.listing()
    assert isinstance(answer, Unknown)
    assert "PrivateData" in answer.why
    listed = slurm.port.listing()
    assert isinstance(listed, Known)
    assert listed.value.only_uid == 2001


def test_a_job_that_a_lost_level_hides_from_a_look_is_not_gone() -> None:
    slurm = Levelled()
    assert slurm.jobs() == ["7", "8"]
    slurm.level = "None"
    for _ in range(3):
        assert isinstance(slurm.port.look(["8"]), Unknown)
    look = slurm.port.look(["7"])
    assert isinstance(look, Known)
    assert look.value.only_uid == 2001


def test_a_user_who_never_saw_others_knows_what_is_gone() -> None:
    slurm = Levelled()
    slurm.level = "None"
    assert slurm.jobs() == ["7"]
    slurm.mine = ""
    look = slurm.port.look(["7"])
    assert isinstance(look, Known)
    assert look.value.jobs == ()


def test_where_the_whole_cluster_is_meant_a_lost_level_ends_every_look() -> None:
    slurm = Levelled(JobScope.ALL)
    assert slurm.jobs() == ["7", "8"]
    slurm.level = "None"
    assert isinstance(slurm.port.listing(), Unknown)
    assert isinstance(slurm.port.listing(), Unknown)
    assert isinstance(slurm.port.look(["7"]), Unknown)


def test_what_is_gone_is_gone_where_the_level_is_still_there() -> None:
    slurm = Levelled()
    assert slurm.jobs() == ["7", "8"]
    slurm.others = ""
    assert slurm.jobs() == ["7"]
    look = slurm.port.look(["8"])
    assert isinstance(look, Known)
    assert look.value.jobs == ()
    assert look.value.only_uid is None


def test_jobs_that_are_missing_while_nobody_tells_the_level_are_not_gone() -> None:
    slurm = Levelled()
    assert slurm.jobs() == ["7", "8"]
    slurm.others, slurm.level = "", ""
    assert isinstance(slurm.port.listing(), Unknown)


def test_the_level_is_read_again_each_minute_and_kept_while_nobody_tells_it() -> None:
    slurm = Levelled()
    for _ in range(10):
        slurm.jobs()
    assert slurm.asked_for_the_level() == 1
    slurm.clock.sleep(61)
    slurm.level = ""
    assert slurm.jobs() == ["7", "8"]
    slurm.jobs()
    assert slurm.asked_for_the_level() == 2
    slurm.clock.sleep(61)
    slurm.level = "None"
    assert slurm.jobs() == ["7"]
    slurm.clock.sleep(61)
    slurm.level = "Operator"
    assert slurm.jobs() == ["7", "8"]


def test_a_look_at_somebody_elses_job_shows_it_where_slurm_does() -> None:
    port, _ = as_alice(answering_to_alice(MIXED, private="none"), JobScope.AUTO)
    answer = port.look(["8"])
    assert isinstance(answer, Known)
    assert [view.user for view in answer.value.jobs] == ["bob"]


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("UserName=alice(2001) DefAccount=r DefWckey= AdminLevel=Operator", "Operator"),
        ("UserName=alice(2002) DefAccount=r DefWckey= AdminLevel=Operator", None),
        ("UserName=alice2(2001) DefAccount=r DefWckey= AdminLevel=Operator", None),
        ("No users currently cached in Slurm.", "None"),
        ("", None),
    ],
)
def test_a_level_is_believed_of_the_very_user(text: str, level: str | None) -> None:
    assert admin_level(f"Current Association Manager state\n\n{text}\n", "alice", 2001) == level


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
    # Of an array's number squeue lists the tasks that wait, and those that run.
    text = HEADER + line() + line(JobID="8", JobArrayID="7_0") + line(JobID="9", JobArrayID="9")
    port, _, _ = scheduler(answering((text, "", 0)))
    answer = port.look(["7"])
    assert isinstance(answer, Known)
    assert [view.job_id for view in answer.value.jobs] == ["7", "7_0"]


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
