"""What was seen of a log set-up: the material that is judged, without how it was come by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

SECOND = 1_000_000_000


class Level(StrEnum):
    OK = "ok"
    INFO = "info"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Remedy:
    """A setting of ours that would mend something, as it would be set."""

    section: str
    key: str
    value: str | float | bool


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was tested: ``text`` says what was seen and where, ``mend`` what to do.
    ``remedies`` are settings of ours that would mend it, where any would."""

    check: str
    level: Level
    text: str
    mend: str = ""
    remedies: tuple[Remedy, ...] = ()


@dataclass(frozen=True, slots=True)
class Seen:
    """One line. ``at`` is the time that the store gives it, nanoseconds since the epoch (0: a file,
    which gives none); ``arrived`` when it was first found, where it came while we looked."""

    text: bytes
    at: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    arrived: int = 0


@dataclass(frozen=True, slots=True)
class Known:
    """What the scheduler says: ids as squeue shows them, names of nodes. Empty: it was not asked,
    or did not answer, and ``why_not`` says so. ``asked_for`` is the one job that is meant."""

    jobs: frozenset[str] = frozenset()
    nodes: frozenset[str] = frozenset()
    why_not: str = ""
    asked_for: str = ""

    @property
    def wanted(self) -> frozenset[str]:
        """The ids that a job's label should hold; empty where none is known."""
        return frozenset({self.asked_for}) if self.asked_for else self.jobs


@dataclass(frozen=True, slots=True)
class Sample:
    """Lines of a log store or a file, oldest first. ``stream_labels`` are the names that streams
    are told apart by, ``now`` is when the sample was taken, nanoseconds since the epoch."""

    lines: tuple[Seen, ...]
    stream_labels: frozenset[str] = frozenset()
    now: int = 0
    written: int = 0
    """When a file was last written to, nanoseconds since the epoch; 0 for a store."""
    watched_s: float = 0.0
    """For how long it was watched whether lines come."""
    gone: str = ""
    """Why the watching ended early: the server no longer answered."""
    beside: tuple[Seen, ...] = ()
    """Lines of the same store without the job's label, where ``lines`` were asked for by it."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What our settings say. ``source`` is files, victorialogs or loki."""

    source: str
    job: str = "job_id"
    node: str = "node"
    file: str = "filename"
    job_in_stream: bool = True
    match: str = ""
    delay_s: float = 3.0


@dataclass(frozen=True, slots=True)
class Report:
    """All that was found. ``unreached`` names servers that did not answer."""

    findings: tuple[Finding, ...]
    unreached: tuple[str, ...] = ()

    @property
    def remedies(self) -> tuple[Remedy, ...]:
        """Each key once; the first finding that speaks of it counts."""
        kept: dict[tuple[str, str], Remedy] = {}
        for finding in self.findings:
            for remedy in finding.remedies:
                kept.setdefault((remedy.section, remedy.key), remedy)
        return tuple(kept.values())

    @property
    def fine(self) -> bool:
        return all(finding.level in {Level.OK, Level.INFO} for finding in self.findings)
