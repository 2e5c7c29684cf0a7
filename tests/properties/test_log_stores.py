"""Whatever order lines arrive in, and whenever a process dies, each is delivered exactly once."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from middlewatch.adapters.logstores import StoreLogs
from middlewatch.adapters.logstores.lines import Line, Page, Pages, Writer
from middlewatch.adapters.logstores.place import SECOND, Place
from middlewatch.ports.errors import Unreachable
from middlewatch.ports.scanner import Block, Cursor

BEGAN = 1_764_475_200


@dataclass
class Memory:
    """A store that has what arrived of each job, sorted by time, and gives pages as small as it is
    asked for. ``asked`` counts questions about new lines: of one job, and of several."""

    arrived: dict[str, list[Line]] = field(default_factory=lambda: defaultdict(list))
    name: str = "memory"
    most: int = 100_000
    asked: Counter[str] = field(default_factory=Counter)

    def close(self) -> None: ...

    def _since(self, job: str, since: int) -> list[Line]:
        found = sorted(self.arrived[job], key=lambda line: line.at)
        return [line for line in found if line.at >= since]

    def page(self, place: Place, since: int, limit: int, writer: Writer | None = None) -> Page:
        self.asked["one"] += 1
        found = self._since(place.job, since)
        found = [line for line in found if writer is None or line.writer == writer]
        return Page(found[:limit], full=len(found) >= limit)

    def counts(self, place: Place, since: int) -> Mapping[Writer, int]:
        return Counter(line.writer for line in self._since(place.job, since))

    def pages(self, jobs: Sequence[str], since: int, limit: int) -> Pages:
        self.asked["several"] += 1
        found = {job: self._since(job, since) for job in jobs}
        return Pages(found, full=sum(map(len, found.values())) >= limit)

    def counts_of(
        self, jobs: Sequence[str], since: int, until: int
    ) -> Mapping[str, Mapping[Writer, int]] | None:
        return {
            job: Counter(line.writer for line in self._since(job, since) if line.at < until)
            for job in jobs
        }


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
        store.arrived["7"] += batch
        if fate == "die unstored":
            source.read(path, 0, cursor, 1)
        if fate != "go on":
            source = StoreLogs(store, clock)
        read_all()
    expected = [line for batch, _ in zip(batches, fates, strict=False) for line in batch]
    assert delivered == Counter(line.text for line in expected)


JOBS = ("7", "8", "9_1", "odd.id")


@settings(max_examples=60)
@given(
    st.lists(arrivals(), min_size=len(JOBS), max_size=len(JOBS)),
    st.lists(st.sampled_from(["go on", "restart", "die unstored"]), min_size=8),
    # Fewer than the jobs have together, and no fewer than there are of one moment and job.
    st.sampled_from([100_000, 100]),
    st.sampled_from([0.2, 2.0, 20.0]),
)
def test_every_line_of_jobs_that_are_read_in_turns_is_delivered_once(
    of_jobs: list[list[list[Line]]], fates: list[str], most: int, pause: float
) -> None:
    """Lines arrive while others of the jobs are being read: also those that were asked for before."""
    store, clock = Memory(most=most), Hands()
    source = StoreLogs(store, clock)
    paths = [source.path(job, BEGAN) for job in JOBS]
    cursors: list[Cursor | None] = [None for _ in JOBS]
    delivered: list[Counter[bytes]] = [Counter() for _ in JOBS]

    def read(which: int) -> bool:
        block = source.read(paths[which], 0, cursors[which], 1)
        assert isinstance(block, Block)
        assert block.lost == 0
        cursors[which] = block.cursor
        delivered[which].update(block.data.split(b"\n")[:-1])
        return block.at_end

    def arrive(which: int, number: int) -> None:
        batches = of_jobs[which]
        if number < len(batches):
            store.arrived[JOBS[which]] += batches[number]

    for number, fate in enumerate(fates[:8]):
        if fate == "die unstored":
            source.read(paths[number % len(JOBS)], 0, cursors[number % len(JOBS)], 1)
        if fate != "go on":
            source = StoreLogs(store, clock)
        for which in range(len(JOBS)):
            arrive((which + number) % len(JOBS), number)
            read(which)
            clock.sleep(pause / len(JOBS))
    for _ in range(1000):
        ends = [read(which) for which in range(len(JOBS))]
        clock.sleep(pause)
        # Long enough for what came late to be looked for.
        if all(ends) and clock.passed > 60 and not clock.sleep(20):
            ends = [read(which) for which in range(len(JOBS))]
            if all(ends):
                break
    else:
        raise AssertionError("no end of reading")
    for which, batches in enumerate(of_jobs):
        assert delivered[which] == Counter(line.text for batch in batches[:8] for line in batch)


def test_jobs_that_are_read_in_turns_are_asked_for_together() -> None:
    store, clock = Memory(), Hands()
    source = StoreLogs(store, clock)
    jobs = [str(number) for number in range(300)]
    cursors: dict[str, Cursor | None] = dict.fromkeys(jobs)
    for turn in range(10):
        if turn == 1:
            store.asked.clear()
        for job in jobs:
            at = (BEGAN + 7990 + turn) * SECOND
            store.arrived[job].append(Line(at, Writer("n1", "out"), b"step %d" % turn))
            block = source.read(source.path(job, BEGAN + 7900), 0, cursors[job], 1 << 16)
            assert isinstance(block, Block)
            cursors[job] = block.cursor
        clock.sleep(1)
    assert store.asked["one"] == 0
    assert store.asked["several"] <= 9 * 3


@dataclass
class SlowTogether(Memory):
    """Gives up over more than a few jobs at once."""

    few: int = 4

    def pages(self, jobs: Sequence[str], since: int, limit: int) -> Pages:
        if len(jobs) > self.few:
            raise Unreachable("it took too long")
        return super().pages(jobs, since, limit)

    def counts_of(
        self, jobs: Sequence[str], since: int, until: int
    ) -> Mapping[str, Mapping[Writer, int]] | None:
        if len(jobs) > self.few:
            raise Unreachable("it took too long")
        return super().counts_of(jobs, since, until)


def test_a_store_that_is_too_slow_for_many_jobs_at_once_is_asked_about_fewer() -> None:
    store, clock = SlowTogether(), Hands()
    source = StoreLogs(store, clock)
    jobs = [str(number) for number in range(50)]
    cursors: dict[str, Cursor | None] = dict.fromkeys(jobs)
    delivered: Counter[str] = Counter()
    answered: list[int] = []
    for turn in range(60):
        answered.append(0)
        for job in jobs:
            at = (BEGAN + 7990 + turn) * SECOND
            store.arrived[job].append(Line(at, Writer("n1", "out"), b"step %d" % turn))
            block = source.read(source.path(job, BEGAN + 7900), 0, cursors[job], 1 << 16)
            if isinstance(block, Block):
                answered[-1] += 1
                cursors[job] = block.cursor
                delivered[job] += block.data.count(b"\n")
        clock.sleep(1)
    # Once a minute it is tried with more.
    assert sum(len(jobs) - number for number in answered[10:]) <= 8
    assert min(delivered[job] for job in jobs) > 50


def test_after_an_outage_many_jobs_are_asked_about_at_once_again() -> None:
    store, clock = SlowTogether(few=1000), Hands()
    source = StoreLogs(store, clock)
    jobs = [str(number) for number in range(200)]
    cursors: dict[str, Cursor | None] = dict.fromkeys(jobs)
    for turn in range(29):
        store.few = 0 if 5 <= turn < 20 else 1000
        if turn == 22:
            store.asked.clear()
        for job in jobs:
            at = (BEGAN + 7990 + turn) * SECOND
            store.arrived[job].append(Line(at, Writer("n1", "out"), b"step %d" % turn))
            block = source.read(source.path(job, BEGAN + 7900), 0, cursors[job], 1 << 16)
            cursors[job] = block.cursor if isinstance(block, Block) else cursors[job]
        clock.sleep(1)
    assert store.asked["several"] <= 7 * 4
    assert store.asked["one"] == 0
