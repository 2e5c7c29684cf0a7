"""The gate of a Slurm host: what it lets through, and how it speaks."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from middlewatch.adapters.slurm import accounting, actions, cluster, detail, gate
from middlewatch.adapters.slurm.listing import listing_argv
from middlewatch.adapters.slurm.ssh import SshTarget, ssh_config
from middlewatch.model.action import Action, ActionKind, Answered
from middlewatch.ports.errors import Refused
from middlewatch.wiring import doctor_federation
from tests.unit.adapters_slurm.scripted import finished

LOOKS: list[tuple[str, ...]] = [
    cluster.CONFIG_ARGV,
    cluster.NODES_ARGV,
    listing_argv(),
    listing_argv(uid=2001),
    listing_argv(["7"]),
    listing_argv(["7", "8_2", "9+1"]),
    accounting.accounting_argv("7_2", (22, 5, 8)),
    accounting.accounting_argv("7", (26, 5, 5)),
    accounting.accounting_argv("7,8_2,9", (22, 5, 8)),
    *(detail.field_argv("7_3", flag, field) for _, flag, field in detail.FIELDS),
    ("squeue", "--local", "-a", "--states=all", "-j", "7", "--json"),
    ("squeue", "--local", "-a", "--states=all", "-j", "7,8_2,9+1", "--json"),
    ("squeue", "--local", "-a", "--json"),
    ("squeue", "--local", "-a", "-j", "12", "--json"),
    ("squeue", "-h", "-j", "7", "-O", "BatchFlag:1"),
    doctor_federation.ARGV,
    ("scontrol", "show", "hostnames", "rack[01-02]-gpu[1-8],login1"),
    ("sacct", "-n", "-X", "-P", "-S", "now-1minutes", "-o", "JobIDRaw"),
    ("sacctmgr", "-n", "-P", "show", "user", "mw-ops", "format=AdminLevel"),
    ("scontrol", "show", "assoc_mgr", "flags=users", "users=mw-ops"),
]
CHANGES = [
    actions.action_argv(Action(kind, "7_1", "k", **fields))  # type: ignore[arg-type]
    for kind, fields in (
        (ActionKind.REQUEUE, {}),
        (ActionKind.REQUEUE_HOLD, {}),
        (ActionKind.RELEASE, {}),
        (ActionKind.CANCEL, {}),
        (ActionKind.UPDATE, {"exclusions": ()}),
        (ActionKind.UPDATE, {"exclusions": ("gpu-1", "gpu-2"), "start_now": True}),
        (ActionKind.UPDATE, {"start_now": True, "requeueable": False}),
        (ActionKind.UPDATE, {"exclusions": ("a",), "start_now": True, "requeueable": True}),
    )
]


@pytest.mark.parametrize("argv", LOOKS, ids=" ".join)
def test_every_look_that_we_send_passes_also_a_gate_that_only_looks(argv: tuple[str, ...]) -> None:
    assert gate.refused(argv, looks_only=True) == ""
    assert not gate.changes(argv)


@pytest.mark.parametrize("argv", CHANGES, ids=" ".join)
def test_every_change_that_we_send_passes_unless_the_gate_only_looks(argv: tuple[str, ...]) -> None:
    assert gate.refused(argv, looks_only=False) == ""
    assert gate.changes(argv)
    assert "only looks" in gate.refused(argv, looks_only=True)


@pytest.mark.parametrize(
    ("argv", "allowed"),
    [
        (("scontrol", "release", "7_1"), True),
        (("scontrol", "update", "jobid=7", "StartTime=now"), True),
        (("scontrol", "update", "jobid=7", "ExcNodeList="), True),
        (("scontrol", "update", "jobid=7", "ExcNodeList=a,b"), True),
        (("scontrol", "update", "jobid=7", "Requeue=1"), True),
        (("scontrol", "update", "jobid=7", "Requeue=0"), False),
        (("scontrol", "update", "jobid=7", "ExcNodeList=a", "StartTime=now"), False),
        (("scontrol", "requeue", "7"), False),
        (("scontrol", "requeuehold", "State=SpecialExit", "7"), False),
        (("scancel", "7"), False),
    ],
)
def test_a_watchdogs_gate_lets_go_and_takes_nothing(argv: tuple[str, ...], allowed: bool) -> None:
    assert gate.refused(argv, looks_only=False) == ""
    why = gate.refused(argv, looks_only=False, watchdog_only=True)
    assert why == "" if allowed else "--watchdog-only" in why


@pytest.mark.parametrize(
    "argv",
    [
        ("scontrol", "shutdown"),
        ("scontrol", "update", "nodename=gpu-1", "state=down"),
        ("scontrol", "update", "jobid=7"),
        ("scontrol", "update", "jobid=7", "Priority=0"),
        ("scontrol", "update", "jobid=7", "StartTime=now", "StartTime=now"),
        ("scontrol", "update", "jobid=7", "Requeue=1", "ExcNodeList=a"),
        ("scontrol", "requeue", "7", "8"),
        ("scontrol", "requeue", "7,8"),
        ("scontrol", "requeue", "7\n"),
        ("scontrol", "requeue", "٧"),
        ("scancel", "-u", "alice"),
        ("scancel", "--user=alice"),
        ("scancel", "-9"),
        ("squeue", "--local", "-a", "--states=all", "-O", "Comment:\x1f;id"),
        ("scontrol", "show", "hostnames", "-x"),
        ("scontrol", "show", "hostnames", "$(id)"),
        ("sh", "-c", "scontrol requeue 7"),
        ("/usr/bin/scontrol", "requeue", "7"),
        ("../scontrol", "requeue", "7"),
        (),
        ("",),
    ],
    ids=repr,
)
def test_everything_else_is_refused(argv: tuple[str, ...]) -> None:
    assert "not one of the commands" in gate.refused(argv, looks_only=False)


def test_the_gate_runs_on_python_3_6() -> None:
    tree = ast.parse(Path(gate.__file__).read_text(), feature_version=(3, 6))
    used = {
        node.names[0].name if isinstance(node, ast.Import) else node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    # Of these, mypy alone imports the last two.
    allowed = "argparse json os pwd re selectors signal subprocess sys syslog time"
    assert used == {*allowed.split(), "collections.abc", "typing"}


class Door:
    """The gate as a process of its own, with commands that a test wrote."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self.folder = folder
        argv = [sys.executable, "-I", gate.__file__, "--bin", str(folder), *arguments]
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def says(self, request: bytes, *, end: bool = False) -> bytes:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == gate.GREETING
        self.process.stdin.write(request)
        self.process.stdin.flush()
        if end:
            self.process.stdin.close()
        return self.rest()

    def rest(self) -> bytes:
        """What it still says, to its end."""
        assert self.process.stdout is not None
        answer = self.process.stdout.read()
        with self.process:
            pass
        return answer


