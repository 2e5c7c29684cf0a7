"""Daemons are ready some time after they were started, and nothing tells when.

The lab waits by asking again and again with a real command. This is the only place of the
lab that sleeps or reads a clock (the standalone trainer aside); nothing is decided by these
times but when to give up.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def now_s() -> float:
    """Seconds of a clock that only goes forward; its zero means nothing."""
    return time.monotonic()


def pause(seconds: float) -> None:
    """Do nothing for that long."""
    time.sleep(seconds)


def wait_for(question: Callable[[], T], timeout_s: float, every_s: float = 0.05) -> T | None:
    """Ask until the answer is true and return it; None when ``timeout_s`` has passed.

    The question is asked at least once, and once more at the end.
    """
    deadline = now_s() + timeout_s
    while True:
        last = now_s() >= deadline
        answer = question()
        if answer:
            return answer
        if last:
            return None
        pause(every_s)
