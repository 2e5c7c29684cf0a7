"""backup: a copy of the state, while it is in use."""

from __future__ import annotations

from pathlib import Path

import click

from middlewatch.cli import show
from middlewatch.cli.session import Session, with_session


@click.command()
@with_session()
@click.argument("file", metavar="FILE")
def backup(session: Session, *, file: str) -> None:
    """Write a sound copy of the database into FILE, also while `up` runs.

    The file alone, copied by other means, lacks the newest changes. To go back: stop `up`, put the
    copy in the database's place, remove the -wal and -shm files beside it, start.

    \b
    Example:
      mw backup /backup/middlewatch-$(date +%F).db
    """
    from middlewatch.wiring.backup import backup as copied

    size = copied(session.places(), Path(file))
    if session.as_json:
        show.as_json({"file": file, "bytes": size})
    else:
        show.say(f"{file}: {size / 1e6:.1f} MB")
