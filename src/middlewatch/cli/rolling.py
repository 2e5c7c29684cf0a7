"""rollback: hands off the cluster, in one command."""

from __future__ import annotations

import os

import click

from middlewatch.cli import show
from middlewatch.cli.session import Session, with_session


@click.command()
@with_session()
@click.option("--reason", metavar="TEXT", help="Why; it stands in the trail.")
@click.option("--undo", is_flag=True, help="Let the settings' mode be in force again.")
def rollback(session: Session, *, reason: str | None, undo: bool) -> None:
    """Go back to monitor mode now, whatever the settings say, until it is undone.

    No command that changes a job is begun from the next second on, by any process that uses this
    state; what is held is let go as always. It outlives restarts. What is decided meanwhile stays
    not permitted. Run it as root or as the user who runs `up`, on the machine where the state
    lies; `up` need not run. Without --reason: show what stands.

    \b
    Examples:
      mw rollback --reason "restarts hit healthy jobs on gpu-17"
      mw rollback --undo --reason "it was a broken switch"
    """
    from middlewatch.wiring import rollback as wiring

    if undo and reason is None:
        raise click.UsageError("--undo wants a --reason: it stands in the trail")
    deployments = wiring.opened(session.loaded().settings, os.environ)
    changed = None
    if reason is not None:
        by = wiring.who(os.environ)
        changed = deployments.undo(by, reason) if undo else bool(deployments.roll_back(by, reason))
    standing = deployments.standing()
    if session.as_json:
        fields = (
            {"at": standing.at.isoformat(), "by": standing.by, "reason": standing.reason}
            if standing is not None
            else None
        )
        show.as_json({"rolledBack": fields, **({} if changed is None else {"changed": changed})})
        return
    if standing is None:
        show.say("not rolled back: the settings' mode is in force")
        if changed is False:
            show.note("there was nothing to undo")
        return
    when = show.clock_time(standing.at.isoformat())
    show.say(f"rolled back to monitor since {when} by {standing.by}: {standing.reason}")
    show.note("undo it with: mw rollback --undo --reason TEXT")
