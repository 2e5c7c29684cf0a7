"""Taking the sample: from a file as the watcher opens it, from a log store, from a metrics server,
and from Slurm what its jobs and nodes are called. Only looks; nothing is written anywhere.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import pairwise

from middlewatch.model.activity import ActivityKind
from middlewatch.model.answer import Absent, Known, Unknown
from middlewatch.ports.clock import Clock
from middlewatch.ports.errors import PortError
from middlewatch.ports.scanner import Block, CannotRead, Cursor, LogSource
from middlewatch.ports.scheduler import Scheduler
from middlewatch.wiring.ingestion import sample as judged
from middlewatch.wiring.ingestion.sample import SECOND, Sample, Seen
from middlewatch.wiring.ingestion.series import Labels, Measured, MetricSample
from middlewatch.wiring.settings import LogsSettings, MetricsSettings

TAIL = 2 << 20
"""Bytes of a file's end that are looked at."""
MOST_BLOCKS = 64
POLL_S = 1.0
MOST_SERIES = 200
BACK_S = 600.0
_METRIC = re.compile(r"(?<![\w:$.\"])([A-Za-z_:][A-Za-z0-9_:]*)\s*[\[{]")


# ------------------------------------------------------------------------------------------- slurm


def known_to(scheduler: Scheduler, asked_for: str) -> judged.Known:
    """What Slurm's jobs and nodes are called, as far as it says."""
    match scheduler.listing():
        case Known(value=snapshot):
            jobs = frozenset(job.job_id for job in snapshot.jobs)
        case Unknown(why=why):
            return judged.Known(why_not=why, asked_for=asked_for)
        case _:
            return judged.Known(why_not="it lists nothing", asked_for=asked_for)
    nodes: frozenset[str] = frozenset()
    match scheduler.partitions():
        case Known(value=partitions):
            nodes = frozenset(node for partition in partitions for node in partition.nodes)
        case _:
            pass
    return judged.Known(jobs=jobs, nodes=nodes, asked_for=asked_for)


def outputs_of(scheduler: Scheduler, job: str) -> tuple[tuple[str, int], ...] | str:
    """The output files of a job, each with its owner; a sentence where they cannot be told."""
    match scheduler.listing():
        case Known(value=snapshot):
            view = snapshot.job(job)
        case Unknown(why=why):
            return f"Slurm does not list its jobs: {why}"
        case _:
            view = None
    if view is None:
        return f"Slurm does not know job {job} (any more)"
    match scheduler.detail(job):
        case Known(value=detail):
            paths = dict.fromkeys(
                path for path in (detail.stdout, detail.stderr) if path and path != "/dev/null"
            )
            return tuple((path, view.uid) for path in paths)
        case Unknown(why=why):
            return f"Slurm does not tell about job {job}: {why}"
        case Absent() | _:
            return f"Slurm does not know job {job} (any more)"


def newest_jobs(scheduler: Scheduler, most: int) -> tuple[str, ...]:
    """The newest jobs that run now."""
    match scheduler.listing():
        case Known(value=snapshot):
            running = [job for job in snapshot.jobs if job.started_at and not job.ended]
            running.sort(key=lambda job: job.submitted_at)
            return tuple(job.job_id for job in running[-most:])
        case _:
            return ()


# ------------------------------------------------------------------------------------------- files


def file_sample(logs: LogSource, path: str, uid: int, now: datetime) -> Sample | str:
    """The end of a file; a sentence where it must not or cannot be read."""
    end = logs.end(path, uid)
    if end is None:
        return f"{path}: there is no such file"
    if isinstance(end, CannotRead):
        return f"{path} {end.reason}" if path not in end.reason else end.reason
    cursor: Cursor | None = None
    inside = end.offset > TAIL
    if inside:
        cursor = replace(end, offset=end.offset - TAIL)
    data = bytearray()
    written = 0.0
    for _ in range(MOST_BLOCKS):
        block = logs.read(path, uid, cursor, TAIL, final=True)
        if not isinstance(block, Block):
            return f"{path} went away while it was read" if block is None else block.reason
        data += block.data
        written = max(written, block.modified_at)
        cursor = block.cursor
        if block.at_end or len(data) > 2 * TAIL:
            break
    lines = bytes(data).split(b"\n")
    lines = lines[1:] if inside else lines
    if lines and not lines[-1]:
        lines.pop()
    return Sample(
        lines=tuple(Seen(line) for line in lines),
        now=_nanoseconds(now),
        written=int(written * SECOND),
    )


def our_uid() -> int:
    return os.geteuid()


def owner_of(path: str) -> int:
    """Whose file it is: root looks at it with that user's rights, as the watcher would."""
    try:
        return os.stat(path, follow_symlinks=False).st_uid  # noqa: PTH116 - pathlib follows links
    except (OSError, ValueError):
        return os.geteuid()


