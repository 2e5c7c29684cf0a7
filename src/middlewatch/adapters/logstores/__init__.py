"""The log source port over log stores: VictoriaLogs and Loki."""

from middlewatch.adapters.logstores.loki import Loki
from middlewatch.adapters.logstores.recent import Entry, Recent, Wanted, recent
from middlewatch.adapters.logstores.selecting import Labels
from middlewatch.adapters.logstores.source import StoreLogs
from middlewatch.adapters.logstores.victorialogs import VictoriaLogs

__all__ = [
    "Entry",
    "Labels",
    "Loki",
    "Recent",
    "StoreLogs",
    "VictoriaLogs",
    "Wanted",
    "recent",
]
