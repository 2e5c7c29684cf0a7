"""A stand-in for Loki, where there is none to be had.

Loki is AGPL and in no package registry that the tests may use. This is a small server with the part
of its documented HTTP API that a reader and a collector of logs meet: push, labels, series, query,
query range, tail; tenants, limits, late and out-of-order entries, and the ways in which it refuses.
It keeps everything in memory and is as quick as that. It is no Loki: what passes here is believed,
not proven, to work there.
"""

from middlewatch.lab.loki.app import Trouble
from middlewatch.lab.loki.entries import Entries, Limits
from middlewatch.lab.loki.server import LokiStandIn

__all__ = ["Entries", "Limits", "LokiStandIn", "Trouble"]
