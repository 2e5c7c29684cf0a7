"""How RE2 is set up: once, for everything that decides whether a line matches."""

from __future__ import annotations

import re2

MEMORY = 32 << 20


def options(*, capturing: bool = True, memory: int = MEMORY) -> re2.Options:
    """Bytes as Latin-1, so that no input can be invalid; nothing reaches into the next line."""
    chosen = re2.Options()
    chosen.encoding = re2.Options.Encoding.LATIN1
    chosen.never_nl = True
    chosen.log_errors = False
    chosen.never_capture = not capturing
    # Bounds the caches that grow with the variety of what is read, and how large a pattern may be.
    chosen.max_mem = memory
    return chosen


def compiled(regex: str, *, capturing: bool = True, memory: int = MEMORY) -> re2._Regexp:
    """A regex, ready for blocks of many lines. Raises `re2.error`, `UnicodeEncodeError`."""
    chosen = options(capturing=capturing, memory=memory)
    return re2.compile(b"(?m)" + regex.encode("latin-1"), chosen)
