"""A pattern as a tree of bytes, so that another engine can be asked for no less than it matches.

Two engines that read the same regex differ in small things: what a class such as ``\\s`` holds, and
whether ``[^x]`` reaches into the next line. In the tree every class is the set of bytes that it
stands for, without the line feed (as RE2's ``never_nl`` has it), and can be written for any engine.

From the tree two things are known. *Cores*: shorter regexes of which one is found in every line
that the pattern matches, and which a fast engine has no trouble with; a line that holds one is a
candidate and nothing more. *Blind to digits*: whether the pattern treats all ten digits alike, so
that two lines that differ in digits alone are matched at the same places.
"""

from __future__ import annotations

import string
from collections.abc import Iterable
from dataclasses import dataclass

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

WIDE = 27
"""A class of at least so many bytes is met in any text."""
LONG = 8
"""Repetitions of a wide class beyond this are a gap: what stands behind it may come anywhere."""
TELLING = 8
"""So many fixed bytes in a row are looked for by themselves."""
LEAST = 3
"""Fewer are met everywhere."""
_ORDINARY = (
    "nccl info ", "nccl warn ", "torch.distributed", "torch/distributed", "warning", "info",
    "rank", "step", "iteration", "epoch", "loss", "node", ".py", ".cpp", ":] ", "]: ", "0x",
)  # fmt: skip
"""What many lines hold that mean nothing, in lower case."""


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


class _Reader:
    def __init__(self, regex: str) -> None:
        self._text = regex
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
        while self.at < len(self._text) and not self._peek(")"):
            if self._take("|"):
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
                return Chars(_folded(frozenset({_byte(char)}), folded=folded) & ALL)

    def _group(self, *, folded: bool) -> Node:
        if self._take("?"):
            if self._take("i:"):
                folded = True
            elif self._take("P<") or self._take("<"):
                while self._next() != ">":
                    pass
            elif not self._take(":"):
                raise UnsupportedError(f"(?{self._text[self.at : self.at + 1]}")
        inside = self.either(folded=folded)
        if not self._take(")"):
            raise UnsupportedError("missing )")
        return inside

    def _repeated(self, item: Node) -> Node:
        while True:
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


def cores(node: Node) -> tuple[Node, ...]:
    """Regexes of which each line that ``node`` matches holds one.

    A pattern is a row of stretches with gaps between them. What a match of the whole holds, it
    holds in one piece, so that the most telling stretch alone finds every line; of an alternative
    that cannot be left out, each branch has a stretch of its own. Where no stretch is telling
    enough, what follows it is kept, and where that is not, the whole.
    """
    return _cores(node)[1]


def _cores(node: Node) -> tuple[int, tuple[Node, ...]]:
    """How telling the least telling of the cores is, and the cores."""
    if isinstance(node, Either):
        parts = [_cores(branch) for branch in node.branches]
        return min(score for score, _ in parts), tuple(core for _, found in parts for core in found)
    items = _flat(node)
    if len(items) == 1 and isinstance(items[0], Either):
        return _cores(items[0])
    best: tuple[int, tuple[Node, ...]] = (0, ())
    begin = 0
    for place, item in enumerate([*items, None]):
        if item is not None and not _is_gap(item):
            continue
        stretch = items[begin:place]
        score = _telling(stretch)
        if score > best[0]:
            kept = stretch if score >= TELLING else items[begin:]
            best = (score, (_trimmed(kept),))
        if item is not None:
            inner = _must_be_there(item)
            found = (0, ()) if inner is None else _cores(inner)
            if found[0] > best[0]:
                best = found
        begin = place + 1
    if best[0] < LEAST:
        score, tails = _tails(items)
        return best[0], tuple(_trimmed(tail) for tail in (tails if score >= LEAST else [items]))
    return best


def _tails(items: list[Node]) -> tuple[int, list[list[Node]]]:
    """Where only ordinary words are fixed: all that follows from the longest of them on, so that
    the engine has a text to look for, and not every line that holds the word is a candidate.

    How long the word is, and the tails: several where it is another one in each branch. A branch may
    have a short one, or a class of names written without a common word could not be searched for.
    """
    best: tuple[int, list[list[Node]]] = (0, [items])
    begin = 0
    for place, item in enumerate([*items, None]):
        if item is not None and not _is_gap(item):
            continue
        score = _telling(items[begin:place], ordinary=True)
        if score > best[0]:
            best = (score, [items[begin + _place_of_word(items[begin:place], score) :]])
        if isinstance(item, Either):
            parts = [_tails(_flat(branch)) for branch in item.branches]
            scores = [score for score, _ in parts]
            score = max(scores) if min(scores) else 0
            if score > best[0]:
                rest = items[place + 1 :]
                best = (score, [[*tail, *rest] for _, found in parts for tail in found])
        begin = place + 1
    return best


