"""The name under which a process takes its lease: its directory's on this machine, nobody else's."""

from __future__ import annotations

from pathlib import Path

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.wiring.parts import holder_name, this_machine


def test_a_name_outlives_a_restart_on_the_same_machine(tmp_path: Path) -> None:
    name = holder_name(tmp_path / "holder", SystemClock(), "a1")
    assert holder_name(tmp_path / "holder", SystemClock(), "a1") == name
    assert (tmp_path / "holder").read_text().strip() == name


def test_a_state_directory_that_was_cloned_to_another_machine_gets_a_name_of_its_own(
    tmp_path: Path,
) -> None:
    name = holder_name(tmp_path / "holder", SystemClock(), "a1")
    clone = tmp_path / "clone"
    clone.write_text((tmp_path / "holder").read_text())
    other = holder_name(clone, SystemClock(), "b2")
    assert other != name
    assert holder_name(clone, SystemClock(), "b2") == other


def test_a_name_that_names_no_machine_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "holder").write_text("login1-x7Ghk2Qa\n")
    assert holder_name(tmp_path / "holder", SystemClock(), "a1").endswith("-a1")


def test_a_machine_is_told_by_its_number_and_its_name(tmp_path: Path) -> None:
    number, other = tmp_path / "id", tmp_path / "other"
    number.write_text("0d1b5f0a\n")
    other.write_text("77aa01bc\n")
    mine = this_machine(number)
    assert mine == this_machine(number)
    assert len({mine, this_machine(other), this_machine(tmp_path / "none")}) == 3
    assert "0d1b5f0a" not in mine
    # A virtual machine that was cloned with its number.
    assert this_machine(number, "a-clone") != mine
