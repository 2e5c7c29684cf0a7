"""What the watchers told of themselves, for `/metrics`: also those of other processes.

A watcher that is stuck or dead tells nothing any more, so the age of its last account is a value of
its own, and the first to set an alarm on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import accumulate

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)

from middlewatch.model.health import BOUNDS_S, PREFIX, WatcherHealth, from_text
from middlewatch.model.identity import ClusterId
from middlewatch.model.sharing import pool_of
from middlewatch.ports.errors import PortError
from middlewatch.ports.store import Store

FORGOTTEN_S = 86_400.0
"""A watcher that told nothing for a day was taken away; it has no values any more."""

_TOTALS: tuple[tuple[str, str, str], ...] = (
    ("read_bytes", "bytes_read", "Bytes of logs that were read."),
    ("read_lines", "lines_read", "Lines of logs that were read."),
    ("lost_lines", "lines_lost", "Lines in a log store that came too late to be read."),
    ("read_errors", "read_errors", "Looks at a log that brought nothing because of an error."),
    ("job_errors", "job_errors", "Troubles that kept a job, or the log store, from being watched."),
    ("conflicts", "conflicts", "Jobs left for a round because somebody else wrote to them."),
    ("signals", "signals_stored", "Signals that were stored."),
    ("capped_signals", "signals_capped", "Signals dropped because their attempt had too many."),
    ("details", "details_read", "Questions about single jobs, their comments among them."),
    ("accounting", "accounting_read", "Questions to accounting."),
    ("unlisted_rounds", "unlisted_rounds", "Rounds in which the scheduler could not be seen."),
)
_PRESENT: tuple[tuple[str, str, str], ...] = (
    ("jobs_listed", "jobs_listed", "Jobs in the scheduler's last listing."),
    ("attempts", "watched", "Attempts whose logs are read."),
    ("behind", "behind", "Attempts whose logs were not read to their end in the last round."),
    ("behind_bytes", "bytes_behind", "Bytes of files that were left in the last round."),
    (
        "oldest_unread_seconds",
        "oldest_unread_s",
        "How long ago the attempt that waits longest had been read to its end; 0: none waits.",
    ),
)


def watchers(store: Store, now: datetime) -> Iterator[Metric]:
    """The values of every watcher that told something within a day; none if the store is away."""
    accounts = _accounts(store, now)
    age = GaugeMetricFamily(
        "middlewatch_watcher_report_age_seconds",
        "Seconds since the watcher told of a completed round (it does every 10 s).",
        labels=("watcher",),
    )
    rounds = HistogramMetricFamily(
        "middlewatch_watcher_round_seconds", "How long rounds took.", labels=("watcher",)
    )
    for name, told in accounts:
        age.add_metric((name,), max(0.0, (now - told.at).total_seconds()))
        rounds.add_metric((name,), _buckets(told.classes), told.seconds)
    yield age
    yield rounds
    for short, field, text in _TOTALS:
        total = CounterMetricFamily(f"middlewatch_watcher_{short}", text, labels=("watcher",))
        for name, told in accounts:
            total.add_metric((name,), getattr(told.totals, field))
        yield total
    for short, field, text in _PRESENT:
        gauge = GaugeMetricFamily(f"middlewatch_watcher_{short}", text, labels=("watcher",))
        for name, told in accounts:
            gauge.add_metric((name,), getattr(told.present, field))
        yield gauge


def shares(store: Store, cluster: ClusterId) -> Iterator[Metric]:
    """How the watchers share the cluster, by what the store says now."""
    share = GaugeMetricFamily(
        "middlewatch_watcher_share",
        "How much of the cluster's jobs is the watcher's, 0 to 1.",
        labels=("watcher",),
    )
    left = GaugeMetricFamily(
        "middlewatch_watcher_lease_seconds",
        "Seconds until others may take the watcher's jobs; below 0: it is late, or dead.",
        labels=("watcher",),
    )
    nobodys = GaugeMetricFamily(
        "middlewatch_unwatched_share",
        "How much of the cluster's jobs is no live watcher's, 0 to 1; no value before the first.",
    )
    try:
        sharing = store.sharing(pool_of("watcher", cluster))
    except PortError:
        return
    held = Counter(shard.holder for shard in sharing.shards)
    for lease in sharing.members:
        remaining = (lease.expires_at - sharing.now).total_seconds()
        left.add_metric((lease.holder,), remaining)
        share.add_metric((lease.holder,), held[lease.holder] / max(1, len(sharing.shards)))
        if remaining > 0:
            del held[lease.holder]
    if sharing.shards:
        nobodys.add_metric((), held.total() / len(sharing.shards))
    yield share
    yield left
    yield nobodys


def _buckets(classes: Sequence[int]) -> list[tuple[str, float]]:
    """As Prometheus counts: each with all below it."""
    bounds = (*map(str, BOUNDS_S), "+Inf")
    return [(bound, float(n)) for bound, n in zip(bounds, accumulate(classes), strict=True)]


def _accounts(store: Store, now: datetime) -> list[tuple[str, WatcherHealth]]:
    try:
        notes = store.notes(PREFIX)
    except PortError:
        return []
    found = []
    for name, text in notes:
        try:
            told = from_text(text)
        except ValueError:
            continue
        if abs((now - told.at).total_seconds()) < FORGOTTEN_S:
            found.append((name.removeprefix(PREFIX), told))
    return found
