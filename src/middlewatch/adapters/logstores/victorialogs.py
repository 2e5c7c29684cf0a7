"""VictoriaLogs' query API: LogsQL over HTTP, JSON lines back.

Written against the documentation and source of VictoriaLogs 1.52. Two things matter here. An
answer is sorted only if it is asked to be. And what was not UTF-8 when it was written comes back as
it was, so that an answer is bytes before it is JSON.
"""

from __future__ import annotations

import calendar
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

import msgspec

from middlewatch.adapters.logstores.lines import Line, Page, Pages, Writer
from middlewatch.adapters.logstores.place import SECOND, Place
from middlewatch.adapters.logstores.selecting import Labels, quoted, writer_of
from middlewatch.ports.errors import Unreadable
from middlewatch.ports.web import Web, plain

QUERY = "/select/logsql/query"
LONGEST_ANSWER = 16 << 20
MOST_WRITERS = 10_000
MOST_SPANS = 1000
LAST = 1 << 63
"""Nanoseconds: neither VictoriaLogs nor a position knows later times (the year 2262)."""
SPARE = 3
"""The time that is looked at for a page, by the one that it should need."""
_ROW = msgspec.json.Decoder(dict[str, str])
_TIME = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?Z\Z")


class VictoriaLogs:
    """A `LineStore`. Not to be shared between threads."""

    name = "victorialogs"
    most = 50_000

    def __init__(self, server: Web, labels: Labels | None = None) -> None:
        self._labels = labels or Labels()
        self._spans: dict[str, int] = {}
        """Nanoseconds in which a line of a place is expected, where more of it was left."""
        self.server = server

    def close(self) -> None:
        self.server.close()

    def page(self, place: Place, since: int, limit: int, writer: Writer | None = None) -> Page:
        labels = self._labels
        wanted = ", ".join(
            dict.fromkeys(("_time", "_msg", quoted(labels.node), quoted(labels.file)))
        )
        query = f"{self._filter(place, writer)} | fields {wanted} | sort by (_time) | limit {limit}"
        form = self._form(query, place, since)
        span = self._spans.pop(place.name, None)
        if span is not None:
            # In a backlog the server would sort all that is left for each page of it.
            near = since + span * limit
            if place.until is None or near < place.until:
                page = self._asked({**form, "end": rfc3339(near)}, limit)
                if page.full:
                    return self._remembered(place, since, page)
        return self._remembered(place, since, self._asked(form, limit))

    def _asked(self, form: Mapping[str, str], limit: int) -> Page:
        answer = self.server.ask(QUERY, form, LONGEST_ANSWER)
        lines = [self._line(row) for row in rows(answer.data, answer.cut)]
        return Page(lines, full=answer.cut or len(lines) >= limit)

    def _remembered(self, place: Place, since: int, page: Page) -> Page:
        """The page; where there is more, with how thickly its lines lie."""
        if page.full and page.lines and page.lines[-1].at > since:
            if len(self._spans) >= MOST_SPANS:
                self._spans.clear()
            self._spans[place.name] = SPARE * (page.lines[-1].at - since) // len(page.lines) + 1
        return page

    def counts(self, place: Place, since: int) -> Mapping[Writer, int]:
        labels = self._labels
        by = ", ".join(dict.fromkeys((quoted(labels.node), quoted(labels.file))))
        query = (
            f"{self._filter(place, None)} | stats by ({by}) count() as lines | limit {MOST_WRITERS}"
        )
        answer = self.server.ask(QUERY, self._form(query, place, since), LONGEST_ANSWER)
        found: dict[Writer, int] = {}
        for row in rows(answer.data, answer.cut):
            found[self._writer(row)] = _number(row)
        return found

    def pages(self, jobs: Sequence[str], since: int, limit: int) -> Pages:
        labels = self._labels
        wanted = ", ".join(
            dict.fromkeys(
                ("_time", "_msg", quoted(labels.job), quoted(labels.node), quoted(labels.file))
            )
        )
        query = f"{self._any_of(jobs)} | fields {wanted} | sort by (_time) | limit {limit}"
        form = {"query": query, "start": rfc3339(since), "timeout": self._patience}
        answer = self.server.ask(QUERY, form, LONGEST_ANSWER)
        found: dict[str, list[Line]] = {}
        number = 0
        for row in rows(answer.data, answer.cut):
            found.setdefault(row.get(labels.job, ""), []).append(self._line(row))
            number += 1
        return Pages(found, full=answer.cut or number >= limit)

    def counts_of(
        self, jobs: Sequence[str], since: int, until: int
    ) -> Mapping[str, Mapping[Writer, int]] | None:
        labels = self._labels
        by = ", ".join(
            dict.fromkeys((quoted(labels.job), quoted(labels.node), quoted(labels.file)))
        )
        query = f"{self._any_of(jobs)} | stats by ({by}) count() as lines | limit {MOST_WRITERS}"
        form = {
            "query": query,
            "start": rfc3339(since),
            "end": rfc3339(until),
            "timeout": self._patience,
        }
        answer = self.server.ask(QUERY, form, LONGEST_ANSWER)
        found: dict[str, dict[Writer, int]] = {}
        number = 0
        for row in rows(answer.data, answer.cut):
            found.setdefault(row.get(labels.job, ""), {})[self._writer(row)] = _number(row)
            number += 1
        return None if answer.cut or number >= MOST_WRITERS else found

    def others(
        self, job: str, nodes: Sequence[str] | None, since: int, until: int, enough: int
    ) -> int:
        labels = self._labels
        parts = [f"{{{labels.match}}}"] if labels.match else []
        parts.append(f"!{quoted(labels.job)}:={quoted(job)}")
        if nodes is not None:
            parts.append(f"{quoted(labels.node)}:in({', '.join(map(quoted, nodes))})")
        form = {
            "query": f"{' '.join(parts)} | fields _time | limit {enough}",
            "start": rfc3339(since),
            "end": rfc3339(until),
            "timeout": self._patience,
        }
        answer = self.server.ask(QUERY, form, LONGEST_ANSWER)
        return sum(1 for _ in rows(answer.data, answer.cut))

    def _any_of(self, jobs: Sequence[str]) -> str:
        labels = self._labels
        listed = ", ".join(quoted(job) for job in jobs)
        matchers = [labels.match] if labels.match else []
        if labels.job_in_stream:
            matchers.insert(0, f"{quoted(labels.job)} in ({listed})")
            return f"{{{','.join(matchers)}}}"
        stream = [f"{{{','.join(matchers)}}}"] if matchers else []
        return " ".join([*stream, f"{quoted(labels.job)}:in({listed})"])

    @property
    def _patience(self) -> str:
        return f"{self.server.timeout_s:g}s"

    def _filter(self, place: Place, writer: Writer | None) -> str:
        labels = self._labels
        matchers = [labels.match] if labels.match else []
        plain_filters = []
        if labels.job_in_stream:
            matchers.insert(0, f"{quoted(labels.job)}={quoted(place.job)}")
        else:
            plain_filters.append(f"{quoted(labels.job)}:={quoted(place.job)}")
        if writer is not None:
            plain_filters.append(f"{quoted(labels.node)}:={quoted(writer.node)}")
            if labels.file != labels.node:
                plain_filters.append(f"{quoted(labels.file)}:={quoted(writer.file)}")
        stream = [f"{{{','.join(matchers)}}}"] if matchers else []
        return " ".join([*stream, *plain_filters])

    def _form(self, query: str, place: Place, since: int) -> dict[str, str]:
        form = {"query": query, "start": rfc3339(since), "timeout": self._patience}
        if place.until is not None:
            form["end"] = rfc3339(place.until)
        return form

    def _line(self, row: Mapping[str, str]) -> Line:
        return Line(nanoseconds(row.get("_time", "")), self._writer(row), text_of(row))

    def _writer(self, row: Mapping[str, str]) -> Writer:
        return writer_of(row.get(self._labels.node, ""), row.get(self._labels.file, ""))


