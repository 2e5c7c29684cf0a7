"""The newest lines of a log store with all their labels, whoever wrote them.

The watcher asks for one job by a label that it knows. Here it is asked what labels there are, so
that a site can be told which one to name. Nothing is read twice or lost with care: it is a sample.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from middlewatch.adapters.logstores import loki, victorialogs
from middlewatch.adapters.logstores.loki import Loki
from middlewatch.adapters.logstores.selecting import LABEL, quoted
from middlewatch.adapters.logstores.victorialogs import VictoriaLogs
from middlewatch.ports.errors import Unreadable
from middlewatch.ports.web import plain

LABELS = "/loki/api/v1/labels"
LONGEST_LIST = 1 << 20
MOST_TRIED = 8
"""Labels of Loki by which its streams are asked for."""
_OF_STREAM = re.compile(r'[{,]\s*([^=,{}"\s]+)="(?:[^"\\]|\\.)*"')
_LOKI_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")


class Entry(NamedTuple):
    """``at``: the store's time, nanoseconds since the epoch."""

    at: int
    text: bytes
    labels: Mapping[str, str]


class Recent(NamedTuple):
    """Oldest first; ``stream_labels`` are those by which streams are told apart; ``full`` says
    that there was more."""

    entries: tuple[Entry, ...]
    stream_labels: frozenset[str]
    full: bool


class Wanted(NamedTuple):
    """``match`` narrows every question; ``having`` is a label that entries must have, or empty,
    and ``value`` what it must hold, where that is given."""

    match: str = ""
    having: str = ""
    value: str = ""


def recent(store: VictoriaLogs | Loki, since: int, end: int, limit: int, wanted: Wanted) -> Recent:
    """The newest ``limit`` entries in [``since``, ``end``). Raises `Unreachable`, `Refused` or
    `Unreadable`."""
    if isinstance(store, Loki):
        return _loki(store, since, end, limit, wanted)
    return _victorialogs(store, since, end, limit, wanted)


def _victorialogs(store: VictoriaLogs, since: int, end: int, limit: int, wanted: Wanted) -> Recent:
    parts = [f"{{{wanted.match}}}"] if wanted.match else []
    if wanted.having:
        held = f"={quoted(wanted.value)}" if wanted.value else "*"
        parts.append(f"{quoted(wanted.having)}:{held}")
    form = {
        "query": f"{' '.join(parts) or '*'} | sort by (_time) desc | limit {limit}",
        "start": victorialogs.rfc3339(since),
        "end": victorialogs.rfc3339(end),
    }
    answer = store.server.ask(victorialogs.QUERY, form, victorialogs.LONGEST_ANSWER)
    entries: list[Entry] = []
    streams: set[str] = set()
    for row in victorialogs.rows(answer.data, answer.cut):
        streams.update(_OF_STREAM.findall(row.get("_stream", "")))
        at = victorialogs.nanoseconds(row.get("_time", ""))
        labels = {name: _kept(value) for name, value in row.items() if not _own(name)}
        entries.append(Entry(at, victorialogs.text_of(row), labels))
    return _sorted(entries, streams, limit, cut=answer.cut)


def _own(name: str) -> bool:
    return name in {"_time", "_msg", "_stream", "_stream_id"}


def _loki(store: Loki, since: int, end: int, limit: int, wanted: Wanted) -> Recent:
    names = _names(store, since, end)
    entries: dict[tuple[int, bytes, tuple[tuple[str, str], ...]], Entry] = {}
    cut = False
    for query in _selectors(names, wanted):
        form = {
            "query": query,
            "start": str(since),
            "end": str(end),
            "limit": str(min(limit, Loki.most)),
            "direction": "backward",
        }
        answer = store.server.ask(loki.RANGE, form, loki.LONGEST_ANSWER)
        if answer.cut:
            raise Unreadable(f"Loki sent more than {loki.LONGEST_ANSWER} bytes of {limit} lines")
        for entry in _entries(answer.data):
            entries[entry.at, entry.text, tuple(sorted(entry.labels.items()))] = entry
        cut = cut or len(entries) >= limit
        if wanted.match or wanted.having:
            break
    return _sorted(list(entries.values()), set(names), limit, cut=cut)


def _names(store: Loki, since: int, end: int) -> list[str]:
    answer = store.server.ask(LABELS, {"start": str(since), "end": str(end)}, LONGEST_LIST)
    named = loki.decoded(answer.data).get("data") or []
    if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
        raise Unreadable(f"Loki named its labels {plain(str(named)[:80])!r}")
    return sorted(name for name in named if _LOKI_NAME.match(name))


def _selectors(names: list[str], wanted: Wanted) -> Iterator[str]:
    """Loki wants one matcher at least that does not hold for what is empty."""
    matchers = [wanted.match] if wanted.match else []
    filters = ""
    if wanted.having in names:
        held = f"={quoted(wanted.value)}" if wanted.value else '=~".+"'
        matchers.insert(0, f"{wanted.having}{held}")
    elif wanted.having and LABEL.match(wanted.having):
        filters = f" | {wanted.having}" + (f"={quoted(wanted.value)}" if wanted.value else '!=""')
    if matchers:
        yield f"{{{','.join(matchers)}}}{filters}"
        return
    # The more telling names first: there may be very many, and a stream has several of them.
    told = sorted(names, key=lambda name: (not re.search("job|node|host|file", name), name))
    for name in told[:MOST_TRIED]:
        yield f'{{{name}=~".+"}}{filters}'


def _entries(data: bytes) -> Iterator[Entry]:
    for stream in loki.result(data, "streams"):
        labels = {k: _kept(v) for k, v in loki.labels_of(stream, "stream").items()}
        values = stream.get("values")
        if not isinstance(values, list):
            raise Unreadable("Loki sent a stream without values")
        for value in values:
            yield Entry(*loki.moment_and_text(value), labels)


def _kept(value: str) -> str:
    return value[:300].encode("utf-8", "replace").decode("utf-8")


def _sorted(entries: list[Entry], streams: set[str], limit: int, *, cut: bool) -> Recent:
    entries.sort(key=lambda entry: entry.at)
    newest = entries[-limit:]
    return Recent(tuple(newest), frozenset(streams), cut or len(entries) >= limit)
