"""Who is who: clusters, attempts, and why a job's number alone names nothing.

Slurm reuses job numbers after a wrap or a reset, and one job runs several times. What it cannot
repeat is the pair of job number and the submit time that it gives to each attempt, so that pair
is the key, and the attempt's public id is a name-based UUID of it: the same on every controller,
before and after a restart, with no shared counter.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NewType

AttemptId = NewType("AttemptId", str)
"""Canonical lower-case text of a version-5 UUID."""

ATTEMPT_NAMESPACE = uuid.UUID("6f3c1f4e-3d0b-5f0a-9a53-6b1b7a1f7c55")
SEQUENCE_NAMESPACE = uuid.UUID("0b2f0c1e-57b4-5c53-8f6e-2a9d3f1f6c10")


class NaiveTimeError(ValueError):
    """A time without a zone was given to a record; every record speaks UTC."""


def utc(moment: datetime) -> datetime:
    """The same moment in UTC. Raises `NaiveTimeError` for a time without a zone."""
    if moment.tzinfo is None:
        raise NaiveTimeError(f"time without a zone: {moment!r}; give an aware datetime")
    return moment.astimezone(UTC)


@dataclass(frozen=True, slots=True, order=True)
class ClusterId:
    """One scheduler instance: its kind (``slurm``) and the name that the site chose for it."""

    scheduler: str
    environment: str


@dataclass(frozen=True, slots=True)
class AttemptKey:
    """What the scheduler cannot repeat. ``submitted_at`` counts in whole seconds."""

    cluster: ClusterId
    job_id: str
    submitted_at: datetime

    def attempt_id(self) -> AttemptId:
        """The deterministic public id of the attempt with this key."""
        moment = int(utc(self.submitted_at).timestamp())
        name = f"{self.cluster.scheduler}/{self.cluster.environment}/{self.job_id}/{moment}"
        return AttemptId(str(uuid.uuid5(ATTEMPT_NAMESPACE, name)))


def sequence_id(cluster: ClusterId, job_id: str, attempt: AttemptId, operation: str) -> str:
    """The id of one recovery operation: one source attempt, one operation, one sequence."""
    name = f"{cluster.scheduler}/{cluster.environment}/{job_id}/{attempt}/{operation}"
    return str(uuid.uuid5(SEQUENCE_NAMESPACE, name))


class BadReferenceError(ValueError):
    """Text that should name an attempt does not; the message says what was expected."""


def parse_attempt_reference(text: str) -> tuple[str, int]:
    """Split ``{jobId}-{attemptIndex}`` at its last hyphen.

    Raises `BadReferenceError` where the text is not of that form.
    """
    job_id, hyphen, index = text.rpartition("-")
    if not hyphen or not job_id or not (index.isascii() and index.isdigit()):
        raise BadReferenceError(
            f"{text[:80]!r} is not {{jobId}}-{{attemptIndex}}, for example 12345-0; "
            "to name an attempt by its UUID set useHeimdallId=true"
        )
    return job_id, int(index)
