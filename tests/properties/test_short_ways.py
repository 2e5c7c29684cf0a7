"""The fold leaves out work where a round or a line can bring nothing else than it nearly always
does. What comes of it must be what the whole way gives, for anything that a log may hold."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cache
from itertools import groupby
from pathlib import Path

from hypothesis import event, given, settings
from hypothesis import strategies as st

from middlewatch.adapters.scan import read_catalogue, scanner_for
from middlewatch.adapters.scan.scanner import LineScanner
from middlewatch.detection.batch import Batch, Hit
from middlewatch.detection.chatter import after_chatter, calm_until
from middlewatch.detection.lines import Lines
from middlewatch.detection.observe import observe, weigh
from middlewatch.detection.state import DetectionState, fresh
from middlewatch.model.pattern import Pattern
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import JobState
from tests.unit.detection import given as g

ROOT = Path(__file__).resolve().parents[2]
DIRT = (b"\x00\xff\xfe", b"\r", b"\x1b[31m", b"[rank3]: ", b"step=", b"nan", b"9" * 30, b"%|", b"")
POLICIES = (Policy(), Policy(silence_floor_s=5.0, first_step_limit_s=20.0, grace_floor_s=5.0))


@cache
def corpus() -> tuple[tuple[bytes, ...], ...]:
    logs = sorted((ROOT / "corpus" / "dev").glob("*.log"))
    return tuple(tuple(log.read_bytes().splitlines(keepends=True)) for log in logs)


@cache
def tools() -> tuple[dict[str, Pattern], LineScanner]:
    catalogue = read_catalogue()
    return dict(catalogue.by_id()), scanner_for(catalogue)


def mixture(chance: random.Random, clean: bool) -> Iterator[bytes]:
    """Stretches of the corpus' logs, steps of one counter, and dirt, without end."""
    step = chance.randrange(1000)
    while True:
        match chance.randrange(4):
            case 0:
                log = chance.choice(corpus())
                begin = chance.randrange(max(1, len(log)))
                yield from log[begin : begin + chance.randrange(1, 30)]
            case 1 | 2:
                for _ in range(chance.randrange(1, 30)):
                    step += chance.choice((1, 1, 1, 1, 1, 10, 0, -1))
                    loss = chance.choice((b"2.31", b"2.5", b"nan", b"1e9"))
                    yield b"middlewatch: step=%d total=100000 loss=%s\n" % (max(0, step), loss)
            case _ if not clean:
                line = bytearray(chance.choice(chance.choice(corpus()) or (b"\n",)))
                at = chance.randrange(len(line) + 1)
                line[at : at + chance.randrange(4)] = chance.choice(DIRT)
                yield bytes(line.replace(b"\n", b" ")) + b"\n"
            case _:
                yield b"nothing that anybody knows\n"


class Log:
    """What a mixture's next lines are found to be."""

    def __init__(self, number: int, clean: bool) -> None:
        self._lines = mixture(random.Random(number), clean)
        self._offset = 0

    def hits(self, count: int) -> tuple[Hit, ...]:
        text = b"".join(next(self._lines) for _ in range(count))
        patterns, scanner = tools()
        found = scanner.scan(text, self._offset)
        self._offset += len(text)
        return tuple(
            Hit(patterns[raw.pattern_id], "log#0", raw.offset, raw.line, raw.groups, "/log")
            for raw in found
        )


rounds = st.tuples(
    st.sampled_from((0, 0, 0, 1, 2, 8, 40)),
    st.sampled_from((0.1, 1.0, 1.0, 3.0, 30.0, 400.0)),
    st.sampled_from(
        (
            "",
            "",
            "",
            "",
            "",
            "quiet",
            "behind",
            "lost",
            "unmeasured",
            "measured",
            "gone",
            "paused",
            "ended",
        )
    ),
)


