"""A sound copy of a store that is in use: the file alone lacks what stands in its log."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from middlewatch.adapters.sql.faults import translated
from middlewatch.ports.errors import Conflict, NotFound


def copy(database: Path, into: Path) -> int:
    """Write a copy of one moment, for its owner's eyes only; its size in bytes.

    Whoever writes meanwhile is not kept waiting. Raises `NotFound` without a database, `Conflict`
    where ``into`` exists, and what the database and the disk say; then no copy is left.
    """
    if not database.exists():
        raise NotFound(f"there is no database {database}; the first `middlewatch up` makes it")
    part = into.with_name(into.name + ".part")
    with translated(str(into)):
        if into.exists():
            raise Conflict(f"{into} is there already; name another file")
        part.unlink(missing_ok=True)
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))
        try:
            uri = f"file:{quote(str(database.absolute()))}?mode=ro"
            # What SQLite says is about the database, or about the copy of it: name both.
            with (
                translated(f"{database} into {into}"),
                closing(sqlite3.connect(uri, uri=True, timeout=15.0)) as source,
            ):
                source.execute("VACUUM INTO ?", (str(part),))
            _on_disk(part)
            os.link(part, into)  # unlike a rename it replaces nothing
        finally:
            part.unlink(missing_ok=True)
        return into.stat().st_size


def _on_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