# ------------------------------------------------------------------------------------------ stores


def store_sample(
    given: LogsSettings,
    clock: Clock,
    *,
    job: str = "",
    since_s: float,
    most: int,
    watch_s: float,
) -> Sample:
    """The newest lines of the store, and those that come while it is watched.

    Raises `Unreachable`, `Refused` or `Unreadable`.
    """
    from middlewatch.adapters.logstores import Wanted, recent
    from middlewatch.wiring.logsource import line_store

    store = line_store(given, clock)
    try:
        now = clock.now()
        since = _nanoseconds(now) - int(since_s * SECOND)

        def look(wanted: Wanted) -> tuple[tuple[Seen, ...], frozenset[str], bool]:
            # A writer's clock may be ahead.
            end = _nanoseconds(clock.now()) + 3600 * SECOND
            found = recent(store, since, end, most, wanted)
            lines = tuple(Seen(e.text, e.at, e.labels) for e in found.entries)
            return lines, found.stream_labels, found.full

        wanted = Wanted(given.match, given.job_label, job)
        lines, streams, full = look(wanted)
        beside: tuple[Seen, ...] = ()
        if not lines:
            # Not by the label that the settings name: whatever there is, to see by which.
            wanted = Wanted(given.match)
            lines, streams, full = look(wanted)
        elif not job:
            every, _, _ = look(Wanted(given.match))
            beside = tuple(line for line in every if not line.labels.get(given.job_label))
        came, watched, gone = _watched(lambda: look(wanted)[0], lines, clock, watch_s, full=full)
        return Sample(
            lines=(*lines, *came),
            stream_labels=streams,
            now=_nanoseconds(now),
            watched_s=watched,
            gone=gone,
            beside=beside,
        )
    finally:
        store.close()


def _watched(
    look: Callable[[], Sequence[Seen]],
    first: Sequence[Seen],
    clock: Clock,
    watch_s: float,
    *,
    full: bool,
) -> tuple[list[Seen], float, str]:
    """Lines that were not there at the first look, each with when it was first found; how long
    that took, and why it ended early."""
    had = {_key(line) for line in first}
    oldest = first[0].at if full and first else -1
    began = clock.monotonic()
    came: list[Seen] = []
    gone = ""
    while clock.monotonic() - began < watch_s:
        clock.sleep(POLL_S)
        try:
            lines = look()
        except PortError as error:
            gone = str(error)  # what was seen until then is judged
            break
        arrived = _nanoseconds(clock.now())
        for line in lines:
            key = _key(line)
            if key not in had and line.at > oldest:
                had.add(key)
                came.append(replace(line, arrived=arrived))
    return came, clock.monotonic() - began if watch_s else 0.0, gone


def _key(line: Seen) -> tuple[int, bytes, tuple[tuple[str, str], ...]]:
    return line.at, line.text, tuple(sorted(line.labels.items()))


def _nanoseconds(moment: datetime) -> int:
    return int(moment.timestamp() * 1_000_000) * 1000


# ----------------------------------------------------------------------------------------- metrics


def metric_sample(given: MetricsSettings, clock: Clock) -> MetricSample:
    """What is measured, by our queries and by the metrics that they are made from.

    Raises `Unreachable`, `Refused`, `Unreadable` or `BadSettings`.
    """
    from middlewatch.wiring.evidence import metrics

    source = metrics(given, clock)
    queries = source.queries
    try:
        now = clock.now()

        def seen(kind: str, key: str, label: str, query: str, ask: str) -> Measured:
            found = _METRIC.search(query)
            metric = found[1] if found else ""
            asked = source.labels(ask, now)
            raw: tuple[Labels, ...] = ()
            if metric:
                raw = source.labels(f"topk({MOST_SERIES}, {metric})", now)
            return Measured(kind, key, label, metric, asked, raw, query)

        kinds = tuple(
            seen(
                kind.value,
                f"{kind.value}_query",
                queries.label_of(kind),
                queries.activity[kind],
                queries.ask_any(kind),
            )
            for kind in ActivityKind
            if kind in queries.activity
        )
        steps = None
        if queries.step:
            steps = seen(
                "steps", "step_query", queries.job_label, queries.step, queries.ask_steps()
            )
        interval = 0.0
        for one in (*kinds, *(() if steps is None else (steps,))):
            if one.raw:
                times = source.scrapes(one.raw[0], now, BACK_S)
                gaps = [later - before for before, later in pairwise(times)]
                interval = max(interval, sorted(gaps)[len(gaps) // 2] if gaps else 0.0)
        return MetricSample(
            kinds, steps, interval, queries.window_s, node_label_set=bool(given.node_label)
        )
    finally:
        source.close()
