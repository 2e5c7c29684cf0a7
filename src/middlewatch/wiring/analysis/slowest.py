"""Which rank or device slows the others down, from what the log tells of each of them.

Some programs print their own time for each rank, others the clocks of all devices in one line. One
that is unlike the rest, again and again since the job became slow, is whom the rest waits for.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

LEAST = 4
"""Ranks or devices that must be told of before one can be odd."""
LONGER = 1.12
LOWER = 0.93
OFTEN = 2 / 3

_OWN_TIME = re.compile(
    rb"\brank[=:\" ]{1,3}(\d{1,6})\b[^\n]{0,200}?"
    rb"\b(?:fwd_?bwd|forward[_-]?backward|fwd|compute|kernel|gpu_time)\w*[\"=: ]{1,3}(\d+(?:\.\d+)?)"
)
_CLOCKS = re.compile(rb"(?i)\b(?:clocks?|mhz|graphics|sm clk)\b")
_EACH = re.compile(rb"(?<![\d:.])(\d{1,2})[:=](\d{2,5})(?![\d:.])")


@dataclass(frozen=True, slots=True)
class Slowest:
    """``rank`` or ``device`` is known; ``lines`` compare it with the others, numbered
    from 1."""

    rank: int | None
    device: int | None
    lines: tuple[int, ...]


def slowest(lines: Sequence[bytes], since: int) -> Slowest | None:
    """The odd one in the lines from ``since`` on; None where none is, or several are."""
    return _by_own_time(lines, since) or _by_clock(lines, since)


def _by_own_time(lines: Sequence[bytes], since: int) -> Slowest | None:
    tables: list[dict[int, tuple[float, int]]] = [{}]
    for number in range(since, len(lines) + 1):
        found = _OWN_TIME.search(lines[number - 1])
        if found is None:
            if tables[-1]:
                tables.append({})
            continue
        rank = int(found.group(1))
        if rank in tables[-1]:
            tables.append({})
        tables[-1][rank] = float(found.group(2)), number
    odd: Counter[int] = Counter()
    told: dict[int, list[int]] = {}
    full = [table for table in tables if len(table) >= LEAST]
    for table in full:
        usual = median(value for value, _ in table.values())
        slow = [rank for rank, (value, _) in table.items() if value > LONGER * usual > 0]
        if len(slow) == 1:
            odd[slow[0]] += 1
            told.setdefault(slow[0], []).extend(number for _, number in table.values())
    if not odd:
        return None
    (rank, times), *_ = odd.most_common(1)
    return Slowest(rank, None, tuple(told[rank])) if times >= OFTEN * len(full) else None


def _by_clock(lines: Sequence[bytes], since: int) -> Slowest | None:
    odd: dict[int, list[int]] = {}
    for number in range(since, len(lines) + 1):
        line = lines[number - 1]
        if _CLOCKS.search(line) is None:
            continue
        each: dict[int, int] = {}
        for device, value in _EACH.findall(line):
            if int(device) in each:
                break  # another figure of the same devices begins
            each[int(device)] = int(value)
        if len(each) < LEAST:
            continue
        usual = median(each.values())
        low = [device for device, value in each.items() if value < LOWER * usual]
        if len(low) == 1:
            odd.setdefault(low[0], []).append(number)
    if len(odd) != 1:
        return None
    ((device, numbers),) = odd.items()
    return Slowest(None, device, tuple(numbers))
