"""Which ranks and nodes a line names: kept as the line says it, believed by nobody here."""

from __future__ import annotations

import hashlib
import re

from middlewatch.detection.batch import Hit

MOST_NAMES = 64
LONGEST = 48
_WRITERS = ("actor", "label", "local_rank", "rank", "writer")
_OF_A_NODE = frozenset({"gpu", "node"})
_JSON_HOST = re.compile(r'"(?:host(?:name)?|node(?:name)?)": ?"([A-Za-z0-9][\w.-]{0,253})"')
_PART = re.compile(r"([A-Za-z0-9._-]+)(?:\[([0-9,-]+)\])?([A-Za-z0-9._-]*)")
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,253}")


def numbers(expression: str) -> tuple[int, ...]:
    """``0-3,7`` as numbers, at most `MOST_NAMES` of them; what is no number is left out."""
    found: list[int] = []
    for part in expression.split(","):
        low, _, high = part.strip().partition("-")
        if not (low.isascii() and low.isdigit() and len(low) <= 7):
            continue
        last = int(high) if high.isascii() and high.isdigit() and len(high) <= 7 else int(low)
        found.extend(range(int(low), min(last, int(low) + MOST_NAMES) + 1))
    return tuple(found[:MOST_NAMES])


def hosts(expression: str) -> tuple[str, ...]:
    """``gpu[01-03],login1`` as single names, at most `MOST_NAMES` of them."""
    found: list[str] = []
    for match in _PART.finditer(expression):
        head, ranges, tail = match.groups()
        if ranges is None:
            found.append(head)
            continue
        for part in ranges.split(","):
            low, _, high = part.partition("-")
            if not low.isdigit() or len(low) > 7 or len(high) > 7:
                continue
            last = int(high) if high.isdigit() else int(low)
            span = range(int(low), min(last, int(low) + MOST_NAMES) + 1)
            found.extend(f"{head}{number:0{len(low)}d}{tail}" for number in span)
    return tuple(dict.fromkeys(found))[:MOST_NAMES]


def ranks_of(hit: Hit) -> tuple[int, ...]:
    """The global ranks that a line names: its own ``rank``, a list of tasks, or the task number
    that ``srun --label`` put before it."""
    for name in ("ranks", "rank", "member", "label"):
        text = hit.group(name)
        if text and (found := numbers(text)):
            return found
    return ()


def nodes_of(hit: Hit) -> tuple[str, ...]:
    """The nodes that a line names as the place of the fault (groups ``hosts`` and ``node``); of a
    fault that is a node's or a GPU's, the host whose output the line is."""
    listed = hit.group("hosts")
    if listed:
        return hosts(listed)
    node = hit.group("node")
    if not node and hit.pattern.scope in _OF_A_NODE:
        told = _JSON_HOST.search(hit.line[:1024])
        node = hit.group("writer") or (told.group(1) if told else None)
    return (node,) if node and _NODE.fullmatch(node) else ()


def short(name: str) -> str:
    """A name of any length as one of at most `LONGEST` characters, different for different names."""
    if len(name) <= LONGEST:
        return name
    return hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:LONGEST]


def writer_of(hit: Hit) -> str:
    """Who wrote the line, as far as its prefix tells: tells interleaved tracebacks apart."""
    groups = dict(hit.groups)
    return short("/".join(groups.get(name, "") for name in _WRITERS))
