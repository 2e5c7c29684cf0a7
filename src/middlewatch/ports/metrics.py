"""What the site measures of its nodes and jobs, and what a checkpoint directory shows.

Both answer as every look does: known, absent or unknown. A server that does not answer is unknown,
and so is one that refuses; absent is an answer in which nothing was there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from middlewatch.model.activity import ActivityKind, Growth, NodeSeries
from middlewatch.model.answer import Answer


@dataclass(frozen=True, slots=True)
class StepSeries:
    """A job's own step counter: (seconds since the epoch, step), ascending by time."""

    job_id: str
    samples: tuple[tuple[float, int], ...]


class Metrics(Protocol):
    """Never raises: what goes wrong is the reason of an `Unknown`."""

    @property
    def kinds(self) -> tuple[ActivityKind, ...]:
        """What can be asked for, in the order in which it is worth asking."""

    @property
    def window_s(self) -> float:
        """How many seconds before it a sample speaks of."""

    @property
    def counts_steps(self) -> bool:
        """Whether `steps` is worth asking."""

    def activity(
        self,
        kind: ActivityKind,
        nodes: Sequence[str],
        job_id: str,
        start: datetime,
        end: datetime,
    ) -> Answer[tuple[NodeSeries, ...]]:
        """One kind for the nodes of a job. Only asked-for nodes appear, each once, and only times
        from ``start`` to ``end`` at which something was measured."""

    def measured(self, at: datetime) -> Answer[frozenset[str]]:
        """The nodes of which anything is measured, as their labels name them without a port, and
        their short names."""

    def steps(self, start: datetime, end: datetime) -> Answer[tuple[StepSeries, ...]]:
        """The step counters of all jobs that have one."""


class Directories(Protocol):
    def growth(self, path: str, uid: int) -> Answer[Growth]:
        """When anything in a directory of that user was last written. Never raises, and never
        waits for a file system that does not answer: that is unknown."""
