"""The gateway as a running thing: sockets bound, a thread that serves them, a graceful end.

Everything that can be wrong about an address is found in `start`, before a thread exists: a
gateway that has started is listening. TCP and the Unix socket are two servers over one
application, because TLS belongs to one of them only.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import structlog
import uvicorn

from middlewatch.model.identity import ClusterId
from middlewatch.model.policy import Policy
from middlewatch.ports.clock import Clock
from middlewatch.ports.errors import Refused, Unreachable
from middlewatch.ports.store import Store
from middlewatch.services.gateway.access import Listen, SocketOthers, is_loopback, start_problems
from middlewatch.services.gateway.app import Application, Calls, Door
from middlewatch.services.gateway.metrics import Metrics
from middlewatch.services.gateway.peer import bounded
from middlewatch.services.gateway.service import Ages, Context
from middlewatch.services.gateway.tokens import first_token

if TYPE_CHECKING:
    import grpc

START_SECONDS = 15.0
STOP_SECONDS = 5
_SOCKET_PATH_MAX = 107
"""What the kernel takes for the path of a Unix socket."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """``socket`` is the Unix socket's path, None for none; ``token_file`` is where the first
    token is left for the local command line; ``most_connections`` of each socket may be open at
    once, and a request's head must be whole within ``head_seconds``."""

    listen: Listen
    token_file: Path
    socket: Path | None = None
    socket_others: SocketOthers = SocketOthers.NONE
    body_limit: int = 2 * 1024 * 1024
    stale_after_s: float = 60.0
    signal_cap: int = 100
    policy: Policy = field(default_factory=Policy)
    most_connections: int = 200
    head_seconds: float = 10.0


def _no_ages() -> dict[str, float | None]:
    return {}


def _nothing() -> None:
    return None


