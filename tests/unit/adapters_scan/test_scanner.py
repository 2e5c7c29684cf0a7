"""Bytes in, lines that matter out, whatever the bytes."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from middlewatch.adapters.scan import Catalogue, Re2Scanner, read_catalogue, scanner_for
from middlewatch.adapters.scan.finding import PIECE
from middlewatch.adapters.scan.scanner import LONGEST_LINE
from middlewatch.model.pattern import Pattern, PatternKind

SCANNER = scanner_for(read_catalogue())
CRASH = b"RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
BAR = " 18%|\u2588\u2588   | {step}/2875 [38:08<2:53:33,  4.42s/it]"


def ids(block: bytes) -> list[str]:
    return [hit.pattern_id for hit in SCANNER.scan(block, 0)]


def bar(step: int) -> bytes:
    return BAR.format(step=step).encode()


def test_nothing_in_nothing() -> None:
    assert list(SCANNER.scan(b"", 0)) == []


def test_offset_is_that_of_the_lines_start_in_the_stream() -> None:
    (hit, *_) = [
        hit
        for hit in SCANNER.scan(b"hello\nworld\n" + CRASH, 1_000)
        if hit.pattern_id == "cuda.ecc_uncorrectable"
    ]
    assert hit.offset == 1_012
    assert hit.line == CRASH.decode().rstrip()


def test_hits_come_in_the_order_of_their_lines() -> None:
    block = b"middlewatch: step=1\n" + CRASH + b"middlewatch: step=2\n"
    offsets = [hit.offset for hit in SCANNER.scan(block, 0)]
    assert offsets == sorted(offsets)


def test_line_end_may_be_a_carriage_return_and_a_line_feed() -> None:
    (hit,) = SCANNER.scan(b"middlewatch: step=17 total=40\r\n", 0)
    assert dict(hit.groups) == {"step": "17", "total": "40"}
    assert hit.line == "middlewatch: step=17 total=40"


def test_colours_do_not_hide_a_line_nor_move_its_offset() -> None:
    block = (
        b"\x1b[31mred\x1b[0m\n\x1b[1mmiddlewatch: \x1b[32mstep=17\x1b[0m\nmiddlewatch: step=18\n"
    )
    hits = SCANNER.scan(block, 500)
    assert [dict(hit.groups)["step"] for hit in hits] == ["17", "18"]
    assert hits[1].offset == 500 + block.rindex(b"middlewatch")


def test_colours_and_long_lines_before_a_hit_do_not_move_it() -> None:
    before = b"\x1b[1;31mred\x1b[0m\r\x1b]0;title\x07\n" + b"\x1b[2K" + b"y" * 40_000 + b"\n\n"
    block = before + CRASH + b"\x1b[m" + CRASH
    found = [h for h in SCANNER.scan(block, 7) if h.pattern_id == "cuda.ecc_uncorrectable"]
    assert [hit.offset for hit in found] == [7 + len(before), 7 + len(before) + len(CRASH)]


def test_bar_that_is_repainted_without_end_is_read_at_its_beginning_and_its_end() -> None:
    painted = b"".join(b"\r" + bar(step) for step in range(1, 2000)) + b"\n"
    hits = SCANNER.scan(painted, 0)
    steps = [dict(hit.groups)["step"] for hit in hits if "step" in dict(hit.groups)]
    assert (steps[0], steps[-1]) == ("1", "1999")


def test_repaintings_of_a_bar_are_cut_down_to_the_first_and_the_last() -> None:
    block = b"\r".join(bar(step) for step in range(1, 2000)) + b"\r"
    hits = SCANNER.scan(block, 0)
    assert [dict(hit.groups)["step"] for hit in hits] == ["1", "1999"]


def test_bar_is_cut_down_across_the_pieces_of_a_block() -> None:
    block = b"\r".join(bar(step) for step in range(1, 9000)) + b"\r"
    assert len(block) > 4 * PIECE
    assert len(SCANNER.scan(block, 0)) == 2


def test_failure_between_two_bars_is_found_in_its_place() -> None:
    block = bar(1) + b"\r" + bar(2) + b"\n" + CRASH + bar(3) + b"\r" + bar(4) + b"\r"
    steps = [dict(hit.groups).get("step") for hit in SCANNER.scan(block, 0)]
    assert steps[0] == "1"
    assert "cuda.ecc_uncorrectable" in ids(block)
    assert ids(block).index("cuda.ecc_uncorrectable") > ids(block).index("hf.bar")


def test_traceback_that_begins_behind_a_bar_is_found() -> None:
    assert "python.traceback_behind_bar" in ids(bar(7) + b"Traceback (most recent call last):\n")


def test_lines_that_are_no_utf8_are_found_and_shown() -> None:
    (hit, *_) = SCANNER.scan(b"[rank3]: ValueError: bad byte \xff\xfe\n", 0)
    assert "\ufffd" in hit.line


def test_nul_bytes_hide_nothing() -> None:
    assert "cuda.ecc_uncorrectable" in ids(b"\0" * 5000 + b"\n" + CRASH)


def test_line_of_ten_megabytes_is_searched_at_its_head_alone() -> None:
    block = b"x" * 10_000_000 + b" middlewatch: step=1\n" + CRASH
    assert "middlewatch.progress" not in ids(block)
    assert "cuda.ecc_uncorrectable" in ids(block)


def test_offset_behind_a_long_line_is_right() -> None:
    block = b"x" * 100_000 + b"\n" + b"middlewatch: step=2\n"
    (hit,) = SCANNER.scan(block, 0)
    assert hit.offset == 100_001


def test_excerpt_of_a_hit_is_bounded() -> None:
    (hit, *_) = SCANNER.scan(b"ValueError: " + b"y" * 12_000 + b"\n", 0)
    assert len(hit.line) == LONGEST_LINE


def test_line_is_told_once_per_pattern() -> None:
    line = b"middlewatch: step=1 middlewatch: step=2\n"
    assert ids(line).count("middlewatch.progress") <= 1


@pytest.mark.parametrize(
    "line",
    [
        b"the run prints RuntimeError: CUDA error: uncorrectable ECC error encountered when it dies",
        b"# Traceback (most recent call last):",
        b'echo "srun: error: Node failure on n1"',
        b"loss: 0.3 error_rate: 0.1 failures: 0 nan_steps: 0",
        b"WARNING: OSError: [Errno 5] Input/output error, retrying (1/5)",
        b"[W1112 11:27:20.8 socket.cpp:697] [c10d] The client socket has failed to connect to [n1]:29500 (errno: 111 - Connection refused).",
        b"srun: Job 7 step creation temporarily disabled, retrying (Requested nodes are busy)",
        b"pcieport 0000:00:1c.0: AER: Corrected error received",
    ],
)
def test_quotations_warnings_and_retries_name_no_failure(line: bytes) -> None:
    catalogue = read_catalogue().by_id()
    kinds = {catalogue[hit].kind.value for hit in ids(line + b"\n")}
    assert kinds <= {"harmless", "exception", "phase"}


@given(st.binary(max_size=4000), st.integers(0, 2**60))
def test_no_bytes_make_it_fail(block: bytes, base: int) -> None:
    for hit in SCANNER.scan(block, base):
        assert base <= hit.offset <= base + len(block)


@given(st.lists(st.sampled_from([CRASH, b"hello\n", bar(3) + b"\r", b"\x1b[0m\n", b"\0\xff\n"])))
def test_cutting_a_stream_at_line_ends_changes_no_hit(lines: list[bytes]) -> None:
    whole = {(h.pattern_id, h.offset) for h in SCANNER.scan(b"".join(lines), 0)}
    apart = set()
    offset = 0
    for line in lines:
        apart |= {(h.pattern_id, h.offset) for h in SCANNER.scan(line, offset)}
        offset += len(line)
    assert whole <= apart


def test_noise_is_searched_in_time_that_grows_with_its_length_alone() -> None:
    """A nested repetition takes other engines years; here only that it ends."""
    line = b"[rank0]: " + b"a" * 15_000 + b"Error" + b"\n"
    begun = time.process_time()
    ids(line * 20)
    assert time.process_time() - begun < 60


def test_a_group_that_stands_in_several_branches_is_read_in_each() -> None:
    regex = r"^(?:saved step (?P<step>\d+)|step (?P<step>\d+) is (?P<state>saved))"
    found = Re2Scanner(Catalogue((Pattern(id="a.b", kind=PatternKind.HINT, regex=regex),)))
    hits = found.scan(b"saved step 12\nstep 14 is saved\n", 0)
    assert [dict(hit.groups) for hit in hits] == [{"step": "12"}, {"step": "14", "state": "saved"}]
