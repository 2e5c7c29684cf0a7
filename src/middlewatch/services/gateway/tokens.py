"""Bearer tokens: the first one, and whom a token belongs to.

The first start makes one token with every scope, shows it once and leaves it in a file that only
the service's user can read, for the command line on the same machine. The store keeps digests, so
a copy of the database opens nothing.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

from middlewatch.contract.errors import ApiError
from middlewatch.ports.clock import Clock
from middlewatch.ports.errors import Unreachable
from middlewatch.ports.store import Store, TokenRecord
from middlewatch.services.gateway.access import (
    Caller,
    Scope,
    caller_of_token,
    token_digest,
    token_text,
)

KNOWN_FOR_S = 2.0
"""How long a reading of the tokens counts, and so how late a revocation can be noticed."""
FIRST = "first"


class Keyring:
    """The tokens that the store knows, read again every few seconds. Safe between threads."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._read_at: float | None = None
        self._tokens: tuple[TokenRecord, ...] = ()

    def caller(self, header: str) -> Caller:
        """Whom an Authorization header names. Raises `ApiError`; `PortError` of the store."""
        tokens, fresh = self._known()
        try:
            return caller_of_token(header, tokens)
        except ApiError:
            if fresh:
                raise
            # It may have been made since the last reading.
            with self._lock:
                self._read_at = None
            return caller_of_token(header, self._known()[0])

    def _known(self) -> tuple[tuple[TokenRecord, ...], bool]:
        now = self._clock.monotonic()
        with self._lock:
            if self._read_at is not None and now - self._read_at < KNOWN_FOR_S:
                return self._tokens, now == self._read_at
            self._tokens = self._store.tokens()
            self._read_at = now
            return self._tokens, True


def make_token(
    store: Store, clock: Clock, name: str, scopes: tuple[Scope, ...], token_id: str | None = None
) -> str:
    """Store a new token and return its text, which nobody can read again."""
    made_id = token_id or clock.token(6)
    text = token_text(made_id, clock.token(32))
    store.add_token(
        TokenRecord(
            id=made_id,
            digest=token_digest(text),
            scopes=tuple(scope.value for scope in scopes),
            name=name,
            created_at=clock.now(),
        )
    )
    return text


def first_token(store: Store, clock: Clock, path: Path) -> str | None:
    """Make the first token if there is none; its text, or None where tokens already exist.

    The file is complete before the store knows the token: killed between the two, the next start
    makes another and replaces the file.
    """
    if store.tokens():
        return None
    token_id = clock.token(6)
    text = token_text(token_id, clock.token(32))
    write_private(path, text + "\n")
    store.add_token(
        TokenRecord(
            id=token_id,
            digest=token_digest(text),
            scopes=(Scope.ADMIN.value,),
            name=FIRST,
            created_at=clock.now(),
        )
    )
    return text


def write_private(path: Path, text: str) -> None:
    """Write a file that only its owner can read. Raises `Unreachable`."""
    temporary = path.with_name(f".{path.name}.new")
    try:
        with suppress(FileNotFoundError):
            temporary.unlink()
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise Unreachable(
            f"the token cannot be kept in {path}: {error}; its directory must exist and be "
            "writable for us"
        ) from error
