"""A running gateway on a free port and a Unix socket, over a store of its own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from middlewatch.adapters.api.client import ApiClient
from middlewatch.adapters.clock.system import SystemClock
from middlewatch.adapters.sql.store import SqlStore, open_store
from middlewatch.services.gateway.access import Listen, SocketOthers
from middlewatch.services.gateway.server import Gateway, GatewaySettings
from tests.contract.api.samples import CLUSTER

TLS = Path(__file__).resolve().parents[2] / "data" / "tls"

Start = Callable[..., Gateway]


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that every local user may enter and whose path is short enough for a socket."""
    made = Path(tempfile.mkdtemp(prefix="mw-gateway-"))
    made.chmod(0o755)
    yield made
    shutil.rmtree(made)


@pytest.fixture
def store(place: Path) -> Iterator[SqlStore]:
    opened = open_store(place / "state" / "store.db")
    yield opened
    opened.close()


@pytest.fixture
def start(place: Path, store: SqlStore) -> Iterator[Start]:
    """Start a gateway with the given ``Listen`` on a free port; all are stopped at the end."""
    with ExitStack() as stack:

        def run(
            listen: Listen | None = None,
            *,
            others: SocketOthers = SocketOthers.NONE,
            socket: bool = True,
            **limits: Any,
        ) -> Gateway:
            settings = GatewaySettings(
                listen or Listen(port=0),
                place / "state" / "token",
                place / "api.sock" if socket else None,
                socket_others=others,
                **limits,
            )
            gateway = Gateway(settings, store, SystemClock(), CLUSTER)
            gateway.start()
            stack.callback(gateway.stop)
            return gateway

        yield run


@pytest.fixture
def local(place: Path, start: Start) -> Iterator[ApiClient]:
    """A client over the Unix socket of a gateway with the default settings."""
    start()
    with ApiClient(socket=place / "api.sock") as client:
        yield client
