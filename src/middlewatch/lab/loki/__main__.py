"""`python -m middlewatch.lab.loki [PORT]`: the stand-in, until it is interrupted."""

from __future__ import annotations

import signal
import sys

from middlewatch.lab.loki.server import LokiStandIn


def main() -> int:
    server = LokiStandIn(port=int(sys.argv[1]) if len(sys.argv) > 1 else 3100)
    server.start()
    sys.stdout.write(f"a stand-in for Loki on {server.url}, nothing is kept\n")
    sys.stdout.flush()
    signal.sigwait({signal.SIGINT, signal.SIGTERM})
    server.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
