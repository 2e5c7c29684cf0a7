"""The metrics port over Prometheus' HTTP API, which VictoriaMetrics speaks as well."""

from middlewatch.adapters.metrics.queries import BadQueryError, Queries
from middlewatch.adapters.metrics.source import PromMetrics

__all__ = ["BadQueryError", "PromMetrics", "Queries"]
