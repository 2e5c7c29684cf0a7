"""Whether a pattern matches one line, and what the line says: the same answer for every engine.

A training prints thousands of lines that differ in their numbers alone. Where a pattern treats all
digits alike, the places of its groups in a line are those in the same line with other digits, and
need not be searched for again: they are remembered for the line with every digit made a zero.
"""

from __future__ import annotations

from collections.abc import Sequence

import re2

from middlewatch.adapters.scan.re2_options import MEMORY, compiled
from middlewatch.adapters.scan.syntax import UnsupportedError, blind_to_digits, tree

REMEMBERED_LINE = 1024
"""Bytes of the longest line whose places are remembered."""
REMEMBERED = 4096
"""Lines remembered, over all patterns."""

_ZEROS = bytes(48 if 48 <= code <= 57 else code for code in range(256))

_Places = tuple[tuple[str, int, int], ...]
Groups = tuple[tuple[str, str], ...]


class LineReader:
    """The patterns of one catalogue, each compiled when a line first needs it."""

    def __init__(self, regexes: Sequence[str], memory: int = MEMORY) -> None:
        self._regexes = tuple(regexes)
        self._memory = memory
        self._searchers: dict[int, tuple[re2._Regexp, tuple[tuple[str, int], ...]]] = {}
        self._remembered: dict[int, dict[bytes, _Places | None] | None] = {}
        """By pattern; None where the pattern is not blind to digits."""
        self._count = 0

    def read(self, number: int, line: bytes) -> Groups | None:
        """The named groups that took part, by name; None where the pattern does not match."""
        places = self._places(number, line)
        if places is None:
            return None
        if line.isascii():
            text = line.decode("ascii")
            return tuple([(name, text[begin:end]) for name, begin, end in places])
        return tuple(
            [(name, line[begin:end].decode("utf-8", "replace")) for name, begin, end in places]
        )

    def _places(self, number: int, line: bytes) -> _Places | None:
        try:
            known = self._remembered[number]
        except KeyError:
            known = {} if _blind(self._regexes[number]) else None
            self._remembered[number] = known
        if known is None or len(line) > REMEMBERED_LINE:
            return self._searched(number, line)
        shape = line.translate(_ZEROS)
        if shape in known:
            return known[shape]
        if self._count >= REMEMBERED:
            self._forget()
        self._count += 1
        found = known[shape] = self._searched(number, line)
        return found

    def _forget(self) -> None:
        for known in self._remembered.values():
            if known is not None:
                known.clear()
        self._count = 0

    def _searched(self, number: int, line: bytes) -> _Places | None:
        entry = self._searchers.get(number)
        if entry is None:
            searcher = compiled(self._regexes[number], memory=self._memory)
            names = tuple((name.decode(), index) for name, index in searcher.groupindex.items())
            entry = self._searchers[number] = (searcher, names)
        searcher, names = entry
        match = searcher.search(line)
        if match is None:
            return None
        return tuple((name, *match.span(index)) for name, index in names if match.start(index) >= 0)


def _blind(regex: str) -> bool:
    try:
        return blind_to_digits(tree(regex))
    except UnsupportedError:
        return False
