"""Connections to one database file: one writer at a time, several readers, nothing lost.

SQLite allows one writer. Instead of meeting that limit as an error in the middle of a
transaction, each write takes a lock of this process and then SQLite's own write lock at its very
beginning (BEGIN IMMEDIATE), so that between a read and the write that follows from it nobody
else writes. Readers see the last committed state and neither wait nor make anybody wait (WAL).
``synchronous=FULL`` makes every commit reach the disk before it is acknowledged.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.pool import QueuePool

from middlewatch.adapters.sql.faults import translated
from middlewatch.adapters.sql.place import private_file
from middlewatch.ports.errors import PortError, Refused, Unreachable

WAIT_S = 15.0
"""How long a writer waits for others, in this process and elsewhere."""
READERS = 4
SPARE_READERS = 12
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY = 2440587.5
"""1970 in SQLite's count of days."""

_guard = threading.Lock()
_writers: dict[str, threading.Lock] = {}


def _writer_lock(path: str) -> threading.Lock:
    """One lock per file and process, whoever opened the file, and how often."""
    with _guard:
        return _writers.setdefault(path, threading.Lock())


class Database:
    """One SQLite file. Safe to use from several threads, several at once, and after a fork."""

    def __init__(self, path: Path, *, wait_s: float = WAIT_S) -> None:
        """Open or make the file. Raises `Refused`, `Unreachable` or `Unreadable`."""
        self.path = Path(os.path.realpath(path))
        self.name = str(self.path)
        self._wait_s = wait_s
        with translated(self.name):
            private_file(self.path)
        self._lock = _writer_lock(self.name)
        self._pid = os.getpid()
        self._writer = self._engine("BEGIN IMMEDIATE", size=1, spare=0, writes=True)
        self._reader = self._engine("BEGIN", size=READERS, spare=SPARE_READERS, writes=False)

    def _engine(self, begin: str, *, size: int, spare: int, writes: bool) -> Engine:
        engine = create_engine(
            URL.create("sqlite", database=self.name),
            poolclass=QueuePool,
            pool_size=size,
            max_overflow=spare,
            pool_timeout=self._wait_s,
            connect_args={
                "timeout": self._wait_s,
                "check_same_thread": False,
                # The driver starts no transaction of its own: ours begin where we say.
                "isolation_level": None,
            },
        )

        @event.listens_for(engine, "connect")
        def prepare(connection: Any, _record: object) -> None:
            _prepare(connection, self.name, writes=writes)

        @event.listens_for(engine, "begin")
        def start(connection: Connection) -> None:
            connection.exec_driver_sql(begin)

        return engine

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that may write: committed and on disk at the end, or rolled back."""
        self._mind_forks()
        if not self._lock.acquire(timeout=self._wait_s):
            raise Unreachable(
                f"{self.name}: another thread has been writing for {self._wait_s:.0f} s; try again"
            )
        try:
            with translated(self.name), self._writer.connect() as connection, connection.begin():
                yield connection
        finally:
            self._lock.release()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A consistent view of the last committed state."""
        self._mind_forks()
        with translated(self.name), self._reader.connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes from preparing the same file meanwhile."""
        beside = self.path.with_name(self.path.name + ".lock")
        with translated(self.name):
            handle = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                yield
            finally:
                os.close(handle)

    @staticmethod
    def moment(connection: Connection) -> datetime:
        """The time by the database's own clock, to the millisecond: one clock for all who ask."""
        days = connection.exec_driver_sql("SELECT julianday('now')").scalar_one()
        return _EPOCH + timedelta(milliseconds=round((float(days) - _EPOCH_DAY) * 86_400_000))

    def checkpoint(self) -> None:
        """Move what the write-ahead log holds into the file, as far as no reader needs it there.

        SQLite does so by itself as it goes along; after a bulk load there is much left.
        """
        with self._lock, translated(self.name):
            connection = self._writer.raw_connection()
            try:
                connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)")
            finally:
                connection.close()

    def close(self) -> None:
        self._writer.dispose()
        self._reader.dispose()

    def _mind_forks(self) -> None:
        # A connection of the parent must not be used, nor closed, by the child.
        if self._pid == os.getpid():
            return
        self._pid = os.getpid()
        self._writer.dispose(close=False)
        self._reader.dispose(close=False)
        with _guard:
            self._lock = _writers[self.name] = threading.Lock()


def _prepare(connection: sqlite3.Connection, name: str, *, writes: bool) -> None:
    try:
        mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
        if mode != "wal":
            mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
        if mode != "wal":
            raise Refused(
                f"{name}: SQLite cannot keep a write-ahead log there (it offers {mode!r}); "
                "name a directory on a local disk"
            )
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA trusted_schema=OFF")
        connection.execute("PRAGMA wal_autocheckpoint=1000")
        connection.execute("PRAGMA journal_size_limit=67108864")
        if not writes:
            connection.execute("PRAGMA query_only=ON")
    except PortError:
        connection.close()
        raise
