"""Between frozen records and rows: what is written can be read, or is refused before it is written.

A record's body is the JSON that msgspec makes of the dataclass. Decoding is strict: an enum member
that this version does not know, a missing field, a time as a number, bytes that are not UTF-8 all
make the row `Unreadable`, named by table and key; nothing is guessed. A field that a later version
added with a default is simply absent in older rows.
"""

from __future__ import annotations

import hashlib
import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, TypeVar

import msgspec
from sqlalchemy import Table

from middlewatch.ports.errors import Refused, Unreadable

R = TypeVar("R")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_LARGEST = 2**63 - 1


def micros(moment: datetime) -> int:
    """Microseconds since 1970. Raises `Refused` for a time without a zone."""
    if moment.tzinfo is None:
        raise Refused(f"a time without a zone cannot be stored: {moment!r}; give it in UTC")
    return (moment - _EPOCH) // _MICROSECOND


def micros_or_none(moment: datetime | None) -> int | None:
    return None if moment is None else micros(moment)


def moment_of(value: int) -> datetime:
    """The aware UTC time of so many microseconds since 1970."""
    return _EPOCH + value * _MICROSECOND


def digest(*parts: str) -> str:
    """A key of fixed width for texts of any length."""
    return hashlib.sha256("\x1f".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def encode(record: object) -> str:
    """The body of a record.

    Raises `Refused` for what could not be read again: a time without a zone, a half of a
    surrogate pair, a number that no database column holds.
    """
    _check_times(record, type(record).__name__)
    try:
        return msgspec.json.encode(record).decode("utf-8")
    except (UnicodeError, OverflowError, msgspec.MsgspecError, TypeError) as error:
        raise Refused(f"{type(record).__name__} cannot be stored: {error}") from error


def decode(body: object, kind: type[R], table: Table, key: object) -> R:
    """The record in a body. Raises `Unreadable`, naming table and key."""
    if not isinstance(body, str | bytes):
        raise broken(table, key, f"its body is {type(body).__name__}, not text")
    try:
        record: R = _decoders[kind].decode(body)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError) as error:
        raise broken(table, key, str(error)) from error
    try:
        _check_times(record, kind.__name__)
    except Refused as error:
        raise broken(table, key, str(error)) from error
    return record


def broken(table: Table, key: object, why: str) -> Unreadable:
    """The error for a row that cannot be understood."""
    return Unreadable(
        f"table {table.name}, row {key}: {why}. The row is damaged or was written by a newer "
        "version; restore the database from a backup or start that version"
    )


def columns(table: Table, values: Mapping[str, object]) -> dict[str, Any]:
    """``values`` for one row. Raises `Refused` for a text longer than its column or a number
    beyond 64 bits, which databases would cut, round or refuse each in its own way."""
    for name, value in values.items():
        limit = getattr(table.c[name].type, "length", None)
        if isinstance(value, str):
            if limit is not None and len(value) > limit:
                raise Refused(
                    f"{table.name}.{name} takes at most {limit} characters, "
                    f"{value[:40]!r}… has {len(value)}"
                )
            if not value.isascii():
                _check_text(value, f"{table.name}.{name}")
        elif isinstance(value, int) and not -_LARGEST <= value <= _LARGEST:
            raise Refused(f"{table.name}.{name} takes 64 bits, {value} needs more")
    return dict(values)


def _check_text(value: str, where: str) -> None:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Refused(f"{where} is not valid Unicode: {error}") from error


class _Decoders(dict[Any, msgspec.json.Decoder[Any]]):
    """One decoder for each kind of record, made at its first use."""

    def __missing__(self, kind: Any) -> msgspec.json.Decoder[Any]:
        made = self[kind] = msgspec.json.Decoder(kind, strict=True)
        return made


_decoders = _Decoders()


@cache
def _timed_fields(kind: type) -> tuple[tuple[str, bool], ...]:
    """Fields of a dataclass that hold times (True), or records that do (False)."""
    hints = typing.get_type_hints(kind)
    found: list[tuple[str, bool]] = []
    for field in fields(kind):
        for option in _options(hints[field.name]):
            if option is datetime:
                found.append((field.name, True))
            elif isinstance(option, type) and is_dataclass(option) and _timed_fields(option):
                found.append((field.name, False))
    return tuple(found)


def _options(hint: object) -> tuple[object, ...]:
    if isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union:
        return typing.get_args(hint)
    return (hint,)


def _check_times(record: object, where: str) -> None:
    kind = type(record)
    if not is_dataclass(kind):
        return
    for name, is_time in _timed_fields(kind):
        value = getattr(record, name)
        if value is None:
            continue
        if not is_time:
            _check_times(value, f"{where}.{name}")
        elif value.tzinfo is None:
            raise Refused(f"{where}.{name} has no zone: {value!r}; give it in UTC")
