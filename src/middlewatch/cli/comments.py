"""check-comment: can a job's opt-in be read, and what would be right?"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click

from middlewatch.cli import asking, show
from middlewatch.cli.failure import Exit, Failure
from middlewatch.cli.session import Session, with_session
from middlewatch.model.optin import OptIn, directive, read_comment

SCRIPT_LIMIT = 4 * 1024 * 1024


@click.command("check-comment")
@with_session()
@click.argument("text", required=False)
@click.option("--job", metavar="JOB", help="The comment of a job that Slurm knows.")
@click.option("--file", "file", metavar="SCRIPT", help="The #SBATCH lines of a batch script.")
def check_comment(session: Session, text: str | None, job: str | None, file: str | None) -> int:
    """Say whether a comment can be read and what it means; print the right line if it cannot.

    \b
    Examples:
      mw check-comment '{"middlewatch":{"environment":"prod","mode":"observe"}}'
      mw check-comment --file train.sbatch
      mw check-comment --job 4711
    Exit code 6 where something is wrong with it.
    """
    if sum(item is not None for item in (text, job, file)) != 1:
        raise click.UsageError("give a TEXT, or --job JOB, or --file SCRIPT: exactly one of them")
    loaded = session.loaded()
    environment = asking.environment(session)
    if file is not None:
        comment = comment_of_script(file)
    elif job is not None:
        from middlewatch.wiring.looking import comment_of_job

        comment = comment_of_job(loaded.settings, job)
    else:
        comment = text or ""
    found = read_comment(comment, environment)
    findings = list(findings_of(found, environment))
    right = found.suggestion or (directive(environment, "observe") if findings else None)
    if session.as_json:
        show.as_json(
            {
                "comment": comment,
                "environment": environment,
                "mode": found.effective(environment).value,
                "key": found.key,
                "problems": findings,
                "suggestion": right,
            }
        )
        return Exit.FINDINGS if findings else Exit.OK
    show.say(f"mode  {found.effective(environment).value} (in environment {environment})")
    for finding in findings:
        show.say(f"wrong {finding}")
    if right:
        show.say("right " + right)
    return Exit.FINDINGS if findings else Exit.OK


def findings_of(found: OptIn, environment: str) -> list[str]:
    """What is wrong, in sentences."""
    if found.mode is None:
        return ["the comment does not opt in: it has neither key, middlewatch nor nvidia-recovery"]
    problems = list(found.problems_in(environment))
    if found.progress:
        from middlewatch.wiring.looking import progress_refused

        why = progress_refused(found.progress)
        if why:
            problems.append(f"{why}; watched without it")
    return problems


def comment_of_script(name: str) -> str:
    """The value of the last `#SBATCH --comment` of a batch script, as sbatch would read it.

    Empty where there is none. Raises Failure where the file cannot be read.
    """
    try:
        with Path(name).open(encoding="utf-8", errors="replace") as handle:
            text = handle.read(SCRIPT_LIMIT)
    except OSError as error:
        raise Failure(
            Exit.NOT_FOUND if isinstance(error, FileNotFoundError) else Exit.FAILED,
            f"{name} cannot be read: {error.strerror}",
        ) from error
    found = ""
    for line in text.splitlines():
        if not line.strip() or line.startswith("#!"):
            continue
        if not line.startswith("#"):
            # sbatch stops at the first line that is neither blank nor a comment.
            break
        directive_ = re.match(r"#SBATCH\s+(.*)", line)
        if directive_:
            found = _comment_in(directive_.group(1), found)
    return found


def _comment_in(words: str, before: str) -> str:
    try:
        parts = shlex.split(words, comments=True)
    except ValueError:
        # An open quote: what is there, as it stands, so that the reader can say what is wrong.
        loose = re.search(r"--comment[= ](.*)", words)
        return loose.group(1) if loose else before
    for index, part in enumerate(parts):
        if part.startswith("--comment="):
            return part.removeprefix("--comment=")
        if part == "--comment" and index + 1 < len(parts):
            return parts[index + 1]
    return before
