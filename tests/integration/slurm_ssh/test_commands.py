"""Slurm's commands behind a real sshd: pinned, over one connection, ended at our deadline."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.adapters.slurm import actions
from middlewatch.adapters.slurm.command import Observed
from middlewatch.adapters.slurm.ssh import SshCommands
from middlewatch.model.action import Answered
from tests.integration.slurm_ssh.conftest import Host
from tests.sshd import running

pytestmark = pytest.mark.root
REQUEUE = ("scontrol", "requeue", "7")


def eventually(holds: Callable[[], bool]) -> bool:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if holds():
            return True
        time.sleep(0.05)
    return False


def test_many_commands_at_once_use_one_connection(host: Host, commands: SshCommands) -> None:
    with ThreadPoolExecutor(12) as pool:
        argvs = [("scontrol", "requeue", str(number)) for number in range(24)]
        done = list(pool.map(lambda argv: commands.run(argv, 60.0), argvs))
    assert [one.problem for one in done if one.problem] == []
    assert [one.stdout for one in done] == [f"requeue {number}\n" for number in range(24)]
    assert host.logins == 1
    assert commands.user() == (0, "root")


def test_output_of_any_bytes_and_size_arrives_whole(host: Host, commands: SshCommands) -> None:
    host.behaves(
        "head -c 3000000 /dev/zero | tr '\\0' 'x'; printf '\\nx 0\\n'; echo oops >&2; exit 255"
    )
    done = commands.run(("squeue", "--local", "-a", "--json"), 60.0)
    assert (done.exit_code, len(done.stdout), done.stderr) == (255, 3_000_005, "oops\n")


def test_output_beyond_the_limit_is_no_answer(host: Host) -> None:
    host.behaves("head -c 300000 /dev/zero")
    commands = SshCommands(SystemClock(), host.server.target, stdout_limit=100_000)
    done = commands.run(REQUEUE, 60.0)
    commands.close()
    assert done.exit_code is None
    assert "more than 100000 bytes" in done.problem


def test_a_command_that_outlives_its_deadline_is_ended_there_as_well(
    host: Host, commands: SshCommands
) -> None:
    pid = host.bin / "pid"
    host.behaves(f"echo $$ > {pid}; exec sleep 600")
    assert commands.reach() == ""
    done = commands.run(REQUEUE, 4.0)
    assert done.exit_code is None
    assert actions.answer_of(done) is Answered.NO_ANSWER
    if pid.exists():  # on a slow machine it may not have begun
        number = pid.read_text().strip()
        assert eventually(lambda: not Path(f"/proc/{number}").exists())


def test_a_silent_host_is_given_up_at_the_deadline_and_what_was_sent_may_have_happened(
    host: Host, commands: SshCommands
) -> None:
    assert commands.reach() == ""
    host.server.signal_connections(signal.SIGSTOP)
    try:
        done = commands.run(REQUEUE, 1.0)
    finally:
        host.server.signal_connections(signal.SIGCONT)
    assert done.exit_code is None
    assert actions.answer_of(done) is Answered.NO_ANSWER
    assert commands.run(REQUEUE, 60.0).stdout == "requeue 7\n"


def test_a_lost_connection_fails_what_it_carried_and_is_made_again(
    host: Host, commands: SshCommands
) -> None:
    began = host.bin / "began"
    host.behaves(f"touch {began}; exec sleep 600")
    with ThreadPoolExecutor(1) as pool:
        running_ = pool.submit(commands.run, REQUEUE, 120.0)
        assert eventually(began.exists)
        host.server.signal_connections(signal.SIGKILL)
        lost = running_.result()
    assert lost.exit_code is None
    host.behaves('echo "$@"')
    assert eventually(lambda: commands.run(REQUEUE, 60.0).exit_code == 0)
    assert host.logins == 2


def test_a_server_that_is_down_is_said_and_found_again(host: Host, commands: SshCommands) -> None:
    host.server.stop()
    done = commands.run(REQUEUE, 20.0)
    assert done.exit_code is None
    assert "was not sent" in done.problem
    assert "refused" in done.problem.lower()
    assert commands.user() is None
    host.server.start()
    assert eventually(lambda: commands.run(REQUEUE, 60.0).exit_code == 0)


def test_a_host_with_another_key_is_not_spoken_to(host: Host, tmp_path: Path) -> None:
    stranger = (host.server.folder / "stranger.pub").read_text().split()[:2]
    pinned = tmp_path / "known"
    pinned.write_text(f"[127.0.0.1]:{host.server.port} {' '.join(stranger)}\n")
    for known in (pinned, tmp_path / "none"):
        target = replace(host.server.target, known_hosts=str(known))
        commands = SshCommands(SystemClock(), target)
        assert "slurm.ssh_known_hosts" in commands.reach()
        commands.close()
    assert host.logins == 0


def test_a_key_that_nobody_allowed_is_said(host: Host) -> None:
    target = replace(host.server.target, key=str(host.server.folder / "stranger"))
    commands = SshCommands(SystemClock(), target)
    assert "authorized_keys" in commands.reach()
    commands.close()


def test_another_program_in_the_place_of_the_gate_is_recognised(host: Host) -> None:
    host.server.force(["echo", "Welcome to ctl!"])
    commands = SshCommands(SystemClock(), host.server.target)
    assert "another program than our gate" in commands.reach()
    commands.close()


def test_a_gate_that_only_looks_refuses_changes_as_an_answer() -> None:
    with running("--looks-only") as server:
        commands = SshCommands(SystemClock(), server.target)
        done = commands.run(REQUEUE, 60.0)
        assert commands.looks_only
        commands.close()
    assert actions.answer_of(done) is Answered.REFUSED
    assert "only looks" in done.said


def test_hostile_words_are_refused_there_whatever_our_side_thought(
    host: Host, commands: SshCommands
) -> None:
    host.behaves(f"touch {host.bin}/began")
    for words in (("scontrol", "requeue", "7; id"), ("sh", "-c", "id"), ("scontrol", "shutdown")):
        done = commands.run(words, 60.0)
        assert "not one of the commands" in done.stderr
    assert not (host.bin / "began").exists()


def test_the_key_opens_nothing_but_the_gate(host: Host) -> None:
    target = host.server.target
    argv = ["ssh", "-F", "none", "-p", str(target.port), "-i", target.key, "-o", "BatchMode=yes"]
    argv += ["-o", f"UserKnownHostsFile={target.known_hosts}", "-l", "root", "127.0.0.1", "id"]
    answer = subprocess.run(argv, input="", capture_output=True, text=True, check=False)
    assert answer.stdout.startswith("middlewatch-gate 1\n")
    assert "uid=" not in answer.stdout


def test_a_controller_that_was_killed_leaves_no_connection(host: Host) -> None:
    script = (
        "import sys, time\n"
        "from middlewatch.adapters.clock.system import SystemClock\n"
        "from middlewatch.adapters.slurm.ssh import SshCommands, SshTarget\n"
        "c = SshCommands(SystemClock(), SshTarget.from_json(sys.argv[1]))\n"
        "print(repr(c.reach()), flush=True); time.sleep(600)\n"
    )
    argv = [sys.executable, "-c", script, host.server.target.to_json()]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "''\n"
        assert host.server.children()
        process.kill()
    assert eventually(lambda: not host.server.children())


def test_the_way_may_lead_over_another_host_which_is_pinned_as_well(
    host: Host, tmp_path: Path
) -> None:
    with running() as jump:
        key = (host.server.folder / "key.pub").read_text().strip()
        to = f"127.0.0.1:{host.server.port}"
        (jump.folder / "authorized_keys").write_text(
            f'restrict,port-forwarding,permitopen="{to}",command="false" {key}\n'
        )
        known = tmp_path / "known"
        known.write_text(host.server.known_hosts.read_text())
        target = replace(
            host.server.target, jump=(f"root@127.0.0.1:{jump.port}",), known_hosts=str(known)
        )
        commands = SshCommands(SystemClock(), target)
        assert "slurm.ssh_known_hosts" in commands.reach()  # the one on the way is not pinned
        commands.close()
        known.write_text(host.server.known_hosts.read_text() + jump.known_hosts.read_text())
        commands = SshCommands(SystemClock(), target)
        assert commands.run(REQUEUE, 60.0).stdout == "requeue 7\n"
        commands.close()
        assert "Accepted publickey" in (jump.folder / "log").read_text()


def test_an_agent_may_hold_the_key(host: Host) -> None:
    started = subprocess.run(["ssh-agent", "-s"], capture_output=True, text=True, check=True)
    found = dict(re.findall(r"(SSH_\w+)=([^;]+);", started.stdout))
    try:
        key = str(host.server.folder / "key")
        subprocess.run(["ssh-add", "-q", key], env={**os.environ, **found}, check=True)
        target = replace(host.server.target, key="", agent=True)
        commands = SshCommands(SystemClock(), target, environ={**os.environ, **found})
        assert commands.reach() == ""
        commands.close()
    finally:
        os.kill(int(found["SSH_AGENT_PID"]), signal.SIGTERM)


def test_an_observer_sees_the_words_of_slurm_not_of_ssh(host: Host) -> None:
    seen: list[Observed] = []
    commands = SshCommands(SystemClock(), host.server.target, observer=seen.append)
    commands.run(REQUEUE, 60.0, changing=True)
    commands.close()
    assert [(one.argv, one.exit_code, one.changing) for one in seen] == [(REQUEUE, 0, True)]
