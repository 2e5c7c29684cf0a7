"""The group of all commands, imported one by one: `mw jobs` must not pay for `mw up`."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from middlewatch import __version__
from middlewatch.cli.failure import Exit, Failure, at_a_port, report

HELP_WIDTH = 100
SECTIONS: dict[str, dict[str, tuple[str, str]]] = {
    "Run": {
        "up": ("running", "everything in one process, and the watchdog beside it"),
        "gateway": ("running", "the API alone"),
        "watcher": ("running", "the watcher alone"),
        "manager": ("running", "the job manager alone"),
        "controller": ("running", "the controller alone"),
        "watchdog": ("running", "the watchdog alone"),
    },
    "Look": {
        "jobs": ("reading", "jobs that are watched, and how they fare"),
        "job": ("reading", "one job, all its attempts"),
        "advice": ("reading", "what was decided, and what came of it"),
        "recoveries": ("recovered", "did training go on, and where did the time go"),
        "explain": ("explaining", "why: signals, issue, verdict, decision, outcome"),
        "audit": ("auditing", "the trail: seen, believed, decided, done, confirmed"),
    },
    "Analyse": {
        "analyze": ("analysing", "the story of one log: what happened, what began it, what to do"),
        "score": ("analysing", "how right the analysis is, over labelled logs"),
    },
    "Check": {
        "doctor": ("examining", "does this fit here? reads only; says how to mend"),
        "logs": ("ingesting", "`logs check`: do the logs that are shipped fit? says how to mend"),
        "check-comment": ("comments", "can a job's opt-in be read? prints the right line"),
        "limits": ("limiting", "when silence is an alarm: show, preview and change it"),
        "hint": ("hinting", "something has happened to a job: look now (for epilogs)"),
        "rollback": ("rolling", "back to monitor mode at once, whatever the settings say"),
        "backup": ("copying", "a sound copy of the state, while it is in use"),
        "token": ("tokens", "who may call the API: add, list and revoke tokens"),
        "slurm-gate": ("gating", "the program that a Slurm host needs to be reached by SSH"),
        "config": ("configuring", "check settings, show where each comes from"),
    },
    "Try": {
        "demo": ("trying", "one recovery from end to end, told as it happens"),
        "lab": ("trying", "a Slurm of its own on this machine, to break"),
        "completion": ("completing", "shell completion for bash, zsh or fish"),
    },
}
COMMANDS = {name: place for section in SECTIONS.values() for name, place in section.items()}
EPILOG = (
    "Exit codes: 0 ok, 1 failed, 2 wrong usage, 3 not found, 4 refused, 5 conflict, 6 findings, "
    "75 try later, 78 configuration."
)


class App(click.Group):
    """Finds a command's module when the command is used, and turns every failure into its code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"middlewatch.cli.{COMMANDS[cmd_name][0]}")
        command = getattr(module, cmd_name.replace("-", "_"))
        assert isinstance(command, click.Command)  # noqa: S101 - a table that a test walks through
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, n=1) if args else []
            if not near:
                raise
            raise click.UsageError(f"{error.message} Did you mean {near[0]!r}?", ctx) from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section, commands in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl([(name, text) for name, (_module, text) in commands.items()])

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """As click's, but with our exit codes, and failures as objects where `--json` was asked
        for. A command's return value is its exit code; none is 0."""
        given = list(sys.argv[1:] if args is None else args)
        as_json = "--json" in given
        try:
            answer = super().main(given, prog_name, complete_var, standalone_mode=False, **extra)
            sys.stdout.flush()
            code = answer if isinstance(answer, int) else Exit.OK
        except Failure as failure:
            report(failure.code, failure.message, failure.hint, failure.details, as_json=as_json)
            code = failure.code
        except click.ClickException as error:
            if as_json:
                report(Exit.USAGE, error.format_message(), "", {}, as_json=True)
            else:
                error.show()
            code = Exit.USAGE
        except click.Abort:
            code = 130
        except BrokenPipeError:
            # Whoever read us has seen enough; nothing of this may be said on the way out.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            code = 141
        except Exception as error:
            known = at_a_port(error)
            if known is None:
                raise
            report(known.code, known.message, known.hint, known.details, as_json=as_json)
            code = known.code
        if not standalone_mode:
            return int(code)
        sys.exit(int(code))


@click.group(
    cls=App,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": HELP_WIDTH},
    epilog=EPILOG,
)
@click.version_option(__version__, prog_name="middlewatch", message="%(prog)s %(version)s")
@click.option("--config", metavar="FILE", help="Read settings from this file alone.")
@click.option("--state-dir", metavar="DIR", help="Where the state lies.")
@click.pass_context
def app(ctx: click.Context, config: str | None, state_dir: str | None) -> None:
    """Watches training jobs on Slurm, says what went wrong, restarts them on healthy nodes.

    \b
    Examples:
      mw doctor            does it fit this cluster? reads only
      mw up                watch, in monitor mode: nothing is changed
      mw jobs              what is watched
      mw explain 4711      why it decided what it decided
    """
    ctx.obj = {"config": config, "state_dir": state_dir}
