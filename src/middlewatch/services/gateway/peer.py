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
    """HTTP/1.1 that knows its peer."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        sock = transport.get_extra_info("socket")
        peer = peer_of(sock) if sock is not None else None
        self.app_state = {**self.app_state, STATE_KEY: peer}
        super().connection_made(transport)
