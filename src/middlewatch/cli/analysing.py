"""analyze and score: the story of one log, and the figures over many labelled ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from middlewatch.cli import show
from middlewatch.cli.failure import Exit, Failure


def _failure(error: Exception) -> Failure:
    missing = bool(getattr(error, "missing", False))
    return Failure(Exit.NOT_FOUND if missing else Exit.FAILED, str(error))


def _print(body: Any) -> None:
    """Exactly the object that is documented: no version beside it. Only ASCII leaves."""
    print(json.dumps(body, indent=2))


@click.command()
@click.argument("log", metavar="LOG")
@click.option("--facts", metavar="FILE", help="What the scheduler says: JSON or YAML.")
@click.option("--times", metavar="FILE", help="Seconds since job start, one per line of the log.")
@click.option("--json", "as_json", is_flag=True, help="One object for programs.")
def analyze(log: str, facts: str | None, times: str | None, *, as_json: bool) -> None:
    """Tell the story of one log: what happened, what began it, what to do.

    It is what the watcher and the manager would have seen and decided, driven by the file and a
    clock: --times, else the log's own stamps. Nothing is changed, nothing else is read.

    \b
    Examples:
      mw analyze slurm-4711.out
      mw analyze slurm-4711.out --facts facts.yaml --json
    """
    from middlewatch.wiring.analysis import BadInput, analyse_files

    try:
        account = analyse_files(
            Path(log), Path(facts) if facts else None, Path(times) if times else None
        )
    except BadInput as error:
        raise _failure(error) from error
    if as_json:
        _print(account.as_json())
        return
    from middlewatch.wiring.analysis.story import story_of

    for line in story_of(account):
        show.say(line)


@click.command()
@click.argument("folders", metavar="DIR...", nargs=-1, required=True)
@click.option("--cases", is_flag=True, help="What differs from the label, case by case.")
@click.option("--json", "as_json", is_flag=True, help="One object for programs.")
def score(folders: tuple[str, ...], *, cases: bool, as_json: bool) -> int:
    """Score the analysis of labelled logs (corpus/README.md says how).

    Exit code 6 where a promised figure is missed.

    \b
    Examples:
      mw score corpus/dev
      mw score corpus/dev corpus/later --cases
    """
    from middlewatch.wiring.analysis import BadInput
    from middlewatch.wiring.scoring import score as scored

    try:
        card = scored([Path(folder) for folder in folders])
    except BadInput as error:
        raise _failure(error) from error
    if not card.judged:
        raise Failure(Exit.NOT_FOUND, f"no labelled case in {', '.join(folders)}")
    met = all(target.met for target in card.targets)
    if as_json:
        _print(card.as_json(cases=cases))
        return Exit.OK if met else Exit.FINDINGS
    from middlewatch.wiring.scoring import table

    for line in table.lines_of(card, cases=cases):
        show.say(line)
    return Exit.OK if met else Exit.FINDINGS
