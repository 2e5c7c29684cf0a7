"""The sources that the suite runs on.

VictoriaLogs is the real one, built and started here; where that cannot be, its tests are skipped
aloud. Loki is the stand-in that we ship; with LOKI_URL in the environment (`make test-loki
LOKI_URL=http://…`) the same tests run on that Loki too. It should be one for tests: lines of jobs
that do not exist are pushed to it.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from middlewatch.lab.loki import LokiStandIn
from middlewatch.lab.victorialogs import CannotBuild, VictoriaLogsServer, available, program
from tests.contract.logsource.worlds import (
    FileWorld,
    HandClock,
    LokiWorld,
    StoreWorld,
    VictoriaWorld,
    World,
    stopped_and_started,
)

STORES = ["victorialogs", "loki_stand_in"]
if os.environ.get("LOKI_URL"):
    STORES.append("given_loki")
_NUMBERS = itertools.count(1)


def require_victorialogs() -> None:
    """Skip, with the reason, where VictoriaLogs cannot be had."""
    state = available()
    if not state.ok:
        pytest.skip(state.reason)
    try:
        program(lambda line: print(f"\n{line}", flush=True))
    except CannotBuild as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def victorialogs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[VictoriaLogsServer]:
    require_victorialogs()
    server = VictoriaLogsServer(tmp_path_factory.mktemp("victorialogs"))
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def loki() -> Iterator[LokiStandIn]:
    server = LokiStandIn()
    server.start()
    yield server
    server.stop()


def new_job() -> str:
    """The number of a job that nobody has, in this run or another."""
    return f"{time.time_ns() // 1000}{os.getpid()}{next(_NUMBERS)}"


def store_world(name: str, request: pytest.FixtureRequest) -> StoreWorld:
    job, clock = new_job(), HandClock()
    if name == "victorialogs":
        server = request.getfixturevalue("victorialogs")
        world: StoreWorld = VictoriaWorld(job, clock, server.url)
        stopped_and_started(server, world)
        return world
    tenant = os.environ.get("LOKI_TENANT", "")
    headers = {"headers": (("X-Scope-OrgID", tenant),)} if tenant else {}
    if name == "given_loki":
        return LokiWorld(job, clock, os.environ["LOKI_URL"].rstrip("/"), **headers)
    stand_in = request.getfixturevalue("loki")
    world = LokiWorld(job, clock, stand_in.url, stand_in)
    stopped_and_started(stand_in, world)
    return world


@pytest.fixture(params=["files", *STORES])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """Any source."""
    made: World
    if request.param == "files":
        made = FileWorld(new_job(), HandClock(), tmp_path)
    else:
        made = store_world(request.param, request)
    yield made
    made.close()


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> Iterator[StoreWorld]:
    """A log store."""
    made = store_world(request.param, request)
    yield made
    made.close()
