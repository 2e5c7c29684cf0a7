"""What a controller elsewhere and its gateway say to each other: records of the model as JSON.

It is no interface for others: both sides are ours and of one release, so the records go over as
they are instead of through a second description of each. What comes in is decoded strictly, and
the gateway believes nothing in it that it can read in its own store.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import msgspec

from middlewatch.model.action import ActionRecord
from middlewatch.model.advice import Advice
from middlewatch.model.attempt import Attempt
from middlewatch.model.audit import AuditEvent
from middlewatch.model.change import Lease
from middlewatch.model.identity import AttemptId
from middlewatch.model.milestone import Milestone
from middlewatch.model.signal import Progress, Signal

R = TypeVar("R")

LEASE, RESIGN, WORK, CHANGE, NAME = "lease", "resign", "work", "change", "name"
LONGEST_WAIT_S = 5.0


@dataclass(frozen=True, slots=True)
class LeaseAsked:
    """Take or renew the lease of the cluster's controller for so long."""

    holder: str
    ttl_s: float


@dataclass(frozen=True, slots=True)
class LeaseGiven:
    """``taken_over_s``: how many seconds ago it was taken from a holder who had not given it back;
    None where that never was. (The lease's own times are by the gateway's clock.)"""

    lease: Lease | None
    taken_over_s: float | None = None


@dataclass(frozen=True, slots=True)
class Resigned:
    """The lease is given back by its holder."""

    lease: Lease


@dataclass(frozen=True, slots=True)
class WorkAsked:
    """All active advice of the cluster; or, with ``only``, whatever stands for these attempts.
    With ``wait_s`` the answer may come that much later: as soon as its digest is not ``known``."""

    only: tuple[AttemptId, ...] = ()
    known: str = ""
    wait_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Work:
    """One piece of advice and what a decision about it looks at. ``ends`` are those signals of the
    attempt that tell of its death, ``placed`` our exclusions on the whole job."""

    advice: Advice
    attempt: Attempt | None
    progress: Progress | None
    actions: tuple[ActionRecord, ...]
    ends: tuple[Signal, ...]
    placed: tuple[ActionRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkGiven:
    """``digest`` differs where other advice, or another generation, is active. ``rolled_back`` is
    the gateway's note of a rollback as it stands, empty where there is none."""

    work: tuple[Work, ...]
    digest: str
    rolled_back: str = ""


@dataclass(frozen=True, slots=True)
class ControlChange:
    """What a controller writes in one transaction. The lease may be left out for what a command
    came to: that is recorded whoever leads meanwhile."""

    lease: Lease | None = None
    attempts: tuple[Attempt, ...] = ()
    advice: tuple[Advice, ...] = ()
    actions: tuple[ActionRecord, ...] = ()
    milestones: tuple[Milestone, ...] = ()
    audit: tuple[AuditEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class Changed:
    """``rolled_back``: as in `WorkGiven`. A command is announced right before it is sent: this is the
    last word on whether it may be."""

    last_audit_number: int
    rolled_back: str = ""


@dataclass(frozen=True, slots=True)
class NameSeen:
    """The name that the cluster gives itself; kept where none is known yet. Empty: only asked."""

    name: str = ""


def encode(record: object) -> str:
    """The record as JSON. Raises ValueError for text that no UTF-8 can hold."""
    return msgspec.json.encode(record).decode("utf-8")


def decode(text: str, kind: type[R]) -> R:
    """The record in that JSON. Raises ValueError, saying where it is wrong."""
    try:
        record: R = msgspec.json.decode(text, type=kind, strict=True)
    except (msgspec.MsgspecError, UnicodeError, RecursionError, TypeError) as error:
        raise ValueError(str(error)) from error
    return record
