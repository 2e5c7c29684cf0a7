"""Real files of all kinds, read as the watcher reads them."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from middlewatch.adapters.logs import FileLogs
from middlewatch.adapters.logs.as_user import open_as
from middlewatch.adapters.logs.files import LEAST_LIMIT, LONGEST_LINE
from middlewatch.ports.scanner import Block, CannotRead, Cursor

UID = os.geteuid()
LIMIT = 1 << 20
NOBODY = 65_534


def read(path: Path | str, cursor: Cursor | None = None, **kw: object) -> Block:
    got = FileLogs().read(str(path), UID, cursor, LIMIT, **kw)  # type: ignore[arg-type]
    assert isinstance(got, Block)
    return got


def refused(path: Path | str, uid: int = UID) -> str:
    got = FileLogs().read(str(path), uid, None, LIMIT)
    assert isinstance(got, CannotRead)
    assert str(path) in got.reason
    return got.word


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "out.log"


@pytest.fixture
def passage() -> Iterator[Path]:
    """A folder that every user can pass through; pytest's own are closed."""
    with tempfile.TemporaryDirectory(prefix="passage-", dir="/tmp") as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)


# -- reading on -----------------------------------------------------------------------------------


def test_file_that_does_not_exist_yet_is_waited_for(log: Path) -> None:
    assert FileLogs().read(str(log), UID, None, LIMIT) is None


def test_folder_that_does_not_exist_yet_is_waited_for(tmp_path: Path) -> None:
    assert FileLogs().read(str(tmp_path / "a" / "b.log"), UID, None, LIMIT) is None


def test_whole_lines_are_given_and_the_unfinished_one_is_kept_back(log: Path) -> None:
    log.write_bytes(b"one\ntwo\nthr")
    block = read(log)
    assert (block.data, block.base_offset, block.at_end) == (b"one\ntwo\n", 0, True)
    log.write_bytes(b"one\ntwo\nthree\n")
    again = read(log, block.cursor)
    assert (again.data, again.base_offset, again.restarted) == (b"three\n", 8, False)


def test_unfinished_last_line_is_given_at_the_end_of_all(log: Path) -> None:
    log.write_bytes(b"one\nlast words")
    first = read(log)
    assert read(log, first.cursor, final=True).data == b"last words"


def test_bar_without_line_feeds_is_given_up_to_its_last_carriage_return(log: Path) -> None:
    log.write_bytes(b"\r 1%|#\r 2%|##\r 3%|")
    assert read(log).data == b"\r 1%|#\r 2%|##\r"


def test_nothing_new_is_an_empty_block_at_the_end(log: Path) -> None:
    log.write_bytes(b"one\n")
    again = read(log, read(log).cursor)
    assert (again.data, again.at_end, again.restarted) == (b"", True, False)


def test_large_file_comes_in_blocks_without_gap_or_overlap(log: Path) -> None:
    text = b"".join(b"line %d\n" % n for n in range(200_000))
    log.write_bytes(text)
    got = b""
    cursor = None
    for _ in range(100):
        block = FileLogs().read(str(log), UID, cursor, LEAST_LIMIT)
        assert isinstance(block, Block)
        assert block.base_offset == len(got)
        got += block.data
        cursor = block.cursor
        if block.at_end:
            break
    assert got == text


def test_block_is_no_larger_than_the_limit_even_if_a_larger_one_is_asked_for(log: Path) -> None:
    log.write_bytes(b"x\n" * (5 << 20))
    block = FileLogs().read(str(log), UID, None, 1 << 40)
    assert isinstance(block, Block)
    assert len(block.data) <= 4 << 20


def test_line_of_ten_megabytes_is_given_once_at_its_head_and_then_skipped(log: Path) -> None:
    log.write_bytes(b"before\n" + b"x" * 10_000_000 + b"\nafter\n")
    pieces = []
    cursor = None
    skipped = 0
    for _ in range(30):
        block = read(log, cursor)
        pieces.append(block.data)
        skipped += block.skipped_bytes
        cursor = block.cursor
        if block.at_end:
            break
    text = b"".join(pieces)
    assert text.startswith(b"before\n")
    assert text.endswith(b"after\n")
    assert len(text) <= 2 * LONGEST_LINE
    assert len(text) + skipped == 10_000_014


def test_unfinished_line_that_grows_without_end_is_not_waited_for(log: Path) -> None:
    log.write_bytes(b"y" * (LONGEST_LINE + 5))
    block = read(log)
    assert len(block.data) == LONGEST_LINE
    assert block.cursor.skipping
    with log.open("ab") as file:
        file.write(b"y" * 1000 + b"\nnext\n")
    assert read(log, block.cursor).data == b"next\n"


