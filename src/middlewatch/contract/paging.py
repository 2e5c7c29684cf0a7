"""Page tokens, one kind for each way in which the API pages.

Offsets are plain decimal numbers that a client may make itself. Opaque tokens carry a position
and a digest of the filters they were made for: used with other filters they would skip or repeat
records silently, so they are refused. The digest also tells a damaged token from a good one; it
is no secret, for a position gives away nothing that the same filters would not.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass

from middlewatch.contract import choices
from middlewatch.contract.errors import invalid


def limit_of(given: int | None, default: int, most: int) -> int:
    """The page size; None takes the default. Raises `ApiError` outside 1..most."""
    if given is None:
        return default
    if not 1 <= given <= most:
        raise invalid(f"limit is {given}; give 1 to {most}, or leave it out for {default}")
    return given


def offset_of(text: str, name: str) -> int:
    """A decimal zero-based offset; empty text is the start."""
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) <= 17):
        raise invalid(
            f"{name} is {text[:60]!r}; give a decimal zero-based offset, as in nextPageToken"
        )
    offset = int(text)
    if offset > choices.OFFSET_MAX:
        raise invalid(f"{name} is {offset}; the largest offset is {choices.OFFSET_MAX}")
    return offset


def start_of(token: str, page_number: int | None, limit: int) -> int:
    """The offset from ``pageToken`` or (one-based) ``pageNumber``, which exclude each other."""
    if page_number is None:
        return offset_of(token, "pageToken")
    if token:
        raise invalid("pageToken and pageNumber exclude each other; give one of them")
    if page_number < 1:
        raise invalid(f"pageNumber is {page_number}; pages count from 1")
    return (page_number - 1) * limit


def next_offset(offset: int, limit: int, more: bool) -> str:
    """The offset of the following page, or empty text at the end."""
    return str(offset + limit) if more else ""


@dataclass(frozen=True, slots=True)
class Place:
    """A position between records: what follows it, or (``backwards``) what stands before it."""

    position: int
    backwards: bool = False


def opaque_token(kind: str, filters: tuple[object, ...], place: Place) -> str:
    """A token for one page of one query. ``kind`` keeps the tokens of two listings apart."""
    way = "b" if place.backwards else "f"
    text = f"{way}{place.position}.{_digest(kind, filters, way, place.position)}"
    return base64.urlsafe_b64encode(text.encode("ascii")).decode("ascii").rstrip("=")


def read_opaque_token(kind: str, filters: tuple[object, ...], token: str, name: str) -> Place:
    """The place that a token names. Raises `ApiError` for a damaged one, and for one that was
    made for other filters."""
    try:
        raw = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        head, _, digest = raw.decode("ascii").partition(".")
        way, position = head[:1], int(head[1:])
    except (ValueError, binascii.Error):
        raise invalid(f"{name} is no token of ours; start again without it") from None
    sound = way in {"f", "b"} and 0 <= position <= choices.OFFSET_MAX
    if not sound or digest != _digest(kind, filters, way, position):
        raise invalid(
            f"{name} belongs to a query with other filters (or is damaged); "
            "follow pages with the filters unchanged, or start again without it"
        )
    return Place(position, way == "b")


def _digest(kind: str, filters: tuple[object, ...], way: str, position: int) -> str:
    text = "\x1f".join((kind, way, str(position), *(repr(part) for part in filters)))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
