from __future__ import annotations

import os
import socket
import stat
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import structlog

from middlewatch.adapters.api.client import ApiClient
from middlewatch.adapters.sql.store import SqlStore
from middlewatch.ports.errors import Conflict, NotFound, Refused, Unreachable, Unreadable
from middlewatch.services.gateway.access import Listen, Peer, SocketOthers
from middlewatch.services.gateway.peer import peer_of
from tests.integration.gateway.conftest import TLS, Start

NOBODY = 65534


def test_first_start_makes_one_token_and_keeps_it_for_its_owner_alone(
    start: Start, place: Path, store: SqlStore
) -> None:
    gateway = start()
    path = place / "state" / "token"
    assert gateway.first_token == path.read_text().strip()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    (record,) = store.tokens()
    assert record.scopes == ("admin",)
    assert gateway.first_token not in record.digest
    with ApiClient(url=gateway.url, token=gateway.first_token) as client:
        assert client.jobs()["jobs"] == []


def test_second_start_shows_no_token_and_the_first_still_works(
    start: Start, place: Path, store: SqlStore
) -> None:
    first = start()
    token = first.first_token
    first.stop()
    again = start()
    assert again.first_token is None
    assert len(store.tokens()) == 1
    with ApiClient(url=again.url, token=token) as client:
        assert client.health()["storeHealthy"] is True


def test_stopped_gateway_answers_nobody_and_leaves_no_socket(start: Start, place: Path) -> None:
    gateway = start()
    gateway.stop()
    assert not gateway.running
    assert not (place / "api.sock").exists()
    with ApiClient(url=gateway.url) as client, pytest.raises(Unreachable, match="is it running"):
        client.health()


def test_stopping_twice_is_stopping_once(start: Start) -> None:
    gateway = start()
    gateway.stop()
    gateway.stop()
    assert not gateway.running


def test_own_user_needs_no_token_on_the_unix_socket(local: ApiClient) -> None:
    assert local.jobs()["count"] == 0
    assert local.upsert_job({"workflowId": "w", "jobId": "1"})["jobId"] == "1"


def test_kernel_names_the_peer_of_a_unix_socket() -> None:
    left, right = socket.socketpair(socket.AF_UNIX)
    with left, right:
        assert peer_of(left) == Peer(os.getpid(), os.getuid(), os.getgid())
    with socket.socket(socket.AF_INET) as other:
        assert peer_of(other) is None


