"""Requests made from the API's own description, lawful ones and others, against the live gateway."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.adapters.sql.store import open_store
from middlewatch.contract import openapi
from middlewatch.model.change import Change
from middlewatch.services.gateway.access import Listen
from middlewatch.services.gateway.server import Gateway, GatewaySettings
from tests.contract.api.samples import ADVICE, ATTEMPT, CLUSTER, SEQUENCE

DISABLED = "API key management is disabled"
CHECKS = [response_schema_conformance, content_type_conformance, status_code_conformance]

schema = schemathesis.openapi.from_dict(openapi.document())


@schema.hook
def map_path_parameters(
    context: schemathesis.HookContext, path_parameters: dict[str, Any] | None
) -> dict[str, Any] | None:
    """Half of all paths name something that exists."""
    known = {"heimdallJobId": ATTEMPT.id, "schedulerJobId": "12345", "attempt": "12345-0"}
    for name, value in known.items():
        if path_parameters and len(str(path_parameters.get(name, ""))) % 2:
            path_parameters[name] = value
    return path_parameters


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    place = Path(tempfile.mkdtemp(prefix="mw-fuzz-"))
    store = open_store(place / "store.db")
    store.apply(Change(attempts=(ATTEMPT,), sequences=(SEQUENCE,), advice=(ADVICE,)))
    settings_ = GatewaySettings(Listen(port=0), place / "token")
    running = Gateway(settings_, store, SystemClock(), CLUSTER)
    running.start()
    yield running
    running.stop()
    store.close()
    shutil.rmtree(place)


@pytest.mark.slow
@schema.parametrize()
@settings(
    max_examples=30,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
def test_no_request_finds_a_server_error(case: schemathesis.Case, gateway: Gateway) -> None:
    disabled = case.operation.path.startswith("/v1/keys")
    response = case.call_and_validate(
        base_url=gateway.url,
        headers={"Authorization": f"Bearer {gateway.first_token}"},
        checks=CHECKS if disabled else [*CHECKS, not_a_server_error],
    )
    if disabled and response.status_code >= 500:
        assert response.json()["message"] == DISABLED
