"""The journal's file: nothing acknowledged is lost, and nothing unreadable stops the reader."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from middlewatch.adapters.journal.file import (
    LONGEST_LINE,
    FileJournal,
    encode,
    read_bytes,
)
from middlewatch.model.journal import JournalEntry, JournalKind
from middlewatch.ports.errors import Refused, Unreachable

AT = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)


def entry(number: int = 1, kind: JournalKind = JournalKind.HOLD) -> JournalEntry:
    return JournalEntry(
        kind,
        AT + timedelta(seconds=number),
        "alpha",
        str(number),
        AT,
        1,
        release_by=AT + timedelta(seconds=600),
        user_exclusions=("n1",),
        ours=("n2", "n3"),
        owner_requeue=True,
    )


texts = st.text(max_size=20)
moments = st.datetimes(min_value=datetime(2000, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
any_entry = st.builds(
    JournalEntry,
    kind=st.sampled_from(JournalKind),
    at=moments,
    cluster_name=texts,
    job_id=texts,
    submitted_at=moments,
    restarts_expected=st.integers(0, 9999),
    release_by=st.none() | moments,
    user_exclusions=st.lists(texts, max_size=3).map(tuple),
    ours=st.lists(texts, max_size=3).map(tuple),
    owner_requeue=st.sampled_from([True, False, None]),
)


def test_no_journal_is_an_empty_one(tmp_path: Path) -> None:
    assert FileJournal(tmp_path / "none").entries() == ()
    assert not (tmp_path / "none").exists()


def test_what_is_appended_is_read_in_order(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path)
    written = tuple(entry(number) for number in range(5))
    for one in written:
        journal.append(one)
    assert FileJournal(tmp_path).entries() == written


def test_a_reader_sees_what_others_wrote_since_its_last_reading(tmp_path: Path) -> None:
    reader, writer = FileJournal(tmp_path), FileJournal(tmp_path)
    writer.append(entry(1))
    assert reader.entries() == reader.entries() == (entry(1),)
    writer.append(entry(2))
    assert reader.entries() == (entry(1), entry(2))
    writer.compact(lambda entries: tuple(entries)[1:])
    assert reader.entries() == (entry(2),)


def test_journal_is_its_owners_alone(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    FileJournal(folder).append(entry())
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
    assert modes == {"journal.jsonl": 0o600, "journal.lock": 0o600}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@given(st.lists(any_entry, max_size=6), st.data())
def test_any_prefix_of_the_bytes_gives_a_prefix_of_the_entries(
    written: list[JournalEntry], data: st.DataObject
) -> None:
    whole = b"".join(encode(one) for one in written)
    cut = data.draw(st.integers(0, len(whole)))
    found = read_bytes(whole[:cut])
    assert found.entries == tuple(written[: len(found.entries)])
    assert found.garbage == 0
    assert len(found.entries) == whole[:cut].count(b"\n")
    assert read_bytes(whole).entries == tuple(written)


@given(st.lists(any_entry, min_size=1, max_size=4), st.data())
def test_an_append_after_a_torn_line_loses_no_earlier_one(
    written: list[JournalEntry], data: st.DataObject
) -> None:
    whole = b"".join(encode(one) for one in written)
    cut = data.draw(st.integers(0, len(whole)))
    mended = whole[:cut] + (b"" if whole[:cut].endswith(b"\n") else b"\n") + encode(entry())
    before = read_bytes(whole[:cut]).entries
    after = read_bytes(mended).entries
    assert after[: len(before)] == before
    assert after[-1] == entry()
    # A line that lacked only its newline counts once it has got one.
    assert len(after) - len(before) in (1, 2)


def test_a_torn_line_is_mended_by_the_next_append(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path)
    journal.append(entry(1))
    with journal.path.open("ab") as file:
        file.write(encode(entry(2))[:40])
    assert journal.read().torn
    journal.append(entry(3))
    found = journal.read()
    assert found.entries == (entry(1), entry(3))
    assert (found.torn, found.garbage) == (False, 1)


@given(st.binary(max_size=300))
def test_no_bytes_stop_the_reader(data: bytes) -> None:
    found = read_bytes(data + b"\n" + encode(entry()))
    assert found.entries[-1:] == (entry(),)


@pytest.mark.parametrize(
    "line",
    [
        b"not json",
        b"[1]",
        b"{}",
        b'{"v":1}',
        b"\x00" * 64,
        b"[" * 100_000,
        encode(entry()).replace(b'"restarts":1', b'"restarts":"1"').strip(),
        encode(entry()).replace(b'"v":1', b'"v":true').strip(),
        encode(entry()).replace(b"+00:00", b"").strip(),
        encode(entry()).replace(b'"hold"', b'"grip"').strip(),
    ],
)
def test_a_line_that_is_no_entry_is_counted_and_passed_over(line: bytes) -> None:
    found = read_bytes(encode(entry(1)) + line + b"\n" + encode(entry(2)))
    assert found.entries == (entry(1), entry(2))
    assert found.garbage == 1


def test_lines_of_a_later_version_are_kept_when_the_file_is_tidied(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path)
    later = json.dumps({"v": 2, "kind": "something"}).encode() + b"\n"
    journal.append(entry(1))
    with journal.path.open("ab") as file:
        file.write(later + b"garbage\n")
    journal.append(entry(2))
    assert journal.compact(lambda entries: tuple(entries)[1:]) == (2, 1)
    found = journal.read()
    assert (found.entries, found.newer, found.garbage) == ((entry(2),), (later,), 0)


def test_tidying_a_tidy_journal_leaves_the_file_alone(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path)
    assert journal.compact(tuple) == (0, 0)
    assert not journal.path.exists()
    journal.append(entry())
    before = journal.path.stat().st_ino
    assert journal.compact(tuple) == (1, 1)
    assert journal.path.stat().st_ino == before


def test_a_half_made_tidy_file_is_no_obstacle(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path)
    journal.append(entry(1))
    journal.append(entry(2))
    (tmp_path / "journal.new").write_text("left by a killed process")
    journal.compact(lambda entries: tuple(entries)[:1])
    assert journal.entries() == (entry(1),)
    assert stat.S_IMODE(journal.path.stat().st_mode) == 0o600


def test_a_line_beyond_the_bound_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path)
    journal.append(entry(1))
    long = replace(entry(2), ours=("n" * LONGEST_LINE,))
    with pytest.raises(Refused, match="exclude fewer nodes"):
        journal.append(long)
    assert journal.entries() == (entry(1),)


def test_a_time_without_a_zone_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="zone"):
        FileJournal(tmp_path).append(replace(entry(), at=datetime(2026, 3, 1)))  # noqa: DTZ001


def test_a_journal_that_cannot_be_written_says_what_and_how_to_mend(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file where the folder should be")
    with pytest.raises(Unreachable, match="state directory"):
        FileJournal(tmp_path / "state").append(entry())


def test_a_journal_that_cannot_be_read_is_not_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").mkdir()
    with pytest.raises(Unreachable, match="cannot be read"):
        FileJournal(tmp_path).entries()


def test_a_symbolic_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.write_text("")
    (tmp_path / "journal.jsonl").symlink_to(target)
    with pytest.raises(Unreachable):
        FileJournal(tmp_path).append(entry())
    assert target.read_text() == ""


def test_a_full_disk_leaves_no_half_line(tmp_path: Path) -> None:
    program = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from middlewatch.adapters.journal.file import FileJournal\n"
        "from middlewatch.ports.errors import Unreachable\n"
        "from tests.unit.journal.test_file_journal import entry\n"
        "journal = FileJournal(Path(sys.argv[1]))\n"
        "journal.append(entry(1))\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "size = journal.path.stat().st_size + 50\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))\n"
        "try:\n"
        "    journal.append(entry(2))\n"
        "except Unreachable:\n"
        "    sys.exit(7)\n"
    )
    root = Path(__file__).parents[3]
    ran = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], cwd=root, env={**os.environ}, check=False
    )
    assert ran.returncode == 7
    found = FileJournal(tmp_path).read()
    assert (found.entries, found.torn) == ((entry(1),), False)


def test_threads_that_append_while_another_tidies_lose_nothing(tmp_path: Path) -> None:
    journal = FileJournal(tmp_path)

    def write(first: int) -> None:
        for number in range(first, first + 20):
            FileJournal(tmp_path).append(entry(number))

    threads = [threading.Thread(target=write, args=(first,)) for first in (0, 100, 200)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        journal.compact(lambda entries: tuple(entries)[::-1])  # another order: written anew
    for thread in threads:
        thread.join()
    found = journal.read()
    assert sorted(int(one.job_id) for one in found.entries) == [
        *range(20), *range(100, 120), *range(200, 220),
    ]  # fmt: skip
    assert found.garbage == 0


def test_processes_that_append_at_once_lose_nothing(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from middlewatch.adapters.journal.file import FileJournal\n"
        "from tests.unit.journal.test_file_journal import entry\n"
        "journal, first = FileJournal(Path(sys.argv[1])), int(sys.argv[2])\n"
        "for number in range(first, first + 20):\n"
        "    journal.append(entry(number))\n"
    )
    root = Path(__file__).parents[3]
    running = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path), str(first)], cwd=root)
        for first in (0, 100, 200)
    ]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    assert len(FileJournal(tmp_path).entries()) == 60
