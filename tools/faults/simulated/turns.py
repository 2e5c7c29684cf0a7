"""Virtual time for many workers, one of whom runs at any moment.

Each worker is a thread that does its work in no time at all and lets time pass only by asking for
it; then the one whose moment is next goes on. So between any two steps of one worker all others
may have their turns, and yet the same seed gives the same order, whatever the machine does.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable
from datetime import datetime, timedelta

from middlewatch.lab.simulated import SimulatedCluster


class Killed(BaseException):
    """The process of this worker is dead: nothing may catch this but the worker's own edge."""


class Turns:
    """The agenda. `now` is true time, which is the cluster's."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster
        self._agenda: list[tuple[datetime, int, Callable[[], None]]] = []
        self._count = 0
        self._driver = threading.Lock()
        self._driver.acquire()
        self._until = cluster.now
        self.trouble: BaseException | None = None

    @property
    def now(self) -> datetime:
        return self.cluster.now

    def at(self, when: datetime, action: Callable[[], None]) -> None:
        """Have the driver do something at that moment, in the order of asking."""
        self._count += 1
        heapq.heappush(self._agenda, (max(when, self.now), self._count, action))

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        self.at(self.now + timedelta(seconds=seconds), action)

    def run_until(self, when: datetime) -> None:
        """Let time pass until ``when``. Raises what broke in a worker."""
        self._until = when
        while self._agenda and self._agenda[0][0] <= when:
            at, _, action = heapq.heappop(self._agenda)
            self.cluster.advance(at)
            action()
            if self.trouble is not None:
                raise self.trouble
        self.cluster.advance(when)

    def quiet_until(self, when: datetime) -> bool:
        """Whether nothing is to happen before ``when``, so that nobody else has to run."""
        return when <= self._until and (not self._agenda or self._agenda[0][0] > when)

    def hand_back(self) -> None:
        self._driver.release()

    def await_worker(self) -> None:
        self._driver.acquire()


class Worker:
    """One thread of ours. ``dead`` is asked whenever it goes on: then it is `Killed`; ``frozen``
    says until when it stands still."""

    def __init__(
        self,
        turns: Turns,
        name: str,
        body: Callable[[Worker], None],
        *,
        dead: Callable[[], bool],
        frozen: Callable[[], datetime | None],
    ) -> None:
        self._turns = turns
        self._name = name
        self._body = body
        self._dead = dead
        self._frozen = frozen
        self._baton = threading.Lock()
        self._baton.acquire()
        self._thread: threading.Thread | None = None
        self._wakes = 0
        self._resting = False
        self.over = False

    def start(self) -> None:
        """Begin at this moment, when the agenda comes to it."""
        self._turns.after(0.0, self._first)

    def _first(self) -> None:
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()
        self._turns.await_worker()

    def _run(self) -> None:
        try:
            if not self._dead():
                self._body(self)
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001 - told to whoever plays the schedule
            self._turns.trouble = error
        finally:
            self.over = True
            self._turns.hand_back()

    def pass_time(self, seconds: float) -> None:
        """Let time pass for this worker. Raises `Killed`."""
        turns = self._turns
        when = turns.now + timedelta(seconds=seconds)
        if turns.quiet_until(when):
            turns.cluster.advance(when)
        else:
            self._sleep(when)
        while True:
            if self._dead():
                raise Killed
            until = self._frozen()
            if until is None or until <= turns.now:
                return
            self._sleep(until)

    def rest(self, seconds: float) -> None:
        """As `pass_time`, but somebody may `wake` it before that."""
        self._resting = True
        self.pass_time(seconds)
        self._resting = False

    def wake(self) -> None:
        """Go on now, if it rests."""
        if self._resting:
            self._resting = False
            self._wakes += 1
            number = self._wakes
            self._turns.after(0.0, lambda: self._go_on(number))

    def _sleep(self, when: datetime) -> None:
        self._wakes += 1
        number = self._wakes
        self._turns.at(when, lambda: self._go_on(number))
        self._turns.hand_back()
        self._baton.acquire()

    def _go_on(self, number: int) -> None:
        if number != self._wakes or self.over:
            return  # it was woken before, and this is the alarm that it had set
        self._baton.release()
        self._turns.await_worker()

    def end(self) -> None:
        """Let a dead worker come to its end at once. Only for the driver."""
        if self._thread is not None and not self.over:
            self._wakes += 1
            self._go_on(self._wakes)
