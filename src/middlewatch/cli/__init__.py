"""The command line: thin. Each command reads settings, asks one thing, and prints the answer."""

from __future__ import annotations


def main() -> None:
    """Run the command that the process was started with; ends the process."""
    from middlewatch.cli.app import app

    app.main(prog_name=_name())


def _name() -> str:
    import sys
    from pathlib import PurePath

    name = PurePath(sys.argv[0]).name
    return name if name in {"mw", "middlewatch"} else "middlewatch"
