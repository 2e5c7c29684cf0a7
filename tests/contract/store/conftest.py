"""Fixtures of the store's contract: a fresh database, and an open store on it."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest

from middlewatch.ports.store import Store
from tests.contract.store.backends import BACKENDS, Backend

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session", params=sorted(BACKENDS))
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="session")
def empty(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return BACKENDS[kind].make_empty(tmp_path_factory.mktemp("empty"))


@pytest.fixture
def backend(kind: str, empty: Path, tmp_path: Path) -> Iterator[Backend]:
    made = BACKENDS[kind](tmp_path / "state", empty)
    yield made
    made.drop()


@pytest.fixture
def store(backend: Backend) -> Store:
    return backend.open()


@pytest.fixture(scope="session")
def processes() -> ForkServerContext:
    """Makes processes that have already imported the store and share nothing with this one."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["pytest", "tests.contract.store.workers"])
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *([before] if before else [])])
    try:
        forkserver.ensure_running()
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
    return context
