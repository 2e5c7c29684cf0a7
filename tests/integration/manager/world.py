"""A real store on disk, a scheduler that answers what it is told to, and the manager between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from middlewatch.adapters.sql.store import SqlStore
from middlewatch.model.action import Action, CommandResult
from middlewatch.model.advice import Advice, Disposition, Reason, Status, reported
from middlewatch.model.answer import Absent, Answer, Known, Unknown
from middlewatch.model.attempt import Attempt
from middlewatch.model.change import Change
from middlewatch.model.gates import Deployment, Mode
from middlewatch.model.identity import AttemptId, ClusterId
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import (
    AccountingRecord,
    ClusterFacts,
    JobDetail,
    JobState,
    PartitionView,
    Snapshot,
)
from middlewatch.model.signal import Progress, Signal
from middlewatch.services.manager.manager import Manager, ManagerReport
from tests.unit.attribution.made import CLUSTER, at
from tests.unit.attribution.made import attempt as make

NODES = ("n1", "n2", "n3", "n4")


@dataclass
class ToldScheduler:
    """Answers looks with what the test set; refuses to change anything."""

    cluster: ClusterId = CLUSTER
    name: str | None = "cluster"
    views: tuple[PartitionView, ...] | None = (PartitionView("batch", NODES, NODES),)
    records: tuple[AccountingRecord, ...] | None = None
    asked: list[str] = field(default_factory=list)

    def facts(self) -> Answer[ClusterFacts]:
        self.asked.append("facts")
        if self.name is None:
            return Unknown("no answer", at(0))
        return Known(ClusterFacts(self.name, "23.11", 121, 10, 300, 30), at(0))

    def partitions(self) -> Answer[tuple[PartitionView, ...]]:
        self.asked.append("partitions")
        return Unknown("no answer", at(0)) if self.views is None else Known(self.views, at(0))

    def accounting(self, job_id: str) -> Answer[tuple[AccountingRecord, ...]]:
        self.asked.append("accounting")
        return Absent(at(0)) if self.records is None else Known(self.records, at(0))

    def listing(self) -> Answer[Snapshot]:
        raise AssertionError("the manager lists no jobs")

    def look(self, job_ids: Sequence[str]) -> Answer[Snapshot]:
        raise AssertionError("the manager looks at no jobs")

    def detail(self, job_id: str) -> Answer[JobDetail]:
        raise AssertionError("the manager looks at no jobs")

    def hostnames(self, node_list: str) -> tuple[str, ...]:
        raise AssertionError("node names are expanded before they are stored")

    def perform(self, action: Action, deadline_s: float) -> CommandResult:
        raise AssertionError("the manager changes nothing")


def deployment(**given: Any) -> Deployment:
    made = Deployment(CLUSTER, "cluster", Mode.ACTION, True, ("batch",))
    return replace(made, **given)


class World:
    """What a test does to the store in place of the watcher and the controller."""

    def __init__(self, store: SqlStore) -> None:
        self.store = store
        self.scheduler = ToldScheduler()
        self.errors: list[tuple[str, Exception]] = []
        self.hints = 0
        self.manager = self.restarted()

    def restarted(
        self, deployment_: Deployment | None = None, policy: Policy | None = None
    ) -> Manager:
        """A manager as a new process would have it: nothing in memory."""

        def hint() -> None:
            self.hints += 1

        self.manager = Manager(
            store=self.store,
            scheduler=self.scheduler,
            deployment=deployment_ or deployment(),
            policy=policy or Policy(),
            on_advice=hint,
            on_error=lambda what, error: self.errors.append((what, error)),
        )
        return self.manager

    def tick(self, seconds: float) -> ManagerReport:
        return self.manager.tick(at(seconds))

    def put(self, attempt: Attempt, *signals: Signal, progress: Progress | None = None) -> Attempt:
        """Store an attempt (whatever version is there) with its signals."""
        before = self.store.attempt(attempt.id)
        attempt = replace(attempt, version=0 if before is None else before.version)
        self.store.apply(
            Change(
                attempts=(attempt,),
                signals=signals,
                progress=() if progress is None else (progress,),
            )
        )
        stored = self.store.attempt(attempt.id)
        assert stored is not None
        return stored

    def see(self, *signals: Signal) -> None:
        self.store.apply(Change(signals=signals))

    def advice(self, attempt: Attempt) -> Advice:
        found = self.store.advice(attempt.id)
        assert found is not None
        return found

    def report(
        self,
        attempt: Attempt,
        disposition: Disposition,
        reason: Reason,
        when: datetime,
        detail: str = "",
    ) -> None:
        found = self.advice(attempt)
        status = Status(found.generation, disposition, reason, when, detail)
        self.store.apply(Change(advice=(reported(found, status),)))

    def everything(self, attempt_id: AttemptId) -> tuple[object, ...]:
        """All that the manager can write about an attempt, to see whether it wrote anything."""
        return (
            self.store.issues(attempt_id, 0, 100),
            self.store.verdicts(attempt_id),
            self.store.decisions(attempt_id),
            self.store.advice(attempt_id),
            self.store.last_audit_number(),
        )


def record(attempt: Attempt, **given: Any) -> AccountingRecord:
    """Accounting's line about an attempt."""
    made = AccountingRecord(
        job_id=attempt.job_id,
        submitted_at=attempt.submitted_at,
        state=JobState.NODE_FAIL,
        requeued=True,
        exit_code=0,
        exit_signal=None,
        started_at=attempt.started_at,
        ended_at=at(30),
        node_list="n[1-2]",
        cancelled_by=None,
        batch_completed=None,
    )
    return replace(made, **given)


def successor(attempt: Attempt, seconds: float, **given: Any) -> Attempt:
    """The next attempt of the same job, submitted then."""
    submitted = at(seconds)
    assert submitted > attempt.submitted_at
    return make(
        attempt_index=attempt.attempt_index + 1,
        submitted_at=submitted,
        job_id=attempt.job_id,
        **given,
    )
