"""What a job's owner allows, read from the job's comment.

Users write comments by hand, shells eat quotes, other tools keep their own things there. The
comment is read for our keys alone and never written. Whatever cannot be understood counts as
"observe at most" and is told back to its user with the line that would have worked.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from enum import StrEnum

from middlewatch.model.dependency import DEPENDS_ON, Dependency, read_dependencies

OUR_KEYS = ("middlewatch", "nvidia-recovery")
COMMENT_LIMIT = 65_536
WORKFLOW_LIMIT = 256
PROGRESS_LIMIT = 200
PATH_LIMIT = 1024
STEP_GROUP = "(?P<step>"
_STRIPPED = re.compile(r"(middlewatch|nvidia-recovery)\s*:\s*\{")
_ENVIRONMENT = re.compile(r'environment"?\s*:\s*"?([A-Za-z0-9._-]+)')
_MODE = re.compile(r'mode"?\s*:\s*"?([A-Za-z]+)')


class JobMode(StrEnum):
    OFF = "off"
    OBSERVE = "observe"
    ACTION = "action"


@dataclass(frozen=True, slots=True)
class OptIn:
    """``mode`` is None where the comment says nothing to us. ``problems`` are sentences for the
    user; ``suggestion`` is the sbatch line that would have been understood."""

    mode: JobMode | None = None
    environment: str | None = None
    key: str | None = None
    slow_restart: bool = False
    workflow: str | None = None
    """The name that the job's owner gives to the work that it belongs to."""
    progress: str = ""
    """A regex of the owner's own for the program's progress lines, in RE2's syntax and with a group
    ``step``. Not yet known to compile: it is a stranger's text."""
    problems: tuple[str, ...] = ()
    suggestion: str | None = None
    checkpoints: str = ""
    """The directory in which the program saves, where the owner names it: a stranger's text."""
    depends_on: tuple[Dependency, ...] = ()
    """The jobs that must be done before this one, submitted held, is let go."""
    depends_on_wrong: tuple[str, ...] = ()
    """What is wrong with that declaration (among ``problems``, too): then nothing is let go."""

    def effective(self, environment: str) -> JobMode:
        """The mode that counts for the given environment; none of ours means off."""
        if self.mode is None:
            return JobMode.OFF
        if self.environment is not None and self.environment != environment:
            return JobMode.OFF
        return self.mode

    def problems_in(self, environment: str) -> tuple[str, ...]:
        """What its user should be told where the given environment is served: the problems, and
        that the comment is meant for another environment."""
        elsewhere = self.environment is not None and self.environment != environment
        if self.mode in (None, JobMode.OFF) or not elsewhere:
            return self.problems
        meant = f"it is meant for environment {self.environment}; this one is {environment}"
        return (*self.problems, meant)


def directive(
    environment: str,
    mode: str,
    key: str = "nvidia-recovery",
    depends_on: tuple[Dependency, ...] = (),
) -> str:
    """The sbatch line that opts a job in, quoted so that it survives."""
    member: dict[str, object] = {"environment": environment, "mode": mode}
    if depends_on:
        member[DEPENDS_ON] = [dependency.text for dependency in depends_on]
    body = json.dumps({key: member}, separators=(",", ":"))
    return f"#SBATCH --comment='{body}'"


def read_comment(comment: str, environment: str = "prod") -> OptIn:
    """Read a job's comment. Never raises; ``environment`` is only used for the suggestion."""
    text = comment.strip()
    if not any(key in text for key in OUR_KEYS):
        return OptIn()
    if len(text) > COMMENT_LIMIT:
        return _broken(text, environment, f"the comment is longer than {COMMENT_LIMIT} bytes")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        return _broken(text, environment, _why_broken(text, error))
    if not isinstance(value, dict):
        return _broken(text, environment, "the comment is JSON, but not an object")
    read = [_from_member(key, value[key], environment) for key in OUR_KEYS if key in value]
    if not read:
        return OptIn()
    return read[0] if len(read) == 1 else _of_both(read[0], read[1], environment)


def _of_both(first: OptIn, second: OptIn, environment: str) -> OptIn:
    """Both of our keys in one comment: where they say different things the lower mode counts, and
    whatever either waits for is waited for."""
    first = replace(
        first,
        depends_on=tuple(dict.fromkeys(first.depends_on + second.depends_on)),
        depends_on_wrong=first.depends_on_wrong + second.depends_on_wrong,
    )
    said = (first.mode, first.environment, first.slow_restart)
    if said == (second.mode, second.environment, second.slow_restart):
        return replace(first, problems=(*first.problems, *second.problems))
    mode = min(first.mode or JobMode.OFF, second.mode or JobMode.OFF, key=list(JobMode).index)
    return replace(
        first,
        mode=mode,
        slow_restart=first.slow_restart and second.slow_restart,
        problems=(
            *first.problems,
            *second.problems,
            f"{first.key} and {second.key} say different things: taken as {mode}; keep one of them",
        ),
        suggestion=directive(first.environment or environment, mode, first.key or OUR_KEYS[0]),
    )


