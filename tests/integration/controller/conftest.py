"""The controller beside its store, and elsewhere: the same tests with a gateway on a real port."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from middlewatch.adapters.api.client import ApiClient
from middlewatch.adapters.api.control import RemoteStore
from middlewatch.adapters.sql.store import SqlStore
from middlewatch.ports.clock import Clock
from middlewatch.services.gateway.access import Listen, Scope
from middlewatch.services.gateway.server import Gateway, GatewaySettings
from middlewatch.services.gateway.tokens import make_token
from tests.integration.controller.world import CLUSTER, World


@pytest.fixture(params=["beside", "elsewhere"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    with ExitStack() as stack:

        def elsewhere(store: SqlStore, clock: Clock) -> RemoteStore:
            gateway = Gateway(
                GatewaySettings(Listen(port=0), tmp_path / "t"), store, clock, CLUSTER
            )
            gateway.start()
            stack.callback(gateway.stop)
            token = make_token(store, clock, "elsewhere", (Scope.CONTROLLER,))
            remote = RemoteStore(lambda: ApiClient(url=gateway.url, token=token), CLUSTER)
            stack.callback(remote.close)
            return remote

        made = World(tmp_path, through=elsewhere if request.param == "elsewhere" else None)
        stack.callback(made.store.close)
        yield made
