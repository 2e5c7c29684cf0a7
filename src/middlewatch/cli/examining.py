"""doctor: what fits, what does not, and how to mend it."""

from __future__ import annotations

import os
import sys
from collections import Counter

import click

from middlewatch.cli import asking, show
from middlewatch.cli.session import Session, with_session

_COLOURS = {"ok": "green", "info": "cyan", "warn": "yellow", "fail": "red"}


@click.command()
@with_session()
def doctor(session: Session) -> int:
    """Look at this machine, at Slurm and at the newest jobs; change nothing; say how to mend.

    Checks Slurm's commands and release, slurmctld and its clock, our rights, accounting, what is
    hidden from us, opt-ins and logs of the newest live jobs, jobs that cannot be requeued, the
    place of our state, and whether we run. Exit code 0: all well, 6: warnings, 1: failures.
    """
    from middlewatch.wiring.doctor import examine, exit_code
    from middlewatch.wiring.findings import Finding, Level

    loaded = session.loaded()
    found: list[Finding] = []
    for finding in examine(loaded, os.environ, asking.environment(session)):
        found.append(finding)
        if not session.as_json:
            _print(finding.level, finding.check, finding.text, finding.mend)
    levels = [finding.level for finding in found]
    if session.as_json:
        show.as_json(
            {
                "findings": [
                    {"check": f.check, "level": f.level.value, "text": f.text, "mend": f.mend}
                    for f in found
                ]
            }
        )
    else:
        count = Counter(levels)
        show.say(f"{count[Level.WARN]} warnings, {count[Level.FAIL]} failures")
    return exit_code(levels)


def _print(level: str, check: str, text: str, mend: str) -> None:
    show.say_marked(f" {level:<5}", _COLOURS[level], f"{check:<13} {text}")
    if mend and level != "ok":
        show.say(f"       {'':<13} -> {mend}")
    sys.stdout.flush()
