"""The machine's own clock and randomness.

The one place where time and chance enter the program: everything else is handed a moment or asks
this port, so that whole recoveries can be replayed in virtual time.
"""

from __future__ import annotations

import secrets
import time
from datetime import UTC, datetime


class SystemClock:
    """Implements `ports.clock.Clock`. Stateless; may be shared by threads."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        if seconds > 0:
            time.sleep(seconds)

    def token(self, size: int = 32) -> str:
        return secrets.token_urlsafe(size)
