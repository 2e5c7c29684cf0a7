"""hint: tell a running watcher that something has happened to a job."""

from __future__ import annotations

import os

import click

from middlewatch.cli import show
from middlewatch.cli.failure import Failure
from middlewatch.cli.session import Session, with_session


@click.command()
@with_session()
@click.argument("job", required=False, default="")
def hint(session: Session, *, job: str) -> None:  # noqa: ARG001 - for triggers, which give one
    """Tell the watcher that something has happened to a job, so that it looks now.

    Without hints it looks every second while an opted-in job runs, and up to every 45 seconds while
    none does; a hint saves that time and nothing else depends on it. Any number of them make one
    listing a second at most. It always exits with 0 and never waits, as an epilog must; JOB is not
    looked at, so that Slurm's triggers may give what they like. `touch FILE` does the same in a
    hundredth of the time (docs/slurm-load.md).

    \b
    Examples:
      mw hint
      strigger --set --down --program=/usr/local/sbin/middlewatch-hint
    """
    from middlewatch.wiring import hinting

    try:
        problem = hinting.give(session.loaded().settings, os.environ)
    except Failure as failure:
        problem = str(failure)
    if problem:
        show.note(problem)