class Gateway:
    """``start`` and ``stop`` belong to one thread; requests are served in others."""

    def __init__(
        self,
        settings: GatewaySettings,
        store: Store,
        clock: Clock,
        cluster: ClusterId,
        *,
        ages: Ages = _no_ages,
        wake: Callable[[], None] = _nothing,
    ) -> None:
        self._settings = settings
        self._store = store
        self._clock = clock
        listen = settings.listen
        context = Context(
            store=store,
            clock=clock,
            cluster=cluster,
            mode=listen.mode,
            ages=ages,
            stale_after_s=settings.stale_after_s,
            signal_cap=settings.signal_cap,
            policy=settings.policy,
            wake=wake,
        )
        door = Door(
            insecure=listen.insecure,
            own_uid=os.getuid(),
            socket_others=settings.socket_others,
            loopback_host=listen.host if is_loopback(listen.host) else None,
            body_limit=settings.body_limit,
        )
        self._calls = Calls(context, door, Metrics(context))
        self._application = Application(self._calls)
        self._servers: list[_Server] = []
        self._thread: threading.Thread | None = None
        self._started = threading.Event()
        self._failure: BaseException | None = None
        self._grpc: grpc.Server | None = None
        self.url = ""
        self.grpc_address: str | None = None
        self.socket_path = settings.socket
        self.first_token: str | None = None
        """Set by the very first start: show it once."""

    def start(self) -> None:
        """Listen. Raises `Refused` for settings that may not be, `Unreachable` for an address
        that cannot be had."""
        listen = self._settings.listen
        problems = start_problems(listen)
        if problems:
            raise Refused("the gateway does not start: " + "; ".join(problems))
        if listen.insecure:
            _log.warning(
                "insecure",
                note="INSECURE: everybody who can connect may do everything; for demos only",
                host=listen.host,
            )
        else:
            self.first_token = first_token(self._store, self._clock, self._settings.token_file)
        tls = self._tls()
        bound: list[tuple[socket.socket, bool]] = []
        try:
            tcp = _bind_tcp(listen.host, listen.port)
            bound.append((tcp, tls))
            self.url = _url(listen.host, tcp.getsockname()[1], tls=tls)
            if self.socket_path is not None:
                bound.append((_bind_unix(self.socket_path), False))
            if listen.grpc_port is not None:
                self._start_grpc(listen, tls)
        except BaseException:
            for sock, _ in bound:
                sock.close()
            raise
        self._servers = [self._server(sock, tls=with_tls) for sock, with_tls in bound]
        self._thread = threading.Thread(target=self._run, name="gateway", daemon=True)
        self._thread.start()
        if not self._started.wait(START_SECONDS) or self._failure is not None:
            self.stop()
            raise Unreachable(
                f"the gateway did not come up on {self.url}: {self._failure or 'no answer'}"
            ) from self._failure

    def stop(self) -> None:
        """Answer what was begun, then close; returns when that is done or was given up."""
        for server in self._servers:
            server.should_exit = True
        if self._grpc is not None:
            self._grpc.stop(STOP_SECONDS).wait(STOP_SECONDS + 1)
            self._grpc = None
        if self._thread is not None:
            self._thread.join(STOP_SECONDS + 3)
            self._thread = None
        if self.socket_path is not None and self._servers:
            with suppress(OSError):
                self.socket_path.unlink()
        self._servers = []

    @property
    def running(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _tls(self) -> bool:
        listen = self._settings.listen
        if listen.tls_certificate is None or listen.tls_key is None:
            return False
        try:
            # An empty password makes an encrypted key an error instead of a question.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
                listen.tls_certificate, listen.tls_key, password=""
            )
        except (OSError, ValueError) as error:
            raise Refused(
                f"the certificate {listen.tls_certificate} and key {listen.tls_key} cannot be "
                f"used: {error}; both must be readable PEM files that belong together"
            ) from error
        return True

    def _server(self, sock: socket.socket, *, tls: bool) -> _Server:
        listen = self._settings.listen
        config = uvicorn.Config(
            self._application,
            http=bounded(self._settings.most_connections, self._settings.head_seconds),
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=STOP_SECONDS,
            ssl_certfile=listen.tls_certificate if tls else None,
            ssl_keyfile=listen.tls_key if tls else None,
        )
        return _Server(config, sock)

    def _start_grpc(self, listen: Listen, tls: bool) -> None:
        from middlewatch.services.gateway import rpc

        host = f"[{listen.host}]" if ":" in listen.host else listen.host
        certificate = Path(listen.tls_certificate) if tls and listen.tls_certificate else None
        key = Path(listen.tls_key) if tls and listen.tls_key else None
        self._grpc, port = rpc.serve(self._calls, f"{host}:{listen.grpc_port}", certificate, key)
        self.grpc_address = f"{host}:{port}"

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - told to whoever waits in start
            self._failure = error
            _log.error("gateway_ended", error=str(error), exc_info=error)
        finally:
            self._started.set()

    async def _serve(self) -> None:
        serving = [asyncio.create_task(s.serve(sockets=[s.socket])) for s in self._servers]
        up = asyncio.create_task(self._announce())
        try:
            await asyncio.gather(*serving)
        finally:
            up.cancel()

    async def _announce(self) -> None:
        for server in self._servers:
            await server.up.wait()
        self._started.set()


class _Server(uvicorn.Server):
    """One socket's server that says when it accepts."""

    def __init__(self, config: uvicorn.Config, sock: socket.socket) -> None:
        super().__init__(config)
        self.socket = sock
        self.up = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        self.up.set()


def _bind_tcp(host: str, port: int) -> socket.socket:
    """A bound socket. Raises `Unreachable` with what stands in the way."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind, protocol)
    except OSError as error:
        raise Unreachable(f"{host} is no address of this machine: {error}") from error
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(address)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise Unreachable(
            f"cannot listen on {host} port {port}: {error.strerror or error}; is another gateway "
            "running? Choose another with gateway.port"
        ) from error
    return sock


def _bind_unix(path: Path) -> socket.socket:
    """A bound Unix socket; a dead one's file is replaced, a live one's is not."""
    if len(os.fsencode(path)) > _SOCKET_PATH_MAX:
        raise Refused(
            f"the path of the Unix socket has more than {_SOCKET_PATH_MAX} bytes: {path}; "
            "choose a shorter one with gateway.socket"
        )
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _clear(path)
        sock.bind(str(path))
        # Who may do what is decided by the peer's uid, with a message instead of a bare refusal.
        path.chmod(0o666)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise Unreachable(f"cannot make the Unix socket {path}: {error}") from error
    except BaseException:
        sock.close()
        raise
    return sock


def _clear(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise Refused(f"{path} exists and is no socket; remove it or choose another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except OSError:
            path.unlink()
            return
    raise Refused(f"another gateway is listening on {path}; stop it, or choose another path")


def _url(host: str, port: int, *, tls: bool) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"{'https' if tls else 'http'}://{shown}:{port}"