@settings(max_examples=30)
@given(
    st.integers(0, 10**9),
    st.lists(rounds, min_size=1, max_size=40),
    st.sampled_from(POLICIES),
    st.booleans(),
    st.sampled_from((0, 0, 2, 12, 12)),
)
def test_round_that_brings_nothing_comes_to_the_same_by_the_short_way(
    number: int, looks: list[tuple[int, float, str]], policy: Policy, clean: bool, steps: int
) -> None:
    log, (state, now) = Log(number, clean), stepped(steps, policy)
    for lines, pause, how in looks:
        now += timedelta(seconds=pause)
        batch = replace(looked(log.hits(lines), how), output_at=None if how == "quiet" else now)
        whole = weigh(state, batch, now, now, policy)
        short = after_chatter(state, batch, now, now, policy)
        event("whole" if short is None else "short")
        if short is not None:
            assert (short, ()) == (whole.state, whole.signals)
        assert observe(state, batch, now, policy) == whole
        state = whole.state


def stepped(steps: int, policy: Policy) -> tuple[DetectionState, datetime]:
    """The state of a job that has stepped so often, and when it was; with ten it has a pace."""
    state, now = fresh(g.attempt().id), g.T0
    for step in range(1, steps + 1):
        now += timedelta(seconds=1)
        hit = g.hit(g.STEP, offset=step, step=step, total=10**6)
        state = observe(state, Batch(g.attempt(), (hit,), now), now, policy).state
    return state, now


@settings(max_examples=30)
@given(
    st.integers(0, 10**9),
    st.lists(st.tuples(st.integers(0, 8), st.sampled_from((1.0, 30.0))), max_size=6),
    st.lists(st.tuples(st.sampled_from((0.1, 1.0, 5.0, 40.0)), st.booleans()), max_size=30),
    st.sampled_from(POLICIES),
    st.sampled_from((0, 0, 2, 12)),
)
def test_rounds_that_bring_nothing_come_together_to_what_the_last_with_output_gives(
    number: int,
    looks: list[tuple[int, float]],
    noise: list[tuple[float, bool]],
    policy: Policy,
    steps: int,
) -> None:
    log, (state, now) = Log(number, clean=True), stepped(steps, policy)
    for lines, pause in looks:
        now += timedelta(seconds=pause)
        batch = Batch(g.attempt(), log.hits(lines), now)
        state = observe(state, batch, now, policy).state
    until, begun = calm_until(state, g.attempt(), policy), state
    printed = None
    for pause, prints in noise:
        now += timedelta(seconds=pause)
        if until is None or now >= until:
            break
        event("a round that need not be weighed")
        batch = Batch(g.attempt(), (), now if prints else None)
        whole = weigh(state, batch, now, now, policy)
        assert whole.signals == ()
        printed = (batch, now) if prints else printed
        state = whole.state
    if printed is None:
        assert state == begun
    else:
        assert after_chatter(begun, printed[0], printed[1], printed[1], policy) == state


def looked(hits: tuple[Hit, ...], how: str) -> Batch:
    batch = Batch(g.attempt(nodes=("n1",)), hits)
    match how:
        case "behind":
            return replace(batch, caught_up=False)
        case "lost":
            return replace(batch, lost=3)
        case "unmeasured" | "measured":
            return replace(batch, measured=how == "measured")
        case "gone":
            return replace(batch, readable=False)
        case "paused":
            return replace(batch, attempt=g.attempt(state=JobState.SUSPENDED))
        case "ended":
            return replace(batch, attempt=g.ended(), drained=True)
        case _:
            return batch


@settings(max_examples=30)
@given(
    st.integers(0, 10**9),
    st.lists(st.integers(1, 60), min_size=1, max_size=8),
    st.booleans(),
    st.sampled_from((1.0, 20.0, 300.0)),
)
def test_steps_that_are_counted_together_come_to_what_one_line_after_the_other_gives(
    number: int, sizes: list[int], clean: bool, pause: float
) -> None:
    log, now = Log(number, clean), g.T0
    together = apart = fresh(g.attempt().id)
    for size in sizes:
        now += timedelta(seconds=pause)
        hits = log.hits(size)
        folded = Lines(together, now, now, Policy())
        folded.read(hits)
        singly = Lines(apart, now, now, Policy())
        for line in by_line(hits):
            singly.weigh(line)
        assert folded.signals == singly.signals
        assert folded.resumed == singly.resumed
        assert folded.state == singly.state
        together, apart = folded.state, singly.state


def by_line(hits: tuple[Hit, ...]) -> Iterator[tuple[Hit, ...]]:
    for _, line in groupby(hits, key=lambda hit: (hit.stream, hit.offset)):
        yield tuple(line)
