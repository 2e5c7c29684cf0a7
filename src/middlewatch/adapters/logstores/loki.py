"""Loki's query API: LogQL over HTTP, streams of values back.

Written against the documentation of Loki 3 and tried on a stand-in of it (``lab.loki``), not on
Loki itself. A query range is asked for forward, in pages: the live tail of that API (`/tail`) keeps
no place and drops entries for slow readers, so that it can replace no question.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from middlewatch.adapters.logstores.lines import Line, Page, Pages, Writer
from middlewatch.adapters.logstores.place import SECOND, Place
from middlewatch.adapters.logstores.selecting import Labels, quoted, writer_of
from middlewatch.ports.clock import Clock
from middlewatch.ports.errors import Unreadable
from middlewatch.ports.web import Web, plain

RANGE = "/loki/api/v1/query_range"
INSTANT = "/loki/api/v1/query"
LONGEST_ANSWER = 32 << 20
LONGEST_RANGE = 30 * 24 * 3600 * SECOND
"""Loki's own default limit is an hour more."""
AHEAD = 600 * SECOND
"""How far in the future a writer's clock may be."""


class Loki:
    """A `LineStore`. Not to be shared between threads."""

    name = "loki"
    most = 5000
    """Loki's default limit of a query's entries."""

    def __init__(self, server: Web, clock: Clock, labels: Labels | None = None) -> None:
        self._labels = labels or Labels()
        self._clock = clock
        self.server = server

    def close(self) -> None:
        self.server.close()

    def page(self, place: Place, since: int, limit: int, writer: Writer | None = None) -> Page:
        end = self._end(place, since)
        while True:
            form = {
                "query": self._selector(place, writer),
                "start": str(max(since, end - LONGEST_RANGE)),
                "end": str(end),
                "limit": str(limit),
                "direction": "forward",
            }
            answer = self.server.ask(RANGE, form, LONGEST_ANSWER)
            if not answer.cut:
                break
            if limit == 1:
                raise Unreadable(f"Loki sent a single line of more than {LONGEST_ANSWER} bytes")
            # One JSON object cannot be read in part: ask for fewer of these long lines.
            limit = max(1, limit // 8)
        lines = self._lines(result(answer.data, "streams"))
        return Page(lines, full=len(lines) >= limit)

    def counts(self, place: Place, since: int) -> Mapping[Writer, int]:
        labels = self._labels
        # Whole seconds, and a moment before: what lies at the beginning of a range is not in it.
        end = self._end(place, since)
        seconds = min(-(-(end - since) // SECOND), LONGEST_RANGE // SECOND)
        by = ", ".join(dict.fromkeys((labels.node, labels.file)))
        query = f"sum by ({by}) (count_over_time({self._selector(place, None)}[{seconds}s]))"
        form = {"query": query, "time": str(since + seconds * SECOND - 1)}
        answer = self.server.ask(INSTANT, form, LONGEST_ANSWER)
        if answer.cut:
            raise Unreadable(f"Loki counted lines in more than {LONGEST_ANSWER} bytes")
        found: dict[Writer, int] = {}
        for entry in result(answer.data, "vector"):
            named = labels_of(entry, "metric")
            writer = self._writer(named)
            found[writer] = found.get(writer, 0) + _number(entry)
        return found

    def pages(self, jobs: Sequence[str], since: int, limit: int) -> Pages:
        form = {
            "query": self._any_of(jobs),
            "start": str(since),
            "end": str(self._now() + AHEAD),
            "limit": str(limit),
            "direction": "forward",
        }
        answer = self.server.ask(RANGE, form, LONGEST_ANSWER)
        if answer.cut or self._now() + AHEAD - since > LONGEST_RANGE:
            return Pages({}, full=True)
        found: dict[str, list[Line]] = {}
        for job, line in self._named_lines(result(answer.data, "streams")):
            found.setdefault(job, []).append(line)
        return Pages(found, full=sum(map(len, found.values())) >= limit)

    def counts_of(
        self, jobs: Sequence[str], since: int, until: int
    ) -> Mapping[str, Mapping[Writer, int]] | None:
        labels = self._labels
        seconds = (until - since) // SECOND
        if not 0 < seconds <= LONGEST_RANGE // SECOND:
            return None
        by = ", ".join(dict.fromkeys((labels.job, labels.node, labels.file)))
        query = f"sum by ({by}) (count_over_time({self._any_of(jobs)}[{seconds}s]))"
        answer = self.server.ask(INSTANT, {"query": query, "time": str(until - 1)}, LONGEST_ANSWER)
        if answer.cut:
            return None
        found: dict[str, dict[Writer, int]] = {}
        for entry in result(answer.data, "vector"):
            named = labels_of(entry, "metric")
            of_job = found.setdefault(named.get(labels.job, ""), {})
            writer = self._writer(named)
            of_job[writer] = of_job.get(writer, 0) + _number(entry)
        return found

    def others(
        self, job: str, nodes: Sequence[str] | None, since: int, until: int, enough: int
    ) -> int:
        labels = self._labels
        matchers = [labels.match] if labels.match else []
        # By the node: what is no job's (the system's own log) tells of a collector, too.
        wanted = ".+" if nodes is None else "|".join(map(_literally, nodes))
        matchers.append(f"{labels.node}=~{quoted(wanted)}")
        query = f"{{{','.join(matchers)}}} | {labels.job}!={quoted(job)}"
        form = {"query": query, "start": str(since), "end": str(until), "limit": str(enough)}
        answer = self.server.ask(RANGE, form, LONGEST_ANSWER)
        if answer.cut:
            return enough
        return min(enough, len(self._lines(result(answer.data, "streams"))))

    def _any_of(self, jobs: Sequence[str]) -> str:
        labels, listed = self._labels, quoted("|".join(jobs))
        matchers = [labels.match] if labels.match else []
        if labels.job_in_stream:
            matchers.insert(0, f"{labels.job}=~{listed}")
            return f"{{{','.join(matchers)}}}"
        return f"{{{','.join(matchers)}}} | {labels.job}=~{listed}"

    def _now(self) -> int:
        return int(self._clock.now().timestamp()) * SECOND

    def _end(self, place: Place, since: int) -> int:
        until = place.until if place.until is not None else self._now() + AHEAD
        return max(until, since + SECOND)

    def _selector(self, place: Place, writer: Writer | None) -> str:
        labels = self._labels
        matchers = [labels.match] if labels.match else []
        filters = []
        if labels.job_in_stream:
            matchers.insert(0, f"{labels.job}={quoted(place.job)}")
        else:
            filters.append(f" | {labels.job}={quoted(place.job)}")
        if writer is not None:
            filters.append(f" | {labels.node}={quoted(writer.node)}")
            if labels.file != labels.node:
                filters.append(f" | {labels.file}={quoted(writer.file)}")
        return f"{{{','.join(matchers)}}}{''.join(filters)}"

    def _lines(self, streams: list[dict[str, Any]]) -> list[Line]:
        return [line for _, line in self._named_lines(streams)]

    def _named_lines(self, streams: list[dict[str, Any]]) -> list[tuple[str, Line]]:
        """All lines with their jobs, in the order of their times."""
        found: list[tuple[str, Line]] = []
        for stream in streams:
            named = labels_of(stream, "stream")
            job, writer = named.get(self._labels.job, ""), self._writer(named)
            values = stream.get("values")
            if not isinstance(values, list):
                raise Unreadable("Loki sent a stream without values")
            for value in values:
                at, raw = moment_and_text(value)
                found.append((job, Line(at, writer, raw)))
        found.sort(key=lambda entry: entry[1].at)
        return found

    def _writer(self, named: Mapping[str, str]) -> Writer:
        return writer_of(named.get(self._labels.node, ""), named.get(self._labels.file, ""))


def _number(entry: Mapping[str, Any]) -> int:
    try:
        return int(float(entry["value"][1]))
    except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
        raise Unreadable(f"Loki counted {plain(str(entry)[:80])!r}") from error


def _literally(text: str) -> str:
    """A text as a regular expression that means it, in RE2."""
    return re.sub(r"[!-,./:-@[-^`{-~]", lambda found: f"\\x{ord(found[0]):02x}", text)


def moment_and_text(value: Any) -> tuple[int, bytes]:
    """One of a stream's values: its time, nanoseconds since the epoch, and its line."""
    try:
        at, text = value[0], value[1]
        moment = int(at) if at.isascii() and at.isdigit() and len(at) < 20 else -1
        raw: bytes = text.encode("utf-8", "replace")
    except (AttributeError, IndexError, KeyError, TypeError) as error:
        raise Unreadable(f"Loki sent {plain(str(value)[:80])!r} as a line") from error
    if moment < 0:
        raise Unreadable(f"Loki gave a line the time {plain(at)!r}")
    return moment, raw


def decoded(data: bytes) -> dict[str, Any]:
    """An answer as the object that it is."""
    try:
        whole = json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        shown = plain(data[:80].decode("utf-8", "replace"))
        raise Unreadable(f"Loki answered with {shown!r}, which is no JSON") from error
    return whole if isinstance(whole, dict) else {}


def result(data: bytes, kind: str) -> list[dict[str, Any]]:
    """The entries of an answer of one kind."""
    whole = decoded(data)
    inner = whole.get("data")
    if not isinstance(inner, dict) or whole.get("status") != "success":
        raise Unreadable(f"Loki's answer has no data: {plain(str(whole)[:80])!r}")
    entries = inner.get("result")
    if inner.get("resultType") != kind or not isinstance(entries, list):
        raise Unreadable(f"Loki answered with {plain(str(inner.get('resultType')))!r}, not {kind}")
    if not all(isinstance(entry, dict) for entry in entries):
        raise Unreadable(f"Loki's {kind} hold what are none")
    return entries


def labels_of(entry: Mapping[str, Any], name: str) -> Mapping[str, str]:
    """The labels of one entry, texts all of them."""
    found = entry.get(name)
    if not isinstance(found, dict) or not all(isinstance(v, str) for v in found.values()):
        raise Unreadable(f"Loki sent an entry whose {name} are no labels")
    return found
