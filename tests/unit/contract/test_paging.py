from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from middlewatch.contract import choices
from middlewatch.contract.errors import ApiError, Code
from middlewatch.contract.paging import (
    Place,
    limit_of,
    next_offset,
    offset_of,
    opaque_token,
    read_opaque_token,
    start_of,
)


def test_limit_left_out_takes_the_default() -> None:
    assert limit_of(None, 100, 250) == 100


@pytest.mark.parametrize("given", [1, 100, 250])
def test_limit_within_bounds_is_taken_as_it_is(given: int) -> None:
    assert limit_of(given, 100, 250) == given


@pytest.mark.parametrize("given", [0, -1, 251, 2**31 - 1])
def test_limit_outside_bounds_is_refused_and_not_clamped(given: int) -> None:
    with pytest.raises(ApiError, match="give 1 to 250") as caught:
        limit_of(given, 100, 250)
    assert caught.value.code is Code.INVALID_ARGUMENT


@pytest.mark.parametrize("text", ["-1", "1.0", "0x10", "١٢", " 1", "1_0", "9" * 18, "abc"])
def test_offset_that_is_no_plain_decimal_is_refused(text: str) -> None:
    with pytest.raises(ApiError, match=r"offset"):
        offset_of(text, "pageToken")


def test_offset_beyond_what_databases_count_is_refused() -> None:
    assert offset_of(str(choices.OFFSET_MAX), "page") == choices.OFFSET_MAX
    with pytest.raises(ApiError, match="the largest offset"):
        offset_of(str(choices.OFFSET_MAX + 1), "page")


def test_page_number_counts_from_one() -> None:
    assert start_of("", 1, 25) == 0
    assert start_of("", 3, 25) == 50
    with pytest.raises(ApiError, match="count from 1"):
        start_of("", 0, 25)


def test_page_token_and_page_number_exclude_each_other() -> None:
    with pytest.raises(ApiError, match="exclude each other"):
        start_of("0", 1, 25)


def test_token_of_the_following_page_is_a_decimal_offset_and_empty_at_the_end() -> None:
    assert next_offset(200, 100, more=True) == "300"
    assert next_offset(200, 100, more=False) == ""


@given(st.integers(0, choices.OFFSET_MAX), st.booleans(), st.text(), st.booleans())
def test_opaque_token_gives_back_its_place_for_the_same_filters(
    position: int, backwards: bool, text: str, flag: bool
) -> None:
    place = Place(position, backwards)
    token = opaque_token("advice", (text, flag), place)
    assert read_opaque_token("advice", (text, flag), token, "page") == place


def test_opaque_token_is_refused_with_other_filters() -> None:
    token = opaque_token("advice", (True,), Place(7))
    with pytest.raises(ApiError, match="other filters"):
        read_opaque_token("advice", (False,), token, "page")


def test_opaque_token_of_one_listing_is_refused_by_another() -> None:
    token = opaque_token("advice", (), Place(7))
    with pytest.raises(ApiError, match="other filters"):
        read_opaque_token("signals", (), token, "page")


@given(st.text(max_size=60))
def test_text_that_is_no_token_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(ApiError, match=r"token|filters"):
        read_opaque_token("advice", (), text, "page")


def test_opaque_token_shows_no_position_to_be_counted_on() -> None:
    assert not opaque_token("advice", (), Place(1234)).isdigit()
