from __future__ import annotations

import pytest

from middlewatch.adapters.slurm.hostlist import HostLists
from middlewatch.ports.errors import Unreachable, Unreadable
from tests.unit.adapters_slurm.scripted import HandClock, ScriptedCommands


def lists(out: str = "", rc: int | None = 0, size: int = 10) -> tuple[HostLists, ScriptedCommands]:
    commands = ScriptedCommands(lambda _argv: (out, "", rc), HandClock())
    return HostLists(commands, 5.0, size), commands  # type: ignore[arg-type]


def test_single_names_need_no_command() -> None:
    hosts, commands = lists()
    assert hosts.expand("gpu-001,gpu-002 gpu-001") == ("gpu-001", "gpu-002")
    assert hosts.expand("") == hosts.expand("(null)") == ()
    assert commands.asked == []


def test_brackets_are_expanded_by_slurm_once() -> None:
    hosts, commands = lists("gpu-001\ngpu-003\n")
    assert hosts.expand("gpu-[001,003]") == ("gpu-001", "gpu-003")
    assert hosts.expand("gpu-[001,003]") == ("gpu-001", "gpu-003")
    assert commands.asked == [("scontrol", "show", "hostnames", "gpu-[001,003]")]


def test_only_so_many_answers_are_remembered() -> None:
    hosts, commands = lists("a\n", size=1)
    for expression in ("a[1-2]", "b[1-2]", "a[1-2]"):
        hosts.expand(expression)
    assert len(commands.asked) == 3


@pytest.mark.parametrize("text", ["gpu-[1-", "gpu-]1[", "gpu-[001]; rm", "-x[1-2]", "g\n[x]"])
def test_text_that_is_no_expression_is_not_even_asked_about(text: str) -> None:
    hosts, commands = lists("gpu-]\n")
    with pytest.raises(Unreadable):
        hosts.expand(text)
    assert commands.asked == []


def test_a_dead_command_is_unreachable_and_not_an_empty_list() -> None:
    hosts, _ = lists(rc=None)
    with pytest.raises(Unreachable):
        hosts.expand("a[1-2]")


def test_nonsense_in_slurms_answer_is_unreadable() -> None:
    hosts, _ = lists("gpu-]\n")
    with pytest.raises(Unreadable, match="no node's name"):
        hosts.expand("gpu-[1-2]")
