"""A real VictoriaLogs for the watcher, and servers that answer as they should not."""

from __future__ import annotations

from tests.contract.logsource.conftest import loki, store, victorialogs

__all__ = ["loki", "store", "victorialogs"]
