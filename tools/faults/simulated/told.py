"""What the witness is told, and what it finds: commands on their way, what was done, what was wrong."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from middlewatch.lab.simulated.records import Job
from middlewatch.model.action import ActionRecord


@dataclass(frozen=True, slots=True)
class Finding:
    """One breach: the counter it falls under, when, and a sentence."""

    count: str
    at: datetime
    text: str


@dataclass(slots=True)
class Seen:
    """What a service of ours was last shown of each job: by looks, and by questions about it."""

    looked: dict[str, Job | None] = field(default_factory=dict)
    detailed: dict[str, Job | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sent:
    """A command of ours on its way: who sent it, and what it was justified by. ``at`` is when its
    sender last checked that it may be sent. ``frozen``: its sender stood still since then, and
    somebody else may lead."""

    sender: str
    at: datetime
    looked: Job | None
    intent: ActionRecord | None
    frozen: bool


@dataclass(frozen=True, slots=True)
class Deed:
    """A command that reached slurmctld; ``by`` is ``operator``, ``owner``, or who of us sent it."""

    at: datetime
    by: str
    what: str
    job_id: str
    refusal: str
    ours: bool
    lineage: int
    restarts: int
    lets_go: bool
