"""Turns services that only know `tick(now)` into threads: the one place that sleeps.

Each loop turns at its interval, counted from beginning to beginning, or earlier when it is woken
by a hint; losing a hint costs at most the interval. A tick that raises is logged once, here, and
the loop goes on with growing pauses: a service that stopped for good because one reply was odd
would be worse than the reply.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from middlewatch.ports.clock import Clock
from middlewatch.ports.errors import PortError

LONGEST_PAUSE_S = 10.0
_DEAD_AFTER = 10.0
"""Intervals (and half a minute) without a completed tick until a loop counts as stuck."""

_LEAST_PAUSE = 0.25
"""Share of its interval that a loop rests, however long its tick took: a scheduler that answers
slowly must not be asked all the time because of it."""


class Reporter(Protocol):
    """What a loop says about itself; structlog's loggers fit."""

    def info(self, event: str, **keys: object) -> object: ...
    def error(self, event: str, **keys: object) -> object: ...


@dataclass(slots=True)
class Pulse:
    """When a loop last completed a tick, in the clock's monotonic seconds; None: never yet."""

    name: str
    limit_s: float
    last: float | None = None
    last_at: datetime | None = None
    failures: int = 0


@dataclass(slots=True)
class Loop:
    """One service to be turned. ``wake`` is set by whoever has a hint for it.

    ``tick`` may return True, or a report whose ``again`` is true (something was set in motion:
    look again after ``again_s``), a number of seconds until the next turn, or anything else (the
    interval).
    """

    name: str
    tick: Callable[[datetime], object]
    interval_s: float
    again_s: float = 0.1
    wake: threading.Event = field(default_factory=threading.Event)
    finish: Callable[[datetime], object] | None = None
    """Done once behind the last tick, in the loop's own thread."""


class Runner:
    """Runs loops in threads of their own until told to stop, each by name."""

    def __init__(self, clock: Clock, loops: Sequence[Loop], report: Reporter) -> None:
        self._clock = clock
        self._report = report
        self._loops = {loop.name: loop for loop in loops}
        self._stops = {loop.name: threading.Event() for loop in loops}
        self._pulses = {
            loop.name: Pulse(loop.name, loop.interval_s * _DEAD_AFTER + LONGEST_PAUSE_S)
            for loop in loops
        }
        self._threads: dict[str, threading.Thread] = {}
        self._started = clock.monotonic()

    def start(self) -> None:
        """Start a thread for each loop; the first tick comes at once."""
        self._started = self._clock.monotonic()
        for name in self._loops:
            thread = threading.Thread(target=self._run, args=(name,), name=name, daemon=True)
            self._threads[name] = thread
            thread.start()

    def wake(self, name: str) -> None:
        """Hint that there is something to do for the loop of that name."""
        loop = self._loops.get(name)
        if loop is not None:
            loop.wake.set()

    def stop(self, *names: str, timeout_s: float = 30.0) -> tuple[str, ...]:
        """Stop these loops (all, if none is named) after the tick they are in; the names of
        those that did not end in time."""
        chosen = names or tuple(self._loops)
        for name in chosen:
            if name in self._loops:
                self._stops[name].set()
                self._loops[name].wake.set()
        deadline = self._clock.monotonic() + timeout_s
        late = []
        for name in chosen:
            thread = self._threads.get(name)
            if thread is not None and thread is not threading.current_thread():
                thread.join(max(deadline - self._clock.monotonic(), 0.0))
                if thread.is_alive():
                    late.append(name)
        return tuple(late)

    def pulses(self) -> tuple[Pulse, ...]:
        """All loops' pulses, as they are now."""
        return tuple(self._pulses.values())

    def stuck(self) -> tuple[str, ...]:
        """Loops that should have completed a tick long ago."""
        now = self._clock.monotonic()
        return tuple(
            pulse.name
            for pulse in self._pulses.values()
            if not self._stops[pulse.name].is_set()
            and now - (self._started if pulse.last is None else pulse.last) > pulse.limit_s
        )

    def _run(self, name: str) -> None:
        loop, stop = self._loops[name], self._stops[name]
        while not stop.is_set():
            # Cleared before the tick: a hint that comes during it causes another one.
            loop.wake.clear()
            pause = self.turn(name)
            if not stop.is_set() and pause > 0:
                loop.wake.wait(pause)
        if loop.finish is not None:
            try:
                loop.finish(self._clock.now())
            except Exception as error:  # noqa: BLE001 - it goes in any case; what is lost is read again
                self._report.error("loop_failed", loop=name, error=str(error))

    def turn(self, name: str) -> float:
        """One tick of the loop of that name; the seconds to wait after it."""
        loop, pulse = self._loops[name], self._pulses[name]
        began = self._clock.monotonic()
        try:
            answer = loop.tick(self._clock.now())
        except Exception as error:  # noqa: BLE001 - the service's edge: whatever it was, go on
            pulse.failures += 1
            if pulse.failures == 1:
                # What went wrong outside needs no traceback; what we did not foresee does.
                foreseen = isinstance(error, PortError)
                self._report.error(
                    "loop_failed", loop=name, error=str(error), exc_info=not foreseen
                )
            else:
                self._report.error(
                    "loop_failed_again", loop=name, error=str(error), times=pulse.failures
                )
            return float(min(loop.interval_s * 2 ** min(pulse.failures, 16), LONGEST_PAUSE_S))
        if pulse.failures:
            self._report.info("loop_recovered", loop=name, after=pulse.failures)
            pulse.failures = 0
        pulse.last, pulse.last_at = self._clock.monotonic(), self._clock.now()
        if answer is True or getattr(answer, "again", False) is True:
            return min(loop.again_s, loop.interval_s)
        if isinstance(answer, int | float) and not isinstance(answer, bool):
            return min(max(float(answer), 0.0), LONGEST_PAUSE_S)
        taken = pulse.last - began
        return max(loop.interval_s - taken, loop.interval_s * _LEAST_PAUSE)