def _place_of_word(stretch: list[Node], size: int) -> int:
    """Behind what stands before the fixed text of this size."""
    place = 0
    while _telling(stretch[place + 1 :], ordinary=True) >= size:
        place += 1
    return place


def _must_be_there(item: Node) -> Node | None:
    """What an item with a gap in it cannot do without."""
    if isinstance(item, Times):
        return item.item if item.least and not isinstance(item.item, Chars) else None
    return item


def _trimmed(items: list[Node]) -> Node:
    """Without what may be left out at the beginning, where no edge holds it, and at the end: the
    first place where it matches is enough. A gap that had an end has none: engines count badly."""
    kept = [_unbounded(item) for item in items]
    while kept and isinstance(first := kept[0], Times):
        kept[:1] = [first.item] * first.least
        if first.least:
            break
    return _ended(Row(tuple(kept)))


def _unbounded(node: Node) -> Node:
    match node:
        case Times(Chars() as item, least, most) if most and most > LONG and _is_gap(node):
            return Times(item, least, None)
        case Times(item, least, most):
            return Times(_unbounded(item), least, most)
        case Row(items):
            return Row(tuple(_unbounded(item) for item in items))
        case Either(branches):
            return Either(tuple(_unbounded(branch) for branch in branches))
        case _:
            return node


def _ended(node: Node) -> Node:
    """Up to the first place at which it is known to match."""
    match node:
        case Row((*before, Either(branches), Edge("$"))):
            # A branch that takes all the rest of the line needs no end of the line behind it.
            kept = [b if _takes_the_rest(b) else Row((*_flat(b), Edge("$"))) for b in branches]
            return _ended(Row((*before, Either(tuple(kept)))))
        case Row((*before, last, Edge("$"))) if _takes_the_rest(last):
            return _ended(Row((*before, last)))
        case Row(items) if items:
            *before, last = items
            end = _ended(last)
            return _ended(Row(tuple(before))) if end == Row(()) else Row((*before, end))
        case Either(branches):
            ended = tuple(_ended(branch) for branch in branches)
            return Row(()) if Row(()) in ended else Either(ended)
        case Times(item, least):
            return Row((*[item] * (least - 1), _ended(item))) if least else Row(())
        case _:
            return node


def _takes_the_rest(node: Node) -> bool:
    last = _flat(node)[-1:]
    return last == [Times(Chars(ALL), 0, None)]


def _flat(node: Node) -> list[Node]:
    if isinstance(node, Row):
        return [inner for item in node.items for inner in _flat(item)]
    return [node]


def _is_gap(node: Node) -> bool:
    match node:
        case Times(Chars(found), _, most):
            return len(found) >= WIDE and (most is None or most > LONG)
        case Times(item):
            return _is_gap(item)
        case Row(items) | Either(items):
            return any(_is_gap(item) for item in items)
        case _:
            return False


def _telling(items: Iterable[Node], *, ordinary: bool = False) -> int:
    """The longest run of fixed bytes that each match holds, without what is met in any log."""
    best = 0
    run = ""
    for item in [*items, Row(())]:
        fixed = _fixed(item)
        if fixed is not None:
            run += fixed
            continue
        best = max(best, len(run.strip()) if ordinary else _rare(run))
        run = ""
        match item:
            case Either(branches):
                best = max(best, min(_telling(_flat(branch), ordinary=ordinary) for branch in branches))
            case Times(inner, least) if least:
                best = max(best, _telling(_flat(inner), ordinary=ordinary))
            case _:
                pass
    return best


def _fixed(item: Node) -> str | None:
    """The text of an item that is always the same, letter case apart; None for any other."""
    match item:
        case Edge():
            return ""
        case Chars(found) if 1 <= len(found) <= 2:
            return chr(max(found)).lower()
        case Times(inner, least, most) if least == most and least <= LONG:
            one = _fixed(inner)
            return None if one is None else one * least
        case Row(items) if items:
            parts = [_fixed(inner) for inner in items]
            return None if None in parts else "".join(part for part in parts if part)
        case _:
            return None


def _rare(run: str) -> int:
    for word in _ORDINARY:
        run = run.replace(word, "\n")
    return max(len(part.strip()) for part in run.split("\n"))


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
