"""Finding the few lines that matter in the many that do not, at the speed of the disk.

One set of all patterns is run over a whole block in one pass; only the patterns that it names are
searched for their places. Most blocks match nothing or one progress pattern. Whatever bytes a
program prints, there is an answer: Latin-1 has no invalid byte, and RE2 takes linear time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import re2

from middlewatch.adapters.scan.catalogue import Catalogue, compiled, options
from middlewatch.model.pattern import PatternKind, ProgressForm
from middlewatch.ports.scanner import RawHit

LONGEST_LINE = 4096
"""Characters of a line that a hit carries."""
SCANNED_LINE = 16_384
"""Bytes of a line that are searched: a longer one is data, not a message."""

_ANSI = re2.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?)", options())

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
        text, places = _plain(block)
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
                    base_offset + places.original(start),
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
        for match in self._searchers[number].finditer(text):
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


class _Places:
    """Where a byte of the plain text stood in the block."""

    def __init__(self, starts: list[int], removed: list[int]) -> None:
        self._starts = starts
        self._removed = removed

    def original(self, position: int) -> int:
        index = bisect_right(self._starts, position)
        return position + (self._removed[index - 1] if index else 0)


def _plain(block: bytes) -> tuple[bytes, _Places]:
    """The block with line feeds for carriage returns, without colours and without the rest of
    over-long lines, and the way back to its offsets."""
    text = block.replace(b"\r", b"\n")
    gone: list[tuple[int, int]] = []
    if b"\x1b" in text:
        gone.extend((m.start(), m.end()) for m in _ANSI.finditer(text))
    gone.extend(_overlong(text))
    if not gone:
        return text, _Places([], [])
    parts: list[bytes] = []
    starts: list[int] = []
    removed: list[int] = []
    kept = at = 0
    for begin, end in sorted(gone):
        if end <= at:
            continue
        piece = text[at : max(at, begin)]
        parts.append(piece)
        kept += len(piece)
        at = end
        starts.append(kept)
        removed.append(at - kept)
    parts.append(text[at:])
    return b"".join(parts), _Places(starts, removed)


def _overlong(text: bytes) -> list[tuple[int, int]]:
    """The parts of lines that lie beyond `SCANNED_LINE`."""
    if len(text) <= SCANNED_LINE:
        return []
    found = []
    at = 0
    while len(text) - at > SCANNED_LINE:
        last = text.rfind(b"\n", at, at + SCANNED_LINE)
        if last >= 0:
            at = last + 1
            continue
        end = text.find(b"\n", at + SCANNED_LINE)
        end = len(text) if end < 0 else end
        found.append((at + SCANNED_LINE, end))
        at = end + 1
    return found
