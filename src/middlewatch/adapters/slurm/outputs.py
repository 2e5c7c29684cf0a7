"""Where a job's output really lies.

What Slurm's commands show as a job's output file is the pattern that its user typed, an expanded
path, or something in between, by release and by command. Only the daemon that opens the file
expands everything, so its rules are repeated here, once, as a function of facts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

NO_TASK = 4294967294
"""What %a becomes for a job that is not an array's."""
_LONGEST_PADDING = 10
_FIELD = re.compile(r"%(\d*)(.?)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Naming:
    """The facts that go into an output file's name. ``raw_id`` is the record's own number,
    ``array_id``/``task`` those of an array task; ``first_node`` the batch host, where known."""

    raw_id: int
    name: str
    user: str
    work_dir: str
    array_id: int | None = None
    task: int | None = None
    first_node: str = ""


def output_path(pattern: str, naming: Naming) -> str:
    """The absolute path that the batch step writes to.

    An empty pattern is Slurm's default. A field that cannot be filled yet (%N of a waiting job)
    stays as it is. A backslash anywhere turns expansion off and is itself removed.
    """
    default = "slurm-%A_%a.out" if naming.task is not None else "slurm-%j.out"
    text = pattern or default
    if text == f"{naming.work_dir}/slurm-{naming.raw_id}.out" and naming.task is not None:
        # 22.05 shows this for every job without a pattern, arrays included.
        text = default
    if "\\" in text:
        text = re.sub(r"\\(.?)", r"\1", text, flags=re.DOTALL)
    else:
        text = _FIELD.sub(lambda match: _filled(match, naming), text)
    if text == "none":
        return "/dev/null"
    return text if text.startswith("/") else f"{naming.work_dir.rstrip('/')}/{text}"


def _filled(match: re.Match[str], naming: Naming) -> str:
    width, letter = match.groups()
    number: int | None = None
    match letter:
        case "%":
            return "%"
        case "x":
            return naming.name
        case "u":
            return naming.user
        case "N" if naming.first_node:
            return naming.first_node
        case "s":
            return "batch"
        case "j" | "J":
            number = naming.raw_id
        case "A":
            number = naming.raw_id if naming.array_id is None else naming.array_id
        case "a":
            number = NO_TASK if naming.task is None else naming.task
        case "b" if naming.task is not None:
            number = naming.task % 10
        case "n" | "t":
            number = 0
        case _:
            return match.group(0)
    return str(number).rjust(min(int(width or 0), _LONGEST_PADDING), "0")
