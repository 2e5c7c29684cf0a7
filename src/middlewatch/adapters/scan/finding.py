"""Where in a text a pattern may have matched: two engines, one answer shape.

A finder names candidates, never too few: (end of the match, number of the pattern). Whether the
line matches, and what it says, is decided on that line alone, by `reading`, in the same way for
both: so the two engines cannot differ in what comes out, only in how long it takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

import re2

from middlewatch.adapters.scan.re2_options import MEMORY, compiled, options

if TYPE_CHECKING:
    import hyperscan

PIECE = 65_536
"""Bytes searched at a time: what a processor core keeps near."""

Candidate = tuple[int, int]
"""Where a match may end, and the number of its pattern."""


class Finder(Protocol):
    def find(self, text: bytes) -> list[Candidate]:
        """Candidates, each in a line that is shorter than `PIECE`; in no order, and perhaps
        several in a line. A line that the pattern matches is always among them."""


def pieces(text: bytes) -> Iterator[tuple[int, int]]:
    """The text in pieces of whole lines: (begin, end)."""
    at = 0
    while at < len(text):
        last = text.rfind(b"\n", at, at + PIECE)
        end = last + 1 if last >= 0 else len(text)
        yield at, end
        at = end


class Re2Finder:
    """One set of all patterns over each piece; those that it names are searched for places."""

    def __init__(self, regexes: Sequence[tuple[int, str]], memory: int = MEMORY) -> None:
        """``regexes`` with the numbers that candidates carry. Raises `re2.error`."""
        self._numbers = [number for number, _ in regexes]
        self._searchers = [compiled(regex, capturing=False, memory=memory) for _, regex in regexes]
        self._set = re2.Set.SearchSet(options(memory=memory))
        for _, regex in regexes:
            self._set.Add(b"(?m)" + regex.encode("latin-1"))
        self._set.Compile()

    def find(self, text: bytes) -> list[Candidate]:
        found: list[Candidate] = []
        if not self._numbers:
            return found
        for at, end in pieces(text):
            piece = text[at:end]
            for index in self._set.Match(piece) or ():
                number = self._numbers[index]
                matches = self._searchers[index].finditer(piece)
                found.extend((at + match.end(), number) for match in matches)
        return found


class HyperscanFinder:
    """All cores of all patterns in one database, over each piece in one pass."""

    def __init__(self, database: hyperscan.Database) -> None:
        """``database``: expressions in block mode whose ids are the patterns' numbers."""
        self._database = database
        self._lock = Lock()  # one scratch space, and the scan lets other threads run

    def find(self, text: bytes) -> list[Candidate]:
        found: list[Candidate] = []
        view = memoryview(text)
        with self._lock:
            for at, end in pieces(text):
                ends: list[Candidate] = []
                # A view: the package's own types ask for text, what it takes is any buffer.
                self._database.scan(view[at:end], _note, context=ends)  # type: ignore[type-var]
                if ends:
                    found.extend([(at + place, number) for place, number in ends])
        return found


def _note(number: int, _begin: int, end: int, _flags: int, ends: Any) -> None:
    ends.append((end, number))


class Both:
    """Our own patterns by one engine, a site's by RE2."""

    def __init__(self, finders: Sequence[Finder]) -> None:
        self._finders = tuple(finders)

    def find(self, text: bytes) -> list[Candidate]:
        found: list[Candidate] = []
        for finder in self._finders:
            found.extend(finder.find(text))
        return found
