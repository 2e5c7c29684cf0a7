"""The watchdog with everything else dead: a full disk, a disk that only reads, a journal that was
damaged, a store that is gone, a machine that was started anew."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from middlewatch.wiring import presence
from middlewatch.wiring.presence import UpState, up_state
from middlewatch.wiring.watchdog_supervision import Guard, WatchdogSupervisor
from tests.integration.watchdog.guarding import Guarding, eventually


@pytest.fixture
def guarding(tmp_path: Path) -> Iterator[Guarding]:
    made = Guarding(tmp_path)
    yield made
    made.end()


@pytest.fixture
def small_disk(guarding: Guarding) -> Iterator[Guarding]:
    """The state directory on a file system of its own, of 128 KiB."""
    guarding.state_dir.mkdir()
    where = str(guarding.state_dir)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "tmpfs", where], check=True)
    yield guarding
    guarding.end()
    subprocess.run(["umount", "--lazy", where], check=True)


def guard(guarding: Guarding) -> Guard:
    return WatchdogSupervisor(guarding.spec).ensure(datetime.now(UTC)).guard


def filled(folder: Path) -> None:
    handle = os.open(folder / "filler", os.O_WRONLY | os.O_CREAT)
    try:
        with pytest.raises(OSError, match="No space left"):
            write_on(handle)
    finally:
        os.close(handle)


def write_on(handle: int) -> None:
    for _ in range(1000):
        os.write(handle, b"x" * 4096)


@pytest.mark.root
def test_on_a_full_disk_it_starts_and_lets_go(small_disk: Guarding) -> None:
    small_disk.owe(within_s=0)
    filled(small_disk.state_dir)
    assert guard(small_disk) is Guard.STARTED
    eventually(lambda: small_disk.changes() == ["release 7"])


@pytest.mark.root
def test_on_a_disk_that_can_only_be_read_it_starts_and_lets_go(small_disk: Guarding) -> None:
    small_disk.owe(within_s=0)
    where = str(small_disk.state_dir)
    subprocess.run(["mount", "-o", "remount,ro", where], check=True)
    process = subprocess.Popen(in_front(small_disk), stderr=subprocess.PIPE, text=True)
    try:
        eventually(lambda: small_disk.changes() == ["release 7"])
        # The lock holds there too: one directory, one watchdog.
        second = subprocess.run(
            in_front(small_disk), capture_output=True, text=True, timeout=60, check=False
        )
        assert second.returncode == 5, second.stderr
    finally:
        process.kill()
        _, said = process.communicate()
    assert "no sign of life can be written" in said
    assert said.count("no sign of life") == 1


def in_front(guarding: Guarding) -> list[str]:
    python, *words = WatchdogSupervisor(guarding.spec)._python
    module = ["-m", "middlewatch.wiring.watchdog_process"]
    return [python, *words, *module, *guarding.spec.argv()]


def test_a_disk_that_fills_while_it_guards_does_not_end_it(guarding: Guarding) -> None:
    guarding.owe(within_s=3)
    assert guard(guarding) is Guard.STARTED
    # Whatever it writes fails from now on, as root too: each of its files is a directory.
    for name in (presence.WATCHDOG_ALIVE, presence.WATCHDOG_LOG):
        path = guarding.state_dir / name
        path.unlink(missing_ok=True)
        path.mkdir()
    eventually(lambda: guarding.changes() == ["release 7"])
    for name in (presence.WATCHDOG_ALIVE, presence.WATCHDOG_LOG):
        (guarding.state_dir / name).rmdir()
    # It lives, and says so where it can again; by that it is found and ended.
    eventually((guarding.state_dir / presence.WATCHDOG_ALIVE).is_file)


def test_what_of_a_damaged_journal_can_be_read_is_guarded_and_the_rest_is_said(
    guarding: Guarding,
) -> None:
    guarding.owe(within_s=0)
    path = guarding.state_dir / "journal.jsonl"
    whole = path.read_bytes()
    path.write_bytes(b"\x00\xff garbage\n" + whole + b'{"v": 1, "kind": "HO\n' + whole[:20])
    assert guard(guarding) is Guard.STARTED
    eventually(lambda: guarding.changes() == ["release 7"])
    assert "2 lines of the journal cannot be read" in guarding.log()


def test_it_needs_no_store_and_no_gateway(guarding: Guarding) -> None:
    guarding.owe(within_s=0)
    for name in ("middlewatch.db", "api.sock", "url", "token"):
        (guarding.state_dir / name).write_bytes(b"\x00 this is no database \xff")
    assert guard(guarding) is Guard.STARTED
    eventually(lambda: guarding.changes() == ["release 7"])


def test_after_a_reboot_the_files_of_before_stand_in_nobodys_way(guarding: Guarding) -> None:
    guarding.owe(within_s=0)
    before = replace(
        presence.of_this_process(datetime.now(UTC), f"told={guarding.spec.digest()}"),
        boot="00000000-0000-0000-0000-000000000000",
    )
    for name in (presence.WATCHDOG_ALIVE, presence.UP_ALIVE):
        presence.write(guarding.state_dir / name, before)
    # A number that somebody else has now: ours.
    (guarding.state_dir / presence.WATCHDOG_PID).write_text(f"{os.getpid()}\n")
    (guarding.state_dir / presence.WATCHDOG_LOCK).touch()
    assert up_state(guarding.state_dir, datetime.now(UTC), 30) is UpState.DIED
    assert guard(guarding) is Guard.STARTED
    eventually(lambda: guarding.changes() == ["release 7"])
