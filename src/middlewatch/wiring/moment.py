"""The present moment for the command line, which shows ages and may not read a clock itself."""

from __future__ import annotations

from datetime import datetime

from middlewatch.adapters.clock.system import SystemClock


def now() -> datetime:
    """Aware, UTC."""
    return SystemClock().now()
