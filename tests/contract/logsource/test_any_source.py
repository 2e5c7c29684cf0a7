"""What every source of logs keeps to, be it a file or a store."""

from __future__ import annotations

from middlewatch.ports.scanner import Block
from tests.contract.logsource.worlds import SECOND, Reader, World, Wrote, texts


def numbered(first: int, last: int, every: int = SECOND // 10, size: int = 0) -> list[Wrote]:
    padding = b" " + b"x" * size if size else b""
    return [Wrote(i * every, b"step %d loss 2.5" % i + padding) for i in range(first, last)]


def test_lines_come_whole_in_their_order_and_once(world: World) -> None:
    lines = numbered(0, 50)
    world.write(*lines)
    reader = Reader(world)
    assert reader.read() == texts(lines)
    assert reader.read() == []


def test_what_is_not_there_yet_is_no_error(world: World) -> None:
    reader = Reader(world)
    assert reader.read() == []
    world.write(*numbered(0, 3))
    assert reader.read() == texts(numbered(0, 3))


def test_what_is_written_between_two_reads_comes_with_the_second(world: World) -> None:
    reader = Reader(world)
    for first in range(0, 60, 20):
        world.write(*numbered(first, first + 20))
        assert reader.read() == texts(numbered(first, first + 20))


def test_process_that_dies_after_reading_and_before_storing_reads_the_same_again(
    world: World,
) -> None:
    world.write(*numbered(0, 20))
    reader = Reader(world)
    reader.read()
    world.write(*numbered(20, 40))
    lost = reader.once()
    reader.restart()
    again = reader.once()
    assert isinstance(lost, Block)
    assert isinstance(again, Block)
    assert lost.data.splitlines() == texts(numbered(20, 40))
    assert (again.data, again.base_offset, again.stream) == (
        lost.data,
        lost.base_offset,
        lost.stream,
    )


def test_process_that_is_replaced_after_every_block_loses_and_repeats_nothing(
    world: World,
) -> None:
    lines = numbered(0, 3000, every=SECOND // 100, size=200)
    world.write(*lines)
    reader = Reader(world)
    assert reader.read(restarts=True) == texts(lines)
    assert len(reader.blocks) > 3
    more = numbered(3000, 3010, every=SECOND // 100)
    world.write(*more)
    assert reader.read(restarts=True) == texts(more)


def test_offsets_go_on_from_block_to_block(world: World) -> None:
    world.write(*numbered(0, 1000, size=200))
    reader = Reader(world)
    reader.read()
    world.write(*numbered(1000, 1010))
    reader.read()
    at = 0
    for block in reader.blocks:
        assert block.base_offset == at
        at += len(block.data)
        assert block.cursor.offset == at


def test_long_line_comes_whole(world: World) -> None:
    long = Wrote(SECOND, b"begin " + b"x" * 200_000 + b" end")
    world.write(Wrote(0, b"before"), long, Wrote(2 * SECOND, b"after"))
    assert Reader(world).read(limit=1 << 20) == [b"before", long.text, b"after"]


def test_odd_bytes_harm_neither_their_line_nor_its_neighbours(world: World) -> None:
    odd = b"\x1b[31mred\x1b[0m \xff\xfe\x80 \xe2\x82 \xed\xa0\x80 end"
    world.write(Wrote(0, b"before"), Wrote(1, odd), Wrote(2, b"a\x00b"), Wrote(3, b"after"))
    before, got, nul, after = Reader(world).read()
    assert (before, nul, after) == (b"before", b"a\x00b", b"after")
    assert got == odd if world.keeps_bytes else got.startswith(b"\x1b[31mred")
    assert got.endswith(b"end")


def test_lines_of_one_moment_come_all_and_once(world: World) -> None:
    lines = [Wrote(SECOND, b"rank %d" % rank) for rank in range(64)]
    world.write(*lines[:30])
    reader = Reader(world)
    first = reader.read()
    world.write(*lines[30:])
    second = reader.read(restarts=True)
    assert sorted(first) == sorted(texts(lines[:30]))
    assert sorted(second) == sorted(texts(lines[30:]))


def test_other_jobs_lines_are_not_seen(world: World) -> None:
    other = f"{world.job}1"
    world.write(Wrote(0, b"mine"), Wrote(1, b"another's", job=other))
    assert Reader(world).read() == [b"mine"]
    assert Reader(world, world.path(other)).read() == [b"another's"]
