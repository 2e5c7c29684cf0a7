"""`middlewatch logs check`: does what a site ships fit what detection needs, and how to mend it.

``looking`` takes a sample, ``judging`` says what is wrong with it, ``proposing`` and ``collecting``
write what would mend it. The judgement asks nobody anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from middlewatch.ports.clock import Clock
from middlewatch.ports.errors import PortError, Unreachable
from middlewatch.ports.scheduler import Scheduler
from middlewatch.wiring.ingestion import looking
from middlewatch.wiring.ingestion.judging import judged, scanned
from middlewatch.wiring.ingestion.sample import Expected, Finding, Known, Level, Report, Sample
from middlewatch.wiring.ingestion.series import metric_findings
from middlewatch.wiring.settings import LogsSource, Settings

MOST_JOBS = 3
MOST_LINES = 5000


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be looked at: one job, one file, or whatever is newest."""

    job: str = ""
    file: str = ""
    since_s: float = 3600.0
    watch_s: float = 5.0
    lines: int = MOST_LINES


class CannotLook(Exception):
    """There is nothing that could be looked at; the message says what to give."""


def checked(settings: Settings, asked: Asked, scheduler: Scheduler | None, clock: Clock) -> Report:
    """Everything that was found. ``scheduler`` is None where Slurm is not to be asked.

    Raises `Refused` or `Unreadable` where the log store is not what the settings say, `Unreachable`
    where it does not answer, `BadSettings`, and `CannotLook`.
    """
    known = (
        Known(why_not="not asked", asked_for=asked.job)
        if scheduler is None
        else looking.known_to(scheduler, asked.job)
    )
    judge = _Judge(settings, known)
    findings: list[Finding] = []
    unreached: list[str] = []
    if settings.logs.source is LogsSource.FILES or asked.file:
        findings += judge.files(asked, scheduler, clock)
    else:
        sample = looking.store_sample(
            settings.logs,
            clock,
            job=asked.job,
            since_s=asked.since_s,
            most=asked.lines,
            watch_s=asked.watch_s,
        )
        findings += judge.of(sample, settings.logs.source.value)
    if settings.metrics.url:
        try:
            findings += metric_findings(looking.metric_sample(settings.metrics, clock), known)
        except PortError as error:
            findings.append(Finding("metrics", Level.FAIL, str(error), "see [metrics]"))
            if isinstance(error, Unreachable):
                unreached.append("metrics")
    return Report(tuple(findings), tuple(unreached))


def checked_here(settings: Settings, asked: Asked, *, slurm: bool) -> Report:
    """The same with this machine's clock and, if wanted, its Slurm."""
    from middlewatch.adapters.clock.system import SystemClock
    from middlewatch.wiring.looking import scheduler_of

    clock = SystemClock()
    return checked(settings, asked, scheduler_of(settings, clock) if slurm else None, clock)


class _Judge:
    def __init__(self, settings: Settings, known: Known) -> None:
        from middlewatch.adapters.scan.catalogue import read_loops
        from middlewatch.adapters.scan.engine import scanner_for
        from middlewatch.wiring.patterns import catalogue_of

        catalogue, loops = catalogue_of(settings.watcher), read_loops()
        self._scanner, self._loops = scanner_for(catalogue), scanner_for(loops)
        self._patterns = {**catalogue.by_id(), **loops.by_id()}
        self._settings = settings
        self._known = known

    def of(self, sample: Sample, source: str) -> Iterator[Finding]:
        logs = self._settings.logs
        expected = Expected(
            source=source,
            job=logs.job_label,
            node=logs.node_label,
            file=logs.file_label,
            job_in_stream=logs.job_label_in_stream,
            match=logs.match,
            delay_s=logs.delay_s,
        )
        text = scanned(sample)
        hits = (*self._scanner.scan(text, 0), *self._loops.scan(text, 0))
        return judged(sample, expected, self._known, hits, self._patterns)

    def files(self, asked: Asked, scheduler: Scheduler | None, clock: Clock) -> Iterator[Finding]:
        from middlewatch.adapters.logs import FileLogs

        logs = FileLogs()
        targets = _targets(asked, scheduler)
        for path, uid in targets:
            seen = looking.file_sample(logs, path, uid, clock.now())
            if isinstance(seen, str):
                yield Finding("reach", Level.FAIL, seen, "the watcher would not read it either")
                continue
            for finding in self.of(seen, LogsSource.FILES.value):
                where = f"{path}: " if len(targets) > 1 and finding.check != "slurm" else ""
                yield replace(finding, text=f"{where}{finding.text}")


def _targets(asked: Asked, scheduler: Scheduler | None) -> list[tuple[str, int]]:
    if asked.file:
        path = str(Path(asked.file).absolute())
        return [(path, looking.owner_of(path))]
    if scheduler is None:
        raise CannotLook("without Slurm there is no job to look at: give --file PATH")
    jobs = (asked.job,) if asked.job else looking.newest_jobs(scheduler, MOST_JOBS)
    if not jobs:
        raise CannotLook("no running job is known: give --file PATH, or --job ID")
    found: list[tuple[str, int]] = []
    why = ""
    for job in jobs:
        outputs = looking.outputs_of(scheduler, job)
        if isinstance(outputs, str):
            why = outputs
        else:
            found += outputs
    if not found:
        raise CannotLook(why or f"job {jobs[0]} writes to no file: give --file PATH")
    return found
