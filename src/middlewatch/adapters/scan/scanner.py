"""Finding the few lines that matter in the many that do not, at the speed of the memory.

A finder runs over whole blocks and names candidates; only their lines are looked at one by one.
Most blocks hold nothing or one progress pattern. Whatever bytes a program prints, there is an
answer: Latin-1 has no invalid byte, and both engines take linear time.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from middlewatch.adapters.scan.catalogue import Catalogue
from middlewatch.adapters.scan.finding import Candidate, Finder, Re2Finder
from middlewatch.adapters.scan.reading import LineReader, Match
from middlewatch.model.pattern import Pattern, PatternKind, ProgressForm
from middlewatch.ports.scanner import RawHit

LONGEST_LINE = 4096
"""Characters of a line that a hit carries."""
SCANNED_LINE = 16_384
"""Bytes of a line that are searched: a longer one is data, not a message."""

_ANSI = re.compile(rb"\x1b(?:\[[0-?]*+[ -/]*+[@-~]|\][^\x07\x1b\n]*+(?:\x07|\x1b\\)?)")
"""Colours and titles. Python's own engine is far quicker where there are many, and takes linear
time as well: nothing in here is tried a second time."""

_Line = tuple[int, int, tuple[int, ...]]
"""Where a line begins and ends, and the numbers of its candidates, ascending and different."""
_Matched = tuple[int, int, tuple[Match, ...]]
"""Where a line begins and ends, and what matches it."""


class LineScanner:
    """The scanner port over any finder. Keeps nothing between blocks that changes a result."""

    def __init__(self, patterns: Sequence[Pattern], finder: Finder, reader: LineReader) -> None:
        self._ids = [pattern.id for pattern in patterns]
        self._bars = frozenset(
            number
            for number, pattern in enumerate(patterns)
            if pattern.kind is PatternKind.PROGRESS and pattern.form is ProgressForm.BAR
        )
        self._finder = finder
        self._reader = reader

    def scan(self, block: bytes, base_offset: int) -> Sequence[RawHit]:
        """Hits in a block of whole lines, ordered by line. Never raises for any bytes.

        A carriage return ends a line as a line feed does. Colours are taken out before matching;
        offsets are those of the bytes as they stand in the file. Repaintings of one progress bar
        that follow each other are cut down to the first and the last.
        """
        plain = _Plain(block)
        text = plain.text
        hits: list[RawHit] = []
        candidates = self._finder.find(text)
        if not candidates:
            return hits
        said, ids, original = self._reader.said, self._ids, plain.original
        for start, end, matches in self._without_repaints(self._matched(text, candidates)):
            line = text[start:end]
            shown = line[:LONGEST_LINE].decode("utf-8", "replace")
            offset = base_offset + original(start)
            hits.extend(
                [RawHit(ids[number], offset, shown, said(at, line)) for number, at in matches]
            )
        return hits

    def _matched(self, text: bytes, candidates: list[Candidate]) -> list[_Matched]:
        """The lines that a pattern really matches: how many candidates are none depends on the
        finder."""
        matches = self._reader.matches
        return [
            (start, end, found)
            for start, end, numbers in _by_line(text, candidates)
            if (found := matches(numbers, text[start:end]))
        ]

    def _without_repaints(self, lines: list[_Matched]) -> list[_Matched]:
        """The lines without those that only repaint a bar: of bars of one pattern that follow each
        other, with no other hit in between, the first and the last are kept."""
        bars = self._bars
        kept: list[_Matched] = []
        for line in lines:
            number, _ = line[2][0]
            if (
                number in bars
                and len(line[2]) == 1
                and len(kept) >= 2
                and [one for one, _ in kept[-1][2]] == [number]
                and [one for one, _ in kept[-2][2]] == [number]
            ):
                kept[-1] = line
            else:
                kept.append(line)
        return kept


class Re2Scanner(LineScanner):
    """All patterns by RE2: where there is nothing else, and what others are compared with."""

    def __init__(self, catalogue: Catalogue) -> None:
        """Raises `ValueError` where the patterns together do not fit into RE2's memory."""
        regexes = [pattern.regex for pattern in catalogue.patterns]
        super().__init__(
            catalogue.patterns, Re2Finder(list(enumerate(regexes))), LineReader(regexes)
        )


def _by_line(text: bytes, candidates: list[Candidate]) -> list[_Line]:
    """The candidates put together by line, in the order of the lines."""
    candidates.sort()
    lines: list[_Line] = []
    start, line_end = 0, -1
    numbers: set[int] = set()
    for end, number in candidates:
        if end > line_end:
            if numbers:
                lines.append((start, line_end, tuple(sorted(numbers))))
            # A match is not empty, or stands at its line's beginning: either way its line is that
            # of the byte before its end, or begins there.
            start = text.rfind(b"\n", 0, end) + 1
            line_end = text.find(b"\n", end)
            if line_end < 0:
                line_end = len(text)
            numbers = set()
        numbers.add(number)
    if numbers:
        lines.append((start, line_end, tuple(sorted(numbers))))
    return lines


class _Plain:
    """A block with line feeds for carriage returns, without colours and without the rest of
    over-long lines. Lines are neither joined nor lost, and what was left out is known by its
    place, so that a line's beginning leads back to its place in the block.
    """

    def __init__(self, block: bytes) -> None:
        self._cuts: list[_Cuts] = []
        text = block.replace(b"\r", b"\n")
        if b"\x1b" in text:
            text = self._without(text, [match.span() for match in _ANSI.finditer(text)])
        self.text = self._without(text, _tails(text))

    def _without(self, text: bytes, spans: list[tuple[int, int]]) -> bytes:
        if not spans:
            return text
        parts: list[bytes] = []
        cuts = _Cuts([], [])
        at = left_out = 0
        for begin, end in spans:
            parts.append(text[at:begin])
            cuts.places.append(begin - left_out)
            left_out += end - begin
            cuts.left_out.append(left_out)
            at = end
        parts.append(text[at:])
        self._cuts.append(cuts)
        return b"".join(parts)

    def original(self, start: int) -> int:
        """Where the line that begins at ``start`` begins in the block: what was left out at its
        very beginning belongs to it."""
        for cuts in reversed(self._cuts):
            before = bisect_left(cuts.places, start)
            if before:
                start += cuts.left_out[before - 1]
        return start


@dataclass(slots=True)
class _Cuts:
    """Where something was left out, and how much up to there."""

    places: list[int]
    left_out: list[int]


def _tails(text: bytes) -> list[tuple[int, int]]:
    """The parts of lines that lie beyond `SCANNED_LINE`."""
    spans: list[tuple[int, int]] = []
    at = 0
    while len(text) - at > SCANNED_LINE:
        last = text.rfind(b"\n", at, at + SCANNED_LINE)
        if last >= 0:
            at = last + 1
            continue
        end = text.find(b"\n", at + SCANNED_LINE)
        end = len(text) if end < 0 else end
        spans.append((at + SCANNED_LINE, end))
        at = end + 1
    return spans
