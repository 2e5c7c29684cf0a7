"""Which patterns match one line, and what the line says: the same answer for every engine.

A training prints thousands of lines that differ in their numbers alone. Where a pattern treats all
digits alike, the places of its groups in a line are those in the same line with other digits, and
need not be searched for again: they are remembered for the line with every digit made a zero,
together for all such patterns that were asked about it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import re2

from middlewatch.adapters.scan.re2_options import MEMORY, compiled
from middlewatch.adapters.scan.syntax import UnsupportedError, blind_to_digits, tree

REMEMBERED_LINE = 1024
"""Bytes of the longest line whose places are remembered."""
REMEMBERED = 4096
"""Lines remembered."""

_NAMED = re.compile(r"(?<!\\)\(\?P<(\w+)>")
_AGAIN = "__"

_ZEROS = bytes(48 if 48 <= code <= 57 else code for code in range(256))

Places = tuple[tuple[str, int, int], ...]
"""Where the named groups that took part begin and end, by name."""
Match = tuple[int, Places]
"""The number of a pattern that matches, and where."""
Groups = tuple[tuple[str, str], ...]


class LineReader:
    """The patterns of one catalogue, each compiled when a line first needs it."""

    def __init__(self, regexes: Sequence[str], memory: int = MEMORY) -> None:
        self._regexes = tuple(regexes)
        self._memory = memory
        self._searchers: dict[int, tuple[re2._Regexp, tuple[tuple[str, int], ...]]] = {}
        self._blind: dict[int, bool] = {}
        self._split: dict[tuple[int, ...], tuple[tuple[int, ...], tuple[int, ...]]] = {}
        self._remembered: dict[tuple[tuple[int, ...], bytes], tuple[Match, ...]] = {}

    def matches(self, numbers: tuple[int, ...], line: bytes) -> tuple[Match, ...]:
        """Those of the patterns ``numbers`` (ascending, different) that match, in their order."""
        blind, others = self._split.get(numbers) or self._parted(numbers)
        if not blind or len(line) > REMEMBERED_LINE:
            return self._searched(numbers, line)
        shape = line.translate(_ZEROS)
        found = self._remembered.get((blind, shape))
        if found is None:
            if len(self._remembered) >= REMEMBERED:
                self._remembered.clear()
            found = self._remembered[blind, shape] = self._searched(blind, line)
        if others and (more := self._searched(others, line)):
            return tuple(sorted(found + more))
        return found

    @staticmethod
    def said(places: Places, line: bytes) -> Groups:
        """The text of the groups."""
        if line.isascii():
            text = line.decode("ascii")
            return tuple([(name, text[begin:end]) for name, begin, end in places])
        return tuple(
            [(name, line[begin:end].decode("utf-8", "replace")) for name, begin, end in places]
        )

    def _parted(self, numbers: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Those that are blind to digits, and the others."""
        for number in numbers:
            if number not in self._blind:
                self._blind[number] = _blind(self._regexes[number])
        blind = tuple(number for number in numbers if self._blind[number])
        others = tuple(number for number in numbers if not self._blind[number])
        if len(self._split) >= REMEMBERED:
            self._split.clear()
        self._split[numbers] = (blind, others)
        return blind, others

    def _searched(self, numbers: tuple[int, ...], line: bytes) -> tuple[Match, ...]:
        found: list[Match] = []
        for number in numbers:
            searcher, names = self._searchers.get(number) or self._compiled(number)
            match = searcher.search(line)
            if match is not None:
                places = [(name, *match.span(at)) for name, at in names if match.start(at) >= 0]
                found.append((number, tuple(places)))
        return tuple(found)

    def _compiled(self, number: int) -> tuple[re2._Regexp, tuple[tuple[str, int], ...]]:
        searcher = compiled(_told_apart(self._regexes[number]), memory=self._memory)
        names = tuple(
            (name.decode().partition(_AGAIN)[0], index)
            for name, index in sorted(searcher.groupindex.items(), key=lambda pair: pair[1])
        )
        self._searchers[number] = (searcher, names)
        return searcher, names


def _told_apart(regex: str) -> str:
    """The regex with a number behind each name that a group before has, in another branch: RE2
    tells the place of the first one alone."""
    seen: Counter[str] = Counter()

    def named(match: re.Match[str]) -> str:
        name = match.group(1)
        seen[name] += 1
        return match.group() if seen[name] == 1 else f"(?P<{name}{_AGAIN}{seen[name]}>"

    return _NAMED.sub(named, regex)


def _blind(regex: str) -> bool:
    try:
        return blind_to_digits(tree(regex))
    except UnsupportedError:
        return False
