"""Who is at the other end of a Unix socket.

uvicorn does not tell; the kernel does, per connection. The protocol asks once when a connection is
made and hands the answer on with each request, out of reach of anything that the client sends.
"""

from __future__ import annotations

import asyncio
import socket
import struct

from uvicorn.protocols.http.h11_impl import H11Protocol

from middlewatch.services.gateway.access import Peer

STATE_KEY = "middlewatch.peer"
_CREDENTIALS = struct.Struct("3i")


def peer_of(sock: socket.socket) -> Peer | None:
    """The process at the other end; None for a socket that is no Unix socket."""
    if sock.family != socket.AF_UNIX:
        return None
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return Peer(*_CREDENTIALS.unpack(raw))


class PeerProtocol(H11Protocol):
    """HTTP/1.1 that knows its peer.

    Anybody on this machine may connect, whoever he is, and each connection is a descriptor that
    the watcher and the controller may need: so there are at most `most_connections` of a socket at
    once, and one that has not brought a whole request head after `head_seconds` is closed.
    """

    most_connections = 200
    head_seconds = 10.0
    _refused = False
    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        if len(self.connections) >= self.most_connections:
            self._refused = True
            transport.abort()
            return
        sock = transport.get_extra_info("socket")
        peer = peer_of(sock) if sock is not None else None
        self.app_state = {**self.app_state, STATE_KEY: peer}
        super().connection_made(transport)
        self._late = self.loop.call_later(self.head_seconds, self._give_up)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._late is not None:
            self._late.cancel()
        if not self._refused:
            super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if not self._refused:
            super().data_received(data)

    def _give_up(self) -> None:
        # uvicorn declares it as always there; it is None until a first request has come whole.
        if getattr(self, "cycle", None) is None:
            self.transport.close()


def bounded(most_connections: int, head_seconds: float) -> type[PeerProtocol]:
    """The protocol with limits of one gateway's own; uvicorn takes a class, not an object."""
    limits = {"most_connections": most_connections, "head_seconds": head_seconds}
    return type("BoundedPeerProtocol", (PeerProtocol,), limits)
