"""The scheduler, as far as we look at it and change it.

Looks return an `Answer`; they never raise for a scheduler that does not reply. Changing commands
return a `CommandResult`: done, refused, or no answer, and no answer means it may still happen.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from middlewatch.model.action import Action, CommandResult
from middlewatch.model.answer import Answer
from middlewatch.model.identity import ClusterId
from middlewatch.model.scheduler import (
    AccountingRecord,
    ClusterFacts,
    JobDetail,
    PartitionView,
    Snapshot,
)


class Scheduler(Protocol):
    cluster: ClusterId

    def facts(self) -> Answer[ClusterFacts]:
        """What the scheduler says of itself now (one cheap call)."""

    def listing(self) -> Answer[Snapshot]:
        """Every job in its memory, ended ones included. Never `Absent`. One call."""

    def look(self, job_ids: Sequence[str]) -> Answer[Snapshot]:
        """Just these jobs, in one batched call. A job that is missing in a `Known` answer is not
        in the scheduler's memory: proof of absence there (accounting may still know it)."""

    def detail(self, job_id: str) -> Answer[JobDetail]:
        """The fields of one job that users write, by calls that cannot be forged. `Absent` where
        the scheduler does not know the job."""

    def accounting(self, job_id: str) -> Answer[tuple[AccountingRecord, ...]]:
        """All records of that number, oldest first, earlier jobs of the same number included:
        select by submit time. `Absent` where accounting is not set up."""

    def partitions(self) -> Answer[tuple[PartitionView, ...]]:
        """The partitions and their nodes."""

    def hostnames(self, node_list: str) -> tuple[str, ...]:
        """Expand the scheduler's node expression; empty for an empty one.

        Raises `Unreadable` for text that it refuses to expand.
        """

    def perform(self, action: Action, deadline_s: float) -> CommandResult:
        """Run one changing command, killed at the deadline. Never raises."""
