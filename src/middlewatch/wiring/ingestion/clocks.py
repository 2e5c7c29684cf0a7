"""Are lines in time: in their order, stamped when they were read, found soon after?

A store files a line under the time that the collector gave it. Where that is the time of a whole
batch, or of the shipping, or of another clock, silence and order are misjudged. The line's own
stamp is the witness; its zone is not known, so whole half hours of difference say nothing.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from math import ceil
from statistics import median

from middlewatch.detection.stamps import Stamps
from middlewatch.wiring.ingestion.sample import (
    SECOND,
    Expected,
    Finding,
    Level,
    Remedy,
    Sample,
    Seen,
)

BACK_S = 2.0
"""How far a writer's own stamps may fall back: threads and ranks overtake one another."""
LATE_S = 10.0
"""How far store time and own stamp may differ."""
AHEAD_S = 5.0
BATCH = 20
"""Lines of one writer with one and the same time that are called a batch."""
FEW = 5
ZONE_S = 1800.0
LONGEST_ZONE_S = 14 * 3600.0
Stamped = tuple[Seen, float, bool]


def clocks(sample: Sample, expected: Expected) -> Iterator[Finding]:
    """What is wrong with the times of lines, by store and by their own stamps."""
    near = datetime.fromtimestamp(sample.now / SECOND, UTC) if sample.now else None
    stamped = _stamped(sample.lines, near)
    yield from _order(sample, expected, stamped)
    if expected.source == "files":
        yield from _buffered(sample, stamped)
        return
    yield from _batches(sample, expected)
    yield from _against_stamps(stamped)
    yield from _ahead(sample)
    yield from _arrivals(sample, expected)


def _writer(line: Seen, expected: Expected) -> tuple[str, ...]:
    named = (expected.job, expected.node, expected.file)
    if expected.source == "files":
        return ()
    if not any(line.labels.get(name) for name in named):
        return tuple(sorted(line.labels.values()))
    return tuple(line.labels.get(name, "") for name in named)


def _stamped(lines: Sequence[Seen], near: datetime | None) -> list[Stamped]:
    reader = Stamps(near)
    found = []
    for line in lines:
        read = reader.read(line.text[:256].decode("latin-1"))
        if read is not None:
            found.append((line, *read))
    return found


