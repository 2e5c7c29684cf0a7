"""Compare and swap, replace, and number: how a single row is written.

No statement here belongs to one database: an upsert is an update that may turn out to have met no
row, and a number is taken from a counter row that the same transaction holds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Table, bindparam, insert, select, update

from middlewatch.adapters.sql import schema as t
from middlewatch.adapters.sql.codec import broken, columns
from middlewatch.ports.errors import Conflict, Refused

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


@dataclass(frozen=True, slots=True)
class Swap:
    """One row to write if its version is still ``expected`` (0: there is none)."""

    key: str
    expected: int
    values: Mapping[str, Any]


def swap(connection: Connection, table: Table, key: str, swaps: Sequence[Swap]) -> None:
    """Write each row as version + 1, many in few statements.

    Raises `Conflict` for the first that is not as expected, saying what was found instead, and
    `Refused` where one row is given twice.
    """
    if not swaps:
        return
    stored = _versions(connection, table, key, [each.key for each in swaps])
    added: list[dict[str, Any]] = []
    changed: list[dict[str, Any]] = []
    seen: set[str] = set()
    for each in swaps:
        found = stored.get(each.key)
        if (found or 0) != each.expected:
            raise Conflict(
                f"{table.name} {each.key}: "
                + (
                    f"was expected not to exist, version {found} does"
                    if each.expected == 0
                    else f"version {each.expected} was expected, "
                    + ("there is none" if found is None else f"version {found} is stored")
                )
            )
        if each.key in seen:
            raise Refused(f"{table.name} {each.key} is given twice in one change; give it once")
        seen.add(each.key)
        row = columns(table, {key: each.key, "version": each.expected + 1, **each.values})
        (added if found is None else changed).append(row)
    if added:
        if "number" in table.c:
            first = take(connection, table.name, len(added))
            for number, row in enumerate(added, first):
                row["number"] = number
        connection.execute(insert(table), added)
    if changed:
        _update(connection, table, key, changed)


def _versions(
    connection: Connection, table: Table, key: str, keys: Sequence[str]
) -> dict[str, int]:
    found: dict[str, int] = {}
    for part in in_parts(keys):
        # Locked where a database locks rows; on SQLite nobody else writes now anyway.
        query = select(table.c[key], table.c.version).where(table.c[key].in_(part))
        for row in connection.execute(query.with_for_update()):
            if not isinstance(row.version, int):
                raise broken(table, f"{key}={row[0]}", "its version is no number")
            found[row[0]] = row.version
    return found


def _update(connection: Connection, table: Table, key: str, rows: list[dict[str, Any]]) -> None:
    assigned: dict[str, Any] = {name: bindparam(f"new_{name}") for name in rows[0] if name != key}
    statement = update(table).where(table.c[key] == bindparam("this")).values(assigned)
    connection.execute(
        statement,
        [
            {"this" if name == key else f"new_{name}": value for name, value in row.items()}
            for row in rows
        ],
    )


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


def put_all(
    connection: Connection, table: Table, key: str, rows: Mapping[str, Mapping[str, Any]]
) -> None:
    """Write many rows by their keys, whatever was there, in few statements."""
    if not rows:
        return
    known = existing(connection, table, key, rows.keys())
    added: list[dict[str, Any]] = []
    changed: list[dict[str, Any]] = []
    for value, values in rows.items():
        row = columns(table, {key: value, **values})
        (changed if value in known else added).append(row)
    if added:
        connection.execute(insert(table), added)
    if changed:
        _update(connection, table, key, changed)


def existing(
    connection: Connection, table: Table, column: str, values: Collection[str]
) -> frozenset[str]:
    """Those of ``values`` that the column already holds."""
    found: set[str] = set()
    for part in in_parts(values):
        query = select(table.c[column]).where(table.c[column].in_(part))
        found.update(str(row[0]) for row in connection.execute(query))
    return frozenset(found)


def in_parts(keys: Collection[str]) -> Iterator[Sequence[str]]:
    """The keys in an order of their own, no more at a time than one IN list may hold."""
    ordered = sorted(keys)
    for start in range(0, len(ordered), _CHUNK):
        yield ordered[start : start + _CHUNK]
