"""Running the stand-in in a thread of its own: a test's, a bench's, or a terminal's."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import uvicorn

from middlewatch.lab.errors import NotReady
from middlewatch.lab.freeports import one_free
from middlewatch.lab.loki.app import Trouble, application
from middlewatch.lab.loki.entries import Entries
from middlewatch.lab.patience import wait_for

START_S = 60.0
STOP_S = 5


class LokiStandIn:
    """One server on a loopback port. ``entries`` outlive a stop: it is as if they lay on a disk."""

    def __init__(
        self,
        *,
        port: int = 0,
        entries: Entries | None = None,
        certificate: Path | None = None,
        key: Path | None = None,
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        self.entries = entries or Entries()
        self.trouble = Trouble()
        self.port = port
        self._tls = (certificate, key)
        self._application = application(self.entries, self.trouble, now)
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        scheme = "https" if self._tls[0] else "http"
        return f"{scheme}://localhost:{self.port}"

    def start(self) -> None:
        """Serve. The port that was free at the first start stays this server's."""
        self.port = self.port or one_free()
        bound = socket.create_server(("127.0.0.1", self.port))
        certificate, key = self._tls
        config = uvicorn.Config(
            self._application,
            ws="websockets-sansio",
            lifespan="off",
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=STOP_S,
            ssl_certfile=certificate,
            ssl_keyfile=key,
        )
        server = self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=server.run, args=([bound],), name="loki-stand-in", daemon=True
        )
        self._thread.start()
        if not wait_for(lambda: server.started, START_S):
            raise NotReady(f"the Loki stand-in did not come up on {self.url}")

    def stop(self) -> None:
        """Stop serving; what was pushed is kept."""
        if self._server is not None and self._thread is not None:
            self._server.should_exit = True
            self._thread.join(STOP_S + 5)
        self._server = self._thread = None
