"""A progress pattern that somebody gives for one job, in its comment or in the site's settings.

It is a stranger's regex, read every few seconds by a process that watches everybody's jobs. So it
runs on RE2, for that job alone, within limits, and one that will not do is answered with a sentence
and nothing else: the job is watched without it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock

import re2

from middlewatch.adapters.scan.caps import KEPT, PATTERN_MEMORY, too_long
from middlewatch.adapters.scan.catalogue import BadPatternError, check_regex
from middlewatch.adapters.scan.finding import Re2Finder
from middlewatch.adapters.scan.reading import LineReader
from middlewatch.adapters.scan.scanner import LineScanner
from middlewatch.model.pattern import Pattern, PatternKind
from middlewatch.ports.scanner import OWN_PROGRESS, RawHit


def own_pattern(regex: str, where: str) -> Pattern:
    """A progress pattern out of somebody's regex; ``where`` it was written is for the message.

    Raises `BadPatternError`.
    """
    fault = too_long(regex) or ("" if regex.isprintable() else "it holds unprintable characters")
    if fault:
        raise BadPatternError(f"{where}: progress pattern: {fault}")
    groups = check_regex(f"{where}: progress pattern", regex, PATTERN_MEMORY)
    if "step" not in groups:
        raise BadPatternError(
            f"{where}: progress pattern: it does not say where the step stands; "
            r"write that part as (?P<step>\d+)"
        )
    return Pattern(id=OWN_PROGRESS, kind=PatternKind.PROGRESS, regex=regex, source=where)


class OwnScanner(LineScanner):
    """The scanner port with one pattern of somebody's own."""

    def __init__(self, pattern: Pattern) -> None:
        regexes = [pattern.regex]
        super().__init__(
            [pattern],
            Re2Finder([(0, pattern.regex)], memory=PATTERN_MEMORY),
            LineReader(regexes, memory=PATTERN_MEMORY),
        )


class OwnPatterns:
    """Such patterns by their text, a bounded number of them kept ready."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, OwnScanner | str] = OrderedDict()
        self._lock = Lock()

    def refused(self, regex: str) -> str:
        """Why the regex will not do and what to mend; empty where it will."""
        found = self._of(regex)
        return found if isinstance(found, str) else ""

    def scan(self, regex: str, block: bytes, base_offset: int) -> Sequence[RawHit]:
        """Its hits, as the scanner port gives them; none where the regex will not do."""
        found = self._of(regex)
        return () if isinstance(found, str) else found.scan(block, base_offset)

    def _of(self, regex: str) -> OwnScanner | str:
        with self._lock:
            found = self._kept.get(regex)
            if found is None:
                found = _made(regex)
                self._kept[regex] = found
                if len(self._kept) > KEPT:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(regex)
            return found


def _made(regex: str) -> OwnScanner | str:
    try:
        return OwnScanner(own_pattern(regex, "the job's own"))
    except BadPatternError as error:
        return str(error)
    except re2.error as error:
        return f"the job's own: progress pattern: RE2 refuses it: {error}; make it simpler"
