"""Reading what people give: a log of any bytes, facts as JSON or YAML, the seconds of its lines.

Everything here may be wrong, huge or hostile, and whoever gave it wants to know what is wrong with
it and where.
"""

from __future__ import annotations

import json
import re
from math import isfinite
from pathlib import Path
from typing import Any, ClassVar

from middlewatch.wiring.analysis.facts import BadFacts, Facts, read_facts

LOG_LIMIT = 1 << 30
FACTS_LIMIT = 1 << 20


class BadInput(ValueError):
    """A file cannot be used; the message names it, the place, and what would be right.

    ``missing`` says that it is not there at all.
    """

    def __init__(self, message: str, *, missing: bool = False) -> None:
        super().__init__(message)
        self.missing = missing


def read_bytes(path: Path, limit: int, what: str) -> bytes:
    """The bytes of a file of at most ``limit`` bytes. Raises `BadInput`."""
    try:
        if path.is_dir():
            raise BadInput(f"{path} is a folder; give the file with the {what}")
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except FileNotFoundError as error:
        raise BadInput(f"{path}: there is no such file", missing=True) from error
    except (OSError, ValueError) as error:
        raise BadInput(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    if len(data) > limit:
        raise BadInput(f"{path} is larger than {limit >> 20} MB, the most that is read of a {what}")
    return data


def read_log(path: Path) -> bytes:
    """A job's log. Raises `BadInput`."""
    return read_bytes(path, LOG_LIMIT, "log")


def facts_from(path: Path) -> Facts:
    """Facts from a JSON or YAML file. Raises `BadInput`."""
    try:
        return read_facts(mapping_from(path))
    except BadFacts as error:
        raise BadInput(f"{path}: {error}") from error


def mapping_from(path: Path) -> Any:
    """What a JSON or YAML file holds. Raises `BadInput`."""
    data = read_bytes(path, FACTS_LIMIT, "facts")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is no text: byte {error.start} is not UTF-8") from error
    if text.lstrip().startswith(("{", "[")):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            pass  # YAML's own braces look the same
    return _yaml(path, text)


def _yaml(path: Path, text: str) -> Any:
    import yaml

    try:
        return yaml.load(text, Loader=_loader())  # noqa: S506 - a subclass of the safe loader
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" in line {mark.line + 1}"
        said = getattr(error, "problem", None) or type(error).__name__
        raise BadInput(f"{path} is neither JSON nor YAML{where}: {said}") from error


def _loader() -> Any:
    """The safe loader with YAML 1.2's scalars: `yes` is a word and `1:0` no number of minutes."""
    import yaml

    safe: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    kept = {"tag:yaml.org,2002:null", "tag:yaml.org,2002:float", "tag:yaml.org,2002:merge"}

    class Core(safe):  # type: ignore[misc]
        yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {
            first: [(tag, regexp) for tag, regexp in resolvers if tag in kept]
            for first, resolvers in safe.yaml_implicit_resolvers.items()
        }

    number = re.compile(r"[-+]?(?:0|[1-9][0-9]*)$")
    Core.add_implicit_resolver("tag:yaml.org,2002:int", number, list("-+0123456789"))
    truth = re.compile(r"(?:true|True|TRUE|false|False|FALSE)$")
    Core.add_implicit_resolver("tag:yaml.org,2002:bool", truth, list("tTfF"))
    return Core


def times_from(path: Path, lines: int) -> tuple[float, ...]:
    """Seconds since job start, one for each of ``lines`` lines. Raises `BadInput`."""
    data = read_bytes(path, LOG_LIMIT, "file of times")
    found: list[float] = []
    for number, text in enumerate(data.decode("latin-1").split("\n"), 1):
        if not text.strip():
            continue
        try:
            seconds = float(text)
        except ValueError as error:
            raise BadInput(
                f"{path}, line {number}: {text.strip()[:40]!r} is no number of seconds"
            ) from error
        if not isfinite(seconds) or abs(seconds) > 1e9:
            raise BadInput(f"{path}, line {number}: {text.strip()[:40]} seconds are no usable time")
        found.append(seconds)
    if len(found) < lines:
        raise BadInput(
            f"{path} has {len(found)} times for {lines} lines: one number per line of the log, "
            "lines ended by LF"
        )
    return tuple(found[:lines])
