"""Asking the gateway: over the Unix socket where there is one, else over the URL with a token.

Reading commands must be quick to start, so this speaks HTTP with the standard library alone.
Where nobody answers, the failure says so and what to do.
"""

from __future__ import annotations

import http.client
import json
import os
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from middlewatch.cli.failure import Exit, Failure
from middlewatch.cli.session import Session
from middlewatch.wiring.places import SYSTEM_STATE
from middlewatch.wiring.sockets import UnixConnection

PAGE = 250
BODY_LIMIT = 64 * 1024 * 1024
Query = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Gateway:
    """One place to ask. ``socket`` or ``url``; ``token`` goes with the latter."""

    socket: Path | None
    url: str
    token: str
    timeout_s: float
    ca_file: str = ""

    @property
    def name(self) -> str:
        return str(self.socket) if self.socket else self.url

    def get(self, path: str, query: Query | None = None) -> dict[str, Any]:
        """The JSON object at ``path``. Raises Failure."""
        pairs = [
            (key, item)
            for key, value in (query or {}).items()
            if value is not None
            for item in (value if isinstance(value, list | tuple) else [value])
        ]
        text = urlencode([(key, _query_text(value)) for key, value in pairs])
        target = f"{path}?{text}" if text else path
        return self._answer("GET", target, None)

    def post(self, path: str, body: Mapping[str, object]) -> dict[str, Any]:
        """The JSON object that answers to ``body``. Raises Failure."""
        return self._answer("POST", path, json.dumps(body).encode())

    def _answer(self, verb: str, target: str, sent: bytes | None) -> dict[str, Any]:
        try:
            status, body = self._exchange(verb, target, sent)
        except (OSError, http.client.HTTPException) as error:
            raise unanswered(self.name, str(error)) from error
        return _understood(status, body, target)

    def pages(
        self, path: str, items: str, query: Query, token: str, most: int | None = None
    ) -> Iterator[dict[str, Any]]:
        """All items of a listing, page after page; ``token`` is the parameter that continues."""
        asked = dict(query)
        count = 0
        while True:
            asked["limit"] = min(PAGE, most - count) if most else PAGE
            answer = self.get(path, asked)
            for item in answer.get(items) or []:
                yield item
                count += 1
                if most and count >= most:
                    return
            follow = answer.get("nextPageToken")
            if not follow:
                return
            asked[token] = follow

    def _exchange(self, verb: str, target: str, sent: bytes | None) -> tuple[int, bytes]:
        connection = self._connection()
        headers = {"Accept": "application/json"}
        if sent is not None:
            headers["Content-Type"] = "application/json"
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        try:
            prefix = "" if self.socket else urlsplit(self.url).path.rstrip("/")
            connection.request(verb, prefix + target, body=sent, headers=headers)
            response = connection.getresponse()
            return response.status, response.read(BODY_LIMIT)
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        if self.socket is not None:
            return UnixConnection(str(self.socket), self.timeout_s)
        parts = urlsplit(self.url)
        if parts.scheme == "https":
            return http.client.HTTPSConnection(
                parts.hostname or "",
                parts.port,
                timeout=self.timeout_s,
                context=ssl.create_default_context(cafile=self.ca_file or None),
            )
        return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=self.timeout_s)


def unanswered(name: str, why: str) -> Failure:
    return Failure(
        Exit.TRY_LATER,
        f"nobody answers at {name} ({why})",
        "Start it with `middlewatch up`. If it runs elsewhere, say where: --state-dir DIR, or "
        "client.url and client.token_file in the settings.",
    )


def gateway(session: Session) -> Gateway:
    """Where this call is to ask. Raises Failure where no way is known."""
    loaded = session.loaded()
    settings = loaded.settings
    places = session.places(loaded)
    timeout = settings.client.timeout_s
    if settings.client.url:
        _checked_url(settings.client.url, loaded.origins["client.url"])
        ca_file = settings.client.ca_file
        return Gateway(None, settings.client.url, _token(session), timeout, ca_file)
    candidates = [places.socket]
    if not settings.state.directory and not settings.gateway.socket:
        candidates.append(SYSTEM_STATE / "api.sock")
    for path in candidates:
        if _is_socket(path):
            return Gateway(path, "", "", timeout)
    token = _token(session)
    if token and (url := _read(places.address)):
        return Gateway(None, url, token, timeout)
    if not settings.state.directory and _closed_to_us(SYSTEM_STATE):
        raise Failure(
            Exit.REFUSED,
            f"{SYSTEM_STATE} belongs to another user, who may run a gateway there",
            "Ask with a token: client.url and client.token_file in your settings "
            "(~/.config/middlewatch/middlewatch.toml)",
        )
    raise unanswered(str(places.socket), "no such socket")


def environment(session: Session) -> str:
    """The environment that this call is about: the one that a setting names, else that of the
    gateway that answers (its `up` may have been told by a flag), else the default."""
    loaded = session.loaded()
    named = loaded.settings.deployment.environment
    if loaded.origins["deployment.environment"] != "default":
        return named
    try:
        health = gateway(session).get("/middlewatch/v1/health")
    except Failure:
        return named
    cluster = health.get("cluster")
    served = cluster.get("environment") if isinstance(cluster, dict) else None
    return str(served or named)


def quoted(text: str) -> str:
    """One segment of a path."""
    return quote(text, safe="")


def _is_socket(path: Path) -> bool:
    try:
        return path.is_socket()
    except OSError:
        return False


def _closed_to_us(folder: Path) -> bool:
    return folder.exists() and not os.access(folder, os.X_OK)


def _checked_url(url: str, where: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise Failure(
            Exit.CONFIGURATION, f"{where}: client.url {url[:80]!r} is no http:// or https:// URL"
        )


def _token(session: Session) -> str:
    loaded = session.loaded()
    named = loaded.settings.client.token_file
    path = Path(named).expanduser() if named else session.places(loaded).token
    text = _read(path)
    if named and not text:
        raise Failure(
            Exit.CONFIGURATION,
            f"{loaded.origins['client.token_file']}: the token file {named} cannot be read",
        )
    return text


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _query_text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _understood(status: int, body: bytes, target: str) -> dict[str, Any]:
    try:
        value = json.loads(body) if body else {}
    except (ValueError, RecursionError):
        value = None
    if 200 <= status < 300 and isinstance(value, dict):
        return value
    said = ""
    if isinstance(value, dict):
        said = str(value.get("message") or value.get("error") or "")[:500]
    kinds = {
        400: (Exit.USAGE, "the gateway does not take the question"),
        401: (Exit.REFUSED, "the gateway does not know who asks"),
        403: (Exit.REFUSED, "not permitted"),
        404: (Exit.NOT_FOUND, "not found"),
        409: (Exit.CONFLICT, "conflict"),
        429: (Exit.TRY_LATER, "the gateway is busy"),
        503: (Exit.TRY_LATER, "the gateway cannot answer now"),
        504: (Exit.TRY_LATER, "the gateway cannot answer now"),
    }
    code, what = kinds.get(status, (Exit.FAILED, f"unexpected answer (HTTP {status})"))
    hint = ""
    if status in {401, 403}:
        hint = "Ask as the user who started it, or give a token: client.token_file"
    raise Failure(code, f"{what}: {said}" if said else what, hint, asked=target)
