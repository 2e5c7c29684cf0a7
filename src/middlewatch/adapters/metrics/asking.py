"""One question to a metrics server, whose answer is believed for its numbers and for nothing else.

The server is shared, may be slow, away or behind a proxy with opinions. A question therefore has a
deadline for its whole answer, an answer has a length, and a server that failed is left alone for a
while that grows: the watcher asks between other work and must not wait for it again and again.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING

from middlewatch.ports.clock import Clock
from middlewatch.ports.errors import PortError, Refused, Unreachable, Unreadable

if TYPE_CHECKING:
    import httpx2

LONGEST_ANSWER = 32 << 20
FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 60.0
LONGEST_WISH_S = 300.0
"""How long a server's Retry-After is obeyed at most."""
_LONGEST_COMPLAINT = 4096
_SECRET_LIMIT = 65_536
_SENTENCE = 300


@dataclass(frozen=True, slots=True)
class Access:
    """Where the server is and how to be let in. ``headers`` name the tenant. Secrets are read
    from their files at each question, so that they can be changed while we run."""

    url: str
    headers: tuple[tuple[str, str], ...] = ()
    token_file: str = ""
    username: str = ""
    password_file: str = ""
    ca_file: str = ""
    timeout_s: float = 2.0


class Server:
    """One server; for one thread."""

    def __init__(self, access: Access, clock: Clock) -> None:
        self._access = access
        self._clock = clock
        self._client: httpx2.Client | None = None
        self._rests_until = float("-inf")
        self._pause_s = 0.0
        self._trouble: PortError | None = None

    def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            client.close()

    @property
    def where(self) -> str:
        """The server for a sentence: of its URL neither user nor query."""
        import httpx2

        try:
            url = httpx2.URL(self._access.url)
        except httpx2.InvalidURL:
            return "the metrics server"
        port = f":{url.port}" if url.port else ""
        return f"the metrics server at {url.scheme}://{url.host}{port}"

    def ask(self, path: str, form: Mapping[str, str]) -> bytes:
        """The body of a good answer. Raises `Unreachable`, `Refused` or `Unreadable`; while the
        server is left alone, the `Unreachable` that was the reason for it."""
        if self._trouble is not None and self._clock.monotonic() < self._rests_until:
            raise Unreachable(str(self._trouble))
        try:
            body = self._twice(path, form)
        except Unreachable as error:
            self._pause_s = min(max(FIRST_PAUSE_S, 2 * self._pause_s), LONGEST_PAUSE_S)
            wish = error.wish_s if isinstance(error, _Patience) else 0.0
            self._rests_until = self._clock.monotonic() + max(wish, self._pause_s)
            self._trouble = error
            raise
        self._trouble, self._pause_s = None, 0.0
        return body

    def _twice(self, path: str, form: Mapping[str, str]) -> bytes:
        """A connection that was kept open may have been closed meanwhile: then once again."""
        import httpx2

        kept = self._client is not None
        try:
            try:
                return self._once(path, form)
            except (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError):
                self.close()
                if not kept:
                    raise
                return self._once(path, form)
        except httpx2.InvalidURL as error:
            raise Refused(f"{self._access.url!r} is no URL ({error}); see metrics.url") from error
        except httpx2.HTTPError as error:
            self.close()
            said = plain(str(error)) or type(error).__name__
            raise Unreachable(f"no answer from {self.where}: {said}") from error

    def _once(self, path: str, form: Mapping[str, str]) -> bytes:
        client = self._http()
        until = self._clock.monotonic() + self._access.timeout_s
        with client.stream("POST", path, data=form, headers=self._headers()) as response:
            good = response.status_code == 200
            most = LONGEST_ANSWER if good else _LONGEST_COMPLAINT
            body = bytearray()
            for piece in response.iter_bytes(65_536):
                body += piece
                if len(body) > most:
                    break
                if self._clock.monotonic() > until:
                    raise Unreachable(
                        f"{self.where} did not finish its answer in {self._access.timeout_s:g} s"
                    )
            if not good:
                raise self._complaint(response, bytes(body[:most]))
        if len(body) > LONGEST_ANSWER:
            raise Unreadable(f"{self.where} answered with more than {LONGEST_ANSWER} bytes")
        return bytes(body)

    def _complaint(self, response: httpx2.Response, body: bytes) -> PortError:
        status = response.status_code
        said = plain(body.decode("utf-8", "replace"))
        told = f"{self.where} answered {status}" + (f": {said}" if said else "")
        if status in {429, 503}:
            return _Patience(told, self._wish(response.headers.get("retry-after", "")))
        if status >= 500 or status == 408:
            return Unreachable(told)
        if status in {401, 403}:
            return Refused(f"{told} (see metrics.token_file, metrics.username, metrics.tenant)")
        if status in {400, 413, 422}:
            return Refused(f"{told} (see the queries in [metrics])")
        return Unreadable(f"{told}; does it speak Prometheus' HTTP API? (see metrics.url)")

    def _wish(self, given: str) -> float:
        """For how many seconds the server wants to be left alone: a number, or a date."""
        given = given.strip()
        try:
            if given.isascii() and given.isdigit() and len(given) < 7:
                seconds = float(given)
            else:
                seconds = (parsedate_to_datetime(given) - self._clock.now()).total_seconds()
        except (ValueError, TypeError, OverflowError):
            return 0.0
        return min(max(0.0, seconds), LONGEST_WISH_S)

    def _headers(self) -> dict[str, str]:
        access = self._access
        headers = {"Accept-Encoding": "identity", **dict(access.headers)}
        if access.token_file:
            headers["Authorization"] = f"Bearer {_secret(access.token_file)}"
        elif access.username:
            password = _secret(access.password_file) if access.password_file else ""
            pair = base64.b64encode(f"{access.username}:{password}".encode())
            headers["Authorization"] = f"Basic {pair.decode('ascii')}"
        return headers

    def _http(self) -> httpx2.Client:
        if self._client is None:
            import httpx2

            access = self._access
            verify: ssl.SSLContext | bool = access.url.startswith("https://")
            if verify and access.ca_file:
                try:
                    verify = ssl.create_default_context(cafile=access.ca_file)
                except OSError as error:
                    raise Refused(
                        f"the certificates in {access.ca_file} (metrics.ca_file) cannot be "
                        f"read: {error}"
                    ) from error
            self._client = httpx2.Client(
                base_url=access.url.rstrip("/"),
                verify=verify,
                timeout=access.timeout_s,
                # A proxy of the environment is not meant to see the site's tokens.
                trust_env=False,
                follow_redirects=False,
            )
        return self._client


class _Patience(Unreachable):
    """It is there and asks to be left alone for ``wish_s`` seconds."""

    def __init__(self, text: str, wish_s: float) -> None:
        super().__init__(text)
        self.wish_s = wish_s


def plain(text: str) -> str:
    """A stranger's words on one line of bounded length."""
    shown = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return shown if len(shown) <= _SENTENCE else f"{shown[: _SENTENCE - 1]}…"


def _secret(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            text = file.read(_SECRET_LIMIT).decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(
            f"the secret for the metrics server in {path} cannot be read: {error}"
        ) from error
    if not text or not text.isprintable():
        raise Refused(f"{path} has no secret: one line of plain text is expected")
    return text
