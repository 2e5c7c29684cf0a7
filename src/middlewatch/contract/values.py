"""Small conversions between model values and wire values that every mapping needs.

What goes out must never fail to be written: texts that came from logs may hold half a surrogate
pair, numbers read from them may be larger than the wire's. What comes in is measured here.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TypeVar

from google.protobuf.timestamp_pb2 import Timestamp

from middlewatch.contract import choices
from middlewatch.contract.errors import invalid

W = TypeVar("W", bound=StrEnum)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST = datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_INT32 = 2**31 - 1
_INT64 = 2**63 - 1


# ------------------------------------------------------------------------------------------- out


def out_text(text: str) -> str:
    """The text as UTF-8 can carry it."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def out_texts(texts: Iterable[str]) -> list[str]:
    return [out_text(text) for text in texts]


def out_int32(number: int) -> int:
    """The number, or the nearest that fits."""
    return max(-_INT32 - 1, min(_INT32, number))


def out_int64(number: int) -> int:
    return max(-_INT64 - 1, min(_INT64, number))


def out_time(target: Timestamp, moment: datetime | None) -> None:
    """Set a timestamp field; None leaves it absent."""
    if moment is not None:
        target.FromDatetime(moment)


def out_micros(moment: datetime) -> int:
    """Unix microseconds."""
    return (moment - _EPOCH) // _MICROSECOND


# -------------------------------------------------------------------------------------------- in


def in_text(text: str, name: str, most: int = choices.TEXT_MAX, *, needed: bool = False) -> str:
    """A text from a client, measured. Raises `ApiError`."""
    if needed and not text:
        raise invalid(f"{name} is missing")
    if len(text) > most:
        raise invalid(f"{name} has {len(text)} characters; at most {most} are taken")
    return text


def in_texts(texts: Iterable[str], name: str) -> tuple[str, ...]:
    """A list of non-empty texts from a client. Raises `ApiError`."""
    found = tuple(in_text(text, f"an entry of {name}", needed=True) for text in texts)
    if len(found) > choices.LIST_MAX:
        raise invalid(f"{name} has {len(found)} entries; at most {choices.LIST_MAX} are taken")
    return found


def in_time(value: Timestamp, name: str) -> datetime:
    """An aware UTC time. Raises `ApiError` for one that no calendar has."""
    try:
        return value.ToDatetime(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise invalid(f"{name} lies outside the years 1 to 9999") from None


def in_time_after_1970(value: Timestamp, name: str) -> datetime:
    """A time at which a scheduler can have been running."""
    moment = in_time(value, name)
    if moment < _EPOCH:
        raise invalid(f"{name} is {moment.isoformat()}; a time before 1970 is none of a scheduler")
    return moment


def in_micros(micros: int) -> datetime:
    """Unix microseconds as a time, held within 1970 to 9999: beyond lies no event."""
    if micros <= 0:
        return _EPOCH
    return _LATEST if micros > out_micros(_LATEST) else _EPOCH + timedelta(microseconds=micros)


def in_word(text: str, words: type[W], name: str, default: W) -> W:
    """A word of a closed list, in any case; empty takes the default. Raises `ApiError`."""
    if not text:
        return default
    found = next((word for word in words if word.value == text.casefold()), None)
    if found is None:
        known = ", ".join(word.value for word in words)
        raise invalid(f"{name} is {text[:60]!r}; it can be {known}")
    return found
