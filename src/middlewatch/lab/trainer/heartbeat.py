"""Signs of life of a rank, in a file that no requeue truncates.

A job's own log begins anew with each attempt, and a rank that waits for its peers prints nothing.
Whoever wants to know afterwards whether two attempts of one job lived at one time needs a line from
each of them every fraction of a second, from the very process that trains.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

from .world import ATTEMPT, HOST, RANK

EVERY_S = 0.25


def begin(path: Path) -> None:
    """From now on append a line ``attempt rank host epoch-seconds`` every quarter of a second."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def beat() -> None:
        while True:
            os.write(handle, f"{ATTEMPT} {RANK} {HOST} {time.time():.3f}\n".encode())
            time.sleep(EVERY_S)

    threading.Thread(target=beat, daemon=True).start()
