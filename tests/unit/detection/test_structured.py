"""Lines that are one JSON object, or logfmt: their fields say what a prefix says elsewhere."""

from __future__ import annotations

import pytest

from middlewatch.detection.structured import structured, told_as_error, with_fields
from tests.unit.detection.given import CRASH, EXCEPTION, Story, hit

ERROR = '{"ts":"2026-02-17T15:20:06Z","level":"ERROR","host":"n3","rank":5,"msg":"KeyError: x"}'
INFO = '{"ts":"2026-02-17T15:20:06Z","level":"INFO","host":"n3","rank":5,"msg":"KeyError: x"}'
LOGFMT = 'time=2026-02-17T15:20:06Z level=error rank=3 node=n7 msg="KeyError: x"'


@pytest.mark.parametrize("line", [ERROR, INFO, LOGFMT, "trainer-0-1 " + LOGFMT])
def test_fields_are_known_by_the_lines_beginning(line: str) -> None:
    assert structured(line)


@pytest.mark.parametrize("line", ["KeyError: x", "{'loss': 2.1}", "rank=5 has failed", "[x] {1}"])
def test_other_lines_have_none(line: str) -> None:
    assert not structured(line)
    assert with_fields(hit(CRASH, line=line)) == hit(CRASH, line=line)


def test_level_of_an_error_is_read_in_any_spelling() -> None:
    assert told_as_error(ERROR)
    assert told_as_error(LOGFMT)
    assert told_as_error('{"severity":"Fatal","message":"x"}')
    assert told_as_error('{"level":50,"msg":"x"}')
    assert not told_as_error(INFO)
    assert not told_as_error('{"level":"warn","msg":"an error that was mended"}')
    assert not told_as_error("level of ERROR")


def test_rank_and_host_are_told_by_fields() -> None:
    assert dict(with_fields(hit(CRASH, line=ERROR)).groups) == {"rank": "5", "writer": "n3"}
    assert dict(with_fields(hit(CRASH, line=LOGFMT)).groups) == {"rank": "3", "writer": "n7"}


def test_what_the_prefix_tells_goes_before_the_fields() -> None:
    told = with_fields(hit(CRASH, line=ERROR, rank="8"))
    assert dict(told.groups) == {"rank": "8", "writer": "n3"}


def test_an_exception_that_is_told_as_an_error_needs_no_traceback() -> None:
    (signal,) = Story().look(1, hit(EXCEPTION, line=ERROR))
    assert signal.ranks == (5,)
    assert "writer=n3" in signal.detail


def test_an_exception_that_is_told_as_information_is_a_quotation() -> None:
    assert Story().look(1, hit(EXCEPTION, line=INFO)) == []