def asked(argv: object, deadline_s: object = 20.0) -> bytes:
    body = json.dumps({"argv": argv, "deadline_s": deadline_s}).encode()
    return b"MW1 %d\n" % len(body) + body


def program(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)


def test_output_errors_and_exit_code_arrive_apart(tmp_path: Path) -> None:
    program(tmp_path, "scontrol", 'echo "out $1 $2"; echo oops >&2; exit 7\n')
    answer = Door(tmp_path).says(asked(["scontrol", "requeue", "7"]))
    assert b"o 14\nout requeue 7\n" in answer
    assert b"e 5\noops\n" in answer
    assert answer.endswith(b"x 7\n")


def test_the_commands_see_none_of_the_callers_formats(tmp_path: Path) -> None:
    program(tmp_path, "scontrol", "env\n")
    os.environ["SQUEUE_FORMAT"] = "%j"
    try:
        answer = Door(tmp_path, "--conf", "/etc/other.conf").says(
            asked(["scontrol", "requeue", "7"])
        )
    finally:
        del os.environ["SQUEUE_FORMAT"]
    assert b"SQUEUE_FORMAT" not in answer
    assert b"SLURM_CONF=/etc/other.conf\n" in answer
    assert b"SLURM_TIME_FORMAT=%s\n" in answer


