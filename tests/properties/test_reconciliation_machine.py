"""Any order of faults: the plan is made anew from the state after every action.

Replies get lost, commands take effect late, the controller is killed between a command and its
record, operators and owners interfere, accounting goes away. What may never happen is checked
after every step; that it comes to an end is checked when the faults stop.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)

from middlewatch.model.action import Action, ActionRecord, Answered
from middlewatch.model.advice import (
    Advice,
    DecisionBasis,
    DesiredState,
    Disposition,
    Reason,
    Status,
    reported,
)
from middlewatch.model.answer import Known
from middlewatch.model.attempt import Attempt, AttemptEnd, EndedBy, seen_again
from middlewatch.model.gates import Gate, GateName, Gates
from middlewatch.model.identity import AttemptKey, ClusterId
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import JobState
from middlewatch.model.signal import Progress
from middlewatch.reconciliation.plan import hold_stands, next_step
from middlewatch.reconciliation.situation import (
    Act,
    Fact,
    LogEnd,
    Need,
    Place,
    Report,
    Situation,
    Step,
    place,
)
from tests.properties.one_job_slurm import FACTS, OneJob

T0 = datetime(2026, 11, 30, 3, 0, tzinfo=UTC)
CLUSTER = ClusterId("slurm", "prod")
OPEN = Gates((Gate(GateName.DEPLOYMENT_MODE, True, ""),))
SHUT = Gates((Gate(GateName.DEPLOYMENT_MODE, False, ""),))
DEADLINE_S = 15.0


class RestartOfOneJob(RuleBasedStateMachine):
    """The controller beside one job, as `services.controller` drives the plan."""

    @initialize(
        user=st.sets(st.sampled_from(["n3", "n4"]), max_size=1),
        wanted=st.sets(st.sampled_from(["n1", "n2", "n3"]), max_size=3),
        running=st.booleans(),
        requeueable=st.sampled_from([True, True, True, False]),
        window=st.sampled_from([121.0, 18.0, 11.0]),
    )
    def begin(
        self,
        user: set[str],
        wanted: set[str],
        running: bool,
        requeueable: bool,
        window: float,
    ) -> None:
        self.job = OneJob(T0, T0 - timedelta(hours=1), window)
        self.job.started = self.job.submitted
        self.job.user_exclusions = self.job.excluded = frozenset(user)
        self.job.requeue_flag = self.owner_flag = requeueable
        self.facts = replace(FACTS, begin_delay_s=window)
        self.gates = OPEN
        key = AttemptKey(CLUSTER, "7", self.job.submitted)
        self.attempt = Attempt(
            key.attempt_id(), CLUSTER, "7", 0, self.job.submitted, T0, T0, JobState.RUNNING
        )
        if not running:
            self.job.end(JobState.FAILED)
            self.attempt = replace(
                self.attempt,
                state=JobState.FAILED,
                end=AttemptEnd(JobState.FAILED, EndedBy.FAILURE, 1, 0, T0, T0),
            )
        self.advice = Advice(
            attempt_id=key.attempt_id(),
            job_id="7",
            attempt_index=0,
            submitted_at=self.job.submitted,
            owner=CLUSTER,
            desired=DesiredState.RESTARTED,
            exclusions=tuple(sorted(wanted)),
            generation=1,
            desired_state_changed_at=T0,
            created_at=T0,
            basis=DecisionBasis.SECOND_WITNESS,
            gates=OPEN,
            policy_version="p",
            sequence_id="s",
            may_end_running=running,
        )
        self.actions: list[ActionRecord] = []
        self.pending_since: datetime | None = None
        self.ours_took_effect = 0
        self.cancelled_in_error = False

    # ------------------------------------------------------------------ the controller

    def plan(self) -> tuple[Step, Situation]:
        look = self.job.look()
        if isinstance(look, Known):
            view = look.value.jobs[0]
            at = place(self.advice, view)
            if at is Place.SAME and self.attempt.end is None:
                self.attempt = seen_again(self.attempt, view, self.job.now)
            if at is Place.SUCCESSOR and view.state is JobState.PENDING:
                self.pending_since = self.pending_since or self.job.now
            else:
                self.pending_since = None
        made = Situation(
            advice=self.advice,
            gates=self.gates,
            look=look,
            facts=self.facts,
            policy=Policy(),
            attempt=self.attempt,
            progress=Progress(self.advice.attempt_id, log_drained_at=self.job.now),
            log_end=LogEnd.NOTHING,
            actions=tuple(self.actions),
            pending_since=self.pending_since,
            our_exclusions=tuple(sorted(set(self.advice.exclusions) - self.job.user_exclusions)),
            deadline_s=DEADLINE_S,
        )
        step = next_step(made, self.job.now)
        for _ in range(3):
            if not isinstance(step, Need):
                break
            if step.fact is Fact.DETAIL:
                made = replace(made, detail=self.job.detail())
            else:
                made = replace(made, accounting=self.job.accounting())
            step = next_step(made, self.job.now)
        assert not isinstance(step, Need), "asked for the same fact again"
        return step, made

    def send(self, action: Action, fate: str, delay_s: float) -> None:
        """Perform one action, as ``fate`` has it, and record it as the controller would."""
        started = self.job.now
        record = ActionRecord(
            str(len(self.actions)), self.advice.attempt_id, 1, action, Answered.IN_FLIGHT, started
        )
        if fate == "killed_before":
            self.actions.append(record)
            return
        if fate == "late":
            self.job.late.append((started + timedelta(seconds=10 + delay_s), action, started))
            self.job.pass_time(10.0)
            answered = Answered.NO_ANSWER
        elif fate == "never":
            self.job.pass_time(10.0)
            answered = Answered.NO_ANSWER
        else:
            accepted = self.job.take_effect(action)
            self.job.schedule()
            self.job.pass_time(0.1)
            answered = Answered.DONE if accepted else Answered.REFUSED
            if fate == "lost_reply":
                answered = Answered.NO_ANSWER
            elif fate == "killed_after":
                self.actions.append(record)
                return
        self.actions.append(replace(record, answered=answered, ended_at=self.job.now, text="t"))

    def turn(self, fate: str, delay_s: float = 1.0, meanwhile: JobState | None = None) -> None:
        """One look, one step. ``meanwhile`` is how the job ends between look and command."""
        if not self.advice.active:
            return
        step, made = self.plan()
        if isinstance(step, Act):
            self._check_action(step.action)
            if meanwhile is not None and self.job.state is JobState.RUNNING:
                self.job.end(meanwhile)
            self.send(step.action, fate, delay_s)
        elif isinstance(step, Report):
            self._check_report(step, made)
            status = Status(1, step.disposition, step.reason, self.job.now)
            self.advice = reported(self.advice, status)

    def _check_action(self, action: Action) -> None:
        if action.exclusions is not None:
            assert self.job.user_exclusions <= set(action.exclusions), "a user's exclusion lost"
        over = self.job.first_end in (JobState.COMPLETED, JobState.CANCELLED)
        if action.start_now and self.job.restarts == 1 and self.job.accounting_up:
            assert not over, "let go what had completed or had been cancelled"
        if action.requeueable is True:
            assert self.owner_flag, "Requeue=0 of a job that never asked for requeueing was flipped"

    def _check_report(self, step: Report, made: Situation) -> None:
        look = made.look
        if not isinstance(look, Known):
            assert step.reason is Reason.NOT_PERMITTED
            return
        view = look.value.jobs[0]
        assert not hold_stands(made, view, self.job.now) or self.job.operator_hold
        assert self.job.requeue_flag == self.owner_flag or view.ended or view.restarts > 1, (
            "an outcome while our fence stands"
        )
        if step.disposition is Disposition.CONVERGED:
            assert view.restarts == 1
            assert not (view.state is JobState.PENDING and self.job.held)
            wanted = set(self.advice.exclusions)
            if len({"n1", "n2", "n3", "n4"} - wanted - self.job.user_exclusions) >= 2:
                assert wanted <= self.job.excluded, "converged without its exclusions"

    @rule(
        fate=st.sampled_from(
            ["done", "done", "done", "lost_reply", "late", "never", "killed_before", "killed_after"]
        ),
        delay_s=st.floats(0.0, 9.0),
        meanwhile=st.sampled_from([None, None, JobState.COMPLETED, JobState.CANCELLED]),
    )
    def controller_turns(self, fate: str, delay_s: float, meanwhile: JobState | None) -> None:
        self.turn(fate, delay_s, meanwhile)

    @rule(turns=st.integers(1, 8), pause_s=st.sampled_from([0.2, 0.6, 1.0]))
    def controller_goes_on(self, turns: int, pause_s: float) -> None:
        self.controller_goes_on_undisturbed(turns, pause_s)

    def controller_goes_on_undisturbed(self, turns: int, pause_s: float) -> None:
        for _ in range(turns):
            self.turn("done")
            self.job.pass_time(pause_s)

    @rule(delay_s=st.floats(2.0, 9.0), turns=st.integers(3, 8))
    def a_command_hangs_while_the_node_fails(self, delay_s: float, turns: int) -> None:
        """What chance finds too seldom: a late requeue behind Slurm's own."""
        self.turn("late", delay_s)
        self.something_happens_to_the_job("node_failure")
        self.controller_goes_on_undisturbed(turns, 0.6)

    # ------------------------------------------------------------------ the world

    @rule(seconds=st.sampled_from([0.2, 0.6, 1.0, 1.5, 4.0, 11.0, 35.0, 130.0]))
    def time_passes(self, seconds: float) -> None:
        self.job.pass_time(seconds)

    @rule(
        event=st.sampled_from(
            [
                "node_failure",
                "node_failure",
                "ends_completed",
                "ends_failed",
                "ends_cancelled",
                "operator_holds",
                "operator_releases",
                "accounting_goes",
                "accounting_comes",
                "slurmctld_goes",
                "slurmctld_comes",
                "gate_closes",
                "gate_opens",
                "controller_restarts",
            ]
        )
    )
    def something_happens(self, event: str) -> None:
        self.something_happens_to_the_job(event)

    def something_happens_to_the_job(self, event: str) -> None:
        job = self.job
        running, pending = job.state is JobState.RUNNING, job.state is JobState.PENDING
        match event:
            case "node_failure" if running and job.restarts == 0:
                job.accounts[job.submitted] = JobState.NODE_FAIL
                job.first_end = job.first_end or JobState.NODE_FAIL
                if job.requeue_flag:
                    job.requeue(hold=False)
                else:
                    job.end(JobState.NODE_FAIL)
            case "ends_completed" | "ends_failed" | "ends_cancelled" if running:
                job.end(JobState[event.removeprefix("ends_").upper()])
            case "operator_holds" if pending:
                job.operator_hold, job.operator_held_at = True, job.now
            case "operator_releases" if job.operator_hold:
                job.operator_hold = job.special_hold = False
                job.schedule()
            case "accounting_goes" | "accounting_comes":
                job.accounting_up = event == "accounting_comes"
            case "slurmctld_goes" | "slurmctld_comes":
                job.reachable = event == "slurmctld_comes"
            case "gate_closes" | "gate_opens":
                self.gates = OPEN if event == "gate_opens" else SHUT
            case "controller_restarts":
                self.pending_since = None
            case _:
                pass

    # ------------------------------------------------------------------ what may never happen

    @invariant()
    def no_successor_was_killed_by_a_late_requeue(self) -> None:
        assert self.job.killed_successors == 0

    @invariant()
    def no_start_fell_into_the_second_of_the_kill(self) -> None:
        assert self.job.starts_revoked == 0

    @invariant()
    def no_operators_hold_was_undone(self) -> None:
        assert self.job.operator_hold_undone == 0

    @invariant()
    def the_users_exclusions_stand(self) -> None:
        assert self.job.user_exclusions <= self.job.excluded

    def teardown(self) -> None:
        """When the faults stop it comes to an end, and nothing of ours is left standing."""
        if not hasattr(self, "job"):
            return
        self.job.reachable = self.job.accounting_up = True
        if self.job.operator_hold:
            # A release lifts every hold of a job: ours with the operator's.
            self.job.operator_hold = self.job.special_hold = False
        for _ in range(400):
            if not self.advice.active:
                break
            self.turn("done")
            self.job.pass_time(1.0)
        assert not self.advice.active or self.job.state in (
            JobState.PENDING,
            JobState.RUNNING,
        ), "the advice never came to an end"
        assert self.job.killed_successors == 0
        if not self.advice.active:
            held = self.job.special_hold and self.job.state is JobState.PENDING
            assert not held, "a hold of ours was left"
        status = self.advice.status
        ended_on_purpose = self.job.first_end in (JobState.COMPLETED, JobState.CANCELLED)
        revived = ended_on_purpose and self.job.restarts == 1 and self.job.begun_successors == 0
        if revived and status is not None and status.terminal:
            assert self.job.state is JobState.CANCELLED, "revived and left"


RestartOfOneJob.TestCase.settings = settings(
    max_examples=600, stateful_step_count=40, deadline=None
)
TestRestartOfOneJob = RestartOfOneJob.TestCase
