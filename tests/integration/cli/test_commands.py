"""Commands as processes: what a shell sees of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.cli.conftest import World

HEAVY = (
    "sqlalchemy", "uvicorn", "starlette", "structlog", "rich", "httpx2", "google.protobuf",
    "grpc", "alembic", "msgspec", "prometheus_client", "re2",
)  # fmt: skip


@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        ("jobs", "--state-dir", "/nonexistent"),
        ("config", "show"),
        ("check-comment", "x"),
    ],
)
def test_commands_that_must_be_quick_import_nothing_heavy(words: tuple[str, ...]) -> None:
    code = (
        "import sys\nfrom middlewatch.cli.app import app\n"
        f"sys.argv = ['mw', *{words!r}]\n"
        "try:\n    app.main(prog_name='mw')\nexcept SystemExit:\n    pass\n"
        f"print('HEAVY', [m for m in {HEAVY!r} if m in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        env={"HOME": "/nonexistent", "PATH": os.environ["PATH"]},
    )
    assert done.stdout.splitlines()[-1] == "HEAVY []", done.stderr


def test_a_reader_that_goes_away_is_no_error(world: World) -> None:
    script = f"{sys.executable} -m middlewatch config show"
    done = subprocess.run(
        ["bash", "-c", f"{script} | true; echo ${{PIPESTATUS[0]}}"],
        env=world.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout.strip() in {"0", "1", "141"}


def test_doctor_on_a_slurm_that_answers_finds_no_failure(world: World) -> None:
    done = world.run("doctor", "--json")
    assert done.returncode in {0, 6}, done.stderr
    found = {f["check"]: f for f in json.loads(done.stdout)["findings"]}
    assert found["slurmctld"]["level"] == "ok"
    assert found["clock"]["level"] == "ok"
    assert found["commands"]["level"] == "ok"
    assert found["up"]["text"] == "does not run"


def test_doctor_without_slurm_fails_and_says_how_to_mend_it(world: World) -> None:
    for path in world.commands.iterdir():
        path.unlink()
    done = world.run("doctor")
    assert done.returncode == 1
    assert "slurm.bin_dir" in done.stdout


def test_doctor_sees_that_up_and_its_watchdog_run(world: World) -> None:
    process = world.up()
    found = {f["check"]: f for f in json.loads(world.run("doctor", "--json").stdout)["findings"]}
    assert found["up"]["text"] == f"runs (process {process.pid})"
    assert found["watchdog"]["level"] == "ok"


def test_doctor_notices_a_clock_that_is_off(world: World) -> None:
    text = (world.commands / "scontrol").read_text().replace("date -u", "date -u -d '+1 hour'")
    (world.commands / "scontrol").write_text(text)
    found = {f["check"]: f for f in json.loads(world.run("doctor", "--json").stdout)["findings"]}
    assert found["clock"]["level"] == "warn"
    assert "NTP" in found["clock"]["mend"]


def test_a_job_that_nobody_knows_is_not_found(world: World) -> None:
    world.up("--no-watchdog")
    for command in ("job", "explain"):
        done = world.run(command, "4711", "--json")
        assert done.returncode == 3
        assert json.loads(done.stderr)["error"]["code"] == "not_found"


def test_empty_answers_are_answers(world: World) -> None:
    world.up("--no-watchdog")
    for words in (
        ("jobs", "--all"),
        ("advice",),
        ("advice", "--active"),
        ("audit",),
        ("recoveries",),
    ):
        done = world.run(*words)
        assert done.returncode == 0, done.stderr
        answer = world.run(*words, "--json")
        assert json.loads(answer.stdout)["schema_version"] == 1


def test_the_comment_of_a_job_that_slurm_forgot_is_not_found(world: World) -> None:
    assert world.run("check-comment", "--job", "4711").returncode == 3


def test_the_short_name_is_the_same_program() -> None:
    names = [Path(sys.executable).parent / name for name in ("mw", "middlewatch")]
    said = [
        subprocess.run([name, "--version"], capture_output=True, text=True, check=True).stdout
        for name in names
    ]
    assert said[0] == said[1]


def test_limits_are_shown_previewed_changed_and_reset(world: World) -> None:
    world.up()
    shown = world.run("limits", "show")
    assert shown.returncode == 0, shown.stderr
    assert "silence_floor" in shown.stdout
    preview = world.run("limits", "preview", "silence_floor=10m")
    assert preview.stdout.startswith("0 attempts: 0 alarms as it is, 0 with these limits")
    changed = world.run("limits", "set", "silence_floor=10m", "--reason", "new disks")
    assert changed.returncode == 0, changed.stderr
    body = json.loads(world.run("limits", "show", "--json").stdout)
    floor = next(limit for limit in body["limits"] if limit["name"] == "silence_floor_s")
    assert (floor["seconds"], floor["changed"]) == (600, True)
    assert "new disks" in world.run("audit", "--type", "limits.changed", "--json").stdout
    world.run("limits", "set", "silence_floor=reset", "--reason", "old disks")
    assert "the API" not in world.run("limits", "show").stdout


@pytest.mark.parametrize(
    "words",
    [
        ("set", "silence_floor", "--reason", "x"),
        ("set", "silence_floor=soon", "--reason", "x"),
        ("set", "no_such=5m", "--reason", "x"),
        ("set", "silence_floor=5m"),
        ("preview", "silence_floor=0"),
    ],
)
def test_limits_that_make_no_sense_are_wrong_usage(world: World, words: tuple[str, ...]) -> None:
    world.up()
    assert world.run("limits", *words).returncode == 2
