"""A server that answers questions over the web: log stores and metrics servers are both asked so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

_SENTENCE = 300


@dataclass(frozen=True, slots=True)
class Body:
    """The beginning of an answer; ``cut`` where more would have come than was asked for."""

    data: bytes
    cut: bool


class Web(Protocol):
    """One server, for one thread."""

    questions: int
    """How many were asked so far: what the server is burdened with."""

    @property
    def timeout_s(self) -> float:
        """How long a whole answer may take, seconds."""

    @property
    def where(self) -> str:
        """The server for a sentence, without what a URL may hide."""

    def ask(self, path: str, form: Mapping[str, str], limit: int) -> Body:
        """The answer to a question, at most ``limit`` bytes of it. Raises `Unreachable` (also
        while a server that failed is left alone), `Refused` or `Unreadable`."""

    def close(self) -> None:
        """Let go of its connections; the next question makes new ones."""


def plain(text: str) -> str:
    """A stranger's words on one line of at most 300 characters."""
    shown = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return shown if len(shown) <= _SENTENCE else f"{shown[: _SENTENCE - 1]}…"
