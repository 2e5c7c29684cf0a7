"""What a fast engine looks for instead of a pattern.

*Cores* are shorter regexes of which one is found in every line that the pattern matches, and which
the engine has no trouble with; a line that holds one is a candidate and nothing more. What makes a
search fast is a fixed text, rare if possible, and that nothing stands before it: the heads that
launchers and loggers put before a line are long, everywhere and never needed to find it.
"""

from __future__ import annotations

from collections.abc import Iterable

from middlewatch.adapters.scan.syntax import ALL, Chars, Edge, Either, Node, Row, Times

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


def word_length(core: Node) -> int:
    """Bytes of the longest text that every match of a core holds, however ordinary. Below
    `LEAST` the engine has nothing to look for and walks through the text byte by byte."""
    return _telling(_flat(core), ordinary=True)


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
                best = max(
                    best, min(_telling(_flat(branch), ordinary=ordinary) for branch in branches)
                )
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