def test_bytes_that_are_no_text_are_given_as_they_are(log: Path) -> None:
    log.write_bytes(b"\0\xff\xfe\n\x80\n")
    assert read(log).data == b"\0\xff\xfe\n\x80\n"


def test_time_that_its_owner_set_on_a_file_is_bounded(log: Path) -> None:
    log.write_bytes(b"x\n")
    os.utime(log, (1 << 33, 1 << 33))
    assert read(log).modified_at < 5e9


# -- truncation, rotation, appends ------------------------------------------------------------------


def test_truncated_file_begins_anew(log: Path) -> None:
    log.write_bytes(b"old one\nold two\n")
    cursor = read(log).cursor
    log.write_bytes(b"new\n")
    block = read(log, cursor)
    assert (block.data, block.base_offset, block.restarted) == (b"new\n", 0, True)


def test_file_that_was_truncated_and_grew_beyond_the_old_place_begins_anew(log: Path) -> None:
    log.write_bytes(b"banner\nattempt 0 step 1\n")
    cursor = read(log).cursor
    log.write_bytes(b"banner\nattempt 1 step 1\nattempt 1 step 2\n")
    block = read(log, cursor)
    assert block.restarted
    assert block.data.startswith(b"banner\n")


def test_file_whose_head_is_the_same_but_whose_last_read_bytes_are_not_begins_anew(
    log: Path,
) -> None:
    head = b"the same banner\n" * 200
    log.write_bytes(head + b"died here\n")
    cursor = read(log).cursor
    log.write_bytes(head + b"went further and further\n")
    assert read(log, cursor).restarted


def test_appended_file_goes_on(log: Path) -> None:
    log.write_bytes(b"attempt 0\n")
    cursor = read(log).cursor
    with log.open("ab") as file:
        file.write(b"attempt 1\n")
    block = read(log, cursor)
    assert (block.data, block.restarted) == (b"attempt 1\n", False)


def test_rotated_file_is_read_to_its_end_before_the_new_one(log: Path) -> None:
    log.write_bytes(b"one\n")
    cursor = read(log).cursor
    with log.open("ab") as file:
        file.write(b"two\nunfinished")
    log.rename(f"{log}.1")
    log.write_bytes(b"three\n")
    rest = read(log, cursor)
    assert (rest.data, rest.restarted, rest.at_end) == (b"two\nunfinished", False, False)
    new = read(log, rest.cursor)
    assert (new.data, new.restarted) == (b"three\n", True)


def test_rotated_file_that_is_gone_begins_anew(log: Path) -> None:
    log.write_bytes(b"one\n")
    cursor = read(log).cursor
    other = log.with_name("new")
    other.write_bytes(b"three\n")
    other.replace(log)
    block = read(log, cursor)
    assert (block.data, block.restarted) == (b"three\n", True)


def test_file_that_was_removed_is_waited_for(log: Path) -> None:
    log.write_bytes(b"one\n")
    cursor = read(log).cursor
    log.unlink()
    assert FileLogs().read(str(log), UID, cursor, LIMIT) is None


def test_end_is_behind_the_last_whole_line(log: Path) -> None:
    log.write_bytes(b"one\ntwo\nthr")
    end = FileLogs().end(str(log), UID)
    assert isinstance(end, Cursor)
    with log.open("ab") as file:
        file.write(b"ee\nfour\n")
    block = read(log, end)
    assert (block.data, block.restarted) == (b"three\nfour\n", False)


def test_end_of_an_empty_file_is_its_beginning(log: Path) -> None:
    log.write_bytes(b"")
    end = FileLogs().end(str(log), UID)
    assert isinstance(end, Cursor)
    assert (end.offset, end.skipping) == (0, False)


def test_place_is_found_again_by_another_process(log: Path) -> None:
    log.write_bytes(b"one\n")
    cursor = read(log).cursor
    with log.open("ab") as file:
        file.write(b"two\n")
    again = FileLogs().read(str(log), UID, cursor, LIMIT)
    assert isinstance(again, Block)
    assert again.data == b"two\n"


# -- what must not be read --------------------------------------------------------------------------


def test_relative_path_is_refused() -> None:
    assert refused("out.log") == "not_absolute"


def test_path_with_a_nul_is_refused() -> None:
    assert refused("/tmp/a\0b") == "not_absolute"


def test_symbolic_link_is_refused(tmp_path: Path, log: Path) -> None:
    (tmp_path / "secret").write_text("secret\n")
    log.symlink_to(tmp_path / "secret")
    assert refused(log) == "symlink"


