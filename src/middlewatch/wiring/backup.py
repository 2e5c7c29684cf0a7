"""A copy of the state directory's database, made by whoever may read it."""

from __future__ import annotations

from pathlib import Path

from middlewatch.adapters.sql.copying import copy
from middlewatch.wiring.places import Places


def backup(places: Places, file: Path) -> int:
    """Copy the database into ``file``; its size in bytes. Raises what `copy` raises."""
    return copy(places.database, file)
