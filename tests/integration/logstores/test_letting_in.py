"""TLS with a site's own authority, and secrets from files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from middlewatch.adapters.logstores import Loki, StoreLogs, VictoriaLogs
from middlewatch.adapters.web import Access
from middlewatch.lab.loki import LokiStandIn
from middlewatch.lab.victorialogs import VictoriaLogsServer
from middlewatch.ports.scanner import Block, CannotRead
from tests.contract.logsource.conftest import require_victorialogs
from tests.contract.logsource.worlds import HandClock
from tests.webs import log_store

TLS = Path(__file__).parents[2] / "data" / "tls"
CERTIFICATE, KEY = TLS / "certificate.pem", TLS / "key.pem"


@pytest.fixture(params=["victorialogs", "loki"])
def guarded(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The address of a server that wants TLS and `alice` with the password `secret`."""
    if request.param == "victorialogs":
        require_victorialogs()
        flags = (
            "-tls",
            f"-tlsCertFile={CERTIFICATE}",
            f"-tlsKeyFile={KEY}",
            "-httpAuth.username=alice",
            "-httpAuth.password=secret",
        )
        server: VictoriaLogsServer | LokiStandIn = VictoriaLogsServer(
            tmp_path / "vl", flags, tls=True
        )
    else:
        server = LokiStandIn(certificate=CERTIFICATE, key=KEY)
        server.trouble.authorization = "Basic YWxpY2U6c2VjcmV0"
    server.start()
    yield server.url
    server.stop()


def read(url: str, request: pytest.FixtureRequest, **access: str) -> Block | CannotRead | None:
    kind = VictoriaLogs if "victorialogs" in request.node.callspec.id else Loki
    clock = HandClock()
    logs = StoreLogs(log_store(kind, Access(url, timeout_s=60.0, **access), clock), clock)
    try:
        return logs.read(logs.path("1", clock.now().timestamp() - 60), 0, None, 1 << 16)
    finally:
        logs.close()


def test_right_password_over_tls_of_an_own_authority_is_let_in(
    guarded: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    password = tmp_path / "password"
    password.write_text("secret\n")
    got = read(
        guarded,
        request,
        username="alice",
        password_file=str(password),
        ca_file=str(CERTIFICATE),
    )
    assert isinstance(got, Block), got


@pytest.mark.parametrize("given", ["wrong", "none", "no file"])
def test_whoever_is_not_let_in_is_told_which_setting_to_mend(
    guarded: str, request: pytest.FixtureRequest, tmp_path: Path, given: str
) -> None:
    password = tmp_path / "password"
    if given == "wrong":
        password.write_text("guess\n")
    who = {} if given == "none" else {"username": "alice", "password_file": str(password)}
    got = read(guarded, request, ca_file=str(CERTIFICATE), **who)
    assert isinstance(got, CannotRead)
    assert (got.word, got.away) == ("store_refused", True)
    assert "guess" not in got.reason
    assert str(password) in got.reason if given == "no file" else "logs.token_file" in got.reason


def test_certificate_that_nobody_vouches_for_is_not_trusted(
    guarded: str, request: pytest.FixtureRequest
) -> None:
    got = read(guarded, request)
    assert isinstance(got, CannotRead)
    assert "certificate" in got.reason.lower()


def test_bearer_token_is_read_anew_at_each_question(tmp_path: Path) -> None:
    server = LokiStandIn()
    server.trouble.authorization = "Bearer second"
    server.start()
    token, clock = tmp_path / "token", HandClock()
    logs = StoreLogs(
        log_store(Loki, Access(server.url, token_file=str(token), timeout_s=60.0), clock), clock
    )
    path = logs.path("1", clock.now().timestamp())
    token.write_text("first")
    refused = logs.read(path, 0, None, 1)
    token.write_text("second")
    taken = logs.read(path, 0, None, 1)
    logs.close()
    server.stop()
    assert isinstance(refused, CannotRead)
    assert isinstance(taken, Block)
