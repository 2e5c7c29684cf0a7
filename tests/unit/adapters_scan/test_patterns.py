"""Every pattern file, every example and every near-miss, with the engine that is used."""

from __future__ import annotations

import pytest

from middlewatch.adapters.scan import Re2Scanner, read_catalogue
from middlewatch.adapters.scan.catalogue import compiled
from middlewatch.model.pattern import Pattern, PatternKind
from middlewatch.model.signal import Domain

CATALOGUE = read_catalogue()
SCANNER = Re2Scanner(CATALOGUE)
BY_ID = CATALOGUE.by_id()
EXAMPLES = [(p.id, line) for p in CATALOGUE.patterns for line in p.examples]
NEAR_MISSES = [(p.id, line) for p in CATALOGUE.patterns for line in p.near_misses]
LOUD = {PatternKind.FAILURE, PatternKind.EXCEPTION, PatternKind.WATCHDOG}


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


@pytest.mark.parametrize(
    "failure_class",
    [
        "user_exception",
        "gpu_memory_fault",
        "gpu_ecc_uncorrectable",
        "gpu_off_bus",
        "gpu_nvlink_fabric",
        "collective_timeout_unattributed",
        "peer_connection_lost",
        "host_oom",
        "storage_full",
        "storage_io_error",
        "native_crash",
        "node_failure",
        "ib_link_error",
        "gpu_oom",
    ],
)
def test_each_kind_of_failure_has_a_pattern(failure_class: str) -> None:
    assert any(p.failure_class == failure_class and p.kind in LOUD for p in CATALOGUE.patterns)


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
