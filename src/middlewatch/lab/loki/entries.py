"""Streams of entries in memory, with the rules by which Loki takes and gives them.

A stream is a set of labels. Within it an entry may be older than the newest one, but not by more
than an hour; of two entries with the same moment and the same text one is kept, and different ones
of the same moment are all kept. A range is given forward or backward, cut at a limit.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from middlewatch.lab.loki.logql import CountQuery, LogQuery

NoLabels = tuple[tuple[str, str], ...]


class Rejected(ValueError):
    """What Loki answers with 400, or with ``status``."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Limits:
    """Loki's defaults. Durations in nanoseconds, sizes in bytes."""

    entries_per_query: int = 5000
    query_length: int = 721 * 3600 * 10**9
    line_size: int = 256 * 1024
    too_far_behind: int = 3600 * 10**9
    labels: int = 15


@dataclass(slots=True)
class _Stream:
    labels: NoLabels
    entries: list[tuple[int, str, NoLabels]] = field(default_factory=list)


class Entries:
    """All tenants' streams. May be used by several threads."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.limits = limits or Limits()
        self._lock = threading.Lock()
        self._tenants: dict[str, dict[NoLabels, _Stream]] = {}
        self.version = 0
        """Grows with each push that brought something."""

    # -- taking ----------------------------------------------------------------------------------

    def push(self, tenant: str, body: Any) -> None:
        """Take what is right of a push request. Raises `Rejected` for the rest, as Loki does:
        after it has kept what it could."""
        streams = body.get("streams") if isinstance(body, dict) else None
        if not isinstance(streams, list):
            raise Rejected("loghttp.PushRequest.Streams: expected a list")
        wrong: list[str] = []
        with self._lock:
            kept = self._tenants.setdefault(tenant, {})
            for one in streams:
                wrong += self._take(kept, one)
            self.version += 1
        if wrong:
            raise Rejected("; ".join(wrong[:10]))

    def _take(self, kept: dict[NoLabels, _Stream], one: Any) -> Iterator[str]:
        labels, values = _stream_of(one)
        if not labels:
            raise Rejected("error at least one label pair is required per stream")
        if len(labels) > self.limits.labels:
            raise Rejected(f"stream has {len(labels)} label names; limit {self.limits.labels}")
        stream = kept.setdefault(labels, _Stream(labels))
        for at, line, meta in values:
            newest = stream.entries[-1][0] if stream.entries else at
            if at <= newest - self.limits.too_far_behind:
                yield f"entry too far behind, entry timestamp is: {at}, newest: {newest}"
            elif len(line.encode("utf-8", "replace")) > self.limits.line_size:
                yield f"max entry size '{self.limits.line_size}' bytes exceeded for stream"
            else:
                entry = (at, line, meta)
                place = bisect_left(stream.entries, (at,))
                same = (
                    any(other[1] == line for other in stream.entries[place:] if other[0] == at)
                    if place < len(stream.entries)
                    else False
                )
                if not same:
                    insort(stream.entries, entry)

    # -- giving ----------------------------------------------------------------------------------

    def labels(self, tenant: str) -> list[str]:
        with self._lock:
            streams = self._tenants.get(tenant, {})
            return sorted({name for labels in streams for name, _ in labels})

    def values(self, tenant: str, label: str) -> list[str]:
        with self._lock:
            streams = self._tenants.get(tenant, {})
            return sorted({value for labels in streams for name, value in labels if name == label})

    def series(self, tenant: str, queries: list[LogQuery]) -> list[dict[str, str]]:
        with self._lock:
            streams = self._tenants.get(tenant, {})
            return [
                dict(labels)
                for labels in streams
                if not queries or any(query.selects(dict(labels)) for query in queries)
            ]

    def range(
        self, tenant: str, query: LogQuery, start: int, end: int, limit: int, *, forward: bool
    ) -> list[dict[str, Any]]:
        """Entries of [start, end) as Loki's streams. Raises `Rejected`."""
        limits = self.limits
        if end <= start:
            raise Rejected("end timestamp must not be before or equal to start time")
        if end - start > limits.query_length:
            raise Rejected("the query time range exceeds the limit (query length)")
        if limit > limits.entries_per_query:
            raise Rejected(
                "max entries limit per query exceeded, limit > max_entries_limit_per_query "
                f"({limit} > {limits.entries_per_query})"
            )
        found = sorted(self._matching(tenant, query, start, end), key=lambda e: e[0])
        chosen = found[:limit] if forward else list(reversed(found))[:limit]
        streams: dict[NoLabels, list[list[str]]] = {}
        for at, line, labels in chosen:
            streams.setdefault(labels, []).append([str(at), line])
        return [{"stream": dict(labels), "values": values} for labels, values in streams.items()]

    def count(self, tenant: str, query: CountQuery, at: int) -> list[dict[str, Any]]:
        """An instant vector: counts of (at - range, at]."""
        numbers: dict[NoLabels, int] = {}
        for _, _, labels in self._matching(tenant, query.log, at - query.range_ns + 1, at + 1):
            named = dict(labels)
            group = tuple((name, named[name]) for name in query.by if name in named)
            numbers[group] = numbers.get(group, 0) + 1
        return [
            {"metric": dict(group), "value": [at / 1e9, str(number)]}
            for group, number in numbers.items()
        ]

    def _matching(
        self, tenant: str, query: LogQuery, start: int, end: int
    ) -> list[tuple[int, str, NoLabels]]:
        found = []
        with self._lock:
            for labels, stream in self._tenants.get(tenant, {}).items():
                if not query.selects(dict(labels)):
                    continue
                first = bisect_left(stream.entries, (start,))
                last = bisect_left(stream.entries, (end,))
                for at, line, meta in stream.entries[first:last]:
                    whole = tuple(sorted({**dict(labels), **dict(meta)}.items()))
                    if query.keeps(dict(whole), line):
                        found.append((at, line, whole))
        return found


def _stream_of(one: Any) -> tuple[NoLabels, list[tuple[int, str, NoLabels]]]:
    """Labels and entries of one stream of a push request. Raises `Rejected`."""
    try:
        labels = _labels(one["stream"])
        values = []
        for value in one["values"]:
            meta = _labels(value[2]) if len(value) > 2 else ()
            values.append((int(_text(value[0])), _text(value[1]), meta))
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise Rejected(f"couldn't parse push request: {error}") from error
    return labels, values


def _text(given: Any) -> str:
    if not isinstance(given, str):
        raise TypeError(f"{given!r} is no text")
    return given


def _labels(given: Mapping[str, str]) -> NoLabels:
    if not isinstance(given, dict) or not all(isinstance(v, str) for v in given.values()):
        raise TypeError("labels are an object of texts")
    return tuple(sorted(given.items()))
