"""Loops that turn, fail, are woken, and stop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from middlewatch.ports.errors import Unreachable
from middlewatch.wiring.runner import LONGEST_PAUSE_S, Loop, Runner

START = datetime(2026, 1, 1, tzinfo=UTC)
LONG = 3600.0


class HandClock:
    """Time that stands until it is moved."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds

    def token(self, size: int = 32) -> str:
        return "t" * size


class Told:
    """Collects what a runner reports."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, object]]] = []

    def info(self, event: str, **keys: object) -> None:
        self.events.append((event, keys))

    error = info

    def names(self) -> list[str]:
        return [event for event, _ in self.events]


def runner_of(
    tick: Callable[[datetime], object], interval_s: float = 1.0
) -> tuple[Runner, HandClock, Told]:
    clock, told = HandClock(), Told()
    return Runner(clock, [Loop("one", tick, interval_s)], told), clock, told


@pytest.mark.parametrize(("taken", "pause"), [(0.0, 4.0), (1.5, 2.5), (3.5, 1.0), (60.0, 1.0)])
def test_interval_is_counted_from_beginning_to_beginning(taken: float, pause: float) -> None:
    """A long tick does not add to the interval, and still leaves the scheduler a rest."""
    runner, clock, _ = runner_of(lambda _now: clock.sleep(taken), 4.0)
    assert runner.turn("one") == pause


def test_a_tick_is_given_the_clocks_moment() -> None:
    seen: list[datetime] = []
    runner, clock, _ = runner_of(seen.append)
    clock.seconds = 7
    runner.turn("one")
    assert seen == [START + timedelta(seconds=7)]


@pytest.mark.parametrize(
    ("answer", "pause"),
    [
        (None, 5.0),
        (False, 5.0),
        (True, 0.1),
        (2.5, 2.5),
        (0, 0.0),
        (10**6, LONGEST_PAUSE_S),
        (SimpleNamespace(again=True), 0.1),
        (SimpleNamespace(again=False), 5.0),
    ],
)
def test_the_pause_follows_from_what_a_tick_answers(answer: object, pause: float) -> None:
    runner, _, _ = runner_of(lambda _now: answer, interval_s=5.0)
    assert runner.turn("one") == pause


def test_a_loop_finishes_once_behind_its_last_tick() -> None:
    done: list[str] = []
    loop = Loop("a", lambda _: done.append("tick"), LONG, finish=lambda _: done.append("finish"))
    runner = Runner(HandClock(), [loop], Told())
    runner.start()
    while not done:
        threading.Event().wait(0.01)
    assert runner.stop() == ()
    assert done[-1] == "finish"
    assert done.count("finish") == 1


def test_a_failing_tick_is_told_once_in_full_and_the_pauses_grow() -> None:
    def fail(_now: datetime) -> None:
        raise RuntimeError("odd reply")

    runner, _, told = runner_of(fail)
    pauses = [runner.turn("one") for _ in range(8)]
    assert pauses == sorted(pauses)
    assert pauses[0] == 2.0
    assert pauses[-1] == LONGEST_PAUSE_S
    assert told.names() == ["loop_failed"] + ["loop_failed_again"] * 7
    assert told.events[0][1]["exc_info"] is True


def test_what_goes_wrong_outside_is_told_without_a_traceback() -> None:
    def fail(_now: datetime) -> None:
        raise Unreachable("slurmctld does not answer")

    runner, _, told = runner_of(fail)
    runner.turn("one")
    assert told.events[0][1]["exc_info"] is False


def test_a_loop_that_works_again_says_so_and_forgets_its_failures() -> None:
    answers = iter([RuntimeError("x"), None, RuntimeError("y")])

    def tick(_now: datetime) -> None:
        answer = next(answers)
        if answer is not None:
            raise answer

    runner, _, told = runner_of(tick)
    for _ in range(3):
        runner.turn("one")
    assert told.names() == ["loop_failed", "loop_recovered", "loop_failed"]


def test_a_loop_without_a_completed_tick_for_long_is_stuck() -> None:
    runner, clock, _ = runner_of(lambda _now: None)
    runner.turn("one")
    assert runner.stuck() == ()
    clock.seconds += 10_000
    assert runner.stuck() == ("one",)
    runner.turn("one")
    assert runner.stuck() == ()


def test_failing_ticks_are_no_sign_of_life() -> None:
    def fail(_now: datetime) -> None:
        raise RuntimeError("x")

    runner, clock, _ = runner_of(fail)
    for _ in range(100):
        clock.seconds += 10
        runner.turn("one")
    assert runner.stuck() == ("one",)


def test_a_hint_wakes_a_loop_before_its_interval() -> None:
    ticked = threading.Semaphore(0)
    runner, _, _ = runner_of(lambda _now: ticked.release(), interval_s=LONG)
    runner.start()
    assert ticked.acquire(timeout=10)
    runner.wake("one")
    assert ticked.acquire(timeout=10)
    assert runner.stop() == ()


def test_a_hint_that_comes_during_a_tick_is_not_lost() -> None:
    inside, go_on, ticked = threading.Event(), threading.Event(), threading.Semaphore(0)

    def tick(_now: datetime) -> None:
        inside.set()
        go_on.wait(10)
        ticked.release()

    runner, _, _ = runner_of(tick, interval_s=LONG)
    runner.start()
    assert inside.wait(10)
    runner.wake("one")
    go_on.set()
    assert ticked.acquire(timeout=10)
    assert ticked.acquire(timeout=10)
    runner.stop()


def test_a_hint_for_nobody_is_harmless() -> None:
    runner, _, _ = runner_of(lambda _now: None)
    runner.wake("another")
    assert runner.pulses()[0].last is None


def test_stopping_waits_for_the_tick_that_is_under_way() -> None:
    inside, go_on = threading.Event(), threading.Event()
    ended: list[bool] = []

    def tick(_now: datetime) -> None:
        inside.set()
        go_on.wait(10)
        ended.append(True)

    runner, _, _ = runner_of(tick, interval_s=LONG)
    runner.start()
    assert inside.wait(10)
    threading.Timer(0.05, go_on.set).start()
    assert runner.stop() == ()
    assert ended == [True]


def test_loops_can_be_stopped_by_name() -> None:
    clock, told = HandClock(), Told()
    ticks = {"a": threading.Semaphore(0), "b": threading.Semaphore(0)}
    runner = Runner(
        clock,
        [Loop(name, lambda _now, s=s: s.release(), LONG) for name, s in ticks.items()],
        told,
    )
    runner.start()
    assert ticks["a"].acquire(timeout=10)
    assert ticks["b"].acquire(timeout=10)
    assert runner.stop("a") == ()
    runner.wake("b")
    assert ticks["b"].acquire(timeout=10)
    runner.stop()
