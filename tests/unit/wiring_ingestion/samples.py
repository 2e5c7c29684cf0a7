"""Samples as a store would give them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

from middlewatch.adapters.scan.catalogue import read_catalogue
from middlewatch.adapters.scan.scanner import Re2Scanner
from middlewatch.wiring.ingestion.judging import judged, scanned
from middlewatch.wiring.ingestion.sample import (
    SECOND,
    Expected,
    Finding,
    Known,
    Level,
    Sample,
    Seen,
)

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
NOW_NS = int(NOW.timestamp()) * SECOND
GOOD = {"job_id": "4711", "node": "n1", "filename": "/scratch/a/slurm-4711.out"}
STREAM = frozenset(GOOD)
SLURM = Known(jobs=frozenset({"4711", "4712_3"}), nodes=frozenset({"n1", "n2"}))
CATALOGUE = read_catalogue(None)
SCANNER = Re2Scanner(CATALOGUE)


def lines(count: int = 40, labels: Mapping[str, str] = GOOD, *, late_s: float = 0.0) -> list[Seen]:
    """Lines a second apart, each with a stamp of its own, which the store's time is behind by
    ``late_s``."""
    found = []
    for number in range(count):
        read = NOW - timedelta(seconds=count - number)
        own = read - timedelta(seconds=late_s)
        text = f"{own:%Y-%m-%d %H:%M:%S} step {number}/1000 loss 2.{number:03d}"
        at = int(read.timestamp()) * SECOND
        found.append(Seen(text.encode(), at, dict(labels)))
    return found


def findings(
    seen: Sequence[Seen],
    *,
    expected: Expected | None = None,
    known: Known = SLURM,
    stream: frozenset[str] = STREAM,
    watched_s: float = 0.0,
    gone: str = "",
    written: int = 0,
) -> list[Finding]:
    sample = Sample(tuple(seen), stream, NOW_NS, written, watched_s, gone)
    hits = SCANNER.scan(scanned(sample), 0)
    wanted = expected or Expected("victorialogs")
    return list(judged(sample, wanted, known, hits, CATALOGUE.by_id()))


def wrong(found: Sequence[Finding]) -> list[Finding]:
    return [one for one in found if one.level in {Level.WARN, Level.FAIL}]


def remedies(found: Sequence[Finding]) -> dict[str, object]:
    return {f"{r.section}.{r.key}": r.value for one in found for r in one.remedies}