def _number(row: Mapping[str, str]) -> int:
    number = row.get("lines", "")
    if not (number.isascii() and number.isdigit() and len(number) < 19):
        raise Unreadable(f"VictoriaLogs counted {plain(number)!r} lines")
    return int(number)


def text_of(row: Mapping[str, str]) -> bytes:
    """A row's line, as its bytes were."""
    text = row.get("_msg", "")
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace")


def rows(data: bytes, cut: bool) -> Iterator[Mapping[str, str]]:
    """The rows of an answer; of one that was cut, the whole ones."""
    if cut:
        data = data[: data.rfind(b"\n") + 1]
        if not data:
            raise Unreadable(f"VictoriaLogs sent a single line of more than {LONGEST_ANSWER} bytes")
    for line in data.split(b"\n"):
        if not line.strip():
            continue
        try:
            yield _ROW.decode(line)
        except msgspec.MsgspecError:
            yield _odd_row(line)


def _odd_row(line: bytes) -> Mapping[str, str]:
    """A row with bytes in it that are no UTF-8."""
    try:
        row = json.loads(line.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError) as error:
        shown = plain(line[:80].decode("utf-8", "replace"))
        raise Unreadable(f"VictoriaLogs answered with {shown!r}, which is no JSON") from error
    if not isinstance(row, dict) or not all(isinstance(value, str) for value in row.values()):
        shown = plain(line[:80].decode("utf-8", "replace"))
        raise Unreadable(f"VictoriaLogs answered with {shown!r}, which is no row of texts")
    return row


@lru_cache(maxsize=4096)
def _second(text: str) -> int:
    found = _TIME.match(text)
    try:
        if found is not None:
            at = calendar.timegm(tuple(int(found[n]) for n in range(1, 7))) * SECOND
            if 0 <= at < LAST:
                return at
    except ValueError:
        pass  # the ninety-ninth month
    raise Unreadable(f"VictoriaLogs gave a line the time {plain(text)!r}")


def nanoseconds(text: str) -> int:
    """A row's time, nanoseconds since the epoch. Raises `Unreadable`."""
    whole, dot, rest = text.partition(".")
    if not dot:
        return _second(text)
    digits = rest[:-1]
    if not (rest.endswith("Z") and digits.isascii() and digits.isdigit() and len(digits) <= 9):
        raise Unreadable(f"VictoriaLogs gave a line the time {plain(text)!r}")
    return _second(f"{whole}Z") + int(digits.ljust(9, "0"))


def rfc3339(at: int) -> str:
    """Nanoseconds since the epoch as a question takes them."""
    from datetime import UTC, datetime

    whole, rest = divmod(at, SECOND)
    moment = datetime.fromtimestamp(whole, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{moment}.{rest:09d}Z"