def _from_member(key: str, member: object, environment: str) -> OptIn:
    if not isinstance(member, dict):
        wrong = f'{key} must be an object such as {{"environment":"{environment}"}}'
        line = directive(environment, "observe")
        return OptIn(JobMode.OBSERVE, None, key, problems=(wrong,), suggestion=line)
    problems: list[str] = []
    named = member.get("environment")
    if named is not None and (not isinstance(named, str) or not named):
        problems.append(f"{key}.environment must be a name, not {_short(named)}: observe at most")
        named = None
    understood = not problems
    raw = member.get("mode")
    mode = JobMode.OBSERVE
    if isinstance(raw, str) and raw in tuple(JobMode):
        mode = JobMode(raw)
    elif raw is None:
        problems.append(f"{key}.mode is missing: taken as observe (observe, action or off)")
    else:
        problems.append(f"{key}.mode is {_short(raw)}: taken as observe (observe, action or off)")
    workflow = member.get("workflow")
    if workflow is not None and not (
        isinstance(workflow, str)
        and 1 <= len(workflow) <= WORKFLOW_LIMIT
        and workflow.isprintable()
    ):
        problems.append(f"{key}.workflow must be 1 to {WORKFLOW_LIMIT} printable characters")
        workflow = None
    progress, wrong = _progress_of(key, member.get("progress"))
    if wrong:
        problems.append(wrong)
    checkpoints = member.get("checkpoints", "")
    if not (
        isinstance(checkpoints, str)
        and (not checkpoints or checkpoints.startswith("/"))
        and len(checkpoints) <= PATH_LIMIT
        and checkpoints.isprintable()
    ):
        problems.append(
            f"{key}.checkpoints must be the absolute path of a directory, not "
            f"{_short(checkpoints)}: watched without it"
        )
        checkpoints = ""
    depends_on, wrongly = read_dependencies(key, member)
    problems.extend(wrongly)
    suggestion = directive(named or environment, mode, key, depends_on) if problems else None
    if not understood and mode is JobMode.ACTION:
        # Nobody can tell where it was meant to act.
        mode = JobMode.OBSERVE
    slow = member.get("restartOnSlow") is True
    return OptIn(
        mode=mode,
        environment=named,
        key=key,
        slow_restart=slow,
        workflow=workflow,
        progress=progress,
        problems=tuple(problems),
        suggestion=suggestion,
        checkpoints=checkpoints,
        depends_on=depends_on,
        depends_on_wrong=wrongly,
    )


def _progress_of(key: str, given: object) -> tuple[str, str]:
    """The progress pattern, and what is wrong with it; the job is watched without a wrong one."""
    if given is None:
        return "", ""
    if not isinstance(given, str) or not given:
        return "", f"{key}.progress must be a regex, not {_short(given)}: watched without it"
    if len(given) > PROGRESS_LIMIT or not given.isprintable():
        return "", (
            f"{key}.progress must have at most {PROGRESS_LIMIT} printable characters: watched "
            "without it"
        )
    if STEP_GROUP not in given:
        return "", (
            f"{key}.progress does not say where the step stands: write that part as "
            r"(?P<step>\d+); watched without it"
        )
    return given, ""


def _broken(text: str, environment: str, why: str) -> OptIn:
    found = _ENVIRONMENT.search(text)
    mode = _MODE.search(text)
    wanted = mode.group(1) if mode and mode.group(1) in tuple(JobMode) else "observe"
    key = next(k for k in OUR_KEYS if k in text)
    line = directive(found.group(1) if found else environment, wanted, key)
    said = f"{why}: taken as observe"
    wrongly = (said,) if DEPENDS_ON in text else ()
    return OptIn(
        JobMode.OBSERVE,
        None,
        key,
        problems=(said,),
        suggestion=line,
        depends_on_wrong=wrongly,
    )


def _why_broken(text: str, error: Exception) -> str:
    if _STRIPPED.search(text) and '"' not in text:
        return "the shell removed the double quotes; put the whole JSON in single quotes"
    return f"the comment is not JSON ({error})"


def _short(value: object) -> str:
    return json.dumps(value, default=str)[:60]
