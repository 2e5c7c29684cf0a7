"""A pattern as a tree of bytes, so that another engine can be asked for no less than it matches.

Two engines that read the same regex differ in small things: what a class such as ``\\s`` holds, and
whether ``[^x]`` reaches into the next line. In the tree every class is the set of bytes that it
stands for, without the line feed (as RE2's ``never_nl`` has it), and can be written for any engine.

From the tree is known what a fast engine has to look for (`cores`), and whether a pattern is *blind
to digits*: treats all ten alike, so that two lines that differ in digits alone are matched at the
same places.
"""

from __future__ import annotations

import re
import string
from dataclasses import dataclass
from functools import lru_cache

LINE_FEED = 10
ALL = frozenset(range(256)) - {LINE_FEED}
DIGITS = frozenset(b"0123456789")
_WORD = frozenset(f"{string.ascii_letters}{string.digits}_".encode())
_SPACE = frozenset(b"\t\f\r ")
_CLASSES = {
    "d": DIGITS,
    "D": ALL - DIGITS,
    "w": _WORD,
    "W": ALL - _WORD,
    "s": _SPACE,
    "S": ALL - _SPACE,
}
_LETTERS = {"t": 9, "n": LINE_FEED, "r": 13, "f": 12, "v": 11, "a": 7}


class UnsupportedError(ValueError):
    """The regex holds something that the tree has no node for; RE2 alone can search with it."""


@dataclass(frozen=True, slots=True)
class Chars:
    """One byte out of a set."""

    bytes: frozenset[int]


@dataclass(frozen=True, slots=True)
class Edge:
    """A place between bytes: ``^``, ``$``, ``\\b`` or ``\\B``."""

    written: str


@dataclass(frozen=True, slots=True)
class Row:
    """One after the other; empty: the empty text."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Either:
    branches: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Times:
    """Repetition; ``most`` is None where there is no end."""

    item: Node
    least: int
    most: int | None


Node = Chars | Edge | Row | Either | Times


# ------------------------------------------------------------------------------------------ reading


def tree(regex: str) -> Node:
    """The tree of a regex in RE2's syntax. Raises `UnsupportedError`."""
    reader = _Reader(regex)
    node = reader.either(folded=False)
    if reader.at < len(regex):
        raise UnsupportedError(f"{regex[reader.at]!r} at {reader.at}")
    return node


@lru_cache(maxsize=1024)
def _inside(group: str, *, folded: bool) -> Node:
    """What stands between a group's brackets. Hundreds of patterns begin with the same ones."""
    reader = _Reader(group, nested=True)
    node = reader.either(folded=folded)
    if reader.at < len(group):
        raise UnsupportedError("unmatched )")
    return node


_BRACKETS = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[()]", re.DOTALL)
"""Brackets, and what may hold some that mean nothing."""


