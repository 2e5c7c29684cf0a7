"""The web port over HTTP: one server that is asked politely and believed sparingly."""

from middlewatch.adapters.web.server import LOKI, METRICS, VICTORIALOGS, Access, Kind, Server

__all__ = ["LOKI", "METRICS", "VICTORIALOGS", "Access", "Kind", "Server"]
