"""Looking at checkpoint directories whose paths strangers chose."""

from __future__ import annotations

import os
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.adapters.logs.growth import MOST_LOOKS, CheckpointDirectories
from middlewatch.lab.patience import wait_for
from middlewatch.model.activity import Growth
from middlewatch.model.answer import Absent, Known, Unknown

OLD, NEW = 1_700_000_000, 1_750_000_000
LONG_S = 120.0


def stamped(path: Path, at: int) -> None:
    os.utime(path, (at, at))


def looked(path: Path | str, uid: int | None = None) -> object:
    directories = CheckpointDirectories(SystemClock(), patience_s=LONG_S)
    return directories.growth(str(path), os.geteuid() if uid is None else uid)


def newest(answer: object) -> int:
    assert isinstance(answer, Known), answer
    found = answer.value.newest
    assert found.tzinfo is UTC
    return round(found.timestamp())


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    stamped(folder, OLD)
    return folder


def test_file_that_grows_in_place_is_growth(place: Path) -> None:
    (place / "model.pt").write_text("w")
    stamped(place / "model.pt", NEW)
    stamped(place, OLD)
    assert newest(looked(place)) == NEW


def test_shard_two_directories_down_is_growth(place: Path) -> None:
    shard = place / "step-100" / "zero" / "rank0.pt"
    shard.parent.mkdir(parents=True)
    shard.write_text("w")
    stamped(shard, NEW)
    for folder in (shard.parent, shard.parent.parent, place):
        stamped(folder, OLD)
    assert newest(looked(place)) == NEW


def test_directory_that_is_not_there_is_absent(place: Path) -> None:
    assert isinstance(looked(place / "none"), Absent)
    (place / "file").write_text("")
    assert isinstance(looked(place / "file"), Absent)


def test_links_are_not_followed(place: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    stamped(other, NEW)
    (place / "link").symlink_to(other)
    os.utime(place / "link", (OLD, OLD), follow_symlinks=False)
    stamped(place, OLD)
    assert newest(looked(place)) == OLD
    assert not isinstance(looked(place / "link"), Known)


@pytest.mark.parametrize("path", ["", "relative", "a\0b", "/a\0b"])
def test_what_is_no_absolute_path_is_unknown(path: str) -> None:
    assert isinstance(looked(path), Unknown)


def test_directory_of_very_many_entries_is_unknown(place: Path) -> None:
    for number in range(5001):
        (place / str(number)).touch()
    answer = looked(place)
    assert isinstance(answer, Unknown)
    assert "5000" in answer.why


def test_time_that_nobody_can_have_is_brought_into_range(place: Path) -> None:
    os.utime(place, (0, 2**33))
    assert newest(looked(place)) == 4_102_444_800


@pytest.mark.root
def test_root_sees_no_more_than_the_jobs_user(place: Path) -> None:
    place.chmod(0o700)
    answer = looked(place, uid=65_533)
    assert isinstance(answer, Unknown)
    assert "Permission denied" in answer.why


def test_disk_that_does_not_answer_keeps_nobody_waiting_and_is_asked_once(place: Path) -> None:
    gate, opened = threading.Event(), []

    def stuck(uid: int, path: str) -> int:
        opened.append(path)
        gate.wait(LONG_S)
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY)

    directories = CheckpointDirectories(SystemClock(), opened=stuck, patience_s=0.0)
    for _ in range(5):
        answer = directories.growth(str(place), 1)
        assert isinstance(answer, Unknown)
        assert "does not answer" in answer.why
    assert opened == [str(place)]
    gate.set()

    def answered() -> Known[Growth] | None:
        answer = directories.growth(str(place), 1)
        return answer if isinstance(answer, Known) else None

    assert newest(wait_for(answered, LONG_S)) == OLD


def test_many_dead_disks_do_not_take_ever_more_threads(tmp_path: Path) -> None:
    gate = threading.Event()

    def stuck(uid: int, path: str) -> int:
        gate.wait(LONG_S)
        raise FileNotFoundError(path)

    directories = CheckpointDirectories(SystemClock(), opened=stuck, patience_s=0.0)
    said = [directories.growth(f"/dead/{number}", 1) for number in range(MOST_LOOKS + 3)]
    gate.set()
    assert all(isinstance(answer, Unknown) for answer in said)
    assert ["too many" in answer.why for answer in said if isinstance(answer, Unknown)].count(
        True
    ) == 3


def test_growth_is_told_as_of_the_present(place: Path) -> None:
    before = datetime.now(UTC)
    answer = looked(place)
    assert isinstance(answer, Known)
    assert answer.as_of >= before