def test_file_swapped_for_a_link_between_two_looks_is_refused(tmp_path: Path, log: Path) -> None:
    log.write_bytes(b"mine\n")
    cursor = read(log).cursor
    (tmp_path / "secret").write_text("secret\n")
    log.unlink()
    log.symlink_to(tmp_path / "secret")
    got = FileLogs().read(str(log), UID, cursor, LIMIT)
    assert isinstance(got, CannotRead)
    assert got.word == "symlink"


def test_link_that_is_swapped_all_the_time_never_shows_what_it_leads_to(
    tmp_path: Path, log: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret\n")
    stop = threading.Event()

    def swap() -> None:
        mine, link = tmp_path / "mine", tmp_path / "link"
        while not stop.is_set():
            mine.write_bytes(b"mine\n")
            mine.replace(log)
            link.symlink_to(secret)
            link.replace(log)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(500):
            got = FileLogs().read(str(log), UID, None, LIMIT)
            assert not isinstance(got, Block) or b"secret" not in got.data
    finally:
        stop.set()
        thread.join()


@pytest.mark.timeout(20)
def test_fifo_is_refused_without_waiting_for_its_writer(log: Path) -> None:
    os.mkfifo(log)
    assert refused(log) == "fifo"


def test_device_is_refused() -> None:
    assert refused("/dev/zero") == "device"


def test_directory_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path) == "directory"


def test_socket_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s")
        assert refused(tmp_path / "s") == "socket"


def test_file_with_a_second_name_is_refused(tmp_path: Path, log: Path) -> None:
    log.write_bytes(b"mine\n")
    os.link(log, tmp_path / "other")
    assert refused(log) == "hard_link"


def test_file_of_somebody_else_is_refused() -> None:
    """Not root: only our own; root: only the job's user's. /etc/passwd is root's either way."""
    got = FileLogs(our_uid=4242).read("/etc/passwd", 4243, None, LIMIT)
    assert isinstance(got, CannotRead)
    assert got.word == "not_owner"


@pytest.mark.root
def test_root_opens_a_file_with_the_rights_of_the_jobs_user(passage: Path) -> None:
    log = passage / "out.log"
    log.write_bytes(b"theirs\n")
    os.chown(log, NOBODY, NOBODY)
    got = FileLogs().read(str(log), NOBODY, None, LIMIT)
    assert isinstance(got, Block)
    assert got.data == b"theirs\n"
    passage.chmod(0o700)
    assert refused(log, NOBODY) == "permission"


@pytest.mark.root
def test_folder_of_a_projects_group_is_entered_with_that_group_alone(passage: Path) -> None:
    project = passage / "project"
    project.mkdir()
    log = project / "out.log"
    log.write_bytes(b"theirs\n")
    os.chown(log, NOBODY, NOBODY)
    os.chown(project, 0, 4242)
    project.chmod(0o750)
    os.close(open_as(NOBODY, str(log), os.O_RDONLY, groups=(NOBODY, 4242)))
    with pytest.raises(PermissionError):
        open_as(NOBODY, str(log), os.O_RDONLY, groups=(NOBODY,))


@pytest.mark.root
def test_borrowed_groups_are_given_back_and_other_threads_never_see_them() -> None:
    own = os.getgroups()
    seen = set()
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            seen.add(tuple(os.getgroups()))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        for _ in range(200):
            os.close(open_as(NOBODY, "/etc/passwd", os.O_RDONLY, groups=(NOBODY, 4242)))
    finally:
        stop.set()
        thread.join()
    assert os.getgroups() == own
    assert seen == {tuple(own)}


@pytest.mark.root
def test_root_is_root_again_after_having_opened_for_somebody(tmp_path: Path, log: Path) -> None:
    FileLogs().read("/etc/shadow", NOBODY, None, LIMIT)
    secret = tmp_path / "roots"
    secret.write_text("x\n")
    secret.chmod(0o600)
    assert read(secret).data == b"x\n"


@pytest.mark.root
def test_root_does_not_read_its_own_secrets_for_a_user() -> None:
    assert refused("/etc/shadow", NOBODY) == "permission"
    assert refused("/etc/passwd", NOBODY) == "not_owner"


@pytest.mark.root
def test_folder_that_its_user_swaps_for_a_link_leads_nowhere_new(tmp_path: Path) -> None:
    """The last component is protected by not following links, the ones before by the rights."""
    (tmp_path / "logs").symlink_to("/etc")
    assert refused(tmp_path / "logs" / "passwd", NOBODY) in {"permission", "not_owner"}


def test_file_that_its_own_user_may_not_read_is_refused(passage: Path) -> None:
    log = passage / "out.log"
    log.write_bytes(b"x\n")
    log.chmod(0)
    owner = UID or NOBODY
    os.chown(log, owner, -1)
    assert refused(log, owner) == "permission"
