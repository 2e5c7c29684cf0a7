"""Whose stack is unlike all the others'."""

from __future__ import annotations

from collections.abc import Iterator

from middlewatch.attribution.issues import issues_from
from middlewatch.attribution.stacks import LOCATED, PROCESS, odd_one
from middlewatch.model.signal import Signal, SignalKind
from tests.unit.attribution.made import attempt, signal

WAITS = ("wait", "all_reduce", "train_step")


def stack(rank: int, *frames: str) -> Iterator[Signal]:
    yield signal(
        SignalKind.HINT, 100 + rank, pattern_id=PROCESS, ranks=(rank,), position=f"head{rank}"
    )
    for number, frame in enumerate(frames):
        yield signal(
            SignalKind.HINT,
            100 + rank,
            pattern_id="stack.frame",
            detail=f"frame={frame}",
            position=f"{rank}/{number}",
        )


def dump(**odd: tuple[str, ...]) -> list[Signal]:
    found: list[Signal] = []
    for rank in range(8):
        found.extend(stack(rank, *odd.get(f"r{rank}", WAITS)))
    return found


def test_the_one_that_waits_for_nobody_is_found() -> None:
    found = odd_one(dump(r3=("wait", "get", "__next__", "train")))
    assert found is not None
    assert found.ranks == (3,)


def test_where_all_wait_alike_nobody_is_odd() -> None:
    assert odd_one(dump()) is None


def test_where_many_are_elsewhere_nobody_is_odd() -> None:
    elsewhere = ("poll", "read", "load")
    assert odd_one(dump(r0=elsewhere, r1=elsewhere, r2=elsewhere)) is None


def test_a_dump_turns_a_silence_into_one_that_is_located() -> None:
    silence = signal(SignalKind.SILENCE, 50, value=30.0)
    (issue,) = issues_from([silence, *dump(r5=("get", "load"))], (), attempt())
    assert issue.failure_class == LOCATED


def test_a_dump_of_a_job_that_goes_on_is_no_trouble() -> None:
    assert issues_from(dump(r5=("get", "load")), (), attempt()) == ()
