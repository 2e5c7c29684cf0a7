"""How recoveries end and where their time goes, for `/metrics`.

Everything is counted from the store, not from what this process has seen: a restarted gateway, or
another one over the same store, tells the same numbers, and no counter falls. Settled recoveries
are counted in the order in which they were settled, from where the count before ended, so that a
scrape costs what is new. Labels are words of ours: no job or user can make a new series.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from middlewatch.model.identity import ClusterId
from middlewatch.model.recovery import PartName, Recovery, RecoveryState
from middlewatch.ports.errors import PortError
from middlewatch.ports.store import RecoveryFilter, Store

BUCKETS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600)
"""Upper bounds, seconds: detection takes tenths, a queue or lost steps may take hours."""
TOTAL = "total"
UNDIVIDED = "undivided"
PARTS = (*(name.value for name in PartName), UNDIVIDED, TOTAL)
PAGE = 500
OPEN_AT_MOST = 5000
ENDS = tuple(state for state in RecoveryState if state is not RecoveryState.UNDER_WAY)


@dataclass(slots=True)
class Histogram:
    """Counts by bucket (the last one is beyond all bounds), and the sum."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    total: float = 0.0

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(BUCKETS, seconds)] += 1
        self.total += seconds

    def cumulative(self) -> list[tuple[str, float]]:
        bounds = [*(str(float(bound)) for bound in BUCKETS), "+Inf"]
        so_far = 0
        made: list[tuple[str, float]] = []
        for bound, count in zip(bounds, self.counts, strict=True):
            so_far += count
            made.append((bound, so_far))
        return made


class Recovered(Collector):
    """Counts anew what was settled since it was asked last."""

    def __init__(self, store: Store, cluster: ClusterId) -> None:
        self._store = store
        self._cluster = cluster
        self._one_at_a_time = threading.Lock()
        self._after = 0
        self._ends: Counter[RecoveryState] = Counter()
        self._seconds = {name: Histogram() for name in PARTS}

    def collect(self) -> Iterator[Metric]:
        try:
            with self._one_at_a_time:
                self._count()
                made = (self._histograms(), self._totals(), self._open())
        except PortError:
            # Absent for this scrape: a number that is not known is not 0.
            return
        yield from made

    def _count(self) -> None:
        while True:
            page = self._store.settled_recoveries(self._after, PAGE, self._cluster)
            for place, recovery in page:
                self._add(recovery)
                self._after = place
            if len(page) < PAGE:
                return

    def _add(self, recovery: Recovery) -> None:
        self._ends[recovery.state] += 1
        if recovery.state is not RecoveryState.VERIFIED:
            # How long something took that never came to an end says nothing.
            return
        for part in recovery.parts:
            self._seconds[part.name.value].add(part.seconds)
        if recovery.unsplit:
            self._seconds[UNDIVIDED].add(recovery.unsplit_s)
        self._seconds[TOTAL].add(recovery.total_s)

    def _histograms(self) -> Metric:
        family = HistogramMetricFamily(
            "middlewatch_recovery_seconds",
            "Time of verified recoveries, from the fault to the first step past the lost one, by part.",
            labels=("part",),
        )
        for name in PARTS:
            histogram = self._seconds[name]
            family.add_metric((name,), histogram.cumulative(), histogram.total)
        return family

    def _totals(self) -> Metric:
        family = CounterMetricFamily(
            "middlewatch_recoveries",
            "Recoveries that are settled, by how they ended.",
            labels=("state",),
        )
        for state in ENDS:
            family.add_metric((state.value,), self._ends[state])
        return family

    def _open(self) -> Metric:
        family = GaugeMetricFamily(
            "middlewatch_recoveries_open",
            "Recoveries that are not settled yet, by how they stand.",
            labels=("state",),
        )
        where = RecoveryFilter(self._cluster, settled=False)
        found = Counter(r.state for _, r in self._store.recoveries(where, 0, OPEN_AT_MOST))
        for state in RecoveryState:
            if state is not RecoveryState.VERIFIED:
                family.add_metric((state.value,), found[state])
        return family
