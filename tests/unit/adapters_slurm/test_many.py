"""Questions about many jobs with one command: what they may prove, and when they are asked at all."""

from __future__ import annotations

import json
from typing import Any

import pytest

from middlewatch.adapters.slurm.scheduler import SlurmScheduler
from middlewatch.model.answer import Absent, Known, Unknown
from middlewatch.ports.scheduler import ManyAtOnce
from tests.unit.adapters_slurm.scripted import (
    CONFIG,
    ScriptedCommands,
    recording,
    scheduler,
)
from tests.unit.adapters_slurm.test_listing import HEADER, line

DOWN = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n"
GATE = "middlewatch-gate: refused: not one of the commands that this gate runs: ['squeue']\n"
NEWER = recording("24.11.5", "scontrol_show_config.txt")


def job(number: int, **fields: Any) -> dict[str, Any]:
    return {
        "job_id": number,
        "job_state": "RUNNING",
        "name": "train",
        "comment": f"of {number}",
        "submit_time": 1796000000 + number,
        "priority": 5,
        "requeue": True,
        "user_name": "alice",
        "current_working_directory": "/home/alice",
        "standard_output": "/home/alice/%j.out",
        "job_resources": {"nodes": "gpu-001", "allocated_nodes": [{"job_id": 9}]},
        **fields,
    }


def listing(*jobs: dict[str, Any]) -> str:
    return json.dumps({"meta": {}, "errors": [], "jobs": list(jobs)})


def asked(
    squeue: tuple[str, str, int | None],
    config: str = CONFIG,
    sacct: tuple[str, str, int] = ("", "", 0),
) -> tuple[SlurmScheduler, ScriptedCommands]:
    def answer(argv: tuple[str, ...]) -> tuple[str, str, int | None]:
        if argv[:3] == ("scontrol", "show", "config"):
            return config, "", 0
        if argv[0] == "sacct":
            return sacct
        return squeue if "--json" in argv else (HEADER + line() * 2000, "", 0)

    port, commands, _ = scheduler(answer)
    assert isinstance(port, ManyAtOnce)
    return port, commands


def jsons(commands: ScriptedCommands) -> list[tuple[str, ...]]:
    return [argv for argv in commands.asked if "--json" in argv]


def test_one_listing_tells_of_all_that_are_asked_about() -> None:
    port, commands = asked((listing(*(job(n) for n in range(1, 9))), "", 0))
    found = port.details(["2", "3", "5"])
    assert set(found) == {"2", "3", "5"}
    for job_id, answer in found.items():
        assert isinstance(answer, Known)
        assert answer.value.comment == f"of {job_id}"
        assert answer.value.stdout == f"/home/alice/{job_id}.out"
        assert answer.value.requeueable is True
    assert len(jsons(commands)) == 1


def test_a_newer_release_is_asked_about_just_these() -> None:
    port, commands = asked((listing(job(2), job(3)), "", 0), config=NEWER)
    assert set(port.details(["2", "3"])) == {"2", "3"}
    (argv,) = jsons(commands)
    assert argv[argv.index("-j") + 1] == "2,3"


def test_a_thousand_are_asked_about_in_a_few_commands() -> None:
    port, commands = asked((listing(), "", 0), config=NEWER)
    assert port.details([str(n) for n in range(1, 1001)]) == {}
    assert len(jsons(commands)) == 2


def test_a_job_that_is_not_shown_is_neither_absent_nor_unknown_but_not_asked_about() -> None:
    port, _ = asked((listing(job(2), job(3)), "", 0))
    assert set(port.details(["2", "3", "4"])) == {"2", "3"}


def test_two_records_of_one_name_are_no_answer() -> None:
    port, _ = asked((listing(job(2), job(3), job(3), job(4)), "", 0))
    assert set(port.details(["2", "3", "4"])) == {"2", "4"}


def test_a_record_of_another_shape_spoils_only_itself() -> None:
    port, _ = asked((listing(job(2), job(3, comment=7), job(4)), "", 0))
    found = port.details(["2", "3", "4"])
    assert isinstance(found["2"], Known)
    assert isinstance(found["3"], Unknown)
    assert isinstance(found["4"], Known)


@pytest.mark.parametrize(
    "squeue",
    [
        ("", DOWN, 1),
        ("", "", None),
        ("", "", 0),
        (listing(job(2))[:-20], "", 0),
        (
            json.dumps({"errors": [{"description": "Failed while looking for jobs"}], "jobs": []}),
            "",
            0,
        ),
    ],
)
def test_a_listing_that_is_none_tells_of_nobody(squeue: tuple[str, str, int | None]) -> None:
    port, _ = asked(squeue)
    found = port.details(["2", "3", "4"])
    assert set(found) == {"2", "3", "4"}
    assert all(isinstance(answer, Unknown) for answer in found.values())


def test_text_that_looks_like_a_record_is_text() -> None:
    forged = '"}, {"job_id": 3, "job_state": "RUNNING", "comment": "mine"'
    port, _ = asked((listing(job(2, comment=forged), job(3), job(4)), "", 0))
    found = port.details(["2", "3", "4"])
    assert isinstance(found["2"], Known)
    assert found["2"].value.comment == forged
    assert isinstance(found["3"], Known)
    assert found["3"].value.comment == "of 3"


def test_of_a_long_queue_a_few_jobs_are_not_worth_a_listing() -> None:
    port, commands = asked((listing(*(job(n) for n in range(1, 9))), "", 0))
    port.listing()
    assert port.details(["2", "3", "4"]) == {}
    assert jsons(commands) == []
    assert len(port.details([str(n) for n in range(1, 9)])) == 8


def test_an_older_gate_is_asked_about_each_alone() -> None:
    port, _ = asked(("", GATE, 1), sacct=("", GATE, 1))
    assert port.details(["2", "3", "4"]) == {}
    assert port.accountings(["2", "3"]) == {}


def test_what_is_no_job_number_is_left_out() -> None:
    port, commands = asked((listing(job(2), job(3), job(4)), "", 0))
    assert set(port.details(["2", "3; reboot", "3", "4"])) == {"2", "3", "4"}
    assert not any("reboot" in word for argv in commands.asked for word in argv)


def test_accounting_of_several_is_one_command_and_each_gets_its_own() -> None:
    text = recording("22.05.8", "accounting.txt")
    names = sorted(
        {row.split("\x1f")[0] for row in text.splitlines()[1:] if "." not in row.split("\x1f")[0]}
    )
    port, commands = asked((HEADER, "", 0), sacct=(text, "", 0))
    together = port.accountings([*names, "999"])
    assert sum(argv[0] == "sacct" for argv in commands.asked) == 1
    for name in names:
        alone = port.accounting(name)
        assert isinstance(alone, Known)
        answer = together[name]
        assert isinstance(answer, Known)
        assert answer.value == alone.value
        assert answer.value
    assert isinstance(together["999"], Known)
    assert together["999"].value == ()


def test_silent_accounting_is_unknown_for_all_and_none_is_absent_for_all() -> None:
    refused = ("", "sacct: error: Problem talking to the database: Connection refused\n", 1)
    port, _ = asked((HEADER, "", 0), sacct=refused)
    assert all(isinstance(a, Unknown) for a in port.accountings(["7", "8"]).values())
    port, _ = asked((HEADER, "", 0), sacct=("", "Slurm accounting storage is disabled\n", 1))
    found = port.accountings(["7", "8"])
    assert [type(a) for a in found.values()] == [Absent, Absent]
