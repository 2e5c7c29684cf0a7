"""config: check settings without looking at the world, and show where each value comes from."""

from __future__ import annotations

import os
from pathlib import Path

import click

from middlewatch.cli import show
from middlewatch.cli.failure import Exit
from middlewatch.cli.session import Session, bad_settings, with_session


@click.group()
def config() -> None:
    """Check and show the settings.

    Defaults are overridden by /etc/middlewatch/middlewatch.toml, that by
    ~/.config/middlewatch/middlewatch.toml, that by MIDDLEWATCH_SECTION_KEY, that by flags.
    """


@config.command()
@with_session()
@click.argument("file", required=False)
def check(session: Session, file: str | None) -> int:
    """Say whether the settings can be used. Looks at files and environment alone, at nothing else.

    With FILE, at that file alone: fit for a `validate` step of a deployment tool. Exit code 78
    where something is wrong.
    """
    from middlewatch.wiring import loading

    try:
        if file is not None:
            loaded = loading.load({}, config=Path(file))
        else:
            loaded = loading.load(os.environ, config=session.config, flags=session.flags)
    except loading.BadSettings as error:
        raise bad_settings(error) from error
    if session.as_json:
        show.as_json(
            {"ok": True, "files": [str(f) for f in loaded.files], "cautions": list(loaded.cautions)}
        )
        return Exit.OK
    for caution in loaded.cautions:
        show.say(f"caution: {caution}")
    read = ", ".join(map(str, loaded.files)) or "no file found: defaults and environment"
    show.say(f"ok: {read}")
    return Exit.OK


@config.command("show")
@with_session()
@click.option("--changed", is_flag=True, help="Only what differs from the default.")
def show_(session: Session, changed: bool) -> int:
    """Show every setting with its value and its origin: file and line, variable, flag or default."""
    from middlewatch.wiring import loading
    from middlewatch.wiring.settings import specs

    loaded = session.loaded()
    rows = []
    for spec in specs():
        name = f"{spec.section}.{spec.key}"
        origin = loaded.origins[name]
        if changed and origin == "default":
            continue
        rows.append(
            (name, loading.shown(spec, loading.value_of(loaded.settings, spec)), origin, spec)
        )
    if session.as_json:
        show.as_json(
            {
                "files": [str(f) for f in loaded.files],
                "policy_version": loaded.settings.policy.version,
                "settings": [
                    {"key": name, "value": value, "origin": origin, "variable": spec.variable}
                    for name, value, origin, spec in rows
                ],
                "cautions": list(loaded.cautions),
            }
        )
        return Exit.OK
    show.table(("KEY", "VALUE", "ORIGIN", "MEANING"), [(n, v, o, s.text) for n, v, o, s in rows])
    for caution in loaded.cautions:
        show.note(f"caution: {caution}")
    return Exit.OK


@config.command("unit")
@with_session(json=False)
@click.option(
    "--user", default="middlewatch", metavar="NAME", help="Whom it runs as (middlewatch)."
)
def unit(session: Session, user: str) -> None:
    """Print a systemd unit for `up`, with the paths of this installation.

    \b
    Example:
      mw config unit > /etc/systemd/system/middlewatch.service
    """
    from middlewatch.wiring.unit import unit as text_of

    given = session.loaded().settings.state.directory
    state = Path(given) if given else Path("/var/lib/middlewatch")
    for line in text_of(user, state, session.config).splitlines():
        show.say(line)
