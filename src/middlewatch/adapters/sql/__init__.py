"""The store over SQL: SQLite embedded, written so that other databases can join."""

from __future__ import annotations

from middlewatch.adapters.sql.place import state_directory
from middlewatch.adapters.sql.store import SqlStore, open_store

__all__ = ["SqlStore", "open_store", "state_directory"]
