"""The databases that the suite runs on. One class each; `BACKENDS` names them."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Protocol

from middlewatch.adapters.sql.store import SqlStore, open_store

Clock = Callable[[], datetime]


class Backend(Protocol):
    """One empty database for one test."""

    address: str
    """What `open_store` takes, in this process or another."""

    def open(self, clock: Clock | None = None) -> SqlStore:
        """Another handle on the same data; ``clock`` takes the place of the database's own."""

    def damage(self, table: str, column: str, value: object) -> None:
        """Overwrite a column in all rows of a table, behind the store's back."""

    def drop(self) -> None:
        """Close every handle and forget the data."""


class Sqlite:
    """A file in the test's own directory; copied from an empty one, to be there sooner."""

    def __init__(self, folder: Path, empty: Path) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self.path = folder / "state.db"
        shutil.copy(empty, self.path)
        self.address = str(self.path)
        self._opened: list[SqlStore] = []

    @staticmethod
    def make_empty(folder: Path) -> Path:
        path = folder / "empty.db"
        open_store(path).close()
        return path

    def open(self, clock: Clock | None = None) -> SqlStore:
        store = open_store(self.address, clock=clock)
        self._opened.append(store)
        return store

    def damage(self, table: str, column: str, value: object) -> None:
        connection = sqlite3.connect(self.path)
        with connection:
            connection.execute(f"UPDATE {table} SET {column} = ?", (value,))
        connection.close()

    def drop(self) -> None:
        for store in self._opened:
            store.close()


BACKENDS = {"sqlite": Sqlite}
