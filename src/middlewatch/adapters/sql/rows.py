"""Compare and swap, replace, and number: how a single row is written.

No statement here belongs to one database: an upsert is an update that may turn out to have met no
row, and a number is taken from a counter row that the same transaction holds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Connection, Table, insert, select, update

from middlewatch.adapters.sql import schema as t
from middlewatch.adapters.sql.codec import broken, columns
from middlewatch.ports.errors import Conflict

_CHUNK = 400
"""Keys in one IN list: SQLite's smallest limit on parameters is 999."""


def take(connection: Connection, counter: str, count: int) -> int:
    """The first of ``count`` consecutive numbers, the next ones of that counter."""
    table = t.counters
    this = table.c.name == counter
    # The row is locked where a database locks rows: others wait for their numbers until we are done.
    row = connection.execute(select(table.c.value).where(this).with_for_update()).first()
    if row is None or not isinstance(row.value, int):
        raise broken(table, f"name={counter}", "the counter is missing or no number")
    if count:
        connection.execute(update(table).where(this).values(value=row.value + count))
    return int(row.value) + 1


def swap(
    connection: Connection,
    table: Table,
    key: str,
    value: str,
    *,
    expected: int,
    values: Mapping[str, Any],
) -> None:
    """Write a row if its version is still ``expected`` (0: there is none), as version + 1.

    Raises `Conflict` saying what was found instead.
    """
    where = table.c[key] == value
    row = columns(table, {key: value, "version": expected + 1, **values})
    if expected == 0:
        stored = connection.execute(select(table.c.version).where(where)).first()
        if stored is not None:
            raise Conflict(
                f"{table.name} {value}: was expected not to exist, version {stored.version} does"
            )
        if "number" in table.c:
            row["number"] = take(connection, table.name, 1)
        connection.execute(insert(table).values(row))
        return
    done = connection.execute(
        update(table).where(where & (table.c.version == expected)).values(row)
    )
    if done.rowcount != 1:
        stored = connection.execute(select(table.c.version).where(where)).first()
        found = "there is none" if stored is None else f"version {stored.version} is stored"
        raise Conflict(f"{table.name} {value}: version {expected} was expected, {found}")


def put(
    connection: Connection,
    table: Table,
    key: str,
    value: str,
    values: Mapping[str, Any],
    *,
    numbered: bool = False,
) -> None:
    """Write a row, whatever was there. A numbered one keeps the number it was first given."""
    row = columns(table, {key: value, **values})
    done = connection.execute(update(table).where(table.c[key] == value).values(row))
    if done.rowcount == 0:
        if numbered:
            row["number"] = take(connection, table.name, 1)
        connection.execute(insert(table).values(row))


def existing(
    connection: Connection, table: Table, column: str, values: Collection[str]
) -> frozenset[str]:
    """Those of ``values`` that the column already holds."""
    wanted = sorted(values)
    found: set[str] = set()
    for start in range(0, len(wanted), _CHUNK):
        part = wanted[start : start + _CHUNK]
        query = select(table.c[column]).where(table.c[column].in_(part))
        found.update(str(row[0]) for row in connection.execute(query))
    return frozenset(found)
