"""Which label holds what: told by its values first, and by its name where values are not enough.

A collector calls the job's id `slurm_job_id`, `jobid` or `job`; a process id is a number as well.
So a label is only called the right one where its values are ids that the scheduler knows, or where
both its name and its values speak for it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

OUR_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,127}\Z")
JOB_ID = re.compile(r"[1-9][0-9]{0,9}(?:_[0-9]{1,7})?\Z", re.ASCII)
_ID_WITHIN = re.compile(r"(?<![0-9A-Za-z])(?:job)?([1-9][0-9]{0,9}(?:_[0-9]{1,7})?)(?![0-9_])")
_NODE = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,62}(?:\.[A-Za-z0-9.-]{1,190})?(?::[0-9]{1,5})?\Z")
_JOB_NAMES = re.compile(r"job_?id|^job$|slurm.*job|job.*slurm", re.IGNORECASE)
_NODE_NAMES = re.compile(r"node|host|^instance$|machine", re.IGNORECASE)
_FILE_NAMES = re.compile(r"file|path", re.IGNORECASE)
MOST_LABELS = 200
MOST_SHOWN = 3
ENOUGH = 0.8
"""The share of a label's values that must fit."""


@dataclass(frozen=True, slots=True)
class Label:
    """One label of a sample: its values, each with how many lines have it."""

    name: str
    values: Mapping[str, int]

    @property
    def lines(self) -> int:
        return sum(self.values.values())

    def share(self, fits: Collection[str]) -> float:
        """The share of its lines whose value is one of ``fits``."""
        return sum(self.values[v] for v in fits if v in self.values) / max(1, self.lines)


def labels_of(given: Iterable[Mapping[str, str]]) -> dict[str, Label]:
    """All labels of some lines or series; empty values count as none."""
    found: dict[str, Counter[str]] = {}
    for labels in given:
        for name, value in labels.items():
            if value and (name in found or len(found) < MOST_LABELS):
                found.setdefault(name, Counter())[value] += 1
    return {name: Label(name, dict(values)) for name, values in found.items()}


def host_of(value: str) -> str:
    """A node's short name, without its domain and an exporter's port."""
    host, colon, port = value.rpartition(":")
    return (host if colon and port.isdigit() else value).partition(".")[0]


def id_within(value: str) -> str:
    """The one job id inside another text, as in `slurm-4711.out`; empty where none or several."""
    found = set(_ID_WITHIN.findall(value))
    return found.pop() if len(found) == 1 else ""


def job_values(label: Label, known: Collection[str]) -> tuple[str, ...]:
    """Those of its values that are ids of jobs: known ones, or, where none is known, of their form."""
    if known:
        return tuple(v for v in label.values if v in known)
    return tuple(v for v in label.values if JOB_ID.match(v))


def node_values(label: Label, known: Collection[str]) -> tuple[str, ...]:
    if known:
        short = {host_of(node) for node in known}
        return tuple(v for v in label.values if host_of(v) in short)
    return tuple(v for v in label.values if _NODE.match(v))


def file_values(label: Label) -> tuple[str, ...]:
    return tuple(v for v in label.values if v.startswith("/") and len(v) > 1)


def best_job(labels: Mapping[str, Label], known: Collection[str], but: str) -> tuple[Label, ...]:
    """Labels that may hold the job's id, the likeliest first; ``but`` is not one of them."""
    return _best(labels, but, lambda label: job_values(label, known), _JOB_NAMES, sure=bool(known))


def best_node(labels: Mapping[str, Label], known: Collection[str], but: str) -> tuple[Label, ...]:
    return _best(
        labels, but, lambda label: node_values(label, known), _NODE_NAMES, sure=bool(known)
    )


def best_file(labels: Mapping[str, Label], but: str) -> tuple[Label, ...]:
    return _best(labels, but, file_values, _FILE_NAMES, sure=True)


def _best(
    labels: Mapping[str, Label],
    but: str,
    fitting: Callable[[Label], Collection[str]],
    hint: re.Pattern[str],
    *,
    sure: bool,
) -> tuple[Label, ...]:
    ranked: list[tuple[bool, float, int, str]] = []
    for label in labels.values():
        share = label.share(fitting(label))
        named = hint.search(label.name) is not None
        # A number alone says nothing: process ids, ranks and ports are numbers as well.
        if label.name != but and share >= (0.2 if sure else ENOUGH) and (sure or named):
            ranked.append((named, share, label.lines, label.name))
    ranked.sort(key=lambda item: (-item[1], not item[0], -item[2], len(item[3]), item[3]))
    return tuple(labels[item[3]] for item in ranked)


def shown(values: Iterable[str]) -> str:
    """Some values for a sentence."""
    every = [value if len(value) <= 60 else f"{value[:59]}…" for value in values]
    more = f" and {len(every) - MOST_SHOWN} more" if len(every) > MOST_SHOWN else ""
    return ", ".join(repr(value) for value in every[:MOST_SHOWN]) + more
