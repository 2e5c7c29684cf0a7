"""The pattern files become records, or a sentence that says which line of which file to mend.

A site can add files of its own beside ours: a pattern needs no Python, so what is wrong with one
has to be found here, with its file and its id, and before anything is watched with it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources
from pathlib import Path
from typing import TypeVar

import re2

from middlewatch.adapters.scan.caps import MOST_PATTERNS, PATTERN_MEMORY, too_long
from middlewatch.adapters.scan.re2_options import MEMORY, compiled
from middlewatch.model.pattern import Pattern, PatternKind, ProgressForm
from middlewatch.model.signal import Domain, Phase, Severity

GROUPS = frozenset(
    {
        "label", "rank", "ranks", "local_rank", "node", "hosts", "host", "writer", "peer", "gpu", "xid",
        "reason", "exit_code", "signal", "pid", "ran_ms", "step", "total", "epoch", "epochs", "loss",
        "updates", "step_ms", "step_s", "step_rate", "path", "throughput", "grad_norm",
        "data_s", "data_ms", "batch_size", "timer", "min_ms", "max_ms", "samples", "tokens",
        "loss_scale", "skipped", "nan_steps",
        "seq", "op", "numel", "numel_out", "timeout_ms", "enqueued", "completed", "group",
        "world", "member", "actor", "frame", "file", "thread", "state", "at", "port", "status",
    }
)  # fmt: skip
LOOPS = "loops.toml"
_WORDS = {
    "class": "failure_class",
    "id": "id",
    "kind": "kind",
    "regex": "regex",
    "domain": "domain",
    "severity": "severity",
    "scope": "scope",
    "priority": "priority",
    "form": "form",
    "phase": "phase",
    "confirmed_by_progress": "confirmed_by_progress",
    "opens": "opens",
    "source": "source",
    "examples": "examples",
    "near_misses": "near_misses",
}
_NEEDED = ("id", "kind", "regex", "examples", "near_misses")
_SCOPES = frozenset({"job", "rank", "node", "gpu"})


class BadPatternError(ValueError):
    """A pattern file cannot be used; the message names the file, the pattern and the fault."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """All patterns, in the order of their files. Ids are unique. ``foreign`` are the ids of those
    that a site wrote: they are searched by RE2, whatever engine there is."""

    patterns: tuple[Pattern, ...]
    foreign: frozenset[str] = frozenset()

    def by_id(self) -> dict[str, Pattern]:
        return {pattern.id: pattern for pattern in self.patterns}


def read_catalogue(extra: Path | None = None) -> Catalogue:
    """Our pattern files, and those of the folder ``extra`` behind them.

    Raises `BadPatternError`; a pattern of ``extra`` with an id of ours replaces it. For those of
    ``extra`` there are limits (`caps`): whoever writes one need not know what a regex can cost.
    """
    ours = resources.files("middlewatch").joinpath("patterns")
    texts = sorted(
        (item.name, item.read_text("utf-8"))
        for item in ours.iterdir()
        if item.name.endswith(".toml")
    )
    macros = _macros(dict(texts).get("macros.toml", ""))
    found: dict[str, Pattern] = {}
    for name, text in texts:
        if name not in {"macros.toml", LOOPS}:
            _add(found, name, read_patterns(name, text, macros), replacing=False)
    foreign: set[str] = set()
    if extra is not None:
        if not extra.is_dir():
            raise BadPatternError(f"{extra} is no folder with pattern files")
        for path in sorted(extra.glob("*.toml")):
            try:
                text = path.read_text("utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise BadPatternError(f"{path}: {error}") from error
            theirs = read_patterns(str(path), text, macros, capped=True)
            _add(found, str(path), theirs, replacing=True)
            foreign.update(pattern.id for pattern in theirs)
            if len(foreign) > MOST_PATTERNS:
                raise BadPatternError(
                    f"{path}: more than {MOST_PATTERNS} patterns in {extra}; put several into one "
                    "with |, or leave some out"
                )
    return Catalogue(tuple(found.values()), frozenset(foreign))


def read_loops() -> Catalogue:
    """Our patterns for loops of any kind: for the output of jobs in which no other pattern finds
    steps (`model.pattern.LOOP` begins their ids)."""
    ours = resources.files("middlewatch").joinpath("patterns")
    macros = _macros(ours.joinpath("macros.toml").read_text("utf-8"))
    return Catalogue(read_patterns(LOOPS, ours.joinpath(LOOPS).read_text("utf-8"), macros))


def _macros(text: str) -> dict[str, str]:
    return {str(k): str(v) for k, v in tomllib.loads(text).get("macros", {}).items()}


def _add(
    found: dict[str, Pattern], name: str, patterns: Iterable[Pattern], *, replacing: bool
) -> None:
    seen: set[str] = set()
    for pattern in patterns:
        if pattern.id in seen or (pattern.id in found and not replacing):
            raise BadPatternError(f"{name}: pattern {pattern.id}: this id is taken")
        seen.add(pattern.id)
        found[pattern.id] = pattern


def read_patterns(
    name: str, text: str, macros: Mapping[str, str], *, capped: bool = False
) -> tuple[Pattern, ...]:
    """The patterns of one file; ``capped``: not one of ours. Raises `BadPatternError`."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise BadPatternError(f"{name}: not TOML: {error}") from error
    entries = document.get("pattern", [])
    if not isinstance(entries, list):
        raise BadPatternError(f"{name}: write [[pattern]], with two brackets")
    return tuple(
        _pattern(name, number, entry, macros, capped=capped)
        for number, entry in enumerate(entries, 1)
    )


