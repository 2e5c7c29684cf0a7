"""The barrier of each step: ranks meet through a file, then talk over TCP."""

from __future__ import annotations

import json
import socket
import struct
import time
from pathlib import Path
from typing import Any

from .checkpoint import write_atomically
from .world import KEY, RANK, WORLD

RENDEZVOUS_S = 120.0


class PeerLost(Exception):
    """Another rank closed its connection: it has died."""


class CollectiveTimeout(Exception):
    """This rank has waited too long for another one."""


class Collective:
    """All-reduce through rank 0 over TCP. The sum is taken in the order of ranks: exact."""

    def __init__(self, folder: Path, timeout: float) -> None:
        self.timeout = timeout or None
        self.peers: dict[int, socket.socket] = {}
        self.root: socket.socket | None = None
        meeting = folder / f"rendezvous-{KEY}.json"
        if RANK > 0:
            self.root = self._join(meeting)
        elif WORLD > 1:
            self._gather(meeting)

    def _gather(self, meeting: Path) -> None:
        with socket.create_server(("", 0), backlog=WORLD) as server:
            server.settimeout(RENDEZVOUS_S)
            where = {"host": socket.gethostname(), "port": server.getsockname()[1]}
            write_atomically(meeting, json.dumps(where).encode())
            while len(self.peers) < WORLD - 1:
                connection, _ = server.accept()
                connection.settimeout(None)
                hello = receive(connection)
                if hello["key"] == KEY:
                    self.peers[hello["rank"]] = connection
                else:
                    connection.close()
        meeting.unlink()

    @staticmethod
    def _join(meeting: Path) -> socket.socket:
        deadline = time.monotonic() + RENDEZVOUS_S
        while time.monotonic() < deadline:
            try:
                where = json.loads(meeting.read_text())
                # A host name that does not resolve must do when all ranks share the machine.
                host = "127.0.0.1" if where["host"] == socket.gethostname() else where["host"]
                connection = socket.create_connection((host, where["port"]), timeout=10)
            except (OSError, ValueError):
                time.sleep(0.02)
                continue
            connection.settimeout(None)
            send(connection, {"key": KEY, "rank": RANK})
            return connection
        raise SystemExit(f"rank {RANK}: did not find rank 0 within {RENDEZVOUS_S:.0f} s")

    def reduce(self, mine: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """The mean over all ranks and, in rank 0, what each rank gave. Waits for all of them."""
        if self.root is not None:
            send(self.root, mine)
            return self._receive(self.root), []
        parts = [mine, *(self._receive(self.peers[rank]) for rank in range(1, WORLD))]
        columns = zip(*(part["gradient"] for part in parts), strict=True)
        mean = {
            "gradient": [sum(column) / WORLD for column in columns],
            "loss": sum(part["loss"] for part in parts) / WORLD,
        }
        for rank in range(1, WORLD):
            send(self.peers[rank], mean)
        return mean, parts

    def _receive(self, connection: socket.socket) -> dict[str, Any]:
        connection.settimeout(self.timeout)
        try:
            return receive(connection)
        except TimeoutError:
            raise CollectiveTimeout from None


def send(connection: socket.socket, message: dict[str, Any]) -> None:
    body = json.dumps(message).encode()
    try:
        connection.sendall(struct.pack(">I", len(body)) + body)
    except ConnectionError:
        raise PeerLost from None


def receive(connection: socket.socket) -> dict[str, Any]:
    size = struct.unpack(">I", exactly(connection, 4))[0]
    message: dict[str, Any] = json.loads(exactly(connection, size))
    return message


def exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        try:
            part = connection.recv(count - len(data))
        except ConnectionError:
            part = b""
        if not part:
            raise PeerLost
        data += part
    return data
