"""Time and randomness, the two things that no decision may fetch by itself."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """The present moment, aware, UTC."""

    def monotonic(self) -> float:
        """Seconds from an arbitrary start, never set back."""

    def sleep(self, seconds: float) -> None:
        """Let real (or virtual) time pass."""

    def token(self, size: int = 32) -> str:
        """``size`` bytes of fresh randomness, URL-safe text. For secrets and holder names."""
