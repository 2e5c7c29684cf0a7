"""Finding the few lines that matter in the many that do not, at the speed of the disk.

One set of all patterns is run over a whole block in one pass; only the patterns that it names are
searched for their places. Most blocks match nothing or one progress pattern. Whatever bytes a
program prints, there is an answer: Latin-1 has no invalid byte, and RE2 takes linear time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

import re2

from middlewatch.adapters.scan.catalogue import Catalogue, compiled, options
from middlewatch.model.pattern import PatternKind, ProgressForm
from middlewatch.ports.scanner import RawHit

LONGEST_LINE = 4096
"""Characters of a line that a hit carries."""
SCANNED_LINE = 16_384
"""Bytes of a line that are searched: a longer one is data, not a message."""

_ANSI = re.compile(rb"\x1b(?:\[[0-?]*+[ -/]*+[@-~]|\][^\x07\x1b\n]*+(?:\x07|\x1b\\)?)")
"""Colours and titles. Python's own engine is far quicker where there are many, and takes linear
time as well: nothing in here is tried a second time."""
_LINE_END = re.compile(rb"\n")

REPAINTS = 64
BAR_TAIL = 8_192
PIECE = 65_536
"""Bytes searched at a time: a pattern that matches somewhere is searched in that piece alone."""

_Place = tuple[int, int, int, dict[str, str]]
"""Start of the line, number of the pattern, end of the line, named groups."""


class Re2Scanner:
    """The scanner port. Made once from a catalogue; holds no state between blocks."""

    def __init__(self, catalogue: Catalogue) -> None:
        """Raises `ValueError` where the patterns together do not fit into RE2's memory."""
        self._patterns = catalogue.patterns
        self._searchers = [compiled(pattern.regex) for pattern in catalogue.patterns]
        self._names = [
            {name.decode(): number for name, number in searcher.groupindex.items()}
            if searcher.groupindex
            else {}
            for searcher in self._searchers
        ]
        self._set = re2.Set.SearchSet(options())
        for pattern in catalogue.patterns:
            self._set.Add(b"(?m)" + pattern.regex.encode("latin-1"))
        self._set.Compile()

    def scan(self, block: bytes, base_offset: int) -> Sequence[RawHit]:
        """Hits in a block of whole lines, ordered by line. Never raises for any bytes.

        A carriage return ends a line as a line feed does. Colours are taken out before matching;
        offsets are those of the bytes as they stand in the file. Repaintings of one progress bar
        that follow each other are cut down to the first and the last.
        """
        plain = _Plain(block)
        text = plain.text
        hits: list[_Place] = []
        at = 0
        while at < len(text):
            last = text.rfind(b"\n", at, at + PIECE)
            end = last + 1 if last >= 0 else len(text)
            hits.extend(self._in_piece(text[at:end], at))
            at = end
        found = []
        for start, number, end, groups in self._without_repaints(hits):
            line = text[start : min(end, start + LONGEST_LINE)].decode("utf-8", "replace")
            found.append(
                RawHit(
                    self._patterns[number].id,
                    base_offset + plain.original(start),
                    line,
                    tuple(groups.items()),
                )
            )
        return found

    def _in_piece(self, piece: bytes, at: int) -> list[_Place]:
        numbers = self._set.Match(piece)
        if numbers is None:
            return []
        found = [place for number in numbers for place in self._places(piece, number)]
        found.sort(key=lambda place: (place[0], place[1]))
        return [(start + at, number, end + at, groups) for start, number, end, groups in found]

    def _places(self, text: bytes, number: int) -> list[_Place]:
        """The first match of each line."""
        found = []
        last = -1
        names = self._names[number]
        for match in self._matches(text, number):
            start = text.rfind(b"\n", 0, match.start()) + 1
            if start == last:
                continue
            last = start
            end = text.find(b"\n", match.start())
            groups = {
                name: value.decode("utf-8", "replace")
                for name, index in names.items()
                if (value := match.group(index)) is not None
            }
            found.append((start, number, len(text) if end < 0 else end, groups))
        return found

    def _matches(self, text: bytes, number: int) -> Iterator[re2._Match]:
        """All matches of a pattern; of a bar that is repainted without end the first ones and
        those at the end, which is where it stands now."""
        searcher = self._searchers[number]
        if not self._is_bar(number):
            yield from searcher.finditer(text)
            return
        end = 0
        for match in islice(searcher.finditer(text), REPAINTS):
            end = match.end()
            yield match
        rest = text.find(b"\n", max(end, len(text) - BAR_TAIL))
        if rest >= 0:
            yield from searcher.finditer(text, rest)

    def _without_repaints(self, hits: list[_Place]) -> list[_Place]:
        kept: list[_Place] = []
        for hit in hits:
            bar = self._is_bar(hit[1])
            if bar and len(kept) >= 2 and kept[-1][1] == hit[1] and kept[-2][1] == hit[1]:
                kept[-1] = hit
            else:
                kept.append(hit)
        return kept

    def _is_bar(self, number: int) -> bool:
        pattern = self._patterns[number]
        return pattern.kind is PatternKind.PROGRESS and pattern.form is ProgressForm.BAR


class _Plain:
    """A block with line feeds for carriage returns, without colours and without the rest of
    over-long lines. Lines are neither joined nor lost, so a line's number leads back to its place.
    """

    def __init__(self, block: bytes) -> None:
        self._whole = block.replace(b"\r", b"\n")
        text = self._whole
        if b"\x1b" in text:
            text = _ANSI.sub(b"", text)
        self.text = _without_tails(text)
        self._starts: list[int] | None = None
        self._at = self._line = 0

    def original(self, start: int) -> int:
        """Where the line that begins at ``start`` begins in the block. To be asked in order."""
        if self.text is self._whole:
            return start
        if self._starts is None:
            self._starts = [0, *(m.end() for m in _LINE_END.finditer(self._whole))]
        self._line += self.text.count(b"\n", self._at, start)
        self._at = start
        return self._starts[self._line]


def _without_tails(text: bytes) -> bytes:
    """The text without the parts of lines that lie beyond `SCANNED_LINE`; itself if there are
    none."""
    parts: list[bytes] = []
    at = kept = 0
    while len(text) - at > SCANNED_LINE:
        last = text.rfind(b"\n", at, at + SCANNED_LINE)
        if last >= 0:
            at = last + 1
            continue
        end = text.find(b"\n", at + SCANNED_LINE)
        end = len(text) if end < 0 else end
        parts.append(text[kept : at + SCANNED_LINE])
        kept = end
        at = end + 1
    if not parts:
        return text
    return b"".join((*parts, text[kept:]))