def _order(sample: Sample, expected: Expected, stamped: Sequence[Stamped]) -> Iterator[Finding]:
    check = "order"
    last: dict[tuple[tuple[str, ...], bool], float] = {}
    back: list[float] = []
    for line, own, zoned in stamped:
        key = _writer(line, expected), zoned
        newest = last.get(key, own)
        # A zone away is another clock in one log, as a program's beside Slurm's.
        if BACK_S < newest - own < ZONE_S / 2:
            back.append(newest - own)
        last[key] = max(newest, own) if abs(newest - own) < ZONE_S / 2 else own
    if len(stamped) < FEW:
        few = f"only {len(stamped)} of {len(sample.lines)} lines carry a time of their own"
        yield Finding(check, Level.INFO, f"{few}: their order cannot be tested")
    elif back:
        where = "the file" if expected.source == "files" else "the store"
        yield Finding(
            check,
            Level.WARN if len(back) > max(1, len(stamped) // 100) else Level.INFO,
            f"{len(back)} of {len(stamped)} lines stand behind later ones of the same writer in "
            f"{where}: their own stamps fall back by up to {max(back):.0f} s",
            ""
            if expected.source == "files"
            else "let the collector give each line the time at which it was read or written, keep "
            "one sender per file, and let node and file labels tell writers apart",
        )
    else:
        yield Finding(check, Level.OK, f"{len(stamped)} stamped lines stand in their order")


def _buffered(sample: Sample, stamped: Sequence[Stamped]) -> Iterator[Finding]:
    """A program that keeps its output back looks silent."""
    if not (sample.written and stamped and stamped[-1][0] is sample.lines[-1]):
        return
    held = _apart(sample.written / SECOND, stamped[-1][1], zoned=stamped[-1][2])
    if held > LATE_S:
        yield Finding(
            "times",
            Level.WARN,
            f"the newest line says it is {held:.0f} s older than the file's last change: output is "
            "kept back in a buffer, or the clocks differ",
            "let jobs set PYTHONUNBUFFERED=1, or start them with srun --unbuffered",
        )


def _apart(store_s: float, own_s: float, *, zoned: bool) -> float:
    """How much later the store's time is; whole half hours are a zone where none is named."""
    off = store_s - own_s
    whole = round(off / ZONE_S) * ZONE_S
    return off if zoned or abs(whole) > LONGEST_ZONE_S else off - whole


def _batches(sample: Sample, expected: Expected) -> Iterator[Finding]:
    times: Counter[tuple[tuple[str, ...], int]] = Counter(
        (_writer(line, expected), line.at) for line in sample.lines
    )
    most = max(times.values(), default=0)
    if most >= BATCH:
        yield Finding(
            "times",
            Level.WARN,
            f"{most} lines of one writer have one and the same time to the nanosecond",
            "let the collector give each line its own time, not one to a whole batch; Loki keeps "
            "one of several equal lines of a moment",
        )


def _against_stamps(stamped: Sequence[Stamped]) -> Iterator[Finding]:
    apart = [_apart(line.at / SECOND, own, zoned=zoned) for line, own, zoned in stamped]
    if len(apart) < FEW:
        return
    late = [off for off in apart if abs(off) > LATE_S]
    middle = median(apart)
    if len(late) > max(1, len(apart) // 50):
        always = len(late) > len(apart) * 0.9 and max(late) - min(late) < LATE_S
        yield Finding(
            "times",
            Level.WARN,
            f"{len(late)} of {len(apart)} lines have a time in the store that differs from their "
            f"own stamp by more than {LATE_S:.0f} s (by {_widest(late):+.0f} s at most, "
            f"{middle:+.1f} s in the middle; whole half hours are taken for a zone)",
            "the clocks of nodes and collector differ (let NTP run on both), or all lines are stamped "
            "late by the same time"
            if always
            else "lines reach the collector late, or it stamps them when they are shipped: let it "
            "use the time at which a line was read, and look why it lags (rate limits, backlog)",
        )
    else:
        yield Finding(
            "times", Level.OK, f"store times and lines' own stamps are {middle:+.1f} s apart"
        )


def _widest(values: Sequence[float]) -> float:
    return max(values, key=abs)


def _ahead(sample: Sample) -> Iterator[Finding]:
    ahead = [(line.at - sample.now) / SECOND for line in sample.lines if sample.now]
    worst = max(ahead, default=0.0)
    # Lines that came while we watched are newer than the first look.
    if worst > AHEAD_S + sample.watched_s:
        yield Finding(
            "times",
            Level.WARN,
            f"lines are dated up to {worst:.0f} s in the future",
            "the clock of a node or of this machine is wrong: let NTP run on both",
        )


def _arrivals(sample: Sample, expected: Expected) -> Iterator[Finding]:
    check = "delay"
    came = [line for line in sample.lines if line.arrived]
    if not sample.watched_s:
        return
    if sample.gone:
        yield Finding(
            check,
            Level.WARN,
            f"the watching ended after {sample.watched_s:.0f} s: {sample.gone}",
            "see that the server stays up, then check again",
        )
        return
    if not came:
        yield Finding(
            check,
            Level.INFO,
            f"no line came in the {sample.watched_s:.0f} s in which it was watched for",
            "run it while a job prints, or longer (--watch), to see how late lines are found",
        )
        return
    delays = sorted(max(0.0, (line.arrived - line.at) / SECOND) for line in came)
    usual, most = median(delays), delays[-1]
    if most > expected.delay_s:
        yield Finding(
            check,
            Level.WARN,
            f"of {len(came)} new lines the slowest was found {most:.1f} s after its time "
            f"(usually {usual:.1f} s); logs.delay allows {expected.delay_s:g} s",
            "set delay, or let the collector ship more often; a job's last lines are waited for "
            "no longer than that",
            (Remedy("logs", "delay", float(ceil(most * 1.5) + 1)),) if most < 600 else (),
        )
    else:
        yield Finding(
            check, Level.OK, f"{len(came)} new lines were found within {most:.1f} s of their time"
        )
    newest: dict[tuple[str, ...], int] = defaultdict(int)
    for line in sample.lines:
        if not line.arrived:
            newest[_writer(line, expected)] = max(newest[_writer(line, expected)], line.at)
    behind = 0
    for look in sorted({line.arrived for line in came}):
        together = [line for line in came if line.arrived == look]
        behind += sum(line.at < newest[_writer(line, expected)] for line in together)
        for line in together:
            newest[_writer(line, expected)] = max(newest[_writer(line, expected)], line.at)
    if behind:
        yield Finding(
            "order",
            Level.WARN,
            f"{behind} of {len(came)} new lines came behind later ones of the same writer",
            "lines are read once each all the same, if they are no older than ten minutes; keep "
            "one sender per file",
        )
