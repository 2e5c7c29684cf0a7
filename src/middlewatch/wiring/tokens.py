"""Further API tokens: made, listed and revoked on the state directory itself.

Whoever can write the database may do anything anyway, so its rights are the permission; no running
gateway is needed, and one that runs knows a new token at once and a revoked one within seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.ports.errors import Conflict, NotFound
from middlewatch.ports.store import Store, TokenRecord
from middlewatch.services.gateway.access import Scope
from middlewatch.services.gateway.tokens import make_token, write_private
from middlewatch.wiring import places
from middlewatch.wiring.settings import Settings


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of one state directory."""

    store: Store

    def all(self) -> tuple[TokenRecord, ...]:
        """Oldest first, revoked ones too."""
        return self.store.tokens()

    def add(self, name: str, scopes: Sequence[str]) -> str:
        """Make one; its text, which cannot be read again. `Conflict` where a token of that name
        is in use."""
        if any(token.name == name and not token.revoked for token in self.all()):
            raise Conflict(
                f"a token named {name} is in use; revoke it first or choose another name"
            )
        ordered = tuple(scope for scope in Scope if scope.value in scopes)
        return make_token(self.store, SystemClock(), name, ordered)

    def revoke(self, name: str) -> TokenRecord:
        """Revoke the one with this id, or with this name and not revoked yet. `NotFound`."""
        for token in self.all():
            if token.id == name or (token.name == name and not token.revoked):
                self.store.add_token(replace(token, revoked=True))
                return replace(token, revoked=True)
        raise NotFound(f"there is no token {name}; mw token list shows those there are")


def opened(settings: Settings, environ: Mapping[str, str]) -> Tokens:
    """Those of the state directory that the settings name. Raises `NotFound` where no `up` has
    made a database there yet, and the store's errors."""
    from middlewatch.adapters.sql.store import open_store

    database = places.found(settings, environ).database
    if not database.exists():
        raise NotFound(f"there is no database {database}; the first `middlewatch up` makes it")
    return Tokens(open_store(database))


def keep(path: Path, text: str) -> None:
    """Write a token to a file that only its owner can read. Raises `Unreachable`."""
    write_private(path, text + "\n")
