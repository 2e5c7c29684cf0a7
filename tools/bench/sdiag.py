"""slurmctld's own account of the requests that it served: how many of each kind, and how long they took.

Only differences between two accounts mean anything: slurmctld counts since it began, or was last reset.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_BY_TYPE = "Remote Procedure Call statistics by message type"
_LINE = re.compile(r"\s+(\w+)\s*\(\s*\d+\)\s+count:(\d+)\s+ave_time:(\d+)\s+total_time:(\d+)")
COUNTING_ITSELF = "REQUEST_STATS_INFO"
"""What `sdiag` asks with."""


@dataclass(frozen=True, slots=True)
class Requests:
    """For each kind of request how many were served, and their microseconds together."""

    served: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def since(self, before: Requests) -> Requests:
        """What was served between the two accounts, `sdiag`'s own questions left out."""
        found: dict[str, tuple[int, int]] = {}
        for kind, (count, total) in self.served.items():
            then = before.served.get(kind, (0, 0))
            if count > then[0] and kind != COUNTING_ITSELF:
                found[kind] = (count - then[0], total - then[1])
        return Requests(found)

    def count(self, *kinds: str) -> int:
        """Requests of these kinds, or all."""
        return sum(n for kind, (n, _) in self.served.items() if not kinds or kind in kinds)

    def mean_us(self, *kinds: str) -> float:
        """Microseconds for one of them. Raises `ValueError` where there was none."""
        count = self.count(*kinds)
        if not count:
            raise ValueError(f"no request of {', '.join(kinds) or 'any kind'} was counted")
        total = sum(t for kind, (_, t) in self.served.items() if not kinds or kind in kinds)
        return total / count


def read(text: str) -> Requests:
    """What ``sdiag`` printed. Raises `ValueError` where it has no such part."""
    _, found, rest = text.partition(_BY_TYPE)
    if not found:
        raise ValueError("sdiag printed no statistics by message type")
    served: dict[str, tuple[int, int]] = {}
    for line in rest.splitlines()[1:]:
        match = _LINE.fullmatch(line.rstrip())
        if match is None:
            break
        served[match[1]] = int(match[2]), int(match[4])
    return Requests(served)
