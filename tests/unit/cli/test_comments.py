"""check-comment: what a comment means, and what would be right."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from middlewatch.cli.app import app
from middlewatch.cli.comments import comment_of_script
from middlewatch.cli.failure import Exit
from middlewatch.model.optin import JobMode, read_comment

GOOD = '{"middlewatch":{"environment":"prod","mode":"action"}}'


def run(*arguments: str) -> Result:
    return CliRunner().invoke(
        app,
        ["check-comment", *arguments],
        env={"HOME": "/nonexistent", "MIDDLEWATCH_STATE_DIRECTORY": "/nonexistent"},
    )


def test_a_comment_that_can_be_read_is_ok() -> None:
    result = run(GOOD)
    assert result.exit_code == 0
    assert "mode  action" in result.output


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("{middlewatch:{environment:prod,mode:action}}", "removed the double quotes"),
        ('{"middlewatch":{"environment":"prod"}}', "mode is missing"),
        ('{"middlewatch":{"environment":"prod","mode":"act"}}', "taken as observe"),
        ('{"middlewatch": 3}', "must be an object"),
        ("my accounting group", "does not opt in"),
        ('{"middlewatch":{"environment":"test","mode":"action"}}', "environment test"),
    ],
)
def test_what_is_wrong_is_said_with_the_line_that_would_be_right(text: str, wrong: str) -> None:
    result = run(text)
    assert result.exit_code == Exit.FINDINGS
    assert wrong in result.output
    assert "right #SBATCH --comment='" in result.output


def test_the_line_that_is_suggested_can_be_read() -> None:
    result = run("--json", "{middlewatch:{environment:prod,mode:action}}")
    line = json.loads(result.stdout)["suggestion"]
    comment = shlex.split(line.removeprefix("#SBATCH "))[0].removeprefix("--comment=")
    assert read_comment(comment).mode is JobMode.ACTION
    assert read_comment(comment).problems == ()


def test_another_environment_can_be_named(tmp_path: Path) -> None:
    result = run(GOOD.replace("prod", "test"), "--set", "deployment.environment=test")
    assert result.exit_code == 0


@pytest.mark.parametrize("arguments", [(), (GOOD, "--job", "1")])
def test_exactly_one_source_is_asked_for(arguments: tuple[str, ...]) -> None:
    assert run(*arguments).exit_code == Exit.USAGE


@pytest.mark.parametrize(
    ("script", "comment"),
    [
        (f"#!/bin/bash\n#SBATCH --comment='{GOOD}'\nsrun x\n", GOOD),
        (f"#!/bin/bash\n#SBATCH -N 2 --comment '{GOOD}'   # ours\n", GOOD),
        (f"#!/bin/bash\n#SBATCH --comment=a\n#SBATCH --comment='{GOOD}'\n", GOOD),
        (f"#!/bin/bash\nsrun x\n#SBATCH --comment='{GOOD}'\n", ""),
        (f"#!/bin/bash\n#SBATCH --comment={GOOD}\n", GOOD.replace('"', "")),
        ("#!/bin/bash\n#SBATCH --comment='open\n", "'open"),
        ("#!/bin/bash\n", ""),
    ],
)
def test_a_scripts_comment_is_read_as_sbatch_reads_it(
    tmp_path: Path, script: str, comment: str
) -> None:
    path = tmp_path / "job.sbatch"
    path.write_text(script)
    assert comment_of_script(str(path)) == comment


def test_a_script_whose_quotes_the_shell_ate_is_found_out(tmp_path: Path) -> None:
    path = tmp_path / "job.sbatch"
    path.write_text(f"#!/bin/bash\n#SBATCH --comment={GOOD}\n")
    result = run("--file", str(path))
    assert result.exit_code == Exit.FINDINGS
    assert "single quotes" in result.output


def test_a_script_that_is_not_there_is_not_found() -> None:
    assert run("--file", "/nonexistent.sbatch").exit_code == Exit.NOT_FOUND


@given(st.binary(max_size=300))
def test_any_script_can_be_looked_at(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    path = tmp_path_factory.mktemp("any") / "x"
    path.write_bytes(b"#SBATCH " + raw)
    assert isinstance(comment_of_script(str(path)), str)
