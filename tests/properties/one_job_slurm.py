"""One job on a small Slurm, for the state machine: only the rules that a restart can get wrong.

Deliberately not the simulated cluster that ships: two independent readings of the same facts are
worth more than one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from middlewatch.model.action import Action, ActionKind
from middlewatch.model.answer import Answer, Known, Unknown
from middlewatch.model.scheduler import (
    AccountingRecord,
    ClusterFacts,
    JobDetail,
    JobFlag,
    JobState,
    JobView,
    Snapshot,
)

FACTS = ClusterFacts("lab", "22.05.8", 121.0, 10.0, 300.0, 5.0)
NODES = ("n1", "n2", "n3", "n4")
NEEDED = 2


@dataclass
class OneJob:
    now: datetime
    submitted: datetime
    begin_delay_s: float = 121.0
    state: JobState = JobState.RUNNING
    restarts: int = 0
    eligible: datetime | None = None
    started: datetime | None = None
    ended: datetime | None = None
    user_exclusions: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()
    requeue_flag: bool = True
    operator_hold: bool = False
    operator_held_at: datetime = datetime.min.replace(tzinfo=UTC)
    special_hold: bool = False
    bad_constraints: bool = False
    considered: bool = True
    reachable: bool = True
    accounting_up: bool = True
    first_end: JobState | None = None
    killed_successors: int = 0
    operator_hold_undone: int = 0
    operator_hold_crossed: int = 0
    begun_successors: int = 0
    starts_revoked: int = 0
    accounts: dict[datetime, JobState] = field(default_factory=dict)
    late: list[tuple[datetime, Action, datetime]] = field(default_factory=list)

    # -------------------------------------------------------------- time and chance

    def pass_time(self, seconds: float) -> None:
        goal = self.now + timedelta(seconds=seconds)
        while self.late and min(self.late, key=lambda x: x[0])[0] <= goal:
            due = min(self.late, key=lambda x: x[0])
            self.late.remove(due)
            self.now = max(self.now, due[0])
            self.take_effect(due[1], sent_at=due[2])
            self.schedule()
        self.now = goal
        self.schedule()

    def schedule(self) -> None:
        """One scheduler pass."""
        if self.state is not JobState.PENDING:
            return
        if self.held or (self.eligible is not None and self.eligible > self.now):
            return
        if len(set(NODES) - self.excluded) < NEEDED:
            self.bad_constraints = True
            return
        if self.now - self.submitted < timedelta(seconds=1):
            self.starts_revoked += 1
            self.end(JobState.FAILED)
            return
        self.state, self.started, self.ended = JobState.RUNNING, self.now, None
        self.begun_successors += 1

    @property
    def held(self) -> bool:
        return self.operator_hold or self.special_hold or self.bad_constraints

    def end(self, state: JobState) -> None:
        if self.restarts == 0 and self.first_end is None:
            self.first_end = state
        self.state, self.ended = state, self.now
        self.accounts[self.submitted] = state

    # -------------------------------------------------------------- commands

    def take_effect(self, action: Action, sent_at: datetime | None = None) -> bool:
        """True where Slurm accepts it. ``sent_at``: when it was sent, if that was not just now."""
        match action.kind:
            case ActionKind.REQUEUE | ActionKind.REQUEUE_HOLD:
                return self.requeue(hold=action.kind is ActionKind.REQUEUE_HOLD)
            case ActionKind.UPDATE:
                return self._update(action)
            case ActionKind.RELEASE:
                if self.operator_hold:
                    # Slurm has no release with a condition: what was on its way when the operator
                    # came cannot be called back, by anybody. All else is our doing.
                    crossed = sent_at is not None and self.operator_held_at > sent_at
                    self.operator_hold_crossed += crossed
                    self.operator_hold_undone += not crossed
                self.special_hold = False
                return True
            case ActionKind.CANCEL:
                if self.state in (JobState.PENDING, JobState.RUNNING):
                    self.end(JobState.CANCELLED)
                return True

    def requeue(self, *, hold: bool) -> bool:
        if self.state is JobState.PENDING or not self.requeue_flag:
            return False
        if self.restarts >= 1 and self.state is JobState.RUNNING:
            self.killed_successors += 1
        self.accounts.setdefault(self.submitted, JobState.CANCELLED)
        self.state, self.restarts = JobState.PENDING, self.restarts + 1
        self.submitted = self.now.replace(microsecond=0) + timedelta(seconds=0)
        self.eligible = self.submitted + timedelta(seconds=self.begin_delay_s)
        self.started = self.ended = None
        self.special_hold = hold
        return True

    def _update(self, action: Action) -> bool:
        pending_only = action.exclusions is not None or action.start_now
        if self.state is not JobState.PENDING and (
            pending_only or self.state is not JobState.RUNNING
        ):
            return False
        if action.exclusions is not None:
            self.excluded = frozenset(action.exclusions)
            self.bad_constraints = False
        if action.start_now:
            self.eligible = self.now
        if action.requeueable is not None:
            self.requeue_flag = action.requeueable
        return True

    # -------------------------------------------------------------- looks

    def look(self) -> Answer[Snapshot]:
        if not self.reachable:
            return Unknown("slurmctld does not answer", self.now)
        reason = "None"
        if self.state is JobState.PENDING:
            reason = "Resources"
            if self.eligible is not None and self.eligible > self.now:
                reason = "BeginTime"
            if self.operator_hold:
                reason = "JobHeldAdmin"
            if self.special_hold:
                reason = "job_requeued_in_held_state"
            if self.bad_constraints:
                reason = "BadConstraints"
        special = self.special_hold and self.state is JobState.PENDING
        view = JobView(
            job_id="7",
            state=self.state,
            flags=frozenset({JobFlag.SPECIAL_EXIT}) if special else frozenset(),
            reason=reason,
            priority=0 if self.held and self.state is JobState.PENDING else 100,
            restarts=self.restarts,
            submitted_at=self.submitted,
            eligible_at=self.eligible,
            started_at=self.started,
            ended_at=self.ended,
            node_count=NEEDED,
            partitions=("train",),
        )
        return Known(Snapshot("lab", self.now, (view,)), self.now)

    def detail(self) -> Answer[JobDetail]:
        if not self.reachable:
            return Unknown("slurmctld does not answer", self.now)
        value = JobDetail(
            "7", None, "", "j", "/", "/l", "/l", tuple(sorted(self.excluded)), (),
            self.requeue_flag, self.operator_hold,
        )  # fmt: skip
        return Known(value, self.now)

    def accounting(self) -> Answer[tuple[AccountingRecord, ...]]:
        if not self.accounting_up:
            return Unknown("slurmdbd is down", self.now)
        records = tuple(
            AccountingRecord(
                job_id="7",
                submitted_at=submitted,
                state=JobState.CANCELLED if requeued else state,
                requeued=requeued,
                exit_code=None,
                exit_signal=None,
                started_at=None,
                ended_at=None,
                node_list="",
                cancelled_by="1000"
                if state is JobState.CANCELLED and self.first_end is JobState.CANCELLED
                else None,
                batch_completed=state is JobState.COMPLETED,
            )
            for submitted, state in sorted(self.accounts.items())
            for requeued in (submitted != self.submitted,)
        )
        return Known(records, self.now)
