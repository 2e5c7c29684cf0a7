"""Hints by a touched file: told once, whatever it is that lies there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from middlewatch.adapters.hints.file import HintFile, touch


def test_each_touch_is_told_once_and_many_between_two_looks_are_one(tmp_path: Path) -> None:
    path = tmp_path / "hint"
    hints = HintFile(path)
    assert not hints.came()
    touch(path)
    assert hints.came()
    assert not hints.came()
    os.utime(path, ns=(1, 1))
    os.utime(path, ns=(2, 2))
    assert hints.came()
    assert not hints.came()


def test_what_was_touched_before_the_start_is_no_hint(tmp_path: Path) -> None:
    touch(tmp_path / "hint")
    assert not HintFile(tmp_path / "hint").came()


def test_a_file_that_is_removed_is_no_hint_and_a_new_one_is(tmp_path: Path) -> None:
    path = tmp_path / "hint"
    touch(path)
    hints = HintFile(path)
    path.unlink()
    assert not hints.came()
    touch(path)
    assert hints.came()


def test_a_folder_that_is_missing_is_no_hint(tmp_path: Path) -> None:
    assert not HintFile(tmp_path / "none" / "hint").came()


def test_a_pipe_that_nobody_reads_makes_nobody_wait(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "hint")
    with pytest.raises(OSError, match="No such device"):
        touch(tmp_path / "hint")


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "hint").symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match="symbolic links"):
        touch(tmp_path / "hint")
    assert not (tmp_path / "other").exists()


def test_what_stands_in_the_file_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "hint"
    path.write_text("7\n")
    hints = HintFile(path)
    os.utime(path, ns=(1, 1))
    touch(path)
    assert hints.came()
    assert path.read_text() == "7\n"
