"""The patterns for loops of any kind: their examples, their near-misses, and both engines."""

from __future__ import annotations

import pytest

from middlewatch.adapters.scan import Engine, NoEngineError, Re2Scanner, read_loops, scanner_for
from middlewatch.adapters.scan.catalogue import compiled
from middlewatch.model.pattern import LOOP, Pattern

LOOPS = read_loops()
SCANNER = Re2Scanner(LOOPS)
EXAMPLES = [(p.id, line) for p in LOOPS.patterns for line in p.examples]
NEAR_MISSES = [(p.id, line) for p in LOOPS.patterns for line in p.near_misses]


def found(line: str) -> dict[str, dict[str, str]]:
    hits = SCANNER.scan(line.encode() + b"\n", 0)
    return {hit.pattern_id: dict(hit.groups) for hit in hits}


@pytest.mark.parametrize(("pattern", "line"), EXAMPLES)
def test_example_is_found(pattern: str, line: str) -> None:
    assert pattern in found(line)


@pytest.mark.parametrize(("pattern", "line"), NEAR_MISSES)
def test_near_miss_is_not_found(pattern: str, line: str) -> None:
    assert pattern not in found(line)


@pytest.mark.parametrize("pattern", LOOPS.patterns, ids=lambda p: p.id)
def test_pattern_is_marked_as_one_of_any_loop(pattern: Pattern) -> None:
    assert pattern.id.startswith(LOOP)
    assert pattern.source
    assert list(compiled(pattern.regex).finditer(b"\n\n")) == []


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("[r0] it=002460 perte=2.1075 ppl=8.23 lr=4.00e-04 t/it=0.709s", "002460"),
        ("2772.45 r00     step  2550 rel.err 0.04472 divergence 1.89e-05 1.045 s/step", "2550"),
        ("2025-11-27 09:50:51,152 INFO    loop       n=4970 elbo=-3.7407 kl=0.233", "4970"),
    ],
)
def test_count_is_read_under_the_usual_names(line: str, step: str) -> None:
    assert found(line)["loop.step"]["step"] == step


def test_engines_find_the_same() -> None:
    try:
        fast = scanner_for(LOOPS, Engine.HYPERSCAN)
    except NoEngineError:
        pytest.skip("hyperscan is not to be had here")
    block = "".join(f"{line}\n" for _, line in EXAMPLES + NEAR_MISSES).encode()
    assert fast.scan(block, 0) == SCANNER.scan(block, 0)
