"""Leases, tokens and notes: the small facts that several processes share.

A lease's row outlives its holder. Its token would otherwise start again at 1 and a late writer
with an old token would pass for the present one.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import Connection, insert, select, update

from middlewatch.adapters.sql import schema as t
from middlewatch.adapters.sql.codec import columns, decode, encode, micros, moment_of
from middlewatch.adapters.sql.rows import put, take
from middlewatch.model.change import Lease, Noted
from middlewatch.ports.errors import Conflict, Refused
from middlewatch.ports.store import TokenRecord


def acquire_lease(
    connection: Connection, name: str, holder: str, ttl_s: float, now: datetime
) -> Lease | None:
    """Take, renew, or None while somebody else's stands.

    The same holder keeps its token, also when it comes back late and nobody took the lease
    meanwhile. A lease ends at ``expires_at``: at that very moment another may have it. That it was
    taken from somebody who had not given it back is remembered through every later grant.
    """
    if not holder:
        raise Refused(f"lease {name!r} needs a holder with a name")
    table = t.leases
    row = connection.execute(select(table).where(table.c.name == name)).first()
    expires = now + timedelta(seconds=ttl_s)
    taken_over_us = None if row is None else row.taken_over_us
    if row is None:
        token = 1
    elif row.holder == holder:
        token = int(row.token)
    elif row.holder and row.expires_us > micros(now):
        return None
    else:
        token = int(row.token) + 1
        taken_over_us = micros(now) if row.holder else taken_over_us
    values = columns(
        table,
        {
            "name": name,
            "holder": holder,
            "token": token,
            "expires_us": micros(expires),
            "taken_over_us": taken_over_us,
        },
    )
    if row is None:
        connection.execute(insert(table).values(values))
    else:
        unmoved = (table.c.name == name) & (table.c.token == row.token)
        unmoved &= table.c.expires_us == row.expires_us
        done = connection.execute(update(table).where(unmoved).values(values))
        if done.rowcount != 1:
            return None
    return _lease(name, holder, token, values["expires_us"], taken_over_us)


def _lease(name: str, holder: str, token: int, expires_us: int, taken_over_us: int | None) -> Lease:
    taken_over_at = None if taken_over_us is None else moment_of(taken_over_us)
    return Lease(name, holder, token, moment_of(expires_us), taken_over_at)


def release_lease(connection: Connection, lease: Lease) -> None:
    """Give it back, if it is still ours; the next holder, whoever it is, gets a new token."""
    c = t.leases.c
    ours = (c.name == lease.name) & (c.holder == lease.holder) & (c.token == lease.token)
    connection.execute(update(t.leases).where(ours).values(holder="", expires_us=0))


def leases(connection: Connection) -> tuple[Lease, ...]:
    """Those that somebody holds or has let expire, by name."""
    c = t.leases.c
    query = select(t.leases).where(c.holder != "").order_by(c.name)
    return tuple(
        _lease(row.name, row.holder, row.token, row.expires_us, row.taken_over_us)
        for row in connection.execute(query)
    )


def add_token(connection: Connection, token: TokenRecord) -> None:
    """Store a token. The same id and digest again replaces the rest, which is how one is revoked;
    a revoked one stays revoked. Another digest under that id is a `Conflict`."""
    c = t.tokens.c
    row = connection.execute(select(c.digest, c.body).where(c.id == token.id)).first()
    if row is not None:
        before = decode(row.body, TokenRecord, t.tokens, f"id={token.id}")
        if row.digest != token.digest:
            raise Conflict(f"token {token.id} already exists with another secret")
        if before.revoked and not token.revoked:
            raise Refused(f"token {token.id} was revoked and stays so; make a new one")
    values = {"digest": token.digest, "body": encode(token)}
    put(connection, t.tokens, "id", token.id, values, numbered=True)


def tokens(connection: Connection) -> tuple[TokenRecord, ...]:
    c = t.tokens.c
    rows = connection.execute(select(c.id, c.body).order_by(c.number)).all()
    return tuple(decode(row.body, TokenRecord, t.tokens, f"id={row.id}") for row in rows)


def note(connection: Connection, name: str) -> str | None:
    c = t.notes.c
    row = connection.execute(select(c.value).where(c.name == name)).first()
    return None if row is None else str(row.value)


def notes(connection: Connection, prefix: str) -> tuple[tuple[str, str], ...]:
    c = t.notes.c
    rows = connection.execute(
        select(c.name, c.value).where(c.name.startswith(prefix, autoescape=True)).order_by(c.name)
    ).all()
    return tuple((str(row.name), str(row.value)) for row in rows)


def put_notes(connection: Connection, notes: Sequence[tuple[str, str]]) -> None:
    for name, value in notes:
        put(connection, t.notes, "name", name, columns(t.notes, {"value": value}))


def replace_note(connection: Connection, noted: Noted) -> None:
    """Raises `Conflict` where something else stands there than what was read."""
    stands = note(connection, noted.name)
    if stands != noted.before:
        raise Conflict(f"the note {noted.name!r} was changed meanwhile: read it again")
    put_notes(connection, ((noted.name, noted.value),))


def beat(connection: Connection) -> None:
    """Write something small and read it again."""
    take(connection, "health", 1)