def _pattern(
    name: str, number: int, entry: object, macros: Mapping[str, str], *, capped: bool
) -> Pattern:
    if not isinstance(entry, dict):
        raise BadPatternError(f"{name}: pattern {number} is not a table")
    where = f"{name}: pattern {entry.get('id', number)}"
    for word in entry:
        if word not in _WORDS:
            raise BadPatternError(f"{where}: unknown key {word!r} (known: {', '.join(_WORDS)})")
    for word in _NEEDED:
        if not entry.get(word):
            raise BadPatternError(f"{where}: {word} is missing")
    regex = _text(where, entry, "regex")
    if capped and (fault := too_long(regex)):
        raise BadPatternError(f"{where}: regex: {fault}")
    for macro, meaning in macros.items():
        regex = regex.replace(f"%{macro}%", meaning)
    check_regex(where, regex, PATTERN_MEMORY if capped else MEMORY)
    scope = entry.get("scope", "job")
    if scope not in _SCOPES:
        raise BadPatternError(f"{where}: scope is one of {', '.join(sorted(_SCOPES))}")
    phase = entry.get("phase")
    return Pattern(
        id=_text(where, entry, "id"),
        kind=_word(where, entry, "kind", PatternKind, None),
        regex=regex,
        failure_class=_text(where, entry, "class"),
        domain=_word(where, entry, "domain", Domain, Domain.UNKNOWN),
        severity=_word(where, entry, "severity", Severity, Severity.ERROR),
        scope=scope,
        priority=_whole(where, entry, "priority", 50),
        form=_word(where, entry, "form", ProgressForm, ProgressForm.STEP),
        phase=None if phase is None else _word(where, entry, "phase", Phase, None),
        confirmed_by_progress=entry.get("confirmed_by_progress") is True,
        opens=entry.get("opens") is True,
        source=_text(where, entry, "source"),
        examples=_lines(where, entry, "examples"),
        near_misses=_lines(where, entry, "near_misses"),
    )


def check_regex(where: str, regex: str, memory: int = MEMORY) -> frozenset[str]:
    """The names of the regex's groups. Raises `BadPatternError`, which says ``where``."""
    try:
        searcher = compiled(regex, memory=memory)
    except UnicodeEncodeError as error:
        raise BadPatternError(f"{where}: regex: only Latin-1 characters: {error}") from error
    except re2.error as error:
        said = error.args[0] if error.args else error
        said = said.decode("utf-8", "replace") if isinstance(said, bytes) else said
        if "too large" in str(said):
            said = f"{said}; lower the numbers in {{ }}"
        raise BadPatternError(f"{where}: regex: RE2 refuses it: {said}") from error
    if searcher.search(b"") is not None:
        raise BadPatternError(
            f"{where}: regex: it matches an empty line, and so every line; "
            "name something that must be there"
        )
    groups = frozenset(
        group.decode() if isinstance(group, bytes) else str(group) for group in searcher.groupindex
    )
    for group in sorted(groups - GROUPS):
        known = ", ".join(sorted(GROUPS))
        raise BadPatternError(f"{where}: unknown group {group!r} (known: {known})")
    return groups


def _text(where: str, entry: Mapping[str, object], word: str) -> str:
    value = entry.get(word, "")
    if not isinstance(value, str):
        raise BadPatternError(f"{where}: {word} must be text")
    return value


def _whole(where: str, entry: Mapping[str, object], word: str, default: int) -> int:
    value = entry.get(word, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise BadPatternError(f"{where}: {word} must be a whole number")
    return value


def _lines(where: str, entry: Mapping[str, object], word: str) -> tuple[str, ...]:
    value = entry.get(word)
    if not isinstance(value, list) or not all(isinstance(line, str) for line in value):
        raise BadPatternError(f"{where}: {word} must be a list of lines")
    return tuple(value)


E_ = TypeVar("E_", bound=StrEnum)


def _word(
    where: str, entry: Mapping[str, object], word: str, kind: type[E_], default: E_ | None
) -> E_:
    value = entry.get(word, default)
    try:
        return kind(value)  # type: ignore[arg-type]  # anything but a word of the enum is refused
    except ValueError as error:
        known = ", ".join(member.value for member in kind)
        raise BadPatternError(f"{where}: {word} is one of {known}, not {value!r}") from error
