"""Every pattern file, every example and every near-miss, with the engine that is used."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from middlewatch.adapters.scan import Re2Scanner, read_catalogue
from middlewatch.adapters.scan.catalogue import compiled
from middlewatch.detection.hits import SIGNALS
from middlewatch.model.pattern import Pattern, PatternKind
from middlewatch.model.signal import Domain

CATALOGUE = read_catalogue()
SCANNER = Re2Scanner(CATALOGUE)
BY_ID = CATALOGUE.by_id()
EXAMPLES = [(p.id, line) for p in CATALOGUE.patterns for line in p.examples]
NEAR_MISSES = [(p.id, line) for p in CATALOGUE.patterns for line in p.near_misses]
LOUD = {PatternKind.FAILURE, PatternKind.EXCEPTION, PatternKind.WATCHDOG}
ROOT = Path(__file__).resolve().parents[3] / "corpus"
CORPUS = ROOT / "dev"
CLASSES = re.findall(r"(?m)^\| `(\w+)` \|", (ROOT / "TAXONOMY.md").read_text())
HEALTHY = sorted(
    label.stem
    for label in CORPUS.glob("*.yaml")
    if re.search(r"(?m)^kind: (?:healthy|completed)$", label.read_text())
)
EARLIER_ATTEMPTS = {"d043": [75]}
"""Where the last attempt of a file begins: the failure of the one before it is no false one."""


def found(line: str) -> set[str]:
    return {hit.pattern_id for hit in SCANNER.scan(line.encode() + b"\n", 0)}


@pytest.mark.parametrize(("pattern", "line"), EXAMPLES)
def test_example_is_found(pattern: str, line: str) -> None:
    assert pattern in found(line)


@pytest.mark.parametrize(("pattern", "line"), NEAR_MISSES)
def test_near_miss_is_not_found(pattern: str, line: str) -> None:
    assert pattern not in found(line)


@pytest.mark.parametrize("pattern", CATALOGUE.patterns, ids=lambda p: p.id)
def test_pattern_does_not_match_an_empty_line(pattern: Pattern) -> None:
    assert list(compiled(pattern.regex).finditer(b"\n\n")) == []


@pytest.mark.parametrize("pattern", CATALOGUE.patterns, ids=lambda p: p.id)
def test_pattern_says_where_its_format_comes_from(pattern: Pattern) -> None:
    assert pattern.source


@pytest.mark.parametrize(
    "pattern", [p for p in CATALOGUE.patterns if p.kind in LOUD], ids=lambda p: p.id
)
def test_failure_names_its_class(pattern: Pattern) -> None:
    assert pattern.failure_class


TOLD = {
    p.failure_class
    for p in CATALOGUE.patterns
    if p.kind in LOUD or p.kind is PatternKind.LAUNCHER_END
} | {p.failure_class for p in CATALOGUE.patterns if p.kind is PatternKind.HINT}
DERIVED = {"silent_hang_located", "slow_input"}
"""Classes that no single line proves: a stack dump, a part's time and the steps do."""


@pytest.mark.parametrize("failure_class", CLASSES)
def test_each_class_has_a_pattern_or_is_derived(failure_class: str) -> None:
    assert (failure_class in TOLD) != (failure_class in DERIVED)


def test_pattern_names_no_class_that_the_taxonomy_lacks() -> None:
    assert {p.failure_class for p in CATALOGUE.patterns} - {""} <= set(CLASSES)


@pytest.mark.parametrize(("pattern", "line"), [e for e in EXAMPLES if BY_ID[e[0]].kind in SIGNALS])
def test_example_of_a_failure_is_named_by_that_pattern_and_no_other(
    pattern: str, line: str
) -> None:
    """Of several patterns on one line the greatest priority counts, and none beside a harmless
    one."""
    kinds = {BY_ID[name].kind for name in found(line)}
    loud = [BY_ID[name] for name in found(line) if BY_ID[name].kind in SIGNALS]
    assert PatternKind.HARMLESS not in kinds
    assert max(loud, key=lambda p: p.priority).id == pattern


@pytest.mark.parametrize("case", HEALTHY)
def test_no_line_of_a_healthy_job_names_a_failure(case: str) -> None:
    """Lines that count where they stand: those of an open traceback, or of an attempt that is over,
    are judged by the fold."""
    text = (CORPUS / f"{case}.log").read_bytes()
    before = min(EARLIER_ATTEMPTS.get(case, [0]))
    lines: dict[int, list[Pattern]] = {}
    for hit in SCANNER.scan(text if text.endswith(b"\n") else text + b"\n", 0):
        lines.setdefault(hit.offset, []).append(BY_ID[hit.pattern_id])
    failures = [
        (offset, pattern.id)
        for offset, patterns in lines.items()
        for pattern in patterns
        if pattern.kind in {PatternKind.FAILURE, PatternKind.WATCHDOG}
        and not any(p.kind is PatternKind.HARMLESS for p in patterns)
        and text.count(b"\n", 0, offset) + 1 >= before
    ]
    assert failures == []


def test_hardware_that_failed_is_fatal_or_names_a_node() -> None:
    hardware = [p for p in CATALOGUE.patterns if p.domain is Domain.HARDWARE and p.kind in LOUD]
    assert all(p.scope in {"gpu", "node"} for p in hardware)


@pytest.mark.parametrize("prefix", ["", "[rank5]: ", "12: "])
@pytest.mark.parametrize(
    ("pattern", "line"),
    [e for e in EXAMPLES if BY_ID[e[0]].kind is PatternKind.EXCEPTION and e[1][0] not in "[("],
)
def test_exception_is_of_the_writer_of_its_traceback(pattern: str, line: str, prefix: str) -> None:
    """An exception counts only where its writer's traceback is open: a rank that the message names
    must not be taken for who wrote it."""

    def writer(text: str, wanted: str) -> tuple[str, str]:
        hits = SCANNER.scan(f"{prefix}{text}\n".encode(), 0)
        groups = next(dict(hit.groups) for hit in hits if hit.pattern_id == wanted)
        return groups.get("label", ""), groups.get("rank", "")

    opened = writer("Traceback (most recent call last):", "python.traceback")
    assert writer(line, pattern) == opened
