"""What is printed cannot mislead a terminal."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from middlewatch.wiring.plain import plain, plain_lines

HOSTILE = st.text(
    st.one_of(
        st.characters(),
        st.characters(categories=["Cc", "Cf", "Cs", "Co", "Zl", "Zp"]),
        st.sampled_from("\x1b[]0m\u202e\u2066\u200b\ufeff\x07\x9b"),
    ),
    max_size=200,
)


@given(HOSTILE)
def test_no_control_format_or_surrogate_character_survives(text: str) -> None:
    for character in plain(text):
        assert unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}


@given(HOSTILE)
def test_lines_keep_their_ends_and_nothing_else(text: str) -> None:
    shown = plain_lines(text)
    assert shown.count("\n") == text.count("\n")
    for character in shown.replace("\n", ""):
        assert unicodedata.category(character) not in {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}


@given(HOSTILE)
def test_stripping_twice_changes_nothing(text: str) -> None:
    assert plain(plain(text)) == plain(text)


@given(HOSTILE, st.integers(1, 50))
def test_a_limit_is_kept(text: str, limit: int) -> None:
    assert len(plain(text, limit)) <= limit


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("a\tb\nc", "a b c"),
        ("\x1b[31mred\x1b[0m", "[31mred[0m"),
        ("abc\u202egnp.exe", "abcgnp.exe"),
        ("zero\u200bwidth", "zerowidth"),
        ("Ünïcödé 漢字", "Ünïcödé 漢字"),
        (42, "42"),
    ],
)
def test_known_tricks_are_disarmed(text: object, shown: str) -> None:
    assert plain(text) == shown
