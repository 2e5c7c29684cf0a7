"""A small HTTP server that answers as a test tells it, and remembers what it was asked."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs

TLS = Path(__file__).parents[2] / "data" / "tls"


@dataclass
class Told:
    """What to answer with; ``write`` takes over where a body alone will not do."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    write: Callable[[BaseHTTPRequestHandler], None] | None = None
    asked: list[tuple[str, dict[str, str], dict[str, str]]] = field(default_factory=list)
    """(path, headers in lower case, form)"""


def matrix(*series: tuple[dict[str, str], list[tuple[float, str]]]) -> bytes:
    result = [{"metric": labels, "values": values} for labels, values in series]
    data = {"resultType": "matrix", "result": result}
    return json.dumps({"status": "success", "data": data}).encode()


@contextmanager
def serving(told: Told, *, tls: bool = False) -> Iterator[str]:
    """The server's URL while it runs."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            form = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
            fields = {key: values[0] for key, values in parse_qs(form).items()}
            headers = {key.lower(): value for key, value in self.headers.items()}
            told.asked.append((self.path, headers, fields))
            if told.write is not None:
                told.write(self)
                return
            self.send_response(told.status)
            for key, value in told.headers.items():
                self.send_header(key, value)
            self.send_header("Content-Length", str(len(told.body)))
            self.end_headers()
            self.wfile.write(told.body)

        def log_message(self, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """Clients that go away in the middle are what is tested here."""

    server = Server(("127.0.0.1", 0), Handler)
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(TLS / "certificate.pem", TLS / "key.pem")
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"{'https' if tls else 'http'}://localhost:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
