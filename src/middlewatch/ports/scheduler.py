"""The scheduler, as far as we look at it and change it.

Looks return an `Answer`; they never raise for a scheduler that does not reply. Changing commands
return a `CommandResult`: done, refused, or no answer, and no answer means it may still happen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from middlewatch.model.action import Action, CommandResult
from middlewatch.model.answer import Answer
from middlewatch.model.identity import ClusterId
from middlewatch.model.scheduler import (
    AccountingRecord,
    ActsFor,
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
        """Just these jobs, in one batched call; of an array's number its tasks. A job that is missing in a `Known` answer is not
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


@runtime_checkable
class Scoped(Protocol):
    """A scheduler that may be one user's window on it rather than the site's."""

    def acts_for(self) -> Answer[ActsFor]:
        """Whose jobs are listed and may be changed. Never `Absent`."""


@runtime_checkable
class ManyAtOnce(Protocol):
    """A scheduler that can be asked about many jobs with one command."""

    def details(self, job_ids: Sequence[str]) -> Mapping[str, Answer[JobDetail]]:
        """`Scheduler.detail` of those of the jobs that one command can tell of, under the same
        rules. Whoever is missing was not asked about: so are all where one command for all of them
        would cost the scheduler more than one for each."""

    def accountings(
        self, job_ids: Sequence[str]
    ) -> Mapping[str, Answer[tuple[AccountingRecord, ...]]]:
        """`Scheduler.accounting` of all of the jobs, in one command; or of none."""


def details_of(scheduler: Scheduler, job_ids: Sequence[str]) -> Mapping[str, Answer[JobDetail]]:
    """The details that are to be had with fewer commands than jobs; possibly of none."""
    if len(job_ids) < 2 or not isinstance(scheduler, ManyAtOnce):
        return {}
    return scheduler.details(job_ids)


def accountings_of(
    scheduler: Scheduler, job_ids: Sequence[str]
) -> Mapping[str, Answer[tuple[AccountingRecord, ...]]]:
    """Accounting's records of all of them, or of none, likewise."""
    if len(job_ids) < 2 or not isinstance(scheduler, ManyAtOnce):
        return {}
    return scheduler.accountings(job_ids)
