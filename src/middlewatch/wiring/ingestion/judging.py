"""The whole judgement of a log set-up: a sample in, findings out, no question asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from middlewatch.model.pattern import Pattern
from middlewatch.ports.scanner import RawHit
from middlewatch.wiring.ingestion.clocks import clocks
from middlewatch.wiring.ingestion.marks import marks
from middlewatch.wiring.ingestion.sample import Expected, Finding, Known, Level, Sample
from middlewatch.wiring.ingestion.texts import patterns, texts


def scanned(sample: Sample) -> bytes:
    """The lines as a scanner takes them."""
    return b"".join(line.text.rstrip(b"\n").replace(b"\n", b" ") + b"\n" for line in sample.lines)


def judged(
    sample: Sample,
    expected: Expected,
    known: Known,
    hits: Sequence[RawHit],
    catalogue: Mapping[str, Pattern],
) -> Iterator[Finding]:
    """Everything that can be said of a sample."""
    if known.why_not:
        yield Finding(
            "slurm",
            Level.INFO,
            f"Slurm's jobs and nodes are not known ({known.why_not[:120]}): labels are judged by their "
            "form alone",
        )
    if not sample.lines:
        yield Finding(
            "reach",
            Level.FAIL,
            "the file has no lines" if expected.source == "files" else "no lines are found",
            "start a job that prints, or give another --file"
            if expected.source == "files"
            else "look whether the collector runs and may push, whether logs.tenant and logs.match "
            "are right, and whether jobs printed lately (--since)",
        )
        return
    yield Finding("reach", Level.OK, f"{len(sample.lines)} lines are read")
    if expected.source != "files":
        yield from marks(sample, expected, known)
    yield from clocks(sample, expected)
    yield from texts(sample, expected)
    yield from patterns(sample, hits, catalogue)
