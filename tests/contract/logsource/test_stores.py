"""What log stores keep to: late and disordered lines, labels, tenants, refusals, outages."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from middlewatch.adapters.logstores import Labels, StoreLogs
from middlewatch.adapters.logstores.position import HELD, KEPT
from middlewatch.adapters.web import Access
from middlewatch.ports.scanner import Block, CannotRead, Cursor
from tests.contract.logsource.worlds import (
    LEAST_READ,
    SECOND,
    LokiWorld,
    Reader,
    StoreWorld,
    VictoriaWorld,
    Wrote,
    texts,
)
from tests.webs import log_store

NODES = ("n1", "n2", "n3", "n4")


def interleaved(first: int, last: int) -> list[Wrote]:
    return [
        Wrote(i * SECOND // 50, b"%s step %d" % (NODES[i % 4].encode(), i), NODES[i % 4])
        for i in range(first, last)
    ]


def test_each_line_has_its_time_and_its_node(store: StoreWorld) -> None:
    lines = interleaved(0, 8)
    store.write(*lines)
    reader = Reader(store)
    assert reader.read() == texts(lines)
    block = next(block for block in reader.blocks if block.data)
    assert [node for _, node in block.nodes] == [line.node for line in lines]
    times = [second for _, second in block.times]
    assert times == pytest.approx([(store.began + line.at) / SECOND for line in lines], abs=1e-5)
    starts = [offset for offset, _ in block.times]
    assert [block.data[at:].partition(b"\n")[0] for at in starts] == texts(lines)
    assert block.modified_at == pytest.approx(times[-1], abs=1e-5)


def test_line_that_comes_too_late_to_be_told_from_others_is_counted(store: StoreWorld) -> None:
    store.write(*(Wrote(i * SECOND // 4, b"step %d" % i) for i in range(2 * KEPT)))
    store.clock.advance(2 * KEPT / 4)
    reader = Reader(store)
    assert len(reader.read()) == 2 * KEPT
    store.write(Wrote(SECOND + 7, b"step, late"))
    assert reader.read() == []
    assert sum(block.lost for block in reader.blocks) == 1
    assert reader.read() == []
    assert sum(block.lost for block in reader.blocks) == 1


@pytest.mark.parametrize("in_stream", [True, False])
def test_jobs_that_are_asked_for_together_get_their_own_lines(
    store: StoreWorld, *, in_stream: bool
) -> None:
    jobs = [f"{store.job}{letter}" for letter in ("a", "b_3", "c", "ab")]
    # Loki answers no question without a label of the stream.
    store.labels = Labels(job_in_stream=in_stream, match='filename="/home/alice/out.log"')
    source = store.source()
    expected: dict[str, list[bytes]] = {job: [] for job in jobs}
    cursors: dict[str, Cursor | None] = dict.fromkeys(jobs)
    found: dict[str, list[bytes]] = {job: [] for job in jobs}

    def turn() -> None:
        store.clock.advance(1)
        for job in jobs:
            block = source.read(store.path(job), 0, cursors[job], LEAST_READ)
            assert isinstance(block, Block)
            assert (block.at_end, block.lost) == (True, 0)
            cursors[job] = block.cursor
            found[job] += block.data.splitlines()

    def say(number: int, job: str, text: bytes, node: str = "n1") -> Wrote:
        expected[job].append(text)
        return Wrote(number * SECOND, text, node, job=job)

    for number in range(24):
        lines = [say(number, job, b"%s step %d" % (job.encode(), number)) for job in jobs]
        if number == 18:
            # A node of whom nothing had been heard, with what it wrote long before.
            lines += [say(2, jobs[1], b"late, of b"), say(3, jobs[2], b"late, of c", "n2")]
        store.write(*lines)
        turn()
    for _ in range(16):
        turn()
    assert {job: sorted(lines) for job, lines in found.items()} == {
        job: sorted(lines) for job, lines in expected.items()
    }


def test_late_node_is_heard_whole(store: StoreWorld) -> None:
    """A node that was cut off ships the lines of ten minutes when it is back."""
    there = [Wrote(i * SECOND, b"n1 step %d" % i, "n1") for i in range(600)]
    late = [Wrote(i * SECOND, b"n2 step %d" % i, "n2") for i in range(600)]
    store.write(*there, *late[:5])
    reader = Reader(store)
    reader.read()
    store.write(*late[5:])
    assert reader.read(restarts=True) == texts(late[5:])
    assert reader.read() == []


def test_node_that_is_first_heard_of_late_is_heard_whole(store: StoreWorld) -> None:
    store.write(*[Wrote(i * SECOND, b"n1 step %d" % i, "n1") for i in range(400)])
    reader = Reader(store)
    reader.read()
    late = [Wrote(i * SECOND, b"n9 step %d" % i, "n9") for i in range(50)]
    store.write(*late)
    assert reader.read() == texts(late)
    assert reader.read() == []


def test_lines_that_overtake_one_another_come_all_and_once(store: StoreWorld) -> None:
    chance = random.Random(7)
    lines = interleaved(0, 400)
    shuffled = sorted(range(400), key=lambda i: i + chance.uniform(-60, 60))
    reader = Reader(store)
    got: list[bytes] = []
    for first in range(0, 400, 40):
        store.write(*(lines[i] for i in shuffled[first : first + 40]))
        got += reader.read(restarts=first % 80 == 0)
    got += reader.read()
    assert Counter(got) == Counter(texts(lines))


def test_equal_lines_of_one_moment_are_as_many_as_the_store_has(store: StoreWorld) -> None:
    store.write(*[Wrote(SECOND, b"tick")] * 3, Wrote(2 * SECOND, b"tock"))
    reader = Reader(store)
    ticks = [b"tick"] * (3 if store.keeps_copies else 1)
    assert reader.read() == [*ticks, b"tock"]
    store.write(*[Wrote(SECOND, b"tick")] * 2)
    assert reader.read(restarts=True) == ([b"tick"] * 2 if store.keeps_copies else [])


def test_moment_with_more_lines_than_a_page_comes_whole(store: StoreWorld) -> None:
    lines = [Wrote(SECOND, b"line %04d" % i) for i in range(1500)]
    store.write(*lines, Wrote(2 * SECOND, b"end"))
    got = Reader(store).read(restarts=True)
    assert sorted(got) == sorted([*texts(lines), b"end"])


def test_next_attempts_lines_are_not_this_ones(store: StoreWorld) -> None:
    store.write(Wrote(SECOND, b"first attempt"), Wrote(100 * SECOND, b"second attempt"))
    began = store.began // SECOND
    assert Reader(store, f"{store.path()}&until={began + 100}").read() == [b"first attempt"]
    later = store.source().path(store.job, began + 100)
    assert Reader(store, later).read() == [b"second attempt"]


def test_end_of_the_attempt_leaves_its_cursor_where_it_was(store: StoreWorld) -> None:
    reader = Reader(store)
    store.write(Wrote(SECOND, b"one"))
    reader.read()
    reader.path += f"&until={store.began // SECOND + 100}"
    store.write(Wrote(2 * SECOND, b"two"))
    assert reader.read(restarts=True) == [b"two"]
    assert len({block.stream for block in reader.blocks}) == 1


def test_place_begins_at_its_own_first_line(store: StoreWorld) -> None:
    store.write(Wrote(SECOND, b"one"))
    reader = Reader(store)
    cursor = reader.source.end(reader.path, 0)
    assert isinstance(cursor, Cursor)
    reader.cursor = cursor
    assert reader.read() == [b"one"]


def test_log_of_an_ended_job_counts_as_read_when_late_lines_had_time(store: StoreWorld) -> None:
    store.write(Wrote(SECOND, b"one"))
    reader = Reader(store)
    first = reader.once(final=True)
    assert isinstance(first, Block)
    assert (first.data, first.at_end) == (b"one\n", False)
    reader.cursor = first.cursor
    store.write(Wrote(2 * SECOND, b"Killed"))
    store.clock.advance(3.5)
    last = reader.once(final=True)
    assert isinstance(last, Block)
    assert (last.data, last.at_end) == (b"Killed\n", True)


@pytest.mark.parametrize("evil", ['"} or {job_id=~".+', "x\\", '12",node="n1', "{}", "|", "1\n2"])
def test_job_id_is_data_in_every_question(store: StoreWorld, evil: str) -> None:
    store.write(Wrote(SECOND, b"another's"), Wrote(SECOND, b"its own", job=evil + store.job))
    assert Reader(store, store.path(evil)).read() == []
    assert Reader(store, store.path(evil + store.job)).read() == [b"its own"]


def test_hostile_labels_stop_nobody(store: StoreWorld) -> None:
    odd = ['n" or "', "n\\", "n}|{", "n" * 2000, "n\u2028\U0001f600", "n,m"]
    store.write(*[Wrote(SECOND + i, b"line %d" % i, node) for i, node in enumerate(odd)])
    reader = Reader(store)
    assert len(reader.read()) == len(odd)
    store.write(*[Wrote(2 + i, b"late %d" % i, node) for i, node in enumerate(odd)])
    store.write(Wrote(3 * SECOND, b"end"))
    assert reader.read()[-1] in {b"end", *(b"late %d" % i for i in range(len(odd)))}
    assert reader.read() == []


def test_jobs_label_may_be_a_field_of_the_line(store: StoreWorld) -> None:
    store.write(Wrote(SECOND, b"mine"), Wrote(SECOND, b"another's", job=f"{store.job}0"))
    store.labels = Labels(match='node=~"n.*"', job_in_stream=False)
    assert Reader(store).read() == [b"mine"]


def test_more_matchers_narrow_every_question(store: StoreWorld) -> None:
    store.write(Wrote(SECOND, b"one", "n1"), Wrote(SECOND, b"two", "n2"))
    store.labels = Labels(match='node!="n1"')
    assert Reader(store).read() == [b"two"]


def test_token_stays_small_however_much_was_read(store: StoreWorld) -> None:
    lines = [Wrote(i * SECOND // 2000, b"line %d" % i) for i in range(6000)]
    store.write(*lines)
    reader = Reader(store)
    assert reader.read(limit=4 << 20) == texts(lines)
    assert reader.cursor is not None
    assert len(reader.cursor.token) < 16_000
    assert KEPT * 10 < HELD
    assert reader.read(restarts=True) == []


# -- who may read --------------------------------------------------------------------------------


def test_other_tenants_lines_are_not_seen(store: StoreWorld) -> None:
    if isinstance(store, VictoriaWorld):
        store.write(Wrote(SECOND, b"theirs"))
        store.write(Wrote(SECOND, b"ours"), tenant="12:34")
        store.access["headers"] = (("AccountID", "12"), ("ProjectID", "34"))
    else:
        assert isinstance(store, LokiWorld)
        store.write(Wrote(SECOND, b"theirs"))
        store.write(Wrote(SECOND, b"ours"), tenant="training")
        store.access["headers"] = (("X-Scope-OrgID", "training"),)
    assert Reader(store).read() == [b"ours"]


# -- going away ----------------------------------------------------------------------------------


def test_store_that_goes_away_and_comes_back_loses_and_repeats_nothing(store: StoreWorld) -> None:
    if isinstance(store, LokiWorld) and store.server is None:
        assert Reader(store).read() == []
        return  # a given Loki is not ours to stop
    lines = interleaved(0, 100)
    store.write(*lines[:50])
    reader = Reader(store)
    assert reader.read() == texts(lines[:50])
    store.stop()
    try:
        got = reader.once()
        assert isinstance(got, CannotRead)
        assert got.away
        assert got.word == "store_away"
        assert "no answer from" in got.reason
        store.clock.advance(300)
        assert isinstance(reader.once(), CannotRead)
        reader.restart()
        store.clock.advance(300)
        assert isinstance(reader.once(), CannotRead)
    finally:
        store.start()
    store.clock.advance(60)
    store.write(*lines[50:])
    assert reader.read() == texts(lines[50:])
    assert reader.read() == []


def test_store_that_is_away_is_not_asked_at_every_read(store: StoreWorld) -> None:
    nobody = log_store(store.store, Access("http://localhost:1"), store.clock)
    source = StoreLogs(nobody, store.clock)
    for _ in range(100):
        assert isinstance(source.read(store.path(), 0, None, LEAST_READ), CannotRead)
    assert nobody.server.questions == 1
    store.clock.advance(11)
    assert isinstance(source.read(store.path(), 0, None, LEAST_READ), CannotRead)
    assert nobody.server.questions == 2
