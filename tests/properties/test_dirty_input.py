"""What programs really print: repainted, coloured, interleaved, cut, broken. Nothing raises, nothing
is lost, nothing takes for ever; what comes out can be stored.

The fuzz run is bounded by what it feeds, not by a clock, and begins from a fixed seed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from middlewatch.adapters.logs import FileLogs, RecordCodec
from middlewatch.adapters.scan import Engine, LineScanner, OwnPatterns, read_catalogue, scanner_for
from middlewatch.adapters.scan.scanner import LONGEST_LINE
from middlewatch.detection.batch import Batch, Hit
from middlewatch.detection.observe import observe
from middlewatch.detection.state import DetectionState, fresh
from middlewatch.model.pattern import ProgressForm
from middlewatch.model.signal import Signal
from middlewatch.ports.scanner import Block, Cursor, RawHit
from tests.unit.detection import given as g

ROOT = Path(__file__).parents[2]
CATALOGUE = read_catalogue()
PATTERNS = CATALOGUE.by_id()
AUTO = scanner_for(CATALOGUE)
SCANNERS = {"auto": AUTO, "re2": scanner_for(CATALOGUE, Engine.RE2)}
EXAMPLES = [line.encode() for p in CATALOGUE.patterns for line in (*p.examples, *p.near_misses)]
STATES = RecordCodec(DetectionState)
SIGNALS = RecordCodec(Signal)
SEED = 20_261_130
PIECES = [
    b"",
    b"\n",
    b"\r",
    b"\r\n",
    b"\0",
    b"\xff\xfe",
    b"\xe2\x96",
    "█".encode(),
    b"\x1b[31m",
    b"\x1b[0m",
    b"\x1b[",
    b"\x1b]0;t",
    b"\x07",
    b"7: ",
    b"[rank3]: ",
    b"[default1]:",
    b" 9%|",
    b"99999999999999999999",
    b"nan",
    b"1e999",
    b"-",
]


def folded(state: DetectionState, hits: list[RawHit], now_s: float) -> DetectionState:
    """One round with these hits; everything that comes out must go into the store and back."""
    now = g.at(now_s)
    found = tuple(
        Hit(PATTERNS[raw.pattern_id], "f#0", raw.offset, raw.line, raw.groups, "/f") for raw in hits
    )
    seen = observe(state, Batch(g.attempt(), found, now), now)
    for signal in seen.signals:
        assert SIGNALS.decode(SIGNALS.encode(signal)) == signal
    assert STATES.decode(STATES.encode(seen.state)) == seen.state
    return seen.state


@st.composite
def dirty_bytes(draw: st.DrawFn) -> bytes:
    """Lines of several writers, interleaved anywhere, with dirt between them."""
    parts = draw(
        st.lists(
            st.one_of(st.sampled_from(EXAMPLES), st.sampled_from(PIECES), st.binary(max_size=9))
        )
    )
    ends = draw(st.lists(st.sampled_from([b"\n", b"\r", b"", b" "]), min_size=1, max_size=5))
    return b"".join(part + ends[number % len(ends)] for number, part in enumerate(parts))


@given(dirty_bytes(), st.sampled_from(sorted(SCANNERS)), st.floats(0, 9000))
def test_dirt_is_read_and_what_comes_of_it_can_be_stored(
    data: bytes, engine: str, pause: float
) -> None:
    hits = list(SCANNERS[engine].scan(data, 0))
    for hit in hits:
        assert 0 <= hit.offset <= len(data)
        assert len(hit.line) <= LONGEST_LINE
        assert "\n" not in hit.line
    folded(folded(fresh(g.attempt().id), hits, 1.0), hits, 1.0 + pause)


@given(dirty_bytes(), dirty_bytes())
def test_offset_of_a_hit_is_where_its_line_begins(before: bytes, after: bytes) -> None:
    """A line that is put between two others is found at its own place, whatever stands around."""
    line = b"RuntimeError: CUDA error: uncorrectable ECC error encountered"
    block = before + b"\n" + line + b"\n" + after
    places = [h.offset for h in AUTO.scan(block, 0) if h.pattern_id == "cuda.ecc_uncorrectable"]
    assert len(before) + 1 in places


# ------------------------------------------------------------------------- cut by the end of a read


def read_all(logs: FileLogs, path: Path, cursor: Cursor | None, *, final: bool) -> Iterator[Block]:
    """Blocks until nothing more comes."""
    while True:
        block = logs.read(str(path), path.stat().st_uid, cursor, 1 << 16, final=final)
        assert isinstance(block, Block)
        cursor = block.cursor
        yield block
        if block.at_end:
            return


def without_bars(hits: list[RawHit]) -> list[RawHit]:
    """A bar is cut down per block, so that how often it is told depends on the blocks."""
    return [hit for hit in hits if PATTERNS[hit.pattern_id].form is not ProgressForm.BAR]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=dirty_bytes(), cuts=st.lists(st.integers(0, 4000), max_size=6))
def test_lines_that_a_read_cuts_are_found_whole(
    tmp_path: Path, data: bytes, cuts: list[int]
) -> None:
    """However the writing falls between the reads, the hits are those of the whole."""
    path = tmp_path / "job.log"
    path.unlink(missing_ok=True)
    path.touch()
    places = sorted({*(cut for cut in cuts if cut < len(data)), len(data)})
    logs = FileLogs()
    cursor: Cursor | None = None
    found: list[RawHit] = []
    at = 0
    for place in places:
        with path.open("ab") as file:
            file.write(data[at:place])
        at = place
        for block in read_all(logs, path, cursor, final=place == len(data)):
            cursor = block.cursor
            found.extend(AUTO.scan(block.data, block.base_offset))
    assert without_bars(found) == without_bars(list(AUTO.scan(data, 0)))


def test_line_of_ten_megabytes_between_two_others_is_passed(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    step = b"middlewatch: step=%d total=40\n"
    data = step % 1 + b"x" * 10_000_000 + b"\n" + step % 2
    path.write_bytes(data)
    found: list[RawHit] = []
    for block in read_all(FileLogs(), path, None, final=True):
        found.extend(AUTO.scan(block.data, block.base_offset))
    assert [dict(hit.groups)["step"] for hit in found] == ["1", "2"]
    assert found[1].offset == data.rindex(b"middlewatch")


# ------------------------------------------------------------------------------------- a bounded run


def corpus_lines() -> list[bytes]:
    logs = sorted((ROOT / "corpus" / "dev").glob("*.log"))
    lines = [line for path in logs for line in path.read_bytes().split(b"\n")]
    return lines[:: max(1, len(lines) // 6000)]


def spoilt(chance: random.Random, line: bytes) -> bytes:
    """The line with some bytes changed, cut out, doubled, or with dirt in it."""
    made = bytearray(line)
    for _ in range(chance.randrange(4)):
        place = chance.randrange(len(made) + 1)
        match chance.randrange(5):
            case 0:
                made[place : place + 1] = bytes([chance.randrange(256)])
            case 1:
                del made[place : place + chance.randrange(1, 30)]
            case 2:
                made[place:place] = chance.choice(PIECES)
            case 3:
                made[place:place] = made[: chance.randrange(1, 200)]
            case _:
                made += chance.choice(EXAMPLES)
    return bytes(made)


def hostile_lines() -> Iterator[bytes]:
    """What makes a careless regex take for ever: nearly a match, again and again."""
    for bait in (
        b"a",
        b"1",
        b" ",
        b"[",
        b"1: ",
        b"(A pid=",
        b"[rank0]: ",
        b"%|",
        b"Error: ",
        b"A.",
    ):
        yield bait * (15_000 // len(bait))
        yield b"[rank0]: " + bait * (15_000 // len(bait)) + b"Error"
    for line in EXAMPLES[::3]:
        half = line[: max(1, len(line) // 2)]
        yield half * (16_000 // len(half))
        yield line.replace(b" ", b" " * 400)[:16_000]
        yield line[:-1] + line[-1:] * 8_000


@pytest.mark.parametrize("engine", sorted(SCANNERS))
def test_fuzz_of_spoilt_logs_raises_nothing(engine: str) -> None:
    chance = random.Random(SEED)
    scanner: LineScanner = SCANNERS[engine]
    state = fresh(g.attempt().id, resume_above=3)
    lines = corpus_lines()
    hits = 0
    for turn in range(60):
        picked = (chance.choice(lines) for _ in range(300))
        end = chance.choice([b"\n", b"\r", b"\r\n", b"\n\n"])
        block = end.join(spoilt(chance, line) for line in picked)
        found = list(scanner.scan(block, turn << 20))
        hits += len(found)
        state = folded(state, found, turn * chance.choice([0.0, 1.0, 700.0]))
    assert hits > 1000


@pytest.mark.parametrize("engine", sorted(SCANNERS))
def test_fuzz_of_random_bytes_raises_nothing(engine: str) -> None:
    chance = random.Random(SEED)
    state = fresh(g.attempt().id)
    for turn in range(40):
        noise = bytearray(chance.randbytes(60_000))
        for _ in range(20):
            place = chance.randrange(len(noise))
            noise[place:place] = b"\n" + chance.choice(EXAMPLES)
        state = folded(state, list(SCANNERS[engine].scan(bytes(noise), 0)), float(turn))


def test_hostile_lines_are_searched_to_their_end() -> None:
    """In one block, so that an engine which tries again and again would stay in it."""
    lines = list(hostile_lines())
    block = b"\n".join(lines) + b"\n"
    state = fresh(g.attempt().id)
    for turn, scanner in enumerate(SCANNERS.values()):
        state = folded(state, list(scanner.scan(block, 0)), float(turn))
    assert all(len(line) <= 17_000 for line in lines)


def test_hostile_lines_do_not_stop_a_pattern_of_somebody_elses() -> None:
    own = OwnPatterns()
    block = b"\n".join(list(hostile_lines())[::10]) + b"\n[x] 17\n"
    for regex in (
        r"(?:(?:[a-z]+)+ )*(?P<step>\d+)$",
        r"(?P<step>\d+)(?:.*.*.*)x",
        r"\] (?P<step>\d+)",
    ):
        assert own.refused(regex) == ""
        for hit in own.scan(regex, block, 0):
            assert hit.offset < len(block)


def test_endless_matching_lines_add_bounded_state() -> None:
    state = fresh(g.attempt().id)
    block = b"[rank0]: RuntimeError: CUDA error: an illegal memory access was encountered\n" * 200
    sizes = []
    for turn in range(30):
        now = g.at(turn)
        hits = tuple(
            Hit(PATTERNS[raw.pattern_id], "f#0", raw.offset, raw.line, raw.groups, "/f")
            for raw in AUTO.scan(block, turn * len(block))
        )
        state = observe(state, Batch(g.attempt(), hits, now), now + timedelta(seconds=1)).state
        sizes.append(len(STATES.encode(state)))
    assert max(sizes[10:]) <= max(sizes[:10]) * 1.5
