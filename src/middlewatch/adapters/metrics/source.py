"""The metrics port over Prometheus' HTTP API: questions out, series of samples back.

Whatever is wrong with an answer makes it unknown as a whole: half of the samples could be the half
in which nothing happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from math import isfinite

import msgspec

from middlewatch.adapters.metrics.queries import Queries, node_of, selector
from middlewatch.model.activity import ActivityKind, NodeSeries
from middlewatch.model.answer import Absent, Answer, Known, Unknown
from middlewatch.ports.clock import Clock
from middlewatch.ports.errors import PortError, Unreadable
from middlewatch.ports.metrics import StepSeries
from middlewatch.ports.web import Web, plain

RANGE = "/api/v1/query_range"
INSTANT = "/api/v1/query"
MOST_POINTS = 1000
"""Prometheus gives at most 11,000 for one series."""
LEAST_STEP_S = 1.0
MOST_SERIES = 200_000
LONGEST_ANSWER = 32 << 20


class _Series(msgspec.Struct):
    metric: dict[str, str]
    values: list[tuple[float, str]] = []
    value: tuple[float, str] | None = None


class _Data(msgspec.Struct):
    resultType: str  # noqa: N815 - Prometheus' spelling
    result: list[_Series]


class _Answer(msgspec.Struct):
    status: str
    data: _Data | None = None
    error: str = ""


_DECODER = msgspec.json.Decoder(_Answer)


class PromMetrics:
    """A `Metrics`. For one thread."""

    def __init__(self, server: Web, clock: Clock, queries: Queries | None = None) -> None:
        self._queries = queries or Queries()
        self._clock = clock
        self.server = server

    @property
    def kinds(self) -> tuple[ActivityKind, ...]:
        return tuple(kind for kind in ActivityKind if kind in self._queries.activity)

    @property
    def window_s(self) -> float:
        return self._queries.window_s

    @property
    def counts_steps(self) -> bool:
        return bool(self._queries.step)

    def activity(
        self,
        kind: ActivityKind,
        nodes: Sequence[str],
        job_id: str,
        start: datetime,
        end: datetime,
    ) -> Answer[tuple[NodeSeries, ...]]:
        wanted = _by_name(nodes)
        label = self._queries.label_of(kind)
        found: dict[str, dict[float, float]] = {}
        try:
            for query in self._queries.ask(kind, nodes, job_id):
                for series in self._range(query, start, end):
                    node = node_of(series.metric.get(label, ""), wanted)
                    if node:
                        _merge(found.setdefault(node, {}), series.values)
        except PortError as error:
            return Unknown(str(error), end)
        if not found:
            return Absent(end)
        return Known(
            tuple(NodeSeries(node, tuple(sorted(found[node].items()))) for node in sorted(found)),
            end,
        )

    def measured(self, at: datetime) -> Answer[frozenset[str]]:
        names: set[str] = set()
        try:
            for kind in self.kinds:
                label = self._queries.label_of(kind)
                form = {"query": self._queries.ask_any(kind), "time": _stamp(at)}
                for series in self._asked(INSTANT, form, "vector"):
                    name = series.metric.get(label, "")
                    host, colon, port = name.rpartition(":")
                    host = host if colon and port.isdigit() else name
                    names |= {host, host.partition(".")[0]}
        except PortError as error:
            return Unknown(str(error), at)
        names.discard("")
        return Known(frozenset(names), at) if names else Absent(at)

    def steps(self, start: datetime, end: datetime) -> Answer[tuple[StepSeries, ...]]:
        label = self._queries.job_label
        found: dict[str, dict[float, float]] = {}
        try:
            for series in self._range(self._queries.ask_steps(), start, end):
                job = series.metric.get(label, "")
                if job:
                    _merge(found.setdefault(job, {}), series.values)
        except PortError as error:
            return Unknown(str(error), end)
        jobs = tuple(
            StepSeries(job, tuple(_whole(samples.items()))) for job, samples in found.items()
        )
        return Known(jobs, end) if jobs else Absent(end)

    @property
    def queries(self) -> Queries:
        return self._queries

    def labels(self, query: str, at: datetime) -> tuple[Mapping[str, str], ...]:
        """The labels of the series that a query gives: to look what is there. Raises `Unreachable`,
        `Refused` or `Unreadable`, as `scrapes` does."""
        form = {"query": query, "time": _stamp(at)}
        return tuple(series.metric for series in self._asked(INSTANT, form, "vector"))

    def scrapes(self, labels: Mapping[str, str], at: datetime, back_s: float) -> tuple[float, ...]:
        """When the series with just these labels was sampled, seconds since the epoch."""
        form = {"query": f"{selector(labels)}[{max(1, round(back_s))}s]", "time": _stamp(at)}
        found = self._asked(INSTANT, form, "matrix")
        return tuple(sorted(moment for series in found[:1] for moment, _value in series.values))

    def close(self) -> None:
        self.server.close()

    # -- one question ----------------------------------------------------------------------------

    def _range(self, query: str, start: datetime, end: datetime) -> list[_Series]:
        span = max(0.0, (end - start).total_seconds())
        step = max(LEAST_STEP_S, self._queries.window_s / 4, span / MOST_POINTS)
        # Whole steps back from the end: the newest samples are the ones that count.
        first = end - timedelta(seconds=int(span / step) * step)
        form = {
            "query": query,
            "start": _stamp(first),
            "end": _stamp(end),
            "step": f"{step:.3f}",
        }
        return self._asked(RANGE, form, "matrix")

    def _asked(self, path: str, form: Mapping[str, str], kind: str) -> list[_Series]:
        where = self.server.where
        body = self.server.ask(path, form, LONGEST_ANSWER)
        if body.cut:
            raise Unreadable(f"{where} answered with more than {LONGEST_ANSWER} bytes")
        try:
            answer = _DECODER.decode(body.data)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise Unreadable(
                f"{where} gave an answer that is none of Prometheus' ({plain(str(error))}); "
                "see metrics.url"
            ) from error
        if answer.status != "success" or answer.data is None:
            raise Unreadable(f"{where} gave no result: {plain(answer.error) or answer.status[:80]}")
        if answer.data.resultType != kind:
            given = plain(answer.data.resultType)
            raise Unreadable(
                f"{where} gave a {given} for {form['query'][:120]!r}, not a {kind}: a query in "
                "[metrics] must give one series for each node (or job)"
            )
        if len(answer.data.result) > MOST_SERIES:
            raise Unreadable(f"{where} gave more than {MOST_SERIES} series")
        return answer.data.result


def _by_name(nodes: Sequence[str]) -> dict[str, str]:
    """The nodes by their names and by those short names that only one of them has."""
    short: dict[str, list[str]] = {}
    for node in nodes:
        short.setdefault(node.partition(".")[0], []).append(node)
    found = {name: owners[0] for name, owners in short.items() if len(set(owners)) == 1}
    return found | {node: node for node in nodes}


def _merge(into: dict[float, float], values: Iterable[tuple[float, str]]) -> None:
    """Several series of one node: the one that does more counts."""
    for at, text in values:
        try:
            value = float(text)
        except ValueError:
            raise Unreadable(f"{plain(text)!r} is no value of a sample") from None
        if not isfinite(at):
            raise Unreadable("a sample has a time that is none")
        before = into.get(at)
        if before is None or not before >= value:
            into[at] = value


def _whole(samples: Iterable[tuple[float, float]]) -> Iterable[tuple[float, int]]:
    for at, value in sorted(samples):
        if isfinite(value) and 0 <= value < 1e15:
            yield at, int(value)


def _stamp(at: datetime) -> str:
    return f"{at.timestamp():.3f}"
