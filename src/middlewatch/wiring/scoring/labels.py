"""Labelled cases: what somebody who knows the answer wrote beside a log.

The format is that of corpus/README.md: `<id>.log`, `<id>.yaml`, `<id>.times` side by side.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from middlewatch.wiring.analysis.facts import BadFacts, Facts, read_facts
from middlewatch.wiring.analysis.reading import BadInput, mapping_from

Range = tuple[int, int]
SEEN = frozenset({"dev", "read"})
"""Words for ``split`` of cases that those who wrote the patterns have read: before or after."""
"""The split of cases that the authors of the patterns could look at."""
GOOD = frozenset({"healthy", "completed"})
KINDS = frozenset(
    {"crash", "hang", "slow", "diverged", "preempted", "user_stop", "completed", "healthy"}
)
ADVICE = frozenset({"yes", "no", "only-with-node-excluded", "unclear", "not-applicable"})


@dataclass(frozen=True, slots=True)
class Label:
    """One case. None is "the log does not show it" throughout."""

    id: str
    log: Path
    times: Path | None
    seen: bool
    kind: str
    classes: tuple[str, ...]
    """The class, and then those that are accepted as well."""
    first: tuple[Range, ...]
    rank: int | None
    local_rank: int | None
    node: str | None
    cascade: tuple[Range, ...]
    onset: int | None
    last_step: int | None
    checkpoint_step: int | None
    advisable: str
    nodes: tuple[str, ...]
    facts: Facts

    @property
    def good(self) -> bool:
        return self.kind in GOOD


def labels_in(folder: Path) -> tuple[Label, ...]:
    """All labelled cases of a folder, by id. Raises `BadInput`."""
    if not folder.is_dir():
        missing = not folder.exists()
        what = "there is no such folder" if missing else "is no folder with labelled cases"
        raise BadInput(f"{folder}: {what}", missing=missing)
    return tuple(label_from(path) for path in sorted(folder.glob("*.yaml")))


def label_from(path: Path) -> Label:
    """One label and where its log lies. Raises `BadInput`."""
    value = mapping_from(path)
    if not isinstance(value, Mapping):
        raise BadInput(f"{path}: a label is a mapping of fields")
    log = path.with_suffix(".log")
    if not log.is_file():
        raise BadInput(f"{log}: the log of {path.name} is missing", missing=True)
    times = path.with_suffix(".times")
    try:
        return _label(value, path, log, times if times.is_file() else None)
    except (BadFacts, ValueError, TypeError) as error:
        raise BadInput(f"{path}: {error}") from error


def _label(value: Mapping[str, Any], path: Path, log: Path, times: Path | None) -> Label:
    kind = str(value.get("kind") or "")
    if kind not in KINDS:
        raise ValueError(f"kind is {kind!r}; one of {', '.join(sorted(KINDS))}")
    restart = value.get("restart") or {}
    advice = restart.get("advisable") if isinstance(restart, Mapping) else None
    advice = {True: "yes", False: "no"}.get(advice, advice) if isinstance(advice, bool) else advice
    if str(advice) not in ADVICE:
        raise ValueError(f"restart.advisable is {advice!r}; one of {', '.join(sorted(ADVICE))}")
    first = value.get("first_cause") or {}
    if not isinstance(first, Mapping):
        raise TypeError("first_cause is no mapping")
    also = value.get("also_acceptable_classes") or []
    facts = value.get("scheduler_facts")
    node = first.get("node")
    return Label(
        id=str(value.get("id") or path.stem),
        log=log,
        times=times,
        seen=str(value.get("split") or path.parent.name) in SEEN,
        kind=kind,
        classes=(str(value.get("failure_class") or "none"), *map(str, also)),
        first=_ranges(first.get("lines")),
        rank=_number(first.get("rank")),
        local_rank=_number(first.get("local_rank")),
        node=None if node is None else str(node),
        cascade=_ranges(value.get("cascade_lines")),
        onset=_number(value.get("onset_line")),
        last_step=_number(value.get("last_progress_step")),
        checkpoint_step=_number(value.get("last_checkpoint_step")),
        advisable=str(advice),
        nodes=tuple(map(str, value.get("implicated_nodes") or ())),
        facts=Facts() if facts is None else read_facts(facts),
    )


def _number(value: object) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r} is no whole number")
    return value


def _ranges(value: object) -> tuple[Range, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise TypeError(f"{value!r} is no list of line ranges")
    found: list[Range] = []
    for item in value:
        pair = [item, item] if isinstance(item, int) else item
        if not (
            isinstance(pair, list) and len(pair) == 2 and all(isinstance(n, int) for n in pair)
        ):
            raise ValueError(f"{item!r} is no range of lines [first, last]")
        found.append((pair[0], pair[1]))
    return tuple(found)
