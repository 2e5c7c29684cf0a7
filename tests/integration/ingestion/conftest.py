"""A real VictoriaLogs, and the stand-in for Loki."""

from __future__ import annotations

import pytest

from tests.contract.logsource.conftest import loki, victorialogs
from tests.integration.ingestion.shipping import Ship

__all__ = ["loki", "victorialogs"]


@pytest.fixture(params=["victorialogs", "loki"])
def ship(request: pytest.FixtureRequest) -> Ship:
    server = request.getfixturevalue(request.param)
    return Ship(request.param, server.url)
