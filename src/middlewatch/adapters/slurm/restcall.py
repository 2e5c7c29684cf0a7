"""One request to slurmrestd and its answer, with a deadline over the whole of it."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from middlewatch.ports.errors import Unreachable, Unreadable

_LARGEST = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class RestTarget:
    """``url`` is ``http://host:port``, ``https://…`` or ``unix:/path``. ``cluster_name`` is the
    name that every job must bear. Seconds as in slurm.conf, for a slurmrestd that does not tell
    them."""

    url: str
    user: str
    token_file: str
    cluster_name: str
    begin_delay_s: float = 121.0
    message_timeout_s: float = 10.0

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> RestTarget:
        return cls(**json.loads(text))


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: the HTTP status and a JSON object."""

    status: int
    body: dict[str, Any]

    @property
    def errors(self) -> tuple[str, ...]:
        """What slurmrestd complains of, in Slurm's words where it has some. Kills and requeues
        tell it job by job, beside a status of 200."""
        found = [_words(each) for each in self.body.get("errors") or ()]
        status = self.body.get("status")
        for each in _flat(status if isinstance(status, list) else []):
            error = each.get("error")
            if isinstance(error, Mapping):
                code, words = error.get("code"), str(error.get("string") or error.get("message"))
            else:
                code, words = each.get("error_code"), str(error)
            if code:
                found.append(words)
        return tuple(found)


def send(
    target: RestTarget, verb: str, path: str, body: Mapping[str, Any] | None, deadline_s: float
) -> Answer:
    """Send it over a connection of its own; nothing is sent any more once the deadline has passed.
    Raises `Unreachable` (it may have happened) and `Unreadable`."""
    try:
        token = Path(target.token_file).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Unreachable(f"the token in {target.token_file} cannot be read: {error}") from error
    headers = {"X-SLURM-USER-NAME": target.user, "X-SLURM-USER-TOKEN": token}
    connection = _connection(target.url, deadline_s)
    # A time-out bounds each wait; an answer that comes in drops has many of them.
    over = threading.Event()
    cut = threading.Timer(deadline_s, _cut, (connection, over))
    cut.daemon = True
    cut.start()
    try:
        sent = None if body is None else json.dumps(body)
        if sent is not None:
            headers["Content-Type"] = "application/json"
        connection.connect()
        if over.is_set():
            # A name with several addresses is tried at each of them for as long; until there is a
            # socket, nobody can be cut off from it.
            raise TimeoutError("connecting took the whole of the deadline, nothing was sent")
        connection.request(verb, path, sent, headers)
        response = connection.getresponse()
        answer = json.loads(response.read(_LARGEST))
    except (OSError, http.client.HTTPException) as error:
        raise Unreachable(f"no answer from slurmrestd at {target.url}: {error}") from error
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"{target.url} answered with no JSON; is it slurmrestd?") from error
    finally:
        cut.cancel()
        connection.close()
    if not isinstance(answer, dict):
        raise Unreadable(f"{target.url} answered with JSON that is no object")
    return Answer(response.status, answer)


class UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket. ``timeout`` bounds each wait, in seconds."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _cut(connection: http.client.HTTPConnection, over: threading.Event) -> None:
    """Say that time is over, and end a connection that another thread waits on."""
    over.set()
    if connection.sock is not None:
        with contextlib.suppress(OSError):
            connection.sock.shutdown(socket.SHUT_RDWR)


def _connection(url: str, timeout_s: float) -> http.client.HTTPConnection:
    if url.startswith("unix:"):
        return UnixConnection(url.removeprefix("unix:"), timeout_s)
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    return kind(parts.hostname or "", parts.port, timeout=timeout_s)


def _words(error: object) -> str:
    if isinstance(error, Mapping):
        return str(error.get("error") or error.get("description") or error)
    return str(error)


def _flat(found: list[Any]) -> list[Mapping[str, Any]]:
    flat: list[Mapping[str, Any]] = []
    for each in found:
        if isinstance(each, list):
            flat += _flat(each)
        elif isinstance(each, Mapping):
            flat.append(each)
    return flat
