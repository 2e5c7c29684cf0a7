"""Calls of the API as methods, over the Unix socket or over TCP with a token.

Answers of reads are the JSON objects of the API as they are (docs/api.md): 64-bit numbers are
strings there, times RFC 3339. The HTTP library is imported with the first call, not before, so
that a command line that only prints its help does not wait for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import quote

from middlewatch.ports.errors import Conflict, NotFound, PortError, Refused, Unreachable, Unreadable

if TYPE_CHECKING:
    import httpx2

Value = str | int | bool | None | Sequence[str]
Answer = dict[str, Any]

_NOT_FOUND = 5
_CONFLICTS = frozenset({9, 10})
_UNREACHABLE = frozenset({4, 8, 14})


class ApiClient:
    """One gateway. Not to be shared between threads; close it, or use it as a context manager.

    Every method raises `Unreachable` where nobody answers (after a write: it may have happened),
    `NotFound`, `Conflict` and `Refused` with the gateway's own message, and `Unreadable` for an
    answer that is none of ours.
    """

    def __init__(
        self,
        *,
        socket: Path | None = None,
        url: str | None = None,
        token: str | None = None,
        ca_file: Path | None = None,
        timeout_s: float = 10.0,
    ) -> None:
        """``socket`` is the path of the Unix socket; else ``url`` (``https://host:port``) with a
        ``token``. ``ca_file`` names the certificates to trust instead of the machine's own."""
        if (socket is None) is (url is None):
            raise Refused("name either the gateway's Unix socket or its URL")
        self._socket = socket
        self._url = (url or "http://localhost").rstrip("/")
        self._token = token
        self._ca_file = ca_file
        self._timeout_s = timeout_s
        self._client: httpx2.Client | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    # ------------------------------------------------------------------------------------- reads

    def jobs(self, **filters: Value) -> Answer:
        """One page: ``jobs``, ``count``, ``nextPageToken``. Filters by their JSON names."""
        return self.call("GET", "/v1/jobs", query=filters)

    def all_jobs(self, **filters: Value) -> Iterator[Answer]:
        """Every job, page by page."""
        yield from self._pages("/v1/jobs", "jobs", "pageToken", filters)

    def job(self, name: str, *, by_uuid: bool = False) -> Answer:
        """One attempt by ``{jobId}-{attemptIndex}``, or by its UUID."""
        query: Mapping[str, Value] = {"useHeimdallId": True} if by_uuid else {}
        answer = self.call("GET", f"/v1/jobs/{_part(name)}", query=query)
        return _member(answer, "job")

    def jobs_of(self, job_id: str) -> Iterator[Answer]:
        """Every attempt under a scheduler's job number."""
        yield from self._pages(f"/v1/jobs/by-scheduler-id/{_part(job_id)}", "jobs", "page", {})

    def workflows(self) -> Iterator[Answer]:
        yield from self._pages("/v1/workflows", "workflows", "pageToken", {})

    def advice(self, *, only_active: bool = False) -> Iterator[Answer]:
        """Advice as the documented API shows it."""
        filters: Mapping[str, Value] = {"onlyActive": only_active}
        yield from self._pages("/v1/advice", "advice", "page", filters)

    def advice_records(
        self,
        *,
        only_active: bool = False,
        scheduler: str | None = None,
        environment: str | None = None,
    ) -> Iterator[Answer]:
        """Whole advice records, with gates, basis and explanation."""
        filters = {
            "onlyActive": only_active,
            "scheduler": scheduler,
            "environment": environment,
        }
        yield from self._pages("/middlewatch/v1/advice", "advice", "page", filters)

    def explanation(self, attempt: str) -> Answer:
        """Everything known of one attempt. ``attempt`` is a UUID, ``{jobId}-{attemptIndex}`` or a
        job id (its newest attempt)."""
        return self.call("GET", f"/middlewatch/v1/attempts/{_part(attempt)}/explanation")

    def signals(self, attempt: str | None = None) -> Iterator[Answer]:
        filters: Mapping[str, Value] = {"attempt": attempt}
        yield from self._pages("/middlewatch/v1/signals", "signals", "page", filters)

    def issues(self, attempt: str | None = None) -> Iterator[Answer]:
        filters: Mapping[str, Value] = {"attempt": attempt}
        yield from self._pages("/middlewatch/v1/issues", "issues", "page", filters)

    def decisions(self, attempt: str) -> tuple[Answer, ...]:
        answer = self.call("GET", "/middlewatch/v1/decisions", query={"attempt": attempt})
        return tuple(_list(answer, "decisions"))

    def leases(self) -> tuple[Answer, ...]:
        return tuple(_list(self.call("GET", "/middlewatch/v1/leases"), "leases"))

    def health(self) -> Answer:
        """Version, readiness, the loops' ages, the cluster and the mode."""
        return self.call("GET", "/middlewatch/v1/health")

    def audit(self, **query: Value) -> Iterator[Answer]:
        """Audit events of one attempt (``heimdallJobId``) or job (``jobId``), following pages."""
        cursor = ""
        while True:
            answer = self.call("GET", "/v1/audit/events", query={**query, "cursor": cursor or None})
            yield from _list(answer, "items")
            cursor = str(answer.get("cursor", {}).get("next", ""))
            if not cursor:
                return

    # ------------------------------------------------------------------------------------ writes

    def upsert_job(self, job: Mapping[str, Any]) -> Answer:
        """Create or update an attempt; the attempt as it then is."""
        return _member(self.call("POST", "/v1/jobs", body=job), "job")

    def post_signals(self, signals: Sequence[Mapping[str, Any]]) -> Answer:
        """``stored`` (keys), ``duplicates``, ``capped``, ``rejections``."""
        return self.call("POST", "/middlewatch/v1/signals", body={"signals": list(signals)})

    # -------------------------------------------------------------------------------- the plumbing

    def call(
        self,
        verb: str,
        path: str,
        *,
        query: Mapping[str, Value] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Answer:
        """One call; parameters that are None are left out."""
        import httpx2

        try:
            response = self._http().request(
                verb, path, params=_parameters(query or {}), json=body, headers=self._headers()
            )
        except httpx2.InvalidURL as error:
            raise Refused(f"{self._url} is no URL: {error}") from error
        except httpx2.HTTPError as error:
            raise Unreachable(
                f"no answer from the gateway at {self._where}: {error}; is it running?"
            ) from error
        return _answer(response, self._where)

    @property
    def _where(self) -> str:
        return str(self._socket) if self._socket is not None else self._url

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._token}"} if self._token else {}

    def _http(self) -> httpx2.Client:
        if self._client is None:
            import ssl

            import httpx2

            verify: ssl.SSLContext | bool = True
            if self._url.startswith("http://"):
                verify = False  # saves loading certificates that nothing will be checked against
            elif self._ca_file is not None:
                try:
                    verify = ssl.create_default_context(cafile=self._ca_file)
                except OSError as error:
                    raise Refused(
                        f"the certificates in {self._ca_file} cannot be read: {error}"
                    ) from error
            transport = httpx2.HTTPTransport(
                verify=verify, uds=str(self._socket) if self._socket is not None else None
            )
            self._client = httpx2.Client(
                transport=transport,
                base_url=self._url,
                timeout=self._timeout_s,
                # A proxy of the environment must not see tokens for this machine's own gateway.
                trust_env=False,
            )
        return self._client

    def _pages(
        self, path: str, name: str, token_name: str, filters: Mapping[str, Value]
    ) -> Iterator[Answer]:
        token = ""
        while True:
            answer = self.call("GET", path, query={**filters, token_name: token or None})
            yield from _list(answer, name)
            token = str(answer.get("nextPageToken", ""))
            if not token:
                return


def _parameters(query: Mapping[str, Value]) -> tuple[tuple[str, str], ...]:
    pairs: list[tuple[str, str]] = []
    for name, value in query.items():
        match value:
            case None:
                continue
            case bool():
                pairs.append((name, "true" if value else "false"))
            case str() | int():
                pairs.append((name, str(value)))
            case _:
                pairs.extend((name, each) for each in value)
    return tuple(pairs)


def _part(text: str) -> str:
    """A path part; a name with a slash in it stays one part."""
    if not text:
        raise Refused("an empty name names nothing; give a job or an attempt")
    return quote(text, safe="")


def _answer(response: httpx2.Response, where: str) -> Answer:
    try:
        value = response.json()
    except ValueError as error:
        raise Unreadable(
            f"{where} answered {response.status_code} with something that is no JSON; "
            "is this a Middlewatch gateway?"
        ) from error
    if not isinstance(value, dict):
        raise Unreadable(f"{where} answered with JSON that is no object")
    if response.status_code == 200:
        return value
    raise _error(value, response.status_code, where)


def _error(body: Answer, status: int, where: str) -> PortError:
    message = str(body.get("message") or f"{where} answered {status}")
    code = body.get("code")
    if code == _NOT_FOUND:
        return NotFound(message)
    if code in _CONFLICTS:
        return Conflict(message)
    if code in _UNREACHABLE or status in {502, 503, 504}:
        return Unreachable(message)
    return Unreadable(message) if status >= 500 else Refused(message)


def _member(answer: Answer, name: str) -> Answer:
    value = answer.get(name)
    if not isinstance(value, dict):
        raise Unreadable(f"the gateway's answer has no {name}")
    return value


def _list(answer: Answer, name: str) -> list[Answer]:
    value = answer.get(name, [])
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise Unreadable(f"{name} in the gateway's answer is no list of objects")
    return value
