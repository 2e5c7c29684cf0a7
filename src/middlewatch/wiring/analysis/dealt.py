"""How ranks were dealt out to hosts, where a launcher or a script prints it as ranges or counts.

``n1(0-3) n2(4-7)``, ``ranks r0-r7 on n1, r8-r15 on n2``, ``-H n1:8,n2:8``, a host file with
``n1 slots=8``: whoever writes such a list gives every rank once and in order, and that is how it is
told from dates, versions and sizes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from middlewatch.attribution.places import LARGEST_NODE

_HOST = r"(?P<node>[A-Za-z][A-Za-z-]*[0-9][A-Za-z0-9.-]*|[A-Za-z]+-[A-Za-z0-9.-]*[A-Za-z0-9])"
_SPAN = r"\[?[rR]?(?P<low>\d{1,5})(?:-|\.\.|:| to |\.\.\.)[rR]?(?P<high>\d{1,5})(?![\d.:-])\]?"
_RANGES = (
    re.compile(rf"{_HOST}[ =:(\[,]{{1,3}}(?:(?:global )?ranks?[ =:]{{1,2}})?{_SPAN}".encode()),
    re.compile(rf"{_HOST}\b[^\n]{{1,60}}?\branks?[ =:\[]{{1,3}}{_SPAN}".encode()),
    re.compile(rf"(?<![\w.-]){_SPAN}[ =:@,>-]{{1,4}}(?:on )?(?:host |node )?{_HOST}".encode()),
)
_COUNTED = re.compile(rf"{_HOST}:(?P<count>\d{{1,2}})(?=,|\s|$)".encode())
_HOSTS_OPTION = re.compile(rb"(?:^|\s)(?:-H|-hosts?|--hosts?)[ =]([\w.:,-]+)")
_SLOTS = re.compile(rf"^\s*{_HOST}\s+(?:max_)?slots=(?P<count>\d{{1,2}})".encode(), re.MULTILINE)
_PART = re.compile(
    r"(?i)(?:numa|node|cpu|gpu|layers?|stage|block|experts?|socket|shard|group|bucket|core|device|dev|mlx5|pp|tp|dp)"
    r"[-_]?\d+"
)
"""Names of other things that are numbered in ranges."""
_READ = 4_000_000
"""Bytes at the beginning of a log in which such lists are looked for."""


def dealt(data: bytes) -> list[tuple[str, int]]:
    """Hosts in the order of their ranks, and how many ranks each has; empty where none tells."""
    head = data[:_READ]
    found = [_tiled(pattern.finditer(head)) for pattern in _RANGES]
    option = _HOSTS_OPTION.search(head)
    if option is not None:
        found.append(_counted(_COUNTED.finditer(option.group(1))))
    found.append(_counted(_SLOTS.finditer(head)))
    best = max(found, key=len)
    return best if len(best) > 1 else []


def _tiled(matches: Iterable[re.Match[bytes]]) -> list[tuple[str, int]]:
    """The longest run of ranges that begins with 0 and leaves out no number."""
    best: list[tuple[str, int]] = []
    run: list[tuple[str, int]] = []
    following = 0
    for match in matches:
        low, high = int(match.group("low")), int(match.group("high"))
        node = match.group("node").decode("latin-1")
        if _PART.fullmatch(node) is not None:
            continue
        if not (run and low == following) or any(node == name for name, _ in run):
            run, following = [], 0
        if low != following or not low <= high < low + LARGEST_NODE:
            run = []
            continue
        run.append((node, high - low + 1))
        following = high + 1
        if len(run) > len(best):
            best = list(run)
    return best


def _counted(matches: Iterable[re.Match[bytes]]) -> list[tuple[str, int]]:
    told = [(m.group("node").decode("latin-1"), int(m.group("count"))) for m in matches]
    once = len({name for name, _ in told}) == len(told)
    return told if once and all(0 < n <= LARGEST_NODE for _, n in told) else []
