"""A scheduler whose answers a test writes down one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from middlewatch.model.action import Action, Answered, CommandResult
from middlewatch.model.answer import Absent, Answer, Known, Unknown
from middlewatch.model.identity import ClusterId
from middlewatch.model.scheduler import (
    AccountingRecord,
    ClusterFacts,
    JobDetail,
    JobState,
    JobView,
    PartitionView,
    Snapshot,
)
from middlewatch.ports.errors import Unreadable

FACTS = ClusterFacts("lab", "24.11.5", 121.0, 10.0, 300.0, 30.0)


@dataclass
class ScriptedScheduler:
    """``views``, ``details`` and ``records`` are what it would answer now; ``away`` why it does
    not answer at all."""

    cluster: ClusterId
    now: datetime
    views: dict[str, JobView] = field(default_factory=dict)
    details: dict[str, JobDetail] = field(default_factory=dict)
    records: dict[str, tuple[AccountingRecord, ...]] | None = field(default_factory=dict)
    away: str | None = None
    detail_calls: int = 0
    accounting_calls: int = 0

    def job(self, job_id: str, comment: str, stdout: str, **view: Any) -> None:
        """A job as the listing and its detail show it now."""
        shown = JobView(
            job_id=job_id,
            state=JobState.RUNNING,
            flags=frozenset(),
            reason="None",
            priority=100,
            restarts=0,
            submitted_at=self.now,
            started_at=self.now,
            partitions=("train",),
            node_list="n1,n2",
            user="alice",
        )
        self.views[job_id] = replace(shown, **view)
        self.details[job_id] = JobDetail(
            job_id=job_id,
            submitted_at=self.views[job_id].submitted_at,
            comment=comment,
            name="train",
            work_dir="/",
            stdout=stdout,
            stderr=stdout,
            excluded_nodes=(),
            required_nodes=(),
            requeueable=True,
            held_by_operator=False,
        )

    def change(self, job_id: str, **view: Any) -> None:
        self.views[job_id] = replace(self.views[job_id], **view)
        if "submitted_at" in view:
            self.details[job_id] = replace(self.details[job_id], submitted_at=view["submitted_at"])

    def facts(self) -> Answer[ClusterFacts]:
        return Unknown(self.away, self.now) if self.away else Known(FACTS, self.now)

    def listing(self) -> Answer[Snapshot]:
        if self.away:
            return Unknown(self.away, self.now)
        return Known(Snapshot("lab", self.now, tuple(self.views.values())), self.now)

    def look(self, job_ids: Sequence[str]) -> Answer[Snapshot]:
        raise AssertionError("the watcher lists, it does not look")

    def detail(self, job_id: str) -> Answer[JobDetail]:
        self.detail_calls += 1
        found = self.details.get(job_id)
        return Absent(self.now) if found is None else Known(found, self.now)

    def accounting(self, job_id: str) -> Answer[tuple[AccountingRecord, ...]]:
        self.accounting_calls += 1
        if self.records is None:
            return Absent(self.now)
        return Known(self.records.get(job_id, ()), self.now)

    def partitions(self) -> Answer[tuple[PartitionView, ...]]:
        return Known((), self.now)

    def hostnames(self, node_list: str) -> tuple[str, ...]:
        if node_list == "broken[":
            raise Unreadable("scontrol does not expand 'broken['")
        return tuple(name for name in node_list.split(",") if name)

    def perform(self, action: Action, deadline_s: float) -> CommandResult:
        return CommandResult(Answered.REFUSED, (), 1, "not here", self.now, self.now)
