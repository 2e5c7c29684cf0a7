"""The journal as a file of JSON lines that survives the death of whoever writes it.

A line is written, and on the disk, before the command it speaks of is sent; so a crash at any
byte must leave every earlier line readable. Only lines that end in a newline count: a torn one
was never acknowledged. Several processes append, under a lock on a file of its own, because the
journal itself is replaced when it is tidied.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from middlewatch.model.identity import NaiveTimeError, utc
from middlewatch.model.journal import JournalEntry, JournalKind
from middlewatch.ports.errors import Refused, Unreachable

VERSION = 1
LONGEST_LINE = 1 << 20
"""Bytes, the newline included. Five thousand node names of sixty letters fit three times."""
JOURNAL_NAME = "journal.jsonl"
LOCK_NAME = "journal.lock"


@dataclass(frozen=True, slots=True)
class Reading:
    """What one reading found. ``garbage`` counts lines that are no entry of any version, ``newer``
    holds lines of later versions as they stand, ``torn`` says that the last line has no end."""

    entries: tuple[JournalEntry, ...]
    garbage: int = 0
    newer: tuple[bytes, ...] = ()
    torn: bool = False


class FileJournal:
    """The journal of one state directory. Safe among threads and processes of one machine.

    Reading an unchanged journal again costs one look at the file's status.
    """

    def __init__(self, state_dir: Path) -> None:
        """Touches nothing yet. ``state_dir`` is made (0700) with the first entry."""
        self.path = state_dir / JOURNAL_NAME
        self._lock_path = state_dir / LOCK_NAME
        self._last: tuple[tuple[int, int, int], Reading] | None = None

    def append(self, entry: JournalEntry) -> None:
        """See `ports.journal.Journal.append`. Mends a torn last line first."""
        line = encode(entry)
        with _as_unreachable(f"journal {self.path} cannot be written"), self._locked():
            fresh = not self.path.exists()
            handle = os.open(self.path, _APPEND, 0o600)
            try:
                _append(handle, line)
            finally:
                os.close(handle)
            if fresh:
                _sync_directory(self.path.parent)

    def entries(self) -> tuple[JournalEntry, ...]:
        """See `ports.journal.Journal.entries`."""
        return self.read().entries

    def read(self) -> Reading:
        """Everything that can be read, with what could not. Raises `Unreachable`."""
        with _as_unreachable(f"journal {self.path} cannot be read"):
            try:
                with self.path.open("rb") as file:
                    status = os.fstat(file.fileno())
                    version = (status.st_ino, status.st_size, status.st_mtime_ns)
                    last = self._last
                    if last is not None and last[0] == version:
                        return last[1]
                    data = file.read()
            except FileNotFoundError:
                return Reading(())
        found = read_bytes(data)
        # What was read may be longer than what the status said: then the next time reads again.
        self._last = (version, found) if len(data) == version[1] else None
        return found

    def compact(
        self, keep: Callable[[Iterable[JournalEntry]], tuple[JournalEntry, ...]]
    ) -> tuple[int, int]:
        """Replace the file by the entries that ``keep`` chooses, in one step; lines of later
        versions stay as they are. Returns the number of entries before and after.

        Raises `Unreachable` where that cannot be done; the old file is then still whole.
        """
        with _as_unreachable(f"journal {self.path} cannot be tidied"), self._locked():
            before = self.read()
            kept = keep(before.entries)
            if not self.path.exists() or (
                kept == before.entries and not before.garbage and not before.torn
            ):
                return len(before.entries), len(before.entries)
            new = self.path.with_suffix(".new")
            new.unlink(missing_ok=True)
            handle = os.open(new, _CREATE, 0o600)
            try:
                _write(handle, b"".join((*before.newer, *(encode(entry) for entry in kept))))
                os.fsync(handle)
            finally:
                os.close(handle)
            new.replace(self.path)
            _sync_directory(self.path.parent)
            return len(before.entries), len(kept)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        folder = self._lock_path.parent
        if not folder.is_dir():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            _sync_directory(folder.parent)
        handle = os.open(self._lock_path, _LOCK, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


_APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_LOCK = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


def _append(handle: int, line: bytes) -> None:
    length = os.fstat(handle).st_size
    if length and os.pread(handle, 1, length - 1) != b"\n":
        line = b"\n" + line
    try:
        _write(handle, line)
        os.fsync(handle)
    except OSError:
        # Take back what may be half a line; if that fails too, the next append ends it.
        with contextlib.suppress(OSError):
            os.ftruncate(handle, length)
        raise


def _write(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def _sync_directory(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _as_unreachable(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Unreachable(
            f"{what}: {error.strerror or error}; see that the state directory is there, "
            "writable by this user and not full"
        ) from error


def encode(entry: JournalEntry) -> bytes:
    """One line. Raises `Refused` for a time without a zone and for a line beyond the bound."""
    try:
        fields: dict[str, Any] = {
            "v": VERSION,
            "kind": entry.kind.value,
            "at": _text(entry.at),
            "cluster": entry.cluster_name,
            "job": entry.job_id,
            "submitted": _text(entry.submitted_at),
            "restarts": entry.restarts_expected,
        }
        if entry.release_by is not None:
            fields["release_by"] = _text(entry.release_by)
    except NaiveTimeError as error:
        raise Refused(f"journal entry for job {entry.job_id[:80]!r}: {error}") from error
    if entry.user_exclusions:
        fields["user_exclusions"] = list(entry.user_exclusions)
    if entry.ours:
        fields["ours"] = list(entry.ours)
    if entry.owner_requeue is not None:
        fields["owner_requeue"] = entry.owner_requeue
    line = json.dumps(fields, separators=(",", ":"), ensure_ascii=True).encode("ascii") + b"\n"
    if len(line) > LONGEST_LINE:
        raise Refused(
            f"journal entry for job {entry.job_id[:80]!r} takes {len(line)} bytes, more than "
            f"{LONGEST_LINE}: exclude fewer nodes"
        )
    return line


def _text(moment: datetime) -> str:
    return utc(moment).isoformat(timespec="microseconds")


def read_bytes(data: bytes) -> Reading:
    """Read the bytes of a journal, whatever they are. Never raises."""
    *lines, rest = data.split(b"\n")
    found: list[JournalEntry] = []
    newer: list[bytes] = []
    garbage = 0
    for line in lines:
        if not line:
            continue
        fields = _fields(line)
        version = fields.get("v") if fields is not None else None
        if type(version) is not int:
            version = 0
        if version > VERSION:
            newer.append(line + b"\n")
            continue
        entry = _entry(fields) if fields is not None and version == VERSION else None
        if entry is None:
            garbage += 1
        else:
            found.append(entry)
    return Reading(tuple(found), garbage, tuple(newer), bool(rest))


def _fields(line: bytes) -> dict[str, Any] | None:
    if len(line) >= LONGEST_LINE:
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _entry(fields: dict[str, Any]) -> JournalEntry | None:
    try:
        release_by = fields.get("release_by")
        requeue = fields.get("owner_requeue")
        restarts = fields["restarts"]
        if type(restarts) is not int or not (requeue is None or isinstance(requeue, bool)):
            return None
        return JournalEntry(
            kind=JournalKind(fields["kind"]),
            at=_moment(fields["at"]),
            cluster_name=_word(fields["cluster"]),
            job_id=_word(fields["job"]),
            submitted_at=_moment(fields["submitted"]),
            restarts_expected=restarts,
            release_by=None if release_by is None else _moment(release_by),
            user_exclusions=tuple(_word(node) for node in fields.get("user_exclusions", ())),
            ours=tuple(_word(node) for node in fields.get("ours", ())),
            owner_requeue=requeue,
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def _moment(value: object) -> datetime:
    return utc(datetime.fromisoformat(_word(value))).astimezone(UTC)


def _word(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not text")
    return value
