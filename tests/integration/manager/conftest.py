"""One world for each test, on an empty database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from middlewatch.adapters.sql.store import open_store
from tests.integration.manager.world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    store = open_store(folder / "state.db")
    yield World(store)
    store.close()
