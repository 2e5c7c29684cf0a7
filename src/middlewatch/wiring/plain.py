"""Text that a terminal cannot be misled by.

Job names, log lines, comments and scheduler output are written by users, and a terminal obeys
what is in them: colours, cursor movements, right-to-left overrides, invisible letters. Whatever
is shown or logged goes through here first.
"""

from __future__ import annotations

import unicodedata

_GONE = frozenset({"Cc", "Cf", "Cs", "Co"})
_BLANK = frozenset({"Zl", "Zp"})
_SPACES = frozenset("\t\n\v\f\r\x85")


def plain(text: object, limit: int | None = None) -> str:
    """``text`` as one line without control, format (bidirectional, zero-width), surrogate and
    private characters; breaks and tabs become blanks. At most ``limit`` characters, the last of
    them an ellipsis where something was cut."""
    raw = str(text)
    if not raw.isascii() or not raw.isprintable():
        raw = "".join(map(_plain_character, raw))
    if limit is not None and len(raw) > limit:
        return raw[: max(limit - 1, 0)] + "…"
    return raw


def plain_lines(text: object) -> str:
    """The same, with line ends (LF) kept."""
    return "\n".join(plain(line) for line in str(text).split("\n"))


def _plain_character(character: str) -> str:
    if character in _SPACES:
        return " "
    category = unicodedata.category(character)
    if category in _GONE:
        return ""
    return " " if category in _BLANK else character
