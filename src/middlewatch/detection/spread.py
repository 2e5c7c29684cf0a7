"""How far a job's speed varies by itself: from line to line, and slowly up and down.

The two are not the same to a test. Noise from line to line averages out over a few lines. What
neighbouring lines have in common does not: where each line is one step, neighbours are alike for a
moment, and the test has to take the noise for greater than it looks; where each line is the mean of
many steps that is gone, and what is left are slow ups and downs, which a change has to exceed.
All values are costs: logarithms of the time per iteration.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, sqrt
from statistics import median

from middlewatch.detection.series import BLOCK

DRIFTS = 1.2
"""A change must exceed the upper end of the slow ups and downs, so many times."""
_TO_SIGMA = 1.4826
_DECILE = 1.2816
_MEDIAN_OF_BLOCK = 1.25
_OF_EIGHT = 1.1
"""Lines lie nearer to the middle of their own eight than to that of all."""


def spread_of(ordered: Sequence[float], blocks: Sequence[float]) -> float:
    """The spread of single lines, or what the medians of blocks show where that is greater."""
    count = len(ordered)
    middle = ordered[count // 2]
    deviation = median([abs(one - middle) for one in ordered])
    decile = ordered[min(count - 1, ceil(0.9 * count) - 1)] - middle
    scale = max(_TO_SIGMA * deviation, decile / _DECILE)
    if len(blocks) >= 4:
        centre = median(blocks)
        apart = median([abs(one - centre) for one in blocks])
        scale = max(scale, _TO_SIGMA * apart * sqrt(BLOCK) / _MEDIAN_OF_BLOCK)
    return scale


def around_neighbours(recent: Sequence[float]) -> float:
    """The spread of lines around the middle of their eight."""
    apart: list[float] = []
    for at in range(len(recent) % BLOCK, len(recent), BLOCK):
        eight = recent[at : at + BLOCK]
        middle = median(eight)
        apart += [one - middle for one in eight]
    apart.sort()
    decile = apart[ceil(0.9 * len(apart)) - 1]
    return _OF_EIGHT * max(_TO_SIGMA * median([abs(one) for one in apart]), decile / _DECILE)


def drift_of(blocks: Sequence[float]) -> float:
    """How far the job goes up by itself, and comes back."""
    ordered = sorted(blocks)
    return round(DRIFTS * (ordered[ceil(0.9 * len(ordered)) - 1] - median(ordered)), 6)
