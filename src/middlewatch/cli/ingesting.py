"""logs: does what a site ships fit what detection needs, and how to mend it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from middlewatch.cli import show
from middlewatch.cli.durations import seconds_of
from middlewatch.cli.failure import Exit, Failure
from middlewatch.cli.session import Session, bad_settings, with_session

if TYPE_CHECKING:
    from middlewatch.wiring.ingestion.sample import Report
    from middlewatch.wiring.settings import Settings

MOST_SINCE_S, MOST_WATCH_S = 30 * 86400.0, 3600.0
_COLOURS = {"ok": "green", "info": "cyan", "warn": "yellow", "fail": "red"}
_FLAGS = {"source": "logs.source", "url": "logs.url", "metrics_url": "metrics.url"}


@click.group()
def logs() -> None:
    """Look at where logs come from (docs/logs.md)."""


@logs.command()
@with_session()
@click.option("--source", type=click.Choice(("files", "victorialogs", "loki")), help="logs.source.")
@click.option("--url", metavar="URL", help="logs.url.")
@click.option("--metrics-url", metavar="URL", help="metrics.url.")
@click.option("--job", metavar="JOB", default="", help="One job's lines, or its output file.")
@click.option("--file", metavar="PATH", default="", help="One file, whatever the source is.")
@click.option(
    "--since", metavar="DURATION", default="1h", help="How far back a store is asked (1h)."
)
@click.option(
    "--watch", metavar="DURATION", default="5s", help="How long new lines are waited for (5s)."
)
@click.option("--no-slurm", is_flag=True, help="Do not ask Slurm for its jobs and nodes.")
@click.option(
    "--write", metavar="FILE", default="", help="Write the mended settings to a new file."
)
@click.option(
    "--collector",
    type=click.Choice(("alloy", "vector", "promtail", "syslog-ng")),
    help="Print its configuration.",
)
@click.option("--collector-file", metavar="FILE", default="", help="Write it there instead.")
@click.option(
    "--outputs", metavar="PATTERN", default="", help="Where jobs write, as for sbatch --output."
)
def check(
    session: Session,
    *,
    source: str | None,
    url: str | None,
    metrics_url: str | None,
    job: str,
    file: str,
    since: str,
    watch: str,
    no_slurm: bool,
    write: str,
    collector: str | None,
    collector_file: str,
    outputs: str,
) -> int:
    """Sample the logs (and metrics) and say what does not fit what detection needs.

    Reads only. Names what is wrong, where, and how to mend it: labels, order, delay, cut or wrapped
    lines, progress lines, labels of metrics. Exit code 0: all fits, 6: findings, 75: a server does
    not answer, 78: the settings, or what the server makes of them, cannot be used.

    \b
    Examples:
      mw logs check
      mw logs check --source loki --url https://loki.example.org --write found.toml
      mw logs check --collector alloy --outputs '/scratch/%u/slurm-%j.out'
    """
    from middlewatch.wiring.ingestion.collecting import OUTPUTS

    given = {"source": source, "url": url, "metrics_url": metrics_url}
    session.flags.update({_FLAGS[name]: value for name, value in given.items() if value})
    settings = session.loaded().settings
    # What cannot be written is said before anybody waits for a sample.
    configuration = _collector(settings, collector, outputs or OUTPUTS) if collector else ""
    if collector_file and not collector:
        raise click.UsageError("--collector-file: say which with --collector")
    for path in filter(None, (write, collector_file)):
        if Path(path).exists():
            raise Failure(Exit.CONFLICT, f"{path} exists already", "give another name")
    report = _report(settings, job=job, file=file, since=since, watch=watch, slurm=not no_slurm)
    mended = _mended(settings, report)
    if collector:
        # Labels of ours that were mended are those that lines have; a new collector may use them.
        configuration = _collector(mended or settings, collector, outputs or OUTPUTS)
    _say(session, report, mended, configuration, aside=bool(collector and not collector_file))
    if write:
        _write(write, _part(mended or settings))
    if collector_file:
        _write(collector_file, configuration)
    elif collector and not session.as_json:
        sys.stdout.write(configuration)
    if report.unreached:
        return Exit.TRY_LATER
    return Exit.OK if report.fine else Exit.FINDINGS


def _report(
    settings: Settings, *, job: str, file: str, since: str, watch: str, slurm: bool
) -> Report:
    from middlewatch.wiring.faults import kind_of
    from middlewatch.wiring.ingestion import Asked, CannotLook, checked_here
    from middlewatch.wiring.loading import BadSettings

    asked = Asked(
        job=job,
        file=file,
        since_s=seconds_of(since, "--since", MOST_SINCE_S),
        watch_s=seconds_of(watch, "--watch", MOST_WATCH_S),
    )
    try:
        return checked_here(settings, asked, slurm=slurm)
    except BadSettings as error:
        raise bad_settings(error) from error
    except CannotLook as error:
        raise Failure(Exit.NOT_FOUND, str(error)) from error
    except Exception as error:
        # Not let in, or no such server: it is the settings that have to be mended.
        if kind_of(error) in {"Refused", "Unreadable"}:
            # Of files only Slurm is asked; what is wrong with metrics is a finding.
            section = "slurm" if file or settings.logs.source.value == "files" else "logs"
            raise Failure(
                Exit.CONFIGURATION, str(error), f"see [{section}] in docs/settings.md"
            ) from error
        raise


def _mended(settings: Settings, report: Report) -> Settings | None:
    """The settings with what was found in them; None where nothing of ours would mend anything."""
    from middlewatch.wiring.ingestion.proposing import CannotPropose, proposed

    if not report.remedies:
        return None
    try:
        return proposed(settings, report.remedies)
    except CannotPropose as error:
        show.note(f"the settings that were found do not go together: {error}")
        return None


def _part(settings: Settings) -> str:
    from middlewatch.wiring.ingestion.proposing import settings_part

    return settings_part(settings)


def _collector(settings: Settings, kind: str, outputs: str) -> str:
    from middlewatch.wiring.ingestion.collecting import (
        CannotCollect,
        Collector,
        collector_configuration,
    )
    from middlewatch.wiring.ingestion.collecting import outputs as outputs_of

    try:
        return collector_configuration(Collector(kind), settings.logs, outputs_of(outputs))
    except CannotCollect as error:
        raise Failure(
            Exit.CONFIGURATION, str(error), "see --outputs, --source and --url"
        ) from error


def _say(
    session: Session, report: Report, mended: Settings | None, configuration: str, *, aside: bool
) -> None:
    from middlewatch.wiring.ingestion.proposing import one_by_one

    if session.as_json:
        show.as_json(
            {
                "fine": report.fine,
                "unreached": list(report.unreached),
                "findings": [
                    {"check": f.check, "level": f.level.value, "text": f.text, "mend": f.mend}
                    for f in report.findings
                ],
                "remedies": [
                    {"section": r.section, "key": r.key, "value": r.value} for r in report.remedies
                ],
                "settings": _part(mended) if mended is not None else "",
                "collector": configuration,
            }
        )
        return
    for finding in report.findings:
        head, tail = f" {finding.level:<5}", f"{finding.check:<13} {finding.text}"
        if aside:
            show.note(f"{head} {tail}")
        else:
            show.say_marked(head, _COLOURS[finding.level], tail)
        if finding.mend and finding.level != "ok":
            (show.note if aside else show.say)(f"       {'':<13} -> {finding.mend}")
    if report.remedies:
        tell = show.note if aside else show.say
        tell("settings that would mend it (--write FILE):")
        for line in one_by_one(report.remedies):
            tell(f"  {line}")


def _write(path: str, text: str) -> None:
    """A new file; what is there is nobody's to overwrite."""
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise Failure(Exit.CONFLICT, f"{path} exists already", "give another name") from error
    except (OSError, ValueError) as error:
        raise Failure(Exit.FAILED, f"{path} cannot be written: {error}") from error
    show.note(f"written: {path}")
