"""A regex that a stranger wrote, and what is said where it will not do."""

from __future__ import annotations

from pathlib import Path

import pytest

from middlewatch.adapters.scan import BadPatternError, OwnPatterns, read_catalogue
from middlewatch.adapters.scan.caps import KEPT, LONGEST_REGEX, MOST_PATTERNS
from middlewatch.ports.scanner import OWN_PROGRESS

OURS = r"^\[trainer\] it=(?P<step>\d+) of (?P<total>\d+)"


def site(regex: str, number: int = 0) -> str:
    return f"""
[[pattern]]
id = "site.p{number}"
kind = "progress"
regex = '''{regex}'''
source = "here"
examples = ['x']
near_misses = ['y']
"""


def test_pattern_of_a_job_finds_its_steps() -> None:
    own = OwnPatterns()
    assert own.refused(OURS) == ""
    (hit,) = own.scan(OURS, b"hello\n[trainer] it=17 of 40\r\n", 100)
    assert (hit.pattern_id, hit.offset, hit.line) == (OWN_PROGRESS, 106, "[trainer] it=17 of 40")
    assert dict(hit.groups) == {"step": "17", "total": "40"}


@pytest.mark.parametrize(
    ("regex", "said"),
    [
        ("x" * (LONGEST_REGEX + 1), "at most 200 are allowed"),
        (r"(?P<step>\d+", "RE2 refuses"),
        (r"(?=a)(?P<step>\d+)", "RE2 refuses"),
        (r"(?P<step>\d+)\1", "RE2 refuses"),
        (r"step \d+", r"(?P<step>\d+)"),
        (r"(?P<step>\d+) (?P<colour>\w+)", "unknown group 'colour'"),
        (r"(?P<step>\d*)", "matches an empty line"),
        (r"(?P<step>(?:\w{1,900}){900})", "RE2 refuses"),
        (r"(?P<step>(?:(?:[a-y]{1,30}[b-z]){1,30}x){1,30})", "RE2 refuses"),
        ("Schritt█(?P<step>\\d+)", "Latin-1"),
        ("a\x00(?P<step>\\d+)", "unprintable"),
        ("", "matches an empty line"),
    ],
)
def test_regex_that_will_not_do_is_refused_with_what_to_mend(regex: str, said: str) -> None:
    own = OwnPatterns()
    reason = own.refused(regex)
    assert said in reason
    assert "progress pattern" in reason
    assert list(own.scan(regex, b"x" * 300 + b"\nstep 17\n", 0)) == []


def test_bad_regexes_in_great_number_are_forgotten_again() -> None:
    own = OwnPatterns()
    for number in range(3 * KEPT):
        assert own.refused(f"step {number}")
    assert own.refused(OURS) == ""


@pytest.mark.parametrize(
    "regex",
    [
        r"(?P<step>(?:a|a)*)b",
        r"^(?P<step>(?:[a-z]+)*)$x",
        r"(?P<step>(?:\d+)+)!",
        r"(?P<step>\w).*",
    ],
)
def test_regex_that_would_take_other_engines_for_ever_ends(regex: str) -> None:
    block = (b"a" * 15_000 + b"\n" + b"1" * 15_000 + b"\n") * 8
    for hit in OwnPatterns().scan(regex, block, 0):
        assert hit.offset < len(block)


def test_pattern_of_a_site_may_be_no_longer_than_the_limit(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text(site("x" * (LONGEST_REGEX + 1)))
    with pytest.raises(BadPatternError, match=r"site\.toml: pattern site\.p0: regex: 201 char"):
        read_catalogue(tmp_path)


def test_macro_in_a_sites_pattern_counts_as_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text(site("%BARE%" + "x" * (LONGEST_REGEX - 6)))
    assert "site.p0" in read_catalogue(tmp_path).foreign


def test_pattern_of_a_site_may_take_no_more_memory_than_the_limit(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text(site(r"(?:\w{1,900}){900}x"))
    with pytest.raises(BadPatternError, match=r"site\.p0: regex: RE2 refuses it"):
        read_catalogue(tmp_path)


def test_site_may_have_a_bounded_number_of_patterns(tmp_path: Path) -> None:
    text = "".join(site(f"line{number}", number) for number in range(MOST_PATTERNS + 1))
    (tmp_path / "site.toml").write_text(text)
    with pytest.raises(BadPatternError, match=f"more than {MOST_PATTERNS} patterns"):
        read_catalogue(tmp_path)


def test_pattern_that_matches_every_line_is_refused(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text(site("x*"))
    with pytest.raises(BadPatternError, match="matches an empty line"):
        read_catalogue(tmp_path)