def test_a_command_that_does_not_end_is_killed_at_its_deadline(tmp_path: Path) -> None:
    program(tmp_path, "scontrol", "exec sleep 600\n")
    answer = Door(tmp_path).says(asked(["scontrol", "requeue", "7"], 0.3))
    assert answer.startswith(b"p ")
    assert b"did not end within its deadline" in answer


def test_a_caller_who_has_left_gets_nothing_begun(tmp_path: Path) -> None:
    program(tmp_path, "scontrol", f"touch {tmp_path}/began\n")
    answer = Door(tmp_path).says(asked(["scontrol", "requeue", "7"]), end=True)
    assert b"caller has left" in answer or b"lost its caller" in answer or not answer
    assert b"x 0" not in answer


def test_a_request_that_comes_late_is_not_begun(tmp_path: Path) -> None:
    program(tmp_path, "scontrol", f"touch {tmp_path}/began\n")
    door = Door(tmp_path)
    assert door.process.stdout is not None
    assert door.process.stdout.readline() == gate.GREETING
    answer = door.rest()  # it ends by itself: nobody asked anything in time
    assert b"no whole request came" in answer
    assert not (tmp_path / "began").exists()


@pytest.mark.parametrize(
    "request_",
    [
        b"MW1 3\nabc",
        b"GET / HTTP/1.1\n",
        b"MW1 9999999\n",
        b"MW1 2\n[]",
        asked("scontrol requeue 7"),
        asked(["scontrol", 7]),
        asked(["scontrol", "requeue", "7"], "20"),
        asked(["scontrol", "requeue", "7"], True),
        asked(["scontrol", "requeue", "7"], -1),
        asked(["scontrol", "requeue", "7"], 1e9),
        b"MW1 100000\n" + b"[" * 100_000,
    ],
    ids=lambda value: repr(value[:30]),
)
def test_a_request_of_another_form_is_refused(tmp_path: Path, request_: bytes) -> None:
    program(tmp_path, "scontrol", f"touch {tmp_path}/began\n")
    answer = Door(tmp_path).says(request_)
    assert answer.startswith(b"r ")
    assert not (tmp_path / "began").exists()


def test_a_refusal_by_the_gate_is_an_answer() -> None:
    said = "middlewatch-gate: refused: this gate only looks (--looks-only)"
    assert actions.answer_of(finished(rc=1, stderr=said)) is Answered.REFUSED


TARGET = SshTarget(host="ctl", known_hosts="/etc/mw/hosts", key="/etc/mw/key")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("host", "-oProxyCommand=id"),
        ("host", "ctl\nProxyCommand id"),
        ("host", ""),
        ("user", "root -o"),
        ("jump", ("gate;id",)),
        ("jump", ("-x",)),
        ("key", '/k" x'),
        ("key", "/k%h"),
        ("known_hosts", ""),
        ("known_hosts", "/k\nHost *"),
        ("config", "relative"),
        ("gate", "sh -c id"),
        ("gate", "gate; id"),
    ],
)
def test_a_target_that_would_say_more_than_it_should_is_refused(field: str, value: object) -> None:
    given = {"host": "ctl", "known_hosts": "/h", "key": "/k", field: value}
    target = SshTarget(**given)  # type: ignore[arg-type]
    assert [name for name, _ in target.problems()] == [field]
    with pytest.raises(Refused, match=field):
        ssh_config(target, Path("/run/s"))


def test_a_target_survives_its_way_to_the_watchdog() -> None:
    target = SshTarget(
        host="ctl", known_hosts="/h", jump=("a@b:22", "c"), agent=True, connect_timeout_s=3.5
    )
    assert SshTarget.from_json(target.to_json()) == target


def test_the_configuration_pins_the_host_and_asks_nobody() -> None:
    text = ssh_config(TARGET, Path("/run/mw/s1"))
    for line in ("StrictHostKeyChecking yes", "BatchMode yes", "ForwardAgent no", "RequestTTY no"):
        assert f"\n{line}\n" in text
    assert 'UserKnownHostsFile "/etc/mw/hosts"' in text
    assert "IdentityAgent none" in text
