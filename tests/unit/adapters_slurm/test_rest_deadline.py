"""slurmrestd answers in drops: its client gives up at the deadline all the same."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.adapters.slurm.rest import RestScheduler, RestTarget
from middlewatch.model.action import Action, ActionKind, Answered
from middlewatch.model.identity import ClusterId


class Dripping:
    """A server that sends one byte of its answer after the other until nobody takes them."""

    def __init__(self) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self.given_up = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        connection, _ = self._listening.accept()
        with connection:
            connection.recv(1 << 16)
            try:
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
                for _ in range(2000):
                    connection.sendall(b" ")
                    time.sleep(0.05)
            except OSError:
                self.given_up.set()

    def close(self) -> None:
        self._listening.close()


def test_a_command_ends_at_its_deadline_although_bytes_keep_coming(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("t")
    server = Dripping()
    target = RestTarget(f"http://127.0.0.1:{server.port}", "root", str(token), "x")
    scheduler = RestScheduler(ClusterId("slurm", "x"), target, SystemClock(), query_deadline_s=30.0)
    try:
        done = scheduler.perform(Action(ActionKind.RELEASE, "7", "test"), 1.0)
        assert done.answered is Answered.NO_ANSWER
        assert server.given_up.wait(60.0)
    finally:
        server.close()
