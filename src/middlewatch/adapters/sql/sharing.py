"""The parts of shared work: who is a member, who has which shard, and who may write for it.

A member has one row among the leases, and to prolong it is one statement however many shards it
has: a shard's row names a holder and ends with that holder's membership. Rows of shards are written
only when they change hands.

That a shard is taken from somebody who turns out to live, because two looked at members at different
moments, costs work and nothing else: his next write names the old token and is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, Connection, and_, delete, insert, select, update

from middlewatch.adapters.sql import schema as t
from middlewatch.adapters.sql.codec import columns, micros, moment_of
from middlewatch.adapters.sql.rows import put
from middlewatch.model.change import Lease, Shard
from middlewatch.model.sharing import SHARDS, Sharing, member_name
from middlewatch.ports.errors import Conflict, Refused

REMEMBERED = timedelta(days=1)
"""How long a member that was lost is still shown."""


def sharing(connection: Connection, pool: str, now: datetime) -> Sharing:
    c = t.shards.c
    rows = connection.execute(
        select(c.shard, c.holder, c.token).where(c.pool == pool).order_by(c.shard)
    )
    shards = tuple(Shard(pool, row.shard, row.holder, row.token) for row in rows)
    return Sharing(pool, now, _members(connection, pool), shards)


def share_out(
    connection: Connection,
    pool: str,
    holder: str,
    *,
    term_s: float,
    now: datetime,
    take: Sequence[int],
    give: Sequence[int],
) -> Sharing:
    if not holder:
        raise Refused(f"a member of {pool!r} needs a name")
    _join(connection, pool, holder, now + timedelta(seconds=term_s))
    c = t.shards.c
    if give:
        ours = (c.pool == pool) & (c.holder == holder) & c.shard.in_(give)
        connection.execute(update(t.shards).where(ours).values(holder=""))
    if take:
        _make(connection, pool)
        members = Sharing(pool, now, _members(connection, pool))
        others = sorted(members.live(term_s) - {holder})
        free = (c.pool == pool) & c.shard.in_(take) & c.holder.not_in(others)
        connection.execute(update(t.shards).where(free).values(holder=holder, token=c.token + 1))
        _forget(connection, pool, now - REMEMBERED)
    return sharing(connection, pool, now)


def leave(connection: Connection, pool: str, holder: str) -> None:
    c = t.shards.c
    ours = (c.pool == pool) & (c.holder == holder)
    connection.execute(update(t.shards).where(ours).values(holder=""))
    this = t.leases.c.name == member_name(pool, holder)
    connection.execute(delete(t.leases).where(this))


def check_held(connection: Connection, shards: Sequence[Shard]) -> None:
    """Raises `Conflict` where one of them has changed hands since."""
    if not shards:
        return
    c = t.shards.c
    for pool in {shard.pool for shard in shards}:
        wanted = {shard.number: shard for shard in shards if shard.pool == pool}
        query = select(c.shard, c.holder, c.token).where(
            (c.pool == pool) & c.shard.in_(sorted(wanted))
        )
        # Held until we are done where a database locks rows: nobody takes one in the middle.
        found = {
            row.shard: (row.holder, row.token)
            for row in connection.execute(query.with_for_update(read=True))
        }
        for number, shard in wanted.items():
            if found.get(number) != (shard.holder, shard.token):
                holder, token = found.get(number, ("", 0))
                raise Conflict(
                    f"shard {number} of {pool!r} is no longer that of {shard.holder!r} with token "
                    f"{shard.token}: {holder or 'nobody'!r} has token {token}"
                )


def _join(connection: Connection, pool: str, holder: str, until: datetime) -> None:
    name = member_name(pool, holder)
    # Nobody else can have this name, so its token stays: shards are what is fought for.
    values = {"holder": holder, "token": 1, "expires_us": micros(until)}
    put(connection, t.leases, "name", name, values)


def _members(connection: Connection, pool: str) -> tuple[Lease, ...]:
    c = t.leases.c
    rows = connection.execute(select(t.leases).where(_of(pool)).order_by(c.holder))
    found = (Lease(r.name, r.holder, r.token, moment_of(r.expires_us)) for r in rows)
    # Another pool's name may begin with ours.
    return tuple(lease for lease in found if lease.name == member_name(pool, lease.holder))


def _forget(connection: Connection, pool: str, before: datetime) -> None:
    old = _of(pool) & (t.leases.c.expires_us < micros(before))
    connection.execute(delete(t.leases).where(old))


def _of(pool: str) -> ColumnElement[bool]:
    """The names ``pool/…``: ``0`` is the character behind the slash."""
    return and_(t.leases.c.name > f"{pool}/", t.leases.c.name < f"{pool}0")


def _make(connection: Connection, pool: str) -> None:
    known = select(t.shards.c.shard).where(t.shards.c.pool == pool).limit(1)
    if connection.execute(known).first() is None:
        rows = [
            columns(t.shards, {"pool": pool, "shard": number, "holder": "", "token": 0})
            for number in range(SHARDS)
        ]
        connection.execute(insert(t.shards), rows)
