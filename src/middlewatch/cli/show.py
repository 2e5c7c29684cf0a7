"""What is printed, and how: tables as squeue makes them, JSON for programs, nothing a terminal
would obey."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from middlewatch.cli.failure import SCHEMA_VERSION
from middlewatch.wiring.plain import plain, plain_lines

LONG_AGO = datetime.min.replace(tzinfo=UTC)
"""What a missing time is sorted as."""


def say(text: object = "") -> None:
    """Print one line to standard output, stripped of what a terminal would obey. A line end in
    ``text`` becomes a blank: no job's name can add a line that looks like one of ours."""
    sys.stdout.write(plain(text).encode("utf-8", "replace").decode("utf-8") + "\n")


def note(text: object) -> None:
    """The same to standard error: all that is not the answer itself."""
    sys.stderr.write(plain_lines(text) + "\n")


def as_json(body: Mapping[str, Any]) -> None:
    """Print one object with the version of its schema. Only ASCII leaves: JSON's own escapes
    keep every character, and no terminal obeys them."""
    print(json.dumps({"schema_version": SCHEMA_VERSION, **body}, indent=2))


def table(
    headers: Sequence[str],
    rows: Iterable[Sequence[object]],
    right: Sequence[str] = (),
    *,
    header: bool = True,
) -> None:
    """Print rows under upper-case headers, without boxes. On a terminal the last column is cut
    at its edge; elsewhere nothing ever is."""
    cells = [[plain(cell) for cell in row] for row in rows]
    widths = [
        max([len(name), *(len(row[index]) for row in cells)]) for index, name in enumerate(headers)
    ]
    terminal = shutil.get_terminal_size((0, 0)).columns if sys.stdout.isatty() else 0
    for row in [list(headers), *cells] if header else cells:
        parts = [
            cell.rjust(width) if name in right else cell.ljust(width)
            for name, cell, width in zip(headers, row, widths, strict=True)
        ]
        line = " ".join(parts).rstrip()
        say(plain(line, terminal) if terminal else line)


def json_object(text: object) -> dict[str, Any]:
    """The object that a JSON text holds; an empty one where it holds none."""
    try:
        value = json.loads(str(text or "{}"))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def moment(text: str | None) -> datetime | None:
    """A time of the API (RFC 3339); None where there is none or it cannot be read."""
    if not text:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def clock_time(text: str | None) -> str:
    """A time as local HH:MM:SS with its date, to the second; a dash for none."""
    found = moment(text)
    return found.astimezone().strftime("%Y-%m-%dT%H:%M:%S") if found else "-"


def span(seconds: float | None) -> str:
    """A duration as Slurm writes it: M:SS, H:MM:SS, D-HH:MM:SS."""
    if seconds is None or seconds < 0:
        return "-"
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days}-{hour:02}:{minute:02}:{second:02}"
    return f"{hour}:{minute:02}:{second:02}" if hour else f"{minute}:{second:02}"


def folded(nodes: Sequence[str]) -> str:
    """Host names as Slurm writes a list of them: ``gpu-[001-003,007]``, in their given order of
    prefixes. Names without a number at the end stay as they are."""
    groups: dict[tuple[str, int], list[int]] = {}
    whole: list[str] = []
    for node in nodes:
        prefix = node.rstrip("0123456789")
        digits = node[len(prefix) :]
        if not digits.isascii() or not 0 < len(digits) <= 9:
            whole.append(node)
        else:
            groups.setdefault((prefix, len(digits)), []).append(int(digits))
    parts = [
        f"{prefix}{_ranges(sorted(set(numbers)), width)}"
        for (prefix, width), numbers in groups.items()
    ]
    return ",".join([*parts, *whole])


def _ranges(numbers: Sequence[int], width: int) -> str:
    if len(numbers) == 1:
        return f"{numbers[0]:0{width}}"
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    texts = ("-".join(f"{end:0{width}}" for end in run) for run in runs)
    return f"[{','.join(texts)}]"


def word(text: object, prefix: str) -> str:
    """An enum name of the API without its prefix."""
    return str(text or "").removeprefix(prefix)


def say_marked(mark: str, colour: str, text: object) -> None:
    """A line that begins with a mark, in colour where a terminal wants colours."""
    coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    if coloured and os.environ.get("TERM", "dumb") != "dumb":
        import click

        mark = click.style(mark, fg=colour)
    sys.stdout.write(f"{mark} {plain(text)}\n")
