"""A real VictoriaLogs, and the stand-in for Loki."""

from __future__ import annotations

from tests.contract.logsource.conftest import loki, victorialogs

__all__ = ["loki", "victorialogs"]
