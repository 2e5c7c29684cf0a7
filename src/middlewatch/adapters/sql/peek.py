"""A look at a store from outside, that changes nothing: not its tables, not its version.

`open_store` brings tables up to date, which a program that only looks must not do to a database
that a running older version uses.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import quote

from middlewatch.adapters.sql.codec import moment_of
from middlewatch.adapters.sql.faults import translated
from middlewatch.adapters.sql.upgrade import HEAD, VERSIONS

_WAIT_S = 2.0


@dataclass(frozen=True, slots=True)
class Peek:
    """``size`` in bytes, with the log that belongs to the file. ``current``: the tables are those
    of this version; where not, nothing else was read. ``since``: the first event of the trail."""

    size: int
    current: bool
    revision: str = ""
    since: datetime | None = None
    attempts: int = 0
    advised: int = 0
    not_permitted: int = 0
    """Of the advised attempts, those whose advice was only what it would have done."""
    oldest_end: datetime | None = None
    notes: tuple[tuple[str, str], ...] = ()


def peek(path: Path, notes: tuple[str, ...] = ()) -> Peek:
    """What there is, with those of the named notes that exist. Raises the port's errors."""
    with translated(str(path)):
        size = sum(
            file.stat().st_size
            for file in (path, path.with_name(path.name + "-wal"))
            if file.exists()
        )
        uri = f"file:{quote(str(path))}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=_WAIT_S)) as database:
            row = database.execute(f"SELECT version_num FROM {VERSIONS}").fetchone()  # noqa: S608
            revision = str(row[0]) if row else ""
            if revision != HEAD:
                return Peek(size, False, revision)
            return Peek(
                size=size,
                current=True,
                revision=revision,
                since=_moment(database, "SELECT happened_us FROM audit ORDER BY number LIMIT 1"),
                attempts=_count(database, "SELECT count(*) FROM attempts"),
                advised=_count(database, "SELECT count(*) FROM advice"),
                not_permitted=_count(
                    database,
                    "SELECT count(*) FROM advice "
                    "WHERE json_extract(body, '$.status.reason') = 'NOT_PERMITTED'",
                ),
                oldest_end=_moment(database, "SELECT min(ended_us) FROM attempts"),
                notes=tuple(
                    (name, str(row[0]))
                    for name in notes
                    for row in database.execute("SELECT value FROM notes WHERE name = ?", (name,))
                ),
            )


def _count(database: sqlite3.Connection, query: str) -> int:
    return int(database.execute(query).fetchone()[0])


def _moment(database: sqlite3.Connection, query: str) -> datetime | None:
    row = database.execute(query).fetchone()
    return None if row is None or row[0] is None else moment_of(row[0])
