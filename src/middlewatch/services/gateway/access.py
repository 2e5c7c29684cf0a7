"""Who may call what, and under which settings the gateway may start at all.

All of it is decided here, without a socket: which scope a call needs, whether a caller has it,
whom a Unix socket's peer is, and whether an address, a certificate and a mode may go together. A
gateway that would listen to strangers without a lock does not start.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from middlewatch.contract.errors import ApiError, Code
from middlewatch.model.gates import Mode
from middlewatch.ports.store import TokenRecord


class Scope(StrEnum):
    READ = "read"
    INGEST = "ingest"
    """Signals, audit events, attempts."""
    CONTROLLER = "controller"
    """Reconciliation status and milestones, the audit events that go with them, and all that a
    controller elsewhere asks for."""
    ADMIN = "admin"
    """All of them."""


class SocketOthers(StrEnum):
    """What a local user who is neither root nor the service's own may do over the Unix socket."""

    NONE = "none"
    READ = "read"


@dataclass(frozen=True, slots=True)
class Peer:
    """The process at the other end of a Unix socket, as the kernel names it."""

    pid: int
    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls: a name for the trail, and what it may do."""

    name: str
    scopes: frozenset[Scope]

    def may(self, scope: Scope) -> bool:
        return Scope.ADMIN in self.scopes or scope in self.scopes


ANYBODY = Caller("insecure", frozenset({Scope.ADMIN}))
"""The caller of a gateway that was started insecure."""

NEEDED: dict[str, tuple[Scope, ...]] = {
    "heimdall.v1.HeimdallService.CreateOrUpdateJob": (Scope.INGEST,),
    "heimdall.v1.HeimdallService.UpdateAdviceReconciliationStatus": (Scope.CONTROLLER,),
    "heimdall.v1.HeimdallService.RecordRecoveryMilestone": (Scope.CONTROLLER,),
    "heimdall.v1.AuditService.CreateAuditEvents": (Scope.INGEST, Scope.CONTROLLER),
    "middlewatch.v1.MiddlewatchService.Control": (Scope.CONTROLLER,),
    "middlewatch.v1.MiddlewatchService.PostSignals": (Scope.INGEST,),
    "middlewatch.v1.MiddlewatchService.SetLimits": (Scope.ADMIN,),
}
"""Scopes of which a call needs one; a call that is not here reads."""


def check_scope(caller: Caller, rpc: str) -> None:
    """Raises `ApiError` where the caller may not make this call."""
    wanted = NEEDED.get(rpc, (Scope.READ,))
    if any(caller.may(scope) for scope in wanted):
        return
    has = ", ".join(sorted(scope.value for scope in caller.scopes)) or "none"
    needs = " or ".join(scope.value for scope in wanted)
    raise ApiError(
        Code.PERMISSION_DENIED,
        f"{caller.name} has the scopes {has}; this call needs {needs}. Use a token that has it",
    )


# --------------------------------------------------------------------------------------- callers

_BEARER = "bearer "


def token_text(token_id: str, secret: str) -> str:
    """A token as its owner carries it."""
    return f"mw_{token_id}_{secret}"


def token_digest(text: str) -> str:
    """What the store keeps of a token. Tokens are long and random, so one pass of SHA-256 is
    enough: nobody can try them all."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def caller_of_token(header: str, tokens: Iterable[TokenRecord]) -> Caller:
    """The caller that an Authorization header names. Raises `ApiError` (UNAUTHENTICATED).

    Every stored digest is compared, each in constant time, whatever the first ones gave.
    """
    if not header.lower().startswith(_BEARER):
        raise ApiError(
            Code.UNAUTHENTICATED,
            "the Authorization header is not of the form 'Bearer TOKEN'",
        )
    given = token_digest(header[len(_BEARER) :].strip())
    found: TokenRecord | None = None
    for token in tokens:
        if hmac.compare_digest(token.digest.encode(), given.encode()) and not token.revoked:
            found = token
    if found is None:
        raise ApiError(Code.UNAUTHENTICATED, "this token is not known here, or it was revoked")
    known = {scope.value for scope in Scope}
    return Caller(
        found.name or found.id, frozenset(Scope(word) for word in found.scopes if word in known)
    )


def caller_of_peer(peer: Peer, own_uid: int, others: SocketOthers) -> Caller:
    """The caller at the other end of a Unix socket. Raises `ApiError` for one who may nothing."""
    if peer.uid in {0, own_uid}:
        return Caller(f"uid:{peer.uid}", frozenset({Scope.ADMIN}))
    if others is SocketOthers.READ:
        return Caller(f"uid:{peer.uid}", frozenset({Scope.READ}))
    raise ApiError(
        Code.PERMISSION_DENIED,
        f"the user with uid {peer.uid} may not use this socket: it is for root and uid {own_uid}. "
        'Use a token, or let other users read with gateway.socket_others = "read"',
    )


def no_credentials() -> ApiError:
    return ApiError(
        Code.UNAUTHENTICATED,
        "a token is needed: send 'Authorization: Bearer TOKEN'. The first token lies in the state "
        "directory, in the file 'token'",
    )


# ---------------------------------------------------------------------------------- the listener


@dataclass(frozen=True, slots=True)
class Listen:
    """Where and how the gateway listens, as asked for."""

    host: str = "127.0.0.1"
    port: int = 8642
    grpc_port: int | None = None
    tls_certificate: str | None = None
    tls_key: str | None = None
    tls_terminated_elsewhere: bool = False
    insecure: bool = False
    mode: Mode = Mode.MONITOR


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address. A name other than ``localhost`` could be
    anything tomorrow, so it is none."""
    if host.casefold() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def start_problems(listen: Listen) -> tuple[str, ...]:
    """Why the gateway may not start like this; empty where it may."""
    found = []
    local = is_loopback(listen.host)
    if not listen.host:
        found.append("gateway.bind is empty; give an address, such as 127.0.0.1")
    for name, port in (("port", listen.port), ("grpc_port", listen.grpc_port)):
        if port is not None and not 0 <= port <= 65535:
            found.append(f"gateway.{name} is {port}; a port lies between 0 and 65535")
    if (listen.tls_certificate is None) is not (listen.tls_key is None):
        missing = "tls_key" if listen.tls_key is None else "tls_cert"
        found.append(f"TLS needs a certificate and its key; gateway.{missing} is missing")
    has_tls = listen.tls_certificate is not None and listen.tls_key is not None
    if not local and not has_tls and not listen.tls_terminated_elsewhere:
        found.append(
            f"{listen.host} can be reached from other machines and needs TLS: give --tls-cert and "
            "--tls-key, say --tls-terminated-elsewhere if a proxy does it, or listen on 127.0.0.1"
        )
    if listen.insecure and not local:
        found.append(
            f"--insecure lets everybody who can connect do everything, and {listen.host} can be "
            "reached from other machines; use 127.0.0.1 or leave --insecure out"
        )
    if listen.insecure and listen.mode is not Mode.MONITOR:
        found.append(
            f"--insecure goes with mode monitor only, not with {listen.mode.value}: anybody could "
            "make jobs be restarted"
        )
    return tuple(found)


def host_allowed(header: str, bound: str) -> bool:
    """Whether a Host header may come to a loopback address.

    A page from elsewhere can point its own name at 127.0.0.1 and talk to us through the reader's
    browser; the Host header then shows that name.
    """
    name = header.strip().casefold()
    if name.startswith("["):
        name = name[1:].partition("]")[0]
    else:
        name = name.partition(":")[0] if name.count(":") == 1 else name
    return is_loopback(name) or name == bound.casefold()
