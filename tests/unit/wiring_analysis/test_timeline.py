"""When the lines of a finished log were written."""

from __future__ import annotations

from datetime import UTC, datetime

from middlewatch.wiring.analysis.facts import Facts
from middlewatch.wiring.analysis.timeline import starts_of, timeline_of

NOON = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


def test_lines_begin_behind_line_feeds_alone() -> None:
    assert starts_of(b"") == ()
    assert starts_of(b"one") == (0,)
    assert starts_of(b"a\rb\nc\n") == (0, 4)
    assert starts_of(b"\n\n") == (0, 1)


def test_given_times_are_the_clock_and_never_go_back() -> None:
    timeline = timeline_of(b"a\nb\nc\n", Facts(log_last_write=NOON), (1.0, 9.0, 5.0))
    assert (timeline.seconds, timeline.clock) == ((1.0, 9.0, 9.0), "times")
    assert timeline.moment(3) == NOON


def test_without_times_the_stamps_are_the_clock() -> None:
    data = b"start\n2026-01-01 12:00:00 a\nno stamp\n2026-01-01 12:00:30 b\n"
    timeline = timeline_of(data, Facts())
    assert (timeline.seconds, timeline.clock) == ((0.0, 0.0, 15.0, 30.0), "stamps")
    assert timeline.moment(4) == NOON.replace(second=30)


def test_one_stamp_of_the_future_moves_nothing() -> None:
    data = (
        b"2026-01-01 12:00:00 a\n2026-01-02 12:00:00 licence ends\n"
        b"2026-01-01 12:00:10 b\n2026-01-01 12:00:20 c\n2031-01-01 00:00:00 certificate\n"
    )
    assert timeline_of(data, Facts()).seconds == (0.0, 5.0, 10.0, 20.0, 20.0)


def test_a_log_without_any_stamp_has_no_clock() -> None:
    timeline = timeline_of(b"a\nb\n", Facts())
    assert (timeline.seconds, timeline.clock) == ((0.0, 0.0), "none")


def test_lines_are_found_by_offset_and_by_moment() -> None:
    timeline = timeline_of(b"aa\nbb\ncc\n", Facts(log_last_write=NOON), (0.0, 10.0, 20.0))
    assert [timeline.line_of(offset) for offset in (0, 2, 3, 8)] == [1, 1, 2, 3]
    assert timeline.last_line_at(NOON.replace(hour=11, minute=59, second=50)) == 2
