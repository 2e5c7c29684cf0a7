"""The whole application over a real store, without sockets; time stands still unless moved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from middlewatch.adapters.sql.store import SqlStore, open_store
from middlewatch.services.gateway.access import Scope
from middlewatch.services.gateway.app import Application, Calls, Door
from middlewatch.services.gateway.metrics import Metrics
from middlewatch.services.gateway.service import Context
from middlewatch.services.gateway.tokens import make_token
from tests.contract.api.samples import CLUSTER, NOW


@dataclass
class StandingClock:
    """Implements the clock port; ``moment`` is moved by hand."""

    moment: datetime = NOW
    seconds: float = 1000.0
    made: int = 0

    def now(self) -> datetime:
        return self.moment

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)
        self.seconds += seconds

    def token(self, size: int = 32) -> str:
        self.made += 1
        return f"secret{self.made:0{size}d}"


@dataclass
class Api:
    """The application, its store, its clock, and calls with a token of every scope."""

    store: SqlStore
    clock: StandingClock
    client: TestClient
    tokens: dict[Scope, str]
    ages: dict[str, float | None] = field(default_factory=dict)

    def call(
        self,
        verb: str,
        path: str,
        body: Any = None,
        *,
        scope: Scope | None = Scope.ADMIN,
        headers: dict[str, str] | None = None,
        **query: Any,
    ) -> tuple[int, Any]:
        sent = dict(headers or {})
        if scope is not None:
            sent.setdefault("Authorization", f"Bearer {self.tokens[scope]}")
        params = [
            (name, each)
            for name, value in query.items()
            for each in (value if isinstance(value, list) else [value])
        ]
        response = self.client.request(verb, path, json=body, params=params, headers=sent)
        return response.status_code, response.json()

    def get(self, path: str, **query: Any) -> Any:
        """The body of a successful read."""
        status, body = self.call("GET", path, **query)
        assert status == 200, body
        return body

    def refused(self, path: str, **query: Any) -> str:
        """The message of a read that is refused as malformed."""
        status, body = self.call("GET", path, **query)
        assert (status, body["code"], body["details"]) == (400, 3, []), body
        return str(body["message"])


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    store = open_store(tmp_path / "state" / "store.db")
    clock = StandingClock()
    ages: dict[str, float | None] = {}
    context = Context(store=store, clock=clock, cluster=CLUSTER, ages=lambda: ages, signal_cap=3)
    calls = Calls(context, Door(own_uid=4242, body_limit=100_000), Metrics(context))
    tokens = {scope: make_token(store, clock, scope.value, (scope,)) for scope in Scope}
    with TestClient(Application(calls), base_url="http://127.0.0.1:8080") as client:
        yield Api(store, clock, client, tokens, ages)
    store.close()
