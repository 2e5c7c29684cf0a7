"""Whatever order lines arrive in, and whenever a process dies, each is delivered exactly once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from middlewatch.adapters.logstores import StoreLogs
from middlewatch.adapters.logstores.lines import Line, Page, Writer
from middlewatch.adapters.logstores.place import SECOND, Place
from middlewatch.ports.scanner import Block, Cursor

BEGAN = 1_764_475_200


@dataclass
class Memory:
    """A store that has what arrived, sorted by time, and gives pages as small as it is asked for."""

    arrived: list[Line] = field(default_factory=list)
    name: str = "memory"
    most: int = 100_000

    def close(self) -> None: ...

    def page(self, place: Place, since: int, limit: int, writer: Writer | None = None) -> Page:
        found = [
            line
            for line in sorted(self.arrived, key=lambda line: line.at)
            if line.at >= since and (writer is None or line.writer == writer)
        ]
        return Page(found[:limit], full=len(found) >= limit)

    def counts(self, place: Place, since: int) -> Mapping[Writer, int]:
        return Counter(line.writer for line in self.arrived if line.at >= since)


@dataclass
class Hands:
    passed: float = 0.0

    def now(self) -> datetime:
        return datetime.fromtimestamp(BEGAN, UTC) + timedelta(seconds=8000 + self.passed)

    def monotonic(self) -> float:
        return self.passed

    def sleep(self, seconds: float) -> None:
        self.passed += seconds

    def token(self, size: int = 32) -> str:
        return ""


writers = st.sampled_from([Writer(f"n{n}", f) for n in range(3) for f in ("out", "err")])


@st.composite
def arrivals(draw: st.DrawFn) -> list[list[Line]]:
    """Batches in the order of their arrival. A writer's own lines overtake one another by less
    than a minute; between writers there is no order at all, within two hours."""
    batches: list[list[Line]] = []
    reached: dict[Writer, int] = {}
    number = 0
    for _ in range(draw(st.integers(1, 8))):
        batch = []
        for _ in range(draw(st.integers(0, 12))):
            writer = draw(writers)
            newest = reached.get(writer, 0)
            step = draw(st.integers(-55, 40))
            at = max(0, newest + step * SECOND // draw(st.sampled_from([1, 7, 1000])))
            reached[writer] = max(newest, at)
            number += 1
            text = draw(st.sampled_from([b"same", b"line %d" % number, b"", b"\x00\xff"]))
            batch.append(Line(BEGAN * SECOND + at, writer, text))
        batches.append(batch)
    return batches


@settings(max_examples=200)
@given(arrivals(), st.lists(st.sampled_from(["go on", "restart", "die unstored"]), min_size=8))
def test_every_line_is_delivered_once(batches: list[list[Line]], fates: list[str]) -> None:
    store, clock = Memory(), Hands()
    source = StoreLogs(store, clock)
    path = source.path("7", BEGAN)
    cursor: Cursor | None = None
    delivered: Counter[bytes] = Counter()

    def read_all() -> None:
        nonlocal cursor
        for _ in range(500):
            clock.sleep(20)
            block = source.read(path, 0, cursor, 1)
            assert isinstance(block, Block)
            cursor = block.cursor
            delivered.update(block.data.split(b"\n")[:-1])
            assert block.lost == 0
            if block.at_end:
                return
        raise AssertionError("no end of reading")

    for batch, fate in zip(batches, fates, strict=False):
        store.arrived += batch
        if fate == "die unstored":
            source.read(path, 0, cursor, 1)
        if fate != "go on":
            source = StoreLogs(store, clock)
        read_all()
    expected = [line for batch, _ in zip(batches, fates, strict=False) for line in batch]
    assert delivered == Counter(line.text for line in expected)