def as_nobody(path: Path, request: bytes) -> bytes:
    """The answer that a process of another user gets on a Unix socket."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            with socket.socket(socket.AF_UNIX) as sock:
                sock.connect(str(path))
                sock.sendall(request)
                while chunk := sock.recv(65536):
                    os.write(writing, chunk)
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return answer


READ = b"GET /v1/jobs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
WRITE = (
    b"POST /v1/jobs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
    b"Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
)


@pytest.mark.root
def test_other_users_are_refused_on_the_socket_with_a_reason(start: Start, place: Path) -> None:
    start()
    answer = as_nobody(place / "api.sock", READ)
    assert b" 403 " in answer
    assert b"uid 65534" in answer
    assert b"socket_others" in answer


@pytest.mark.root
def test_other_users_may_read_where_the_site_says_so_and_write_nowhere(
    start: Start, place: Path
) -> None:
    start(others=SocketOthers.READ)
    assert b" 200 " in as_nobody(place / "api.sock", READ)
    assert b" 403 " in as_nobody(place / "api.sock", WRITE)


@pytest.mark.root
def test_other_users_with_a_token_may_what_the_token_may(start: Start, place: Path) -> None:
    token = start().first_token or ""
    request = READ.replace(
        b"Connection:", b"Authorization: Bearer " + token.encode() + b"\r\nConnection:"
    )
    assert b" 200 " in as_nobody(place / "api.sock", request)


def test_socket_of_a_dead_gateway_is_replaced_and_of_a_living_one_kept(
    start: Start, place: Path
) -> None:
    path = place / "api.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    start()
    with pytest.raises(Refused, match="another gateway"):
        start()
    with ApiClient(socket=path) as client:
        assert client.health()["ready"] is True


def test_file_that_is_no_socket_is_left_alone(start: Start, place: Path) -> None:
    (place / "api.sock").write_text("precious")
    with pytest.raises(Refused, match="is no socket"):
        start()
    assert (place / "api.sock").read_text() == "precious"


def test_tls_serves_those_who_trust_its_certificate(start: Start) -> None:
    gateway = start(
        Listen(
            port=0,
            tls_certificate=str(TLS / "certificate.pem"),
            tls_key=str(TLS / "key.pem"),
        )
    )
    assert gateway.url.startswith("https://")
    token = gateway.first_token
    with ApiClient(url=gateway.url, token=token, ca_file=TLS / "certificate.pem") as client:
        assert client.health()["ready"] is True
    with (
        ApiClient(url=gateway.url, token=token) as client,
        pytest.raises(Unreachable, match=r"(?i)certificate"),
    ):
        client.health()


def test_unix_socket_speaks_plainly_beside_tls(start: Start, place: Path) -> None:
    start(
        Listen(
            port=0,
            tls_certificate=str(TLS / "certificate.pem"),
            tls_key=str(TLS / "key.pem"),
        )
    )
    with ApiClient(socket=place / "api.sock") as client:
        assert client.health()["ready"] is True


def test_insecure_gateway_asks_nobody_and_says_so_loudly(start: Start, place: Path) -> None:
    with structlog.testing.capture_logs() as logs:
        gateway = start(Listen(port=0, insecure=True))
    (warning,) = [entry for entry in logs if entry["log_level"] == "warning"]
    assert "INSECURE" in warning["note"]
    assert gateway.first_token is None
    assert not (place / "state" / "token").exists()
    with ApiClient(url=gateway.url) as client:
        assert client.upsert_job({"workflowId": "w", "jobId": "1"})["jobId"] == "1"


def test_client_tells_errors_apart_by_what_can_be_done_about_them(
    start: Start, place: Path
) -> None:
    gateway = start()
    with (
        ApiClient(url=gateway.url, token="wrong") as stranger,
        pytest.raises(Refused, match="token"),
    ):
        stranger.jobs()
    with ApiClient(socket=place / "api.sock") as client:
        with pytest.raises(NotFound, match="1-0"):
            client.job("1-0")
        with pytest.raises(Refused, match="1 to 250"):
            client.jobs(limit=0)
        with pytest.raises(Unreadable, match="disabled"):
            client.call("GET", "/v1/keys")
        with pytest.raises(Refused, match="empty name"):
            client.explanation("")
    with pytest.raises(Refused, match="either"):
        ApiClient()


def test_client_of_something_that_is_no_gateway_says_so() -> None:
    import threading

    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")

        thread = threading.Thread(target=answer)
        thread.start()
        port = server.getsockname()[1]
        with (
            ApiClient(url=f"http://127.0.0.1:{port}") as client,
            pytest.raises(Unreadable, match="is this a Middlewatch gateway"),
        ):
            client.jobs()
        thread.join()


def test_client_follows_every_page(local: ApiClient) -> None:
    for number in range(7):
        local.upsert_job({"workflowId": f"w{number}", "jobId": str(number)})
    names = [job["jobId"] for job in local.all_jobs(limit=2)]
    assert names == [str(number) for number in range(7)]
    assert len(list(local.audit(jobId="3", limit=1))) == 1
    assert len(list(local.workflows())) == 7


def test_malformed_http_is_answered_and_the_gateway_lives_on(start: Start, place: Path) -> None:
    gateway = start()
    port = int(gateway.url.rpartition(":")[2])
    for junk in (b"\x00" * 100 + b"\r\n\r\n", b"GET\r\n\r\n", b"G E T / HTTP/1.1\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", port)) as sock:
            sock.sendall(junk)
            assert b" 400 " in sock.recv(65536)
    with ApiClient(socket=place / "api.sock") as client:
        assert client.health()["ready"] is True


def test_request_whose_end_is_told_in_two_ways_is_refused_and_ends_the_connection(
    start: Start,
) -> None:
    gateway = start()
    port = int(gateway.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=30) as sock:
        sock.sendall(
            b"POST /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 4\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        )
        answer = b"".join(iter(lambda: sock.recv(65536), b""))
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b" 400 " in answer


def test_connections_of_strangers_are_bounded(start: Start, place: Path) -> None:
    gateway = start(most_connections=5)
    port = int(gateway.url.rpartition(":")[2])
    with ExitStack() as open_ones:
        for _ in range(5):
            open_ones.enter_context(socket.create_connection(("127.0.0.1", port)))
        one_more = open_ones.enter_context(socket.create_connection(("127.0.0.1", port), 30))
        with suppress(ConnectionResetError):
            assert one_more.recv(1) == b""
        with ApiClient(socket=place / "api.sock") as client:
            assert client.health()["ready"] is True


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HTTP/1.1\r\nHost: local"])
def test_connection_that_brings_no_request_is_closed(start: Start, sent: bytes) -> None:
    gateway = start(head_seconds=0.2)
    port = int(gateway.url.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=30) as sock:
        sock.sendall(sent)
        assert b"".join(iter(lambda: sock.recv(65536), b"")).count(b" 200 ") == 0


def test_conflict_reaches_the_client_as_a_conflict(local: ApiClient, store: SqlStore) -> None:
    from middlewatch.adapters.api.remote import RemoteGateway
    from middlewatch.model.advice import Disposition, Reason, Status
    from middlewatch.model.change import Change
    from tests.contract.api.samples import ADVICE, ATTEMPT, CLUSTER, NOW

    store.apply(Change(attempts=(ATTEMPT,), advice=(ADVICE,)))
    remote = RemoteGateway(local)
    (advice,) = remote.active_advice(CLUSTER).advice
    stale = Status(advice.generation + 1, Disposition.CONVERGED, Reason.ALREADY_SATISFIED, NOW)
    with pytest.raises(Conflict, match="generation"):
        remote.report(ATTEMPT.id, stale)
