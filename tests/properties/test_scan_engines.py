"""Both engines find the same: pattern, place, line and groups, in any bytes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from middlewatch.adapters.scan import (
    Engine,
    LineScanner,
    NoEngineError,
    Re2Scanner,
    read_catalogue,
    scanner_for,
)
from middlewatch.adapters.scan.cores import cores
from middlewatch.adapters.scan.engine import HyperscanScanner
from middlewatch.adapters.scan.reading import LineReader
from middlewatch.adapters.scan.syntax import (
    UnsupportedError,
    blind_to_digits,
    tree,
    written,
)

ROOT = Path(__file__).parents[2]
CATALOGUE = read_catalogue()
RE2 = Re2Scanner(CATALOGUE)
EXAMPLES = [line for p in CATALOGUE.patterns for line in p.examples]
NEAR_MISSES = [line for p in CATALOGUE.patterns for line in p.near_misses]
KNOWN = [line.encode() for line in (*EXAMPLES, *NEAR_MISSES)]
LOGS = sorted((ROOT / "corpus" / "dev").glob("*.log"))
REGEXES_OF_OURS = [pattern.regex for pattern in CATALOGUE.patterns]
REMEMBERING = LineReader(REGEXES_OF_OURS)
FORGETFUL = LineReader([f"(?:{regex}|\0never[1-7])" for regex in REGEXES_OF_OURS])
"""The same patterns, none of them blind to digits: nothing is remembered."""
HEADS = [b"", b"3: ", b"[rank12]: ", b"[default0]:", b"(Trainer pid=7, ip=10.0.0.1) ", b"\x1b[31m"]
BITS = [
    b"",
    b"\r",
    b"\n",
    b"\0",
    b"\xff",
    b"\xc3\xa9",
    b"\x1b[0m",
    b"\x0b",
    b" ",
    b"\t",
    b"0",
    b"9",
]


@pytest.fixture(scope="module")
def hyperscan() -> LineScanner:
    try:
        return scanner_for(CATALOGUE, Engine.HYPERSCAN)
    except NoEngineError as error:
        pytest.skip(f"no Hyperscan on this machine: {error}")


@pytest.fixture(scope="module", params=["hyperscan", "re2"])
def pair(request: pytest.FixtureRequest) -> tuple[LineScanner, LineScanner]:
    """One that searches for a word of each pattern, and one that searches with whole patterns."""
    if request.param == "re2":
        return scanner_for(CATALOGUE, Engine.RE2), RE2
    return request.getfixturevalue("hyperscan"), RE2


@st.composite
def mutated_lines(draw: st.DrawFn) -> bytes:
    """A line that some pattern knows: cut, doubled, with other digits, with dirt in it."""
    line = draw(st.sampled_from(KNOWN))
    low = draw(st.integers(0, len(line)))
    high = draw(st.integers(low, len(line)))
    kept = draw(st.sampled_from([line, line[:low], line[low:], line[:low] + line[high:], line * 2]))
    kept = re.sub(rb"\d", lambda _: draw(st.sampled_from([b"0", b"7"])), kept, count=3)
    place = draw(st.integers(0, len(kept)))
    dirt = draw(st.sampled_from(BITS))
    return draw(st.sampled_from(HEADS)) + kept[:place] + dirt + kept[place:]


def test_hyperscan_searches_for_every_pattern_of_ours(hyperscan: LineScanner) -> None:
    """One that it cannot take is searched by RE2: right, but at a tenth of the speed."""
    assert isinstance(hyperscan, HyperscanScanner)
    assert hyperscan.by_re2 == ()


def test_examples_and_near_misses_give_the_same_hits(
    pair: tuple[LineScanner, LineScanner],
) -> None:
    for head in HEADS:
        block = b"".join(head + line + b"\n" for line in KNOWN)
        first, second = (scanner.scan(block, 1_000) for scanner in pair)
        assert first == second
        assert len(first) >= (len(EXAMPLES) if head == b"" else 1)


@pytest.mark.parametrize("path", LOGS, ids=lambda path: path.stem)
def test_labelled_logs_give_the_same_hits(
    pair: tuple[LineScanner, LineScanner], path: Path
) -> None:
    block = path.read_bytes()
    first, second = (scanner.scan(block, 0) for scanner in pair)
    assert first == second


def test_labelled_logs_hold_something_to_compare() -> None:
    assert sum(bool(RE2.scan(path.read_bytes(), 0)) for path in LOGS) >= 40


@given(lines=st.lists(mutated_lines(), max_size=12), base=st.integers(0, 2**50))
def test_mutated_lines_give_the_same_hits(
    pair: tuple[LineScanner, LineScanner], lines: list[bytes], base: int
) -> None:
    block = b"\n".join(lines)
    first, second = (scanner.scan(block, base) for scanner in pair)
    assert first == second


@given(block=st.binary(max_size=3000))
def test_random_bytes_give_the_same_hits(
    pair: tuple[LineScanner, LineScanner], block: bytes
) -> None:
    first, second = (scanner.scan(block, 0) for scanner in pair)
    assert first == second


@given(line=mutated_lines(), other=st.integers(0, 9))
def test_what_is_remembered_of_a_line_is_what_would_be_found_again(line: bytes, other: int) -> None:
    """The reader remembers places for lines with other digits; a new one has nothing to remember."""
    changed = re.sub(rb"\d", str(other).encode(), line)
    everything = tuple(range(len(REGEXES_OF_OURS)))
    REMEMBERING.matches(everything, line)
    assert REMEMBERING.matches(everything, changed) == FORGETFUL.matches(everything, changed)


# ------------------------------------------------------------------------------------- single regexes

ATOMS = [
    "a",
    "b",
    "0",
    "7",
    r"\d",
    r"\w",
    r"\s",
    r"\S",
    "[^a]",
    "[a-c0-9]",
    ".",
    "xyzzy",
    r"\.",
    "é",
]


def _grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    counts = st.sampled_from(["*", "+", "?", "{2}", "{1,3}", "{0,40}", "*?", "+?"])
    return st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})"),
        st.tuples(inner, counts).map(lambda two: f"(?:{two[0]}){two[1]}"),
        inner.map(lambda one: f"(?P<step>{one})" if "(?P" not in one else one),
        inner.map(lambda one: f"^{one}"),
        inner.map(lambda one: f"{one}$"),
        inner.map(lambda one: rf"\b{one}"),
        inner.map(lambda one: f"(?i:{one})" if one.isascii() else one),
    )


REGEXES = st.recursive(st.sampled_from(ATOMS), _grown, max_leaves=8)
TEXTS = st.text(alphabet="abcx07zy.é \t_XYZ-", max_size=40).map(lambda t: t.encode("latin-1"))
SAID = st.lists(TEXTS, min_size=1, max_size=8)


@given(regex=REGEXES, texts=SAID)
def test_line_that_a_regex_matches_holds_one_of_its_cores(regex: str, texts: list[bytes]) -> None:
    import re2

    from middlewatch.adapters.scan.re2_options import compiled

    try:
        node = tree(regex)
        found = [written(core) for core in cores(node)]
        whole = compiled(regex)
    except (UnsupportedError, re2.error):
        return
    searchers = [compiled(core) for core in found]
    for text in texts:
        if whole.search(text) is not None:
            assert any(core.search(text) is not None for core in searchers)


@given(regex=REGEXES, texts=SAID, digit=st.integers(0, 9))
def test_regex_that_is_blind_to_digits_matches_at_the_same_places_with_others(
    regex: str, texts: list[bytes], digit: int
) -> None:
    import re2

    from middlewatch.adapters.scan.re2_options import compiled

    try:
        blind = blind_to_digits(tree(regex))
        whole = compiled(regex)
    except (UnsupportedError, re2.error):
        return
    if not blind:
        return
    for text in texts:
        changed = re.sub(rb"[0-9]", str(digit).encode(), text)
        one, two = whole.search(text), whole.search(changed)
        assert (one is None) == (two is None)
        if one is not None and two is not None:
            assert [one.span(n) for n in range(one.re.groups + 1)] == [
                two.span(n) for n in range(two.re.groups + 1)
            ]


@given(regex=REGEXES, texts=SAID)
def test_tree_written_out_again_matches_the_same_lines(regex: str, texts: list[bytes]) -> None:
    import re2

    from middlewatch.adapters.scan.re2_options import compiled

    try:
        again = compiled(written(tree(regex)))
        whole = compiled(regex)
    except (UnsupportedError, re2.error):
        return
    for text in texts:
        assert (whole.search(text) is None) == (again.search(text) is None)
