"""Databases fail in their own words; callers know five.

`translated` stands around every use of a connection. What matters is whether repeating may help
(`Unreachable`), whether somebody was quicker (`Conflict`), or whether a person has to look
(`Unreadable`, `Refused`). The foreign error is kept as the cause.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import exc

from middlewatch.ports.errors import Conflict, PortError, Refused, Unreachable, Unreadable

_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED})
_BROKEN = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_MISSING = frozenset({sqlite3.SQLITE_ERROR, sqlite3.SQLITE_SCHEMA})
_RIGHTS = frozenset({sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH})


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Raise what a database driver raised as one of the port's errors. ``where`` names it."""
    try:
        yield
    except PortError:
        raise
    except exc.StatementError as error:
        raise _of_driver(error.orig, where) from error
    except exc.TimeoutError as error:
        raise Unreachable(f"{where}: all connections are busy; try again") from error
    except exc.SQLAlchemyError as error:
        raise Unreachable(f"{where}: {error}") from error
    except (sqlite3.Error, OverflowError) as error:
        raise _of_driver(error, where) from error
    except OSError as error:
        raise Unreachable(f"{where}: {error}") from error


def _of_driver(error: BaseException | None, where: str) -> PortError:
    text = str(error)
    if isinstance(error, sqlite3.IntegrityError):
        return Conflict(f"{where}: somebody else wrote the same row first ({text})")
    if isinstance(error, sqlite3.DataError | OverflowError | sqlite3.InterfaceError):
        return Refused(f"{where}: a value does not fit ({text})")
    if isinstance(error, sqlite3.ProgrammingError):
        return Unreachable(f"{where}: the connection is closed ({text})")
    if "decode to UTF-8" in text:
        return Unreadable(f"{where}: a row holds bytes that are not text ({text})")
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _BUSY:
        return Unreachable(
            f"{where}: another process has kept the database locked for too long; try again"
        )
    if code == sqlite3.SQLITE_FULL:
        return Unreachable(
            f"{where}: the disk is full. Nothing was written; free some space there and try again"
        )
    if code in _BROKEN:
        return Unreadable(
            f"{where}: this is not a sound SQLite database ({text}); restore it from a backup"
        )
    if code in _RIGHTS:
        return Unreachable(f"{where}: not allowed to write there ({text}); check owner and rights")
    if code in _MISSING:
        return Unreadable(f"{where}: the tables are not those of this version ({text})")
    return Unreachable(f"{where}: {text}")
