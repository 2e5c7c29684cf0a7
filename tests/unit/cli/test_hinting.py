"""`mw hint`: what an epilog may count on."""

from __future__ import annotations

from pathlib import Path

import pytest

from middlewatch.adapters.hints.file import HintFile
from tests.unit.cli.test_app import run


def test_it_touches_the_file_that_the_watcher_looks_at(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    hints = HintFile(tmp_path / "state" / "hint")
    result = run(tmp_path, "hint", "4711_2")
    assert (result.exit_code, result.output) == (0, "")
    assert hints.came()


def test_a_site_may_name_another_file(tmp_path: Path) -> None:
    hints = HintFile(tmp_path / "elsewhere")
    result = run(tmp_path, "hint", "--set", f"watcher.hint_file={tmp_path / 'elsewhere'}")
    assert result.exit_code == 0
    assert hints.came()


@pytest.mark.parametrize(
    "words",
    [
        ("hint",),
        ("hint", "$(reboot); '"),
        ("hint", "--set", "watcher.hint_file=/proc/none/hint"),
        ("hint", "--set", "deployment.environment=a b"),
    ],
)
def test_whatever_is_wrong_it_says_so_and_exits_with_0(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    result = run(tmp_path, *words)
    assert result.exit_code == 0
    assert result.stderr
