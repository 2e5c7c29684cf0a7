from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from middlewatch.model.gates import Mode
from middlewatch.ports.errors import Refused, Unreachable
from middlewatch.services.gateway.access import (
    Listen,
    host_allowed,
    is_loopback,
    start_problems,
)
from tests.integration.gateway.conftest import TLS, Start

CERTIFICATE, KEY = str(TLS / "certificate.pem"), str(TLS / "key.pem")


def test_default_settings_listen_on_this_machine_alone_and_have_no_problem() -> None:
    assert Listen().host == "127.0.0.1"
    assert start_problems(Listen()) == ()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "[::1]", "localhost"])
def test_loopback_addresses_are_recognised(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "10.0.0.1", "localhost.example", "myhost", "", "127.0.0.1.example"]
)
def test_whatever_others_could_reach_is_no_loopback(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "head-node"])
def test_other_addresses_need_tls_or_the_word_that_a_proxy_does_it(host: str) -> None:
    (problem,) = start_problems(Listen(host=host))
    assert "--tls-terminated-elsewhere" in problem
    assert start_problems(Listen(host=host, tls_terminated_elsewhere=True)) == ()
    assert start_problems(Listen(host=host, tls_certificate="c", tls_key="k")) == ()


def test_certificate_and_key_are_needed_together() -> None:
    assert "tls_key is missing" in start_problems(Listen(tls_certificate="c"))[0]
    assert "tls_cert is missing" in start_problems(Listen(tls_key="k"))[0]


def test_insecure_goes_with_loopback_and_monitor_only() -> None:
    assert start_problems(Listen(insecure=True)) == ()
    (address,) = start_problems(
        Listen(insecure=True, host="10.0.0.1", tls_terminated_elsewhere=True)
    )
    assert "--insecure" in address
    (mode,) = start_problems(Listen(insecure=True, mode=Mode.ACTION))
    assert "monitor" in mode


@given(
    st.builds(
        Listen,
        host=st.sampled_from(["127.0.0.1", "0.0.0.0", "::1", "10.1.2.3", "localhost", "node7"]),
        tls_certificate=st.none() | st.just("c"),
        tls_key=st.none() | st.just("k"),
        tls_terminated_elsewhere=st.booleans(),
        insecure=st.booleans(),
        mode=st.sampled_from(Mode),
    )
)
def test_nothing_starts_that_strangers_could_use_without_a_lock(listen: Listen) -> None:
    if start_problems(listen):
        return
    reachable = not is_loopback(listen.host)
    assert not (listen.insecure and (reachable or listen.mode is Mode.ACTION))
    if reachable:
        assert listen.tls_terminated_elsewhere or (listen.tls_certificate and listen.tls_key)


@pytest.mark.parametrize(
    ("header", "allowed"),
    [
        ("127.0.0.1:8080", True),
        ("LOCALHOST", True),
        ("[::1]:8080", True),
        ("evil.example", False),
        ("evil.example:8080", False),
        ("", False),
        ("localhost.evil.example", False),
        ("10.0.0.1", False),
    ],
)
def test_only_names_of_this_machine_are_allowed_as_host(header: str, allowed: bool) -> None:
    assert host_allowed(header, "127.0.0.1") is allowed


def test_gateway_with_a_problem_does_not_start_and_says_why(start: Start, place: Path) -> None:
    with pytest.raises(Refused, match="needs TLS"):
        start(Listen(host="0.0.0.0", port=0))
    with pytest.raises(Refused, match="monitor only"):
        start(Listen(port=0, insecure=True, mode=Mode.ACTION))
    assert not (place / "api.sock").exists()


def test_port_that_is_taken_is_named(start: Start) -> None:
    first = start()
    port = int(first.url.rpartition(":")[2])
    with pytest.raises(Unreachable, match=f"port {port}"):
        start(Listen(port=port), socket=False)


def test_certificate_that_cannot_be_used_is_named(start: Start, place: Path) -> None:
    other = place / "no.pem"
    with pytest.raises(Refused, match=r"no\.pem"):
        start(Listen(port=0, tls_certificate=str(other), tls_key=KEY))
    other.write_text("nonsense")
    with pytest.raises(Refused, match=r"no\.pem"):
        start(Listen(port=0, tls_certificate=CERTIFICATE, tls_key=str(other)))


def test_address_that_is_not_ours_is_named(start: Start) -> None:
    with pytest.raises(Unreachable, match=r"192\.0\.2\.1"):
        start(Listen(host="192.0.2.1", port=0, tls_terminated_elsewhere=True))