class _Reader:
    def __init__(self, regex: str, *, nested: bool = False) -> None:
        self._text = regex
        self._nested = nested
        self.at = 0

    def _peek(self, wanted: str) -> bool:
        return self._text.startswith(wanted, self.at)

    def _take(self, wanted: str) -> bool:
        found = self._peek(wanted)
        if found:
            self.at += len(wanted)
        return found

    def _next(self) -> str:
        if self.at >= len(self._text):
            raise UnsupportedError("ends too early")
        self.at += 1
        return self._text[self.at - 1]

    def either(self, *, folded: bool) -> Node:
        branches: list[Node] = []
        items: list[Node] = []
        while (char := self._text[self.at : self.at + 1]) and char != ")":
            if char not in "|(":
                items.append(self._repeated(self._atom(folded=folded)))
            elif self._take("|"):
                branches.append(Row(tuple(items)))
                items = []
            elif self._take("(?i)"):
                folded = True
            else:
                items.append(self._repeated(self._atom(folded=folded)))
        last = Row(tuple(items))
        return Either((*branches, last)) if branches else last

    def _atom(self, *, folded: bool) -> Node:
        char = self._next()
        match char:
            case "^" | "$":
                return Edge(char)
            case ".":
                return Chars(ALL)
            case "[":
                return Chars(self._class(folded=folded))
            case "(":
                return self._group(folded=folded)
            case "\\":
                if self._peek("b") or self._peek("B"):
                    return Edge("\\" + self._next())
                return Chars(_folded(self._escaped(), folded=folded) & ALL)
            case "*" | "+" | "?" | ")":
                raise UnsupportedError(f"{char!r} at {self.at - 1}")
            case _:
                return _literal(char, folded=folded)

    def _group(self, *, folded: bool) -> Node:
        if self._take("?"):
            if self._take("i:"):
                folded = True
            elif self._take("P<") or self._take("<"):
                while self._next() != ">":
                    pass
            elif not self._take(":"):
                raise UnsupportedError(f"(?{self._text[self.at : self.at + 1]}")
        if not self._nested:
            end = self._closing()
            begin, self.at = self.at, end + 1
            return _inside(self._text[begin:end], folded=folded)
        inside = self.either(folded=folded)
        if not self._take(")"):
            raise UnsupportedError("missing )")
        return inside

    def _closing(self) -> int:
        """Where the bracket is that ends the group that has begun."""
        open_ones = 1
        for found in _BRACKETS.finditer(self._text, self.at):
            open_ones += {"(": 1, ")": -1}.get(found[0], 0)
            if not open_ones:
                return found.start()
        raise UnsupportedError("missing )")

    def _repeated(self, item: Node) -> Node:
        while (char := self._text[self.at : self.at + 1]) and char in "*+?{":
            if self._take("*"):
                low, high = 0, None
            elif self._take("+"):
                low, high = 1, None
            elif self._take("?"):
                low, high = 0, 1
            elif self._counted():
                low, high = self._count()
            else:
                return item
            self._take("?")  # lazy: that a line matches is the same
            item = Times(item, low, high)
        return item

    def _counted(self) -> bool:
        end = self._text.find("}", self.at)
        inside = self._text[self.at + 1 : end]
        low, _, high = inside.partition(",")
        return self._peek("{") and end > 0 and low.isdigit() and (not high or high.isdigit())

    def _count(self) -> tuple[int, int | None]:
        end = self._text.index("}", self.at)
        low, comma, high = self._text[self.at + 1 : end].partition(",")
        self.at = end + 1
        if not comma:
            return int(low), int(low)
        return int(low), int(high) if high else None

    def _escaped(self) -> frozenset[int]:
        """The bytes that the escape behind a backslash stands for."""
        char = self._next()
        if char in _CLASSES:
            return _CLASSES[char]
        if char in _LETTERS:
            return frozenset({_LETTERS[char]})
        if char == "x":
            digits = self._text[self.at : self.at + 2]
            if len(digits) != 2 or any(digit not in string.hexdigits for digit in digits):
                raise UnsupportedError("\\x")
            self.at += 2
            return frozenset({int(digits, 16)})
        if char.isalnum():
            raise UnsupportedError(f"\\{char}")
        return frozenset({_byte(char)})

    def _class(self, *, folded: bool) -> frozenset[int]:
        negated = self._take("^")
        found: set[int] = set()
        first = True
        while first or not self._peek("]"):
            first = False
            if self._peek("[:"):
                raise UnsupportedError("[:class:]")
            low = self._one()
            if self._peek("-") and self._text[self.at + 1 : self.at + 2] not in {"]", ""}:
                self._take("-")
                high = self._one()
                if len(low) != 1 or len(high) != 1:
                    raise UnsupportedError("a range of classes")
                found.update(range(min(low), max(high) + 1))
            else:
                found.update(low)
        self._take("]")
        said = _folded(frozenset(found), folded=folded)
        return (ALL - said) if negated else (said & ALL)

    def _one(self) -> frozenset[int]:
        char = self._next()
        return self._escaped() if char == "\\" else frozenset({_byte(char)})


@lru_cache(maxsize=1024)
def _literal(char: str, *, folded: bool) -> Chars:
    return Chars(_folded(frozenset({_byte(char)}), folded=folded) & ALL)


def _byte(char: str) -> int:
    code = ord(char)
    if code > 255:
        raise UnsupportedError(f"{char!r} is no Latin-1 character")
    return code


def _folded(found: frozenset[int], *, folded: bool) -> frozenset[int]:
    if not folded:
        return found
    if any(code > 127 for code in found):
        raise UnsupportedError("(?i) with characters that are not ASCII")
    return found | {
        ord(other) for code in found for other in (chr(code).lower(), chr(code).upper())
    }


# ------------------------------------------------------------------------------------------ asking


def blind_to_digits(node: Node) -> bool:
    """Whether each byte that the pattern tests for is any digit or no digit: then where it matches
    a line, groups included, does not depend on which digits stand there."""
    match node:
        case Chars(found):
            return not found & DIGITS or found >= DIGITS
        case Edge():
            return True  # digits are word characters, all of them
        case Times(item):
            return blind_to_digits(item)
        case Row(items) | Either(items):
            return all(blind_to_digits(item) for item in items)


# ----------------------------------------------------------------------------------------- writing


def written(node: Node) -> str:
    """The tree as a regex that PCRE's readers understand, every byte by its number."""
    match node:
        case Chars(found):
            return _set(found)
        case Edge(edge):
            return edge
        case Row(items):
            return "".join(written(item) for item in items)
        case Either(branches):
            return "(?:" + "|".join(written(branch) for branch in branches) + ")"
        case Times(item, least, most):
            return f"(?:{written(item)}){{{least},{'' if most is None else most}}}"


def _set(found: frozenset[int]) -> str:
    if not found:
        raise UnsupportedError("a class that holds no byte")
    if len(found) == 1:
        return f"\\x{min(found):02x}"
    if len(found) > 128:
        return f"[^{_ranges(frozenset(range(256)) - found)}]"
    return f"[{_ranges(found)}]"


def _ranges(found: frozenset[int]) -> str:
    parts: list[str] = []
    codes = sorted(found)
    begin = before = codes[0]
    for code in [*codes[1:], 999]:
        if code != before + 1:
            parts.append(f"\\x{begin:02x}" + (f"-\\x{before:02x}" if before > begin else ""))
            begin = code
        before = code
    return "".join(parts)
