"""The command line as a whole: help, exit codes, failures as objects."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from middlewatch.cli.app import COMMANDS, SECTIONS, app
from middlewatch.cli.failure import WORDS, Exit

ROOT = Path(__file__).parents[3]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


def run(home: Path, *arguments: str, env: dict[str, str] | None = None) -> Result:
    clean = {"HOME": str(home), "XDG_CONFIG_HOME": None, "XDG_STATE_HOME": None}
    return CliRunner().invoke(
        app,
        ["--state-dir", str(home / "state"), *arguments],
        env={**clean, **(env or {})},
        prog_name="mw",
    )


def test_every_command_of_the_table_exists_and_explains_itself() -> None:
    context = click.Context(app)
    for name in COMMANDS:
        command = app.get_command(context, name)
        assert command is not None
        assert command.name == name
        assert command.help


def test_every_command_stands_in_the_help_and_in_the_documentation(home: Path) -> None:
    shown = run(home, "--help").output
    documented = (ROOT / "docs" / "cli.md").read_text()
    for section, commands in SECTIONS.items():
        assert f"{section}:" in shown
        for name in commands:
            assert name in shown
            assert f"mw {name}" in documented


def test_the_help_and_the_documentation_name_every_exit_code(home: Path) -> None:
    shown = " ".join(run(home, "--help").output.split())
    documented = (ROOT / "docs" / "cli.md").read_text()
    for code in Exit:
        assert f"{int(code)} " in shown
        assert f"| {int(code)} |" in documented


def test_the_version_is_one_line(home: Path) -> None:
    result = run(home, "--version")
    assert result.exit_code == 0
    assert result.output.startswith("middlewatch ")


def test_a_mistyped_command_is_told_the_nearest_one(home: Path) -> None:
    result = run(home, "advise")
    assert result.exit_code == Exit.USAGE
    assert "Did you mean 'advice'?" in result.stderr


@pytest.mark.parametrize(
    "arguments", [("jobs", "--nonsense"), ("explain",), ("jobs", "--limit", "x")]
)
def test_wrong_usage_is_two(home: Path, arguments: tuple[str, ...]) -> None:
    assert run(home, *arguments).exit_code == Exit.USAGE


@pytest.mark.parametrize(
    "arguments",
    [("jobs",), ("job", "1"), ("advice",), ("advice", "1"), ("explain", "1"), ("audit",)],
)
def test_without_a_gateway_reading_commands_say_what_to_do_and_end_with_75(
    home: Path, arguments: tuple[str, ...]
) -> None:
    result = run(home, *arguments)
    assert result.exit_code == Exit.TRY_LATER
    assert result.stdout == ""
    assert "middlewatch up" in result.stderr


def test_with_json_a_failure_is_an_object_on_standard_error(home: Path) -> None:
    result = run(home, "jobs", "--json")
    assert result.exit_code == Exit.TRY_LATER
    body = json.loads(result.stderr)
    assert body["schema_version"] == 1
    assert body["error"]["code"] == "try_later"
    assert body["error"]["exit_code"] == 75
    assert body["error"]["hint"]


def test_with_json_wrong_usage_is_an_object_as_well(home: Path) -> None:
    result = run(home, "jobs", "--json", "--nonsense")
    assert result.exit_code == Exit.USAGE
    assert json.loads(result.stderr)["error"]["code"] == "usage"


def test_every_failing_exit_code_has_a_word() -> None:
    assert set(WORDS) == set(Exit) - {Exit.OK}


def test_settings_that_cannot_be_used_end_with_78_and_every_problem(home: Path) -> None:
    result = run(home, "jobs", "--set", "gateway.prot=1", "--set", "log.level=loud")
    assert result.exit_code == Exit.CONFIGURATION
    assert "log.level must be one of" in result.stderr


def test_a_setting_that_is_set_badly_on_the_command_line_is_wrong_usage(home: Path) -> None:
    assert run(home, "jobs", "--set", "nonsense").exit_code == Exit.USAGE


def test_an_unknown_name_set_on_the_command_line_is_refused_with_the_nearest(home: Path) -> None:
    result = run(home, "jobs", "--set", "gateway.prot=1")
    assert result.exit_code == Exit.CONFIGURATION
    assert "gateway.port" in result.stderr


def test_config_show_names_the_origin_of_each_value(home: Path) -> None:
    path = home / "m.toml"
    path.write_text("[gateway]\nport = 9\n")
    result = run(home, "config", "show", "--json", "--config", str(path))
    assert result.exit_code == 0
    body = json.loads(result.stdout)
    found = {item["key"]: item for item in body["settings"]}
    assert found["gateway.port"]["value"] == "9"
    assert found["gateway.port"]["origin"] == f"{path}:2"
    assert found["gateway.bind"]["origin"] == "default"
    assert found["gateway.bind"]["variable"] == "MIDDLEWATCH_GATEWAY_BIND"


def test_config_check_of_a_file_looks_at_that_file_alone(home: Path) -> None:
    path = home / "m.toml"
    path.write_text("[gateway]\nport = 9\n")
    result = run(home, "config", "check", str(path), env={"MIDDLEWATCH_NONSENSE": "1"})
    assert result.exit_code == 0
    path.write_text("[gateway]\nprot = 9\n")
    result = run(home, "config", "check", str(path))
    assert result.exit_code == Exit.CONFIGURATION
    assert f"{path}:2" in result.stderr


def test_config_check_tells_what_is_allowed_but_odd(home: Path) -> None:
    result = run(home, "config", "check", "--set", "deployment.mode=action")
    assert result.exit_code == 0
    assert "caution" in result.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_given_for_both_names(home: Path, shell: str) -> None:
    result = run(home, "completion", shell)
    assert result.exit_code == 0
    assert "_MW_COMPLETE" in result.output
    assert "_MIDDLEWATCH_COMPLETE" in result.output


def test_lab_break_without_a_kind_lists_the_ways(home: Path) -> None:
    result = run(home, "lab", "break", "--json")
    assert result.exit_code == 0
    assert "crash" in json.loads(result.stdout)["kinds"]


def test_a_lab_that_is_not_there_is_not_found(home: Path) -> None:
    result = run(home, "lab", "status", "--name", "no-such-lab")
    assert result.exit_code == Exit.NOT_FOUND


def test_a_lab_name_that_is_none_is_wrong_usage(home: Path) -> None:
    assert run(home, "lab", "status", "--name", "../x").exit_code == Exit.USAGE


def test_the_documentation_names_every_event_of_the_log() -> None:
    documented = (ROOT / "docs" / "cli.md").read_text()
    source = ROOT / "src" / "middlewatch"
    call = re.compile(r"(?:log|report)\.(?:debug|info|warning|error)\(\s*\"([a-z_]+)\"")
    events = {
        event
        for room in ("wiring", "services")
        for path in sorted((source / room).rglob("*.py"))
        for event in call.findall(path.read_text())
    }
    assert "loop_failed" in events
    assert sorted(event for event in events if f"`{event}`" not in documented) == []
