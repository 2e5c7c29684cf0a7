"""Frozen records to bytes and back, for state that must survive a restart."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from middlewatch.ports.errors import Unreadable

T = TypeVar("T")


class RecordCodec(Generic[T]):
    """JSON of one record type; what an older version did not know takes its default."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind
        self._encoder = msgspec.json.Encoder()
        self._decoder = msgspec.json.Decoder(kind)

    def encode(self, record: T) -> bytes:
        return self._encoder.encode(record)

    def decode(self, data: bytes) -> T:
        """Raises `Unreadable` for bytes that are no such record."""
        try:
            return self._decoder.decode(data)
        except (msgspec.DecodeError, ValueError) as error:
            raise Unreadable(f"stored {self._kind.__name__} cannot be read: {error}") from error
