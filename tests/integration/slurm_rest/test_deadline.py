"""slurmrestd answers in drops, or is hard to reach: its client gives up at the deadline all the same."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.adapters.slurm import restcall
from middlewatch.adapters.slurm.rest import RestScheduler, RestTarget
from middlewatch.model.action import Action, ActionKind, Answered
from middlewatch.model.identity import ClusterId
from middlewatch.ports.errors import Unreachable


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


def test_nothing_is_sent_where_connecting_outlasted_the_deadline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    token.write_text("t")
    listening = socket.create_server(("127.0.0.1", 0))
    target = RestTarget(f"http://127.0.0.1:{listening.getsockname()[1]}", "root", str(token), "x")
    cut_off = threading.Event()
    cut, connect = restcall._cut, socket.create_connection

    def cutting(*given: Any) -> None:
        cut(*given)
        cut_off.set()

    def slowly(*where: Any, **how: Any) -> socket.socket:
        """As where the first of two addresses takes every packet and answers none."""
        assert cut_off.wait(60.0)
        return connect(*where, **how)

    monkeypatch.setattr(restcall, "_cut", cutting)
    monkeypatch.setattr(socket, "create_connection", slowly)
    with listening:
        with pytest.raises(Unreachable, match="nothing was sent"):
            restcall.send(target, "POST", "/slurm/v0.0.45/jobs/requeue", {"jobs": ["7"]}, 0.1)
        served, _ = listening.accept()
        with served:
            served.settimeout(60.0)
            assert served.recv(1 << 16) == b""
