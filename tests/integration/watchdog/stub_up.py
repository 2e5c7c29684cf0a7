"""What `up` does about its watchdog, alone: marks itself alive, starts one, prints its number.

Run as ``python stub_up.py STATE_DIR BIN_DIR stay|stop``: ``stay`` waits to be killed, ``stop``
marks a clean stop.
"""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from middlewatch.wiring.presence import UpMark
from middlewatch.wiring.watchdog_process import WatchdogSpec
from middlewatch.wiring.watchdog_supervision import WatchdogSupervisor
from tests.integration.watchdog.guarding import spec_for


def main(state_dir: Path, bin_dir: Path, then: str) -> int:
    spec: WatchdogSpec = spec_for(state_dir, bin_dir)
    mark = UpMark(state_dir)
    mark.beat(datetime.now(UTC))
    found = WatchdogSupervisor(spec).ensure(datetime.now(UTC))
    print(found.pid, found.guard.value, found.problem, flush=True)
    if then == "stop":
        mark.stopped(datetime.now(UTC))
        return 0
    time.sleep(600)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
