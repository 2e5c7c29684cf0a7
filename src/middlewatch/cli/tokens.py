"""token: who may call the API, and what."""

from __future__ import annotations

import os
from pathlib import Path

import click

from middlewatch.cli import show
from middlewatch.cli.session import Session, with_session

SCOPES = ("read", "ingest", "controller", "admin")


@click.group()
def token() -> None:
    """Make, list and revoke tokens of the API, on the state directory itself.

    Run it as root or as the user who runs `up`, on the machine where the state lies.
    """


@token.command()
@with_session()
@click.argument("name")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    type=click.Choice(SCOPES),
    required=True,
    help="What it may do; repeat it for several.",
)
@click.option("--file", "file", metavar="FILE", help="Write it there, for its owner only.")
def add(session: Session, *, name: str, scopes: tuple[str, ...], file: str | None) -> None:
    """Make a token called NAME and print it: once, it cannot be read again.

    \b
    Examples:
      mw token add dashboard --scope read
      mw token add controller-2 --scope controller --file /etc/mw/token
    """
    if not name.strip() or len(name) > 64 or not name.isprintable():
        raise click.UsageError("NAME has 1 to 64 printable characters")
    from middlewatch.wiring import tokens

    text = tokens.opened(session.loaded().settings, os.environ).add(name, scopes)
    if file is not None:
        tokens.keep(Path(file), text)
    if session.as_json:
        where = {"file": file} if file is not None else {"token": text}
        show.as_json({"name": name, "scopes": list(scopes), **where})
    elif file is None:
        show.say(text)
        show.note("shown once; hand it to its user now")


@token.command("list")
@with_session()
def list_(session: Session) -> None:
    """List the tokens, never their secrets."""
    from middlewatch.wiring import tokens

    found = tokens.opened(session.loaded().settings, os.environ).all()
    rows = [
        {
            "id": one.id,
            "name": one.name,
            "scopes": list(one.scopes),
            "createdAt": one.created_at.isoformat().replace("+00:00", "Z"),
            "revoked": one.revoked,
        }
        for one in found
    ]
    if session.as_json:
        show.as_json({"tokens": rows})
        return
    show.table(
        ("ID", "NAME", "SCOPES", "MADE", "STATE"),
        [
            (
                one.id,
                one.name or "-",
                ",".join(one.scopes),
                show.clock_time(one.created_at.isoformat()),
                "revoked" if one.revoked else "in use",
            )
            for one in found
        ],
    )


@token.command()
@with_session()
@click.argument("token_", metavar="TOKEN")
def revoke(session: Session, *, token_: str) -> None:
    """Revoke TOKEN, by its name or its id; the gateway refuses it within seconds."""
    from middlewatch.wiring import tokens

    gone = tokens.opened(session.loaded().settings, os.environ).revoke(token_)
    if session.as_json:
        show.as_json({"revoked": {"id": gone.id, "name": gone.name}})
    else:
        show.say(f"revoked {gone.name or gone.id} ({gone.id})")
