"""What nearly every command needs: the settings, the places, and how it was asked to answer."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from middlewatch.cli.failure import Exit, Failure

if TYPE_CHECKING:
    from middlewatch.wiring.loading import Loaded
    from middlewatch.wiring.places import Places

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Session:
    """One call of the command line. ``flags`` are settings given as options."""

    config: Path | None
    flags: dict[str, object]
    as_json: bool = False

    def loaded(self) -> Loaded:
        """The settings; a Failure with every problem where they are wrong."""
        from middlewatch.wiring import loading

        try:
            return loading.load(os.environ, config=self.config, flags=self.flags)
        except loading.BadSettings as error:
            raise bad_settings(error) from error

    def places(self, loaded: Loaded | None = None) -> Places:
        """Where things lie, nothing made."""
        from middlewatch.wiring import places

        return places.found((loaded or self.loaded()).settings, os.environ)


def bad_settings(error: Any) -> Failure:
    """The failure for settings that cannot be used."""
    problems = [{"where": p.where, "what": p.what} for p in error.problems]
    first = "\n".join(str(p) for p in error.problems)
    return Failure(
        Exit.CONFIGURATION,
        f"the settings cannot be used:\n{first}",
        "`middlewatch config show` lists every key with its default",
        problems=problems,
    )


def _split(values: tuple[str, ...]) -> dict[str, object]:
    flags: dict[str, object] = {}
    for item in values:
        name, equals, value = item.partition("=")
        if not equals or "." not in name:
            raise click.UsageError(f"--set {item!r}: write --set SECTION.KEY=VALUE")
        flags[name.strip()] = value
    return flags


def with_session(*, json: bool = True) -> Callable[[F], F]:
    """Add the options that every command has, and hand over a Session as first argument."""

    def decorate(function: F) -> F:
        @click.option("--config", metavar="FILE", help="Read settings from this file alone.")
        @click.option("--state-dir", metavar="DIR", help="Where the state lies.")
        @click.option(
            "--set",
            "set_",
            multiple=True,
            metavar="SECTION.KEY=VALUE",
            help="Any setting, for this call.",
        )
        @functools.wraps(function)
        def command(
            config: str | None,
            state_dir: str | None,
            set_: tuple[str, ...],
            **arguments: Any,
        ) -> Any:
            above = click.get_current_context().find_root().obj or {}
            flags = _split(set_)
            state = state_dir or above.get("state_dir")
            if state:
                flags["state.directory"] = state
            named = config or above.get("config")
            as_json = bool(arguments.pop("as_json", False))
            session = Session(Path(named) if named else None, flags, as_json)
            return function(session, **arguments)

        if json:
            option = click.option(
                "--json", "as_json", is_flag=True, help="Answer with JSON, for programs."
            )
            command = option(command)
        return command  # type: ignore[return-value]

    return decorate
