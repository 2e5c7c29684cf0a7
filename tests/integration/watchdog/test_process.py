"""The watchdog as a process: it outlives whoever started it, and leaves when nothing stands."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from middlewatch.model.gates import Mode
from middlewatch.reconciliation.deadlines import WatchdogConfig
from middlewatch.wiring import presence
from middlewatch.wiring.presence import UpMark, UpState, up_state
from middlewatch.wiring.watchdog_process import WatchdogSpec, read_arguments
from middlewatch.wiring.watchdog_supervision import Guard, WatchdogSupervisor, guard_of
from tests.integration.watchdog.guarding import ROOT, Guarding, eventually, runs


def now() -> datetime:
    return datetime.now(UTC)


@pytest.fixture
def guarding(tmp_path: Path) -> Iterator[Guarding]:
    made = Guarding(tmp_path)
    yield made
    made.end()


def started(guarding: Guarding) -> int:
    found = WatchdogSupervisor(guarding.spec).ensure(now())
    assert (found.guard, found.problem) == (Guard.STARTED, "")
    assert found.pid is not None
    return found.pid


def test_it_outlives_the_kill_of_ups_whole_group_and_lets_the_job_go(guarding: Guarding) -> None:
    guarding.owe(within_s=3)
    up = guarding.up("stay")
    assert up.stdout is not None
    pid = int(up.stdout.readline().split()[0])
    os.killpg(up.pid, signal.SIGKILL)
    up.wait()
    assert guarding.changes() == []
    eventually(lambda: guarding.changes() == ["release 7"])
    assert runs(pid)
    eventually(lambda: "died without stopping in order" in guarding.log())
    assert os.getsid(pid) != up.pid
    assert os.getpgid(pid) != up.pid


def test_after_a_clean_stop_it_leaves_only_when_nothing_stands(guarding: Guarding) -> None:
    guarding.owe(within_s=3)
    up = guarding.up("stop")
    said, _ = up.communicate()
    pid = int(said.split()[0])
    eventually(lambda: guarding.changes() == ["release 7"])
    assert runs(pid)
    eventually(lambda: not runs(pid))
    assert "nothing of ours stands: leaving" in guarding.log()
    assert guarding.seen() is None


def test_told_to_leave_it_first_lets_go_what_nobody_else_can(guarding: Guarding) -> None:
    guarding.owe(within_s=280)
    pid = started(guarding)
    eventually(lambda: "standing=1" in getattr(guarding.seen(), "note", ""))
    assert guarding.changes() == []
    os.kill(pid, signal.SIGTERM)
    eventually(lambda: not runs(pid))
    assert guarding.changes() == ["release 7"]


def test_told_to_leave_while_up_is_there_it_does_not_cut_a_hold_short(guarding: Guarding) -> None:
    guarding.owe(within_s=4)
    up = guarding.up("stay")
    assert up.stdout is not None
    pid = int(up.stdout.readline().split()[0])
    os.kill(pid, signal.SIGTERM)
    eventually(lambda: "leaving" in getattr(guarding.seen(), "note", ""))
    assert guarding.changes() == []
    eventually(lambda: not runs(pid))
    assert guarding.changes() == ["release 7"]


def test_with_nothing_to_do_it_leaves_when_told(guarding: Guarding) -> None:
    pid = started(guarding)
    assert (guarding.state_dir / presence.WATCHDOG_PID).read_text() == f"{pid}\n"
    os.kill(pid, signal.SIGTERM)
    eventually(lambda: not runs(pid))


def test_while_slurm_is_down_it_stays_and_acts_when_it_is_back(guarding: Guarding) -> None:
    (guarding.folder / "down").touch()
    guarding.owe(within_s=0)
    pid = started(guarding)
    os.kill(pid, signal.SIGTERM)
    eventually(lambda: "cannot be seen" in guarding.log())
    assert runs(pid)
    (guarding.folder / "down").unlink()
    eventually(lambda: not runs(pid))
    assert guarding.changes() == ["release 7"]


def test_an_operators_hold_is_left_alone(guarding: Guarding) -> None:
    guarding.put(operator=True)
    guarding.owe(within_s=0)
    started(guarding)
    eventually(lambda: "an operator holds it" in guarding.log())
    assert guarding.changes() == []


def test_monitor_mode_changes_nothing(guarding: Guarding) -> None:
    guarding.owe(within_s=0)
    spec = replace(guarding.spec, mode=Mode.MONITOR)
    assert WatchdogSupervisor(spec).ensure(now()).guard is Guard.STARTED
    eventually(lambda: "would release job 7" in guarding.log())
    assert guarding.changes() == []


def test_one_state_directory_has_one_watchdog(guarding: Guarding) -> None:
    pid = started(guarding)
    ran = run_in_front(*guarding.spec.argv())
    assert ran.returncode == 5
    assert f"process {pid} already guards" in ran.stderr


def run_in_front(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "middlewatch.wiring.watchdog_process", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_a_deadline_that_protects_nobody_is_refused_at_start(guarding: Guarding) -> None:
    spec = replace(guarding.spec, config=WatchdogConfig(max_hold_s=10))
    found = WatchdogSupervisor(spec).ensure(now())
    assert found.guard is Guard.OFF
    assert "max_hold_s (10)" in found.problem
    assert run_in_front(*spec.argv()).returncode == 78


def test_a_state_directory_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    spec = WatchdogSpec(tmp_path / "file")
    ran = run_in_front(*spec.argv())
    assert ran.returncode == 1
    assert "cannot be used" in ran.stderr


def test_a_watchdog_on_guard_is_kept(guarding: Guarding) -> None:
    pid = started(guarding)
    again = WatchdogSupervisor(guarding.spec).ensure(now())
    assert (again.guard, again.pid) == (Guard.ON, pid)
    assert guard_of(guarding.state_dir, now(), 60).guard is Guard.ON


def test_a_dead_watchdog_is_replaced(guarding: Guarding) -> None:
    supervisor = WatchdogSupervisor(guarding.spec)
    first = supervisor.ensure(now())
    assert first.pid is not None
    os.kill(first.pid, signal.SIGKILL)
    eventually(lambda: not runs(first.pid or 0))
    assert guard_of(guarding.state_dir, now(), 60).guard is Guard.OFF
    second = supervisor.ensure(now())
    assert second.guard is Guard.STARTED
    assert second.pid != first.pid


def test_a_silent_watchdog_is_killed_and_replaced(guarding: Guarding) -> None:
    pid = started(guarding)
    os.kill(pid, signal.SIGSTOP)
    later = now() + timedelta(seconds=guarding.spec.config.heartbeat_stale_s + 5)
    found = WatchdogSupervisor(guarding.spec).ensure(later)
    assert found.guard is Guard.REPLACED
    assert not runs(pid)


def test_a_watchdog_that_was_told_other_things_is_replaced(guarding: Guarding) -> None:
    pid = started(guarding)
    other = replace(guarding.spec, mode=Mode.MONITOR)
    found = WatchdogSupervisor(other).ensure(now())
    assert found.guard is Guard.REPLACED
    assert found.pid != pid


def test_a_sign_of_life_of_a_number_that_came_back_is_not_believed(guarding: Guarding) -> None:
    guarding.state_dir.mkdir()
    mine = presence.of_this_process(now())
    stale = replace(mine, start_ticks=mine.start_ticks - 1)
    presence.write(guarding.state_dir / presence.WATCHDOG_ALIVE, stale)
    started(guarding)


def test_a_start_that_failed_is_not_tried_again_at_once(guarding: Guarding) -> None:
    supervisor = WatchdogSupervisor(guarding.spec, python=(str(guarding.folder / "no-python"),))
    moment = now()
    first = supervisor.ensure(moment)
    assert first.guard is Guard.OFF
    assert "cannot be started" in first.problem
    assert supervisor.ensure(moment + timedelta(seconds=10)) == first


def test_what_it_is_told_survives_the_command_line(tmp_path: Path) -> None:
    spec = WatchdogSpec(
        tmp_path,
        environment="prod",
        mode=Mode.MONITOR,
        config=WatchdogConfig(max_hold_s=123.5, per_tick=9),
        look_deadline_s=7,
        up_grace_s=11,
        bin_dir="/opt/slurm/bin",
        slurm_conf="/etc/slurm/other.conf",
        prefix=("nsenter", "--target=5"),
    )
    assert read_arguments(spec.argv()) == (spec, False)
    assert spec.digest() != replace(spec, environment="test").digest()


def test_importing_it_pulls_in_no_third_party() -> None:
    program = (
        "import json, sys\n"
        "import middlewatch.wiring.watchdog_process\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules})))\n"
    )
    # -S: no site-packages at all, so that an import of anybody's package would fail.
    ran = subprocess.run(
        [sys.executable, "-S", "-P", "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": str(ROOT / "src")},
    )
    names = set(json.loads(ran.stdout))
    assert names - set(sys.stdlib_module_names) <= {"middlewatch", "__main__"}


def test_its_log_has_one_object_per_line(guarding: Guarding) -> None:
    pid = started(guarding)
    os.kill(pid, signal.SIGTERM)
    eventually(lambda: not runs(pid))
    events = [json.loads(line) for line in guarding.log().splitlines()]
    assert {event["role"] for event in events} == {"watchdog"}
    assert re.match(r"on guard, mode action", events[0]["event"])
    mode = (guarding.state_dir / presence.WATCHDOG_LOG).stat().st_mode & 0o777
    assert mode == 0o600


def test_up_is_judged_by_what_it_left_behind(tmp_path: Path) -> None:
    assert up_state(tmp_path, now(), 30) is UpState.NEVER
    mark = UpMark(tmp_path)
    mark.beat(now())
    assert up_state(tmp_path, now(), 30) is UpState.ALIVE
    assert up_state(tmp_path, now() + timedelta(seconds=31), 30) is UpState.SILENT
    mine = presence.read(tmp_path / presence.UP_ALIVE)
    assert mine is not None
    gone = replace(mine, start_ticks=mine.start_ticks - 1)
    presence.write(tmp_path / presence.UP_ALIVE, gone)
    assert up_state(tmp_path, now(), 30) is UpState.DIED
    presence.write(tmp_path / presence.CLEAN_STOP, gone)
    assert up_state(tmp_path, now(), 30) is UpState.STOPPED
    presence.write(tmp_path / presence.CLEAN_STOP, replace(gone, pid=1))
    assert up_state(tmp_path, now(), 30) is UpState.DIED


def test_a_new_start_takes_the_clean_stop_back(tmp_path: Path) -> None:
    mark = UpMark(tmp_path)
    mark.stopped(now())
    assert (tmp_path / presence.CLEAN_STOP).exists()
    mark.beat(now())
    assert not (tmp_path / presence.CLEAN_STOP).exists()


@pytest.mark.parametrize("text", ["", "7", "[]", "{}", '{"pid": "x"}', "\x00\x00"])
def test_a_sign_of_life_that_says_nothing_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "alive").write_text(text)
    assert presence.read(tmp_path / "alive") is None


def test_only_the_very_process_is_killed(tmp_path: Path) -> None:
    sleeper = subprocess.Popen(["sleep", "60"])
    ticks = presence.start_ticks_of(sleeper.pid)
    assert ticks is not None
    seen = presence.Presence(sleeper.pid, ticks, presence.boot_id(), now().isoformat())
    assert not presence.kill(replace(seen, start_ticks=ticks - 1))
    assert sleeper.poll() is None
    assert presence.kill(seen)
    assert sleeper.wait(30) == -signal.SIGKILL
    assert not presence.kill(seen)
