"""Asking a server over HTTP, as if every answer came from somebody who means us no good.

Log stores and metrics servers are shared by many, and are restarted, overloaded and put behind
proxies. So every question has a deadline for its whole answer and not just for its next byte, every
answer a length that is not exceeded, a server that does not answer or asks for patience is left
alone for a while that grows (the watcher must not wait for it once per job), and nothing of an
answer is believed but its words.
A question that is lost is asked again at the next tick; that is all the repeating that is needed,
but for a connection that had been kept open and is found closed: then once at once.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING

from middlewatch.ports.clock import Clock
from middlewatch.ports.errors import PortError, Refused, Unreachable, Unreadable
from middlewatch.ports.web import Body, plain

if TYPE_CHECKING:
    import httpx2

FIRST_PAUSE_S = 1.0
_LONGEST_COMPLAINT = 4096
_SECRET_LIMIT = 65_536


@dataclass(frozen=True, slots=True)
class Access:
    """Where a server is and how to be let in. ``headers`` name the tenant. Files are read anew at
    each question, so that a token may be changed while we run."""

    url: str
    headers: tuple[tuple[str, str], ...] = ()
    token_file: str = ""
    username: str = ""
    password_file: str = ""
    ca_file: str = ""
    timeout_s: float = 5.0


@dataclass(frozen=True, slots=True)
class Kind:
    """What kind of server it is. ``what`` is its name in sentences, ``section`` the part of the
    settings that they lead to; ``verb`` is GET (what is asked stands in the URL) or POST (it stands
    in the body). A server that fails is left alone for ``longest_pause_s`` at most, one that asks
    for it for ``longest_wish_s``."""

    what: str
    section: str
    verb: str = "POST"
    longest_pause_s: float = 10.0
    longest_wish_s: float = 60.0


VICTORIALOGS = Kind("VictoriaLogs", "logs")
LOKI = Kind("Loki", "logs", verb="GET")
METRICS = Kind("the metrics server", "metrics", longest_pause_s=60.0, longest_wish_s=300.0)
"""Asked about silent jobs alone: there is less hurry."""


class Server:
    """The web port: one server. Not to be shared between threads."""

    def __init__(self, kind: Kind, access: Access, clock: Clock) -> None:
        self._kind = kind
        self._access = access
        self._clock = clock
        self._client: httpx2.Client | None = None
        self._away_until = float("-inf")
        self._pause_s = 0.0
        self._why = ""
        self.questions = 0
        """How many were asked so far: what the store is burdened with."""

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    @property
    def timeout_s(self) -> float:
        return self._access.timeout_s

    @property
    def where(self) -> str:
        """The server for a sentence, without what a URL may hide."""
        import httpx2

        try:
            url = httpx2.URL(self._access.url)
        except httpx2.InvalidURL:
            return self._kind.what
        port = f":{url.port}" if url.port else ""
        return f"{self._kind.what} at {url.scheme}://{url.host}{port}"

    def ask(self, path: str, form: Mapping[str, str], limit: int) -> Body:
        """The answer to a question, at most ``limit`` bytes of it. Raises `Unreachable`,
        `Refused` or `Unreadable`."""
        if self._clock.monotonic() < self._away_until:
            raise Unreachable(self._why)
        try:
            body = self._asked(path, form, limit)
        except Unreachable as error:
            self._why = str(error)
            self._pause_s = min(max(FIRST_PAUSE_S, self._pause_s * 2), self._kind.longest_pause_s)
            wish = error.after_s if isinstance(error, _Overloaded) else 0.0
            self._away_until = self._clock.monotonic() + max(self._pause_s, wish)
            raise
        self._pause_s = 0.0
        return body

    def _asked(self, path: str, form: Mapping[str, str], limit: int) -> Body:
        import httpx2

        kept = self._client is not None
        try:
            return self._once(path, form, limit)
        except httpx2.InvalidURL as error:
            raise Refused(
                f"{self._access.url!r} is no URL ({error}); see {self._kind.section}.url"
            ) from error
        except (httpx2.ConnectError, httpx2.TimeoutException) as error:
            self.close()
            raise Unreachable(f"no answer from {self.where}: {_words(error)}") from error
        except httpx2.HTTPError as error:
            self.close()
            if kept:
                return self._asked(path, form, limit)
            raise Unreachable(f"{self.where} broke off its answer: {_words(error)}") from error

    def _once(self, path: str, form: Mapping[str, str], limit: int) -> Body:
        client = self._http()
        until = self._clock.monotonic() + self._access.timeout_s
        self.questions += 1
        in_url = self._kind.verb == "GET"
        request = client.build_request(
            self._kind.verb,
            path,
            params=form if in_url else None,
            data=None if in_url else form,
            headers=self._headers(),
            timeout=self._access.timeout_s,
        )
        response = client.send(request, stream=True)
        try:
            good = response.status_code == 200
            most = limit if good else _LONGEST_COMPLAINT
            data, cut = bytearray(), False
            # As they come: pieces of a given size would be waited for, past every deadline.
            for piece in response.iter_bytes():
                data += piece
                if len(data) >= most:
                    cut = True
                    break
                if self._clock.monotonic() > until:
                    raise Unreachable(
                        f"{self.where} did not finish its answer in {self._access.timeout_s:g} s"
                    )
        finally:
            response.close()
        if not good:
            raise self._refusal(response, bytes(data))
        return Body(bytes(data[:most]), cut)

    def _refusal(self, response: httpx2.Response, data: bytes) -> PortError:
        status = response.status_code
        said = plain(data.decode("utf-8", "replace"))
        told = f"{self.where} answered {status}" + (f": {said}" if said else "")
        if status in {429, 503}:
            return _Overloaded(told, self._wish(response))
        if status >= 500 or status == 408:
            return Unreachable(told)
        section = self._kind.section
        if status in {401, 403}:
            return Refused(f"{told} (see {_keys(section)})")
        if status in {400, 413, 422}:
            return Refused(f"{told} (see [{section}])")
        return Unreadable(f"{told}; is it {self._kind.what}? (see {section}.url)")

    def _wish(self, response: httpx2.Response) -> float:
        """For how many seconds the server wants to be left alone."""
        given = response.headers.get("retry-after", "").strip()
        try:
            if given.isascii() and given.isdigit() and len(given) < 7:
                seconds = float(given)
            else:
                moment = parsedate_to_datetime(given)
                seconds = (moment - self._clock.now()).total_seconds()
        except (ValueError, TypeError, OverflowError):
            return 0.0
        return min(max(0.0, seconds), self._kind.longest_wish_s)

    def _headers(self) -> dict[str, str]:
        headers = {"Accept-Encoding": "identity", **dict(self._access.headers)}
        if self._access.token_file:
            headers["Authorization"] = f"Bearer {self._secret(self._access.token_file)}"
        elif self._access.username:
            import base64

            password = (
                self._secret(self._access.password_file) if self._access.password_file else ""
            )
            both = f"{self._access.username}:{password}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(both).decode('ascii')}"
        return headers

    def _http(self) -> httpx2.Client:
        if self._client is None:
            import httpx2

            verify: ssl.SSLContext | bool = True
            if self._access.url.startswith("http://"):
                verify = False  # nothing will be checked against certificates
            elif self._access.ca_file:
                try:
                    verify = ssl.create_default_context(cafile=self._access.ca_file)
                except OSError as error:
                    raise Refused(
                        f"the certificates in {self._access.ca_file} ({self._kind.section}.ca_file) "
                        f"cannot be read: {error}"
                    ) from error
            self._client = httpx2.Client(
                verify=verify,
                base_url=self._access.url.rstrip("/"),
                # A proxy of the environment must not see the site's logs and tokens.
                trust_env=False,
                follow_redirects=False,
            )
        return self._client

    def _secret(self, path: str) -> str:
        try:
            with Path(path).open("rb") as file:
                text = file.read(_SECRET_LIMIT).decode("ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Refused(
                f"the secret for {self._kind.what} in {path} cannot be read: {error}"
            ) from error
        if not text or not text.isprintable():
            raise Refused(
                f"{path} has no secret for {self._kind.what}: one line of plain text is expected"
            )
        return text


def _keys(section: str) -> str:
    return ", ".join(f"{section}.{key}" for key in ("token_file", "username", "tenant"))


class _Overloaded(Unreachable):
    """It answers, and asks for patience."""

    def __init__(self, text: str, after_s: float) -> None:
        super().__init__(text)
        self.after_s = after_s


def _words(error: Exception) -> str:
    return plain(str(error)) or type(error).__name__
