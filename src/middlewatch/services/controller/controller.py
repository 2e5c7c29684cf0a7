"""The controller: looks at the scheduler, takes one action for each advice, looks again.

It is level-triggered: each tick starts from the advice that is active and from what the scheduler
shows now, never from what an earlier tick meant to do. Before a command that could leave
something behind, a journal line is on disk and a record in the store; after it, the answer. A
process killed between any two of these leaves a state from which the next one goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from middlewatch.model.action import NOT_SENT, Action, Answered
from middlewatch.model.advice import (
    Advice,
    DesiredState,
    Disposition,
    Reason,
    RefusedReport,
    Status,
    reported,
)
from middlewatch.model.answer import Answer, Known, Unknown
from middlewatch.model.attempt import Attempt
from middlewatch.model.change import Change
from middlewatch.model.gates import Deployment
from middlewatch.model.policy import Policy
from middlewatch.model.rollback import NOTE as ROLLED_BACK
from middlewatch.model.rollback import rolled_back
from middlewatch.model.scheduler import ClusterFacts, JobDetail, JobState, JobView, Snapshot
from middlewatch.ports.clock import Clock
from middlewatch.ports.journal import Journal
from middlewatch.ports.remote import ControllerStore
from middlewatch.ports.scheduler import Scheduler
from middlewatch.reconciliation.exclusions import impossible, users_own
from middlewatch.reconciliation.holds import standing
from middlewatch.reconciliation.in_flight import SETTLE_MARGIN_S
from middlewatch.reconciliation.inherited import inherited
from middlewatch.reconciliation.plan import next_step
from middlewatch.reconciliation.remains import remains
from middlewatch.reconciliation.situation import (
    Act,
    Fact,
    Need,
    Place,
    Report,
    Situation,
    Step,
    Wait,
    place,
    requeues,
)
from middlewatch.services.controller import record
from middlewatch.services.controller.ahead import Pace, Recall, work_on
from middlewatch.services.controller.gather import (
    Asked,
    asked_alone,
    end_to_store,
    fetched,
    situation_for,
    usable_nodes,
    view_in,
)
from middlewatch.services.controller.hand import NEW_WORK, TOO_OLD, RoundsHand, came_too_late
from middlewatch.services.controller.lead import Leadership
from middlewatch.services.controller.round import ControllerReport, Round, by_job
from middlewatch.services.controller.sightings import sighted

PAGE = 250
LOOK_MAX_AGE = timedelta(seconds=1)
JUMP_S = 1.0
"""By how much a clock and the time that has passed may differ between two rounds."""
LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """Durations in seconds. ``deadline_s`` bounds each command; ``lease_s`` must outlast it."""

    deadline_s: float = 15.0
    lease_s: float = 60.0
    max_hold_s: float = 300.0
    facts_age_s: float = 30.0


class Controller:
    """One cluster's controller. All arguments are ports or frozen settings.

    ``on_error`` is called once for each advice that failed in a tick, with a sentence; ``on_lead``
    when it begins to lead, or another does.
    """

    def __init__(
        self,
        *,
        store: ControllerStore,
        scheduler: Scheduler,
        journal: Journal,
        clock: Clock,
        deployment: Deployment,
        policy: Policy,
        holder: str,
        config: ControllerConfig | None = None,
        on_error: Callable[[str, Exception], None] | None = None,
        on_lead: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self._store = store
        self._scheduler = scheduler
        self._journal = journal
        self.clock = clock
        self._deployment = deployment
        self._policy = policy
        self._holder = holder
        self._config = config or ControllerConfig()
        self._lead = Leadership(
            store,
            clock,
            f"controller/{deployment.cluster.environment}",
            holder,
            term_s=self._config.lease_s,
            deadline_s=self._config.deadline_s,
            say=on_lead,
        )
        self._on_error = on_error
        self._facts: tuple[ClusterFacts, datetime] | None = None
        self._pace = Pace()
        self._seen_running: set[str] = set()
        self._pending_since: dict[str, datetime] = {}
        # Nobody remembers whether the scheduler was silent before this controller was there.
        self._silent_since: datetime | None = LONG_AGO
        self._silence: tuple[datetime, datetime] | None = None
        self.clocks: tuple[datetime, float] | None = None

    def tick(self, now: datetime) -> ControllerReport:
        """One round over the active advice of this controller's cluster."""
        return self._run(now, draining=False)

    def drain(self, now: datetime) -> bool:
        """A round that starts nothing new and lets go what we hold. True when nothing stands that
        is ours to let go: where another leads, or where we have not acted yet, it is not."""
        report = self._run(now, draining=True)
        return report.standing == 0 and not report.problem

    def resign(self) -> None:
        """Let another controller lead at once: for a stop, behind the last round. Raises what the
        store raises."""
        self._lead.resign()

    def _run(self, now: datetime, *, draining: bool) -> ControllerReport:
        term = self._lead.term(now)
        if term is None:
            return ControllerReport(leader=False)
        self._mind_jumps(now)
        if term.keeps_still_s > 0:
            return ControllerReport(leader=True, keeps_still_s=term.keeps_still_s)
        active = self._active()
        if not active:
            self._pending_since.clear()
            self._seen_running.clear()
            return ControllerReport(leader=True)
        facts = self._current_facts(now)
        if isinstance(facts, Unknown):
            return ControllerReport(True, len(active), problem=facts.why, standing=len(active))
        look = self.look_at(sorted({a.job_id for a in active}))
        entries = self._journal.entries()
        name = self._deployment.owned_cluster_name
        owed = {
            (one.job_id, one.restarts): one for one in standing(entries) if one.cluster_name == name
        }
        tally = Round(term, facts, now, draining, by_job(entries), owed)
        recall = Recall(self._store, self.clock, LOOK_MAX_AGE.total_seconds())
        hand = RoundsHand(self, tally)
        work_on(active, look, hand, scheduler=self._scheduler, recall=recall, pace=self._pace)
        return ControllerReport(
            leader=True,
            active=len(active),
            actions=tally.actions,
            outcomes=tally.outcomes,
            standing=tally.standing,
            again=tally.again,
            problem="; ".join(tally.problems)[:500],
        )

    def _mind_jumps(self, now: datetime) -> None:
        """A clock that was set has let no time pass: what may still come may come from now on."""
        measured = self.clock.monotonic()
        if self.clocks is not None:
            then, at = self.clocks
            if abs((now - then).total_seconds() - (measured - at)) > JUMP_S:
                self._silent_since = LONG_AGO
        self.clocks = (now, measured)

    def _active(self) -> tuple[Advice, ...]:
        found: list[Advice] = []
        after = 0
        while page := self._store.advice_page(True, after, PAGE, self._deployment.cluster):
            found.extend(advice for _, advice in page)
            after = page[-1][0]
            if len(page) < PAGE:
                break
        return tuple(found)

    def _current_facts(self, now: datetime) -> ClusterFacts | Unknown:
        if self._facts is not None:
            known, at = self._facts
            if now - at < timedelta(seconds=self._config.facts_age_s):
                return known
        match self._scheduler.facts():
            case Known(value=facts):
                self._facts = (facts, now)
                return facts
            case Unknown() as unknown:
                # The time-outs of a scheduler change with its configuration, not with its moods.
                return self._facts[0] if self._facts else unknown
            case _:
                return Unknown("the scheduler says nothing of itself", now)

    def tell(self, advice: Advice, error: Exception) -> None:
        if self._on_error is not None:
            self._on_error(f"advice {advice.job_id}-{advice.attempt_index}", error)

    # ------------------------------------------------------------------ one advice

    def handle(
        self,
        advice: Advice,
        look: Answer[Snapshot],
        tick: Round,
        *,
        asked: Asked | None = None,
        recall: Recall | None = None,
        lightly: bool = False,
    ) -> Situation | None:
        """See `ahead.Hand.handle`, except that it raises what goes wrong."""
        view = view_in(look, advice)
        attempt = self._store_end(self._store.attempt(advice.attempt_id), advice, view, tick)
        self._note_sightings(advice, look, view, tick)
        # A round over many takes seconds; what waits for a moment is measured by the present one.
        given, now = asked or Asked(), tick.now if recall is None else self.clock.now()
        asked = given
        recall = recall or Recall(self._store, self.clock, LOOK_MAX_AGE.total_seconds())
        reread = relooked = False
        for _ in range(9):
            situation = self._situation(advice, look, asked, attempt, tick=tick, recall=recall)
            step = next_step(situation, now)
            if lightly and isinstance(step, Need | Act):
                return situation
            match step:
                case Need():
                    asked = self._ask(asked, step, advice)
                    continue
                case Act(action=action) if asked.detail is None and action.kind in NEW_WORK:
                    # The job's own opt-in is read again before anything new is done to it.
                    asked = self._ask(asked, Need(Fact.DETAIL), advice)
                    continue
                case Act(action=action) if action.kind in NEW_WORK and not isinstance(
                    situation.detail, Known
                ):
                    step = Wait("the job's own opt-in cannot be read", None, Reason.UNKNOWN_STATE)
                    self._wait(situation, step, tick)
                case Act(action=action) if (
                    self.stale(look) or (came_too_late(situation, action) and not relooked)
                ) and not (reread and action.kind not in NEW_WORK):
                    relooked = True
                    look = self.look_at([advice.job_id])
                    asked, now = asked_alone(asked, given), self.clock.now()
                    view = view_in(look, advice)
                    continue
                case Act(action=action) if (
                    not reread and action.kind not in NEW_WORK and self._old(asked.detail)
                ):
                    # What its user or an operator has written since would be written over.
                    reread = True
                    asked = self._ask(asked, Need(Fact.DETAIL), advice)
                    continue
                case Act(action=action):
                    self._inherit(situation, view, now, tick)
                    begins = action.kind in NEW_WORK or advice.desired is DesiredState.RELEASED
                    if tick.draining and begins and not requeues(situation):
                        # (A cancel of what our own requeue revived is no new work.)
                        return None
                    self._act(situation, step, view, tick)
                case Report():
                    self._report(situation, step, view, tick)
                case Wait():
                    self._inherit(situation, view, now, tick)
                    self._wait(situation, step, tick)
            recall.forget(advice.attempt_id)
            tick.standing += remains(situation, view, now, step)
            return None
        tick.again = True
        return None

    def _inherit(
        self, situation: Situation, view: JobView | None, now: datetime, tick: Round
    ) -> None:
        """Write down for our own watchdog what a leader on another host has left standing."""
        if view is None or not situation.actions:
            return
        lines = inherited(
            situation,
            view,
            tick.owed,
            now,
            cluster_name=self._deployment.owned_cluster_name,
            max_hold_s=self._config.max_hold_s,
            settle_s=self._settle_s(situation.facts),
        )
        for line in lines:
            self._journal.append(line)

    def look_at(self, job_ids: Sequence[str]) -> Answer[Snapshot]:
        """A look, and what it tells of how long the scheduler has been silent."""
        look = self._scheduler.look(job_ids)
        if not isinstance(look, Known):
            self._silent_since = self._silent_since or self.clock.now()
        elif self._silent_since is not None:
            self._silence = (self._silent_since, look.as_of)
            self._silent_since = None
        return look

    def step_for(
        self,
        advice: Advice,
        look: Answer[Snapshot],
        asked: Asked,
        recall: Recall,
        tick: Round,
    ) -> Step:
        """See `ahead.Hand.step_for`. Raises what the store raises."""
        attempt = self._store.attempt(advice.attempt_id)
        situation = self._situation(advice, look, asked, attempt, tick=tick, recall=recall)
        return next_step(situation, self.clock.now())

    def stale(self, look: Answer[Snapshot]) -> bool:
        """Whether a look is too old to act on; one of the future is of no known age."""
        if not isinstance(look, Known):
            return False
        return not -LOOK_MAX_AGE <= self.clock.now() - look.as_of <= LOOK_MAX_AGE

    def _ask(self, asked: Asked, need: Need, advice: Advice) -> Asked:
        return fetched(self._scheduler, asked, need, advice.job_id, self.look_at)

    def _old(self, detail: Answer[JobDetail] | None) -> bool:
        age = self.clock.now() - detail.as_of if isinstance(detail, Known) else timedelta(0)
        return not -LOOK_MAX_AGE <= age <= LOOK_MAX_AGE

    def _situation(
        self,
        advice: Advice,
        look: Answer[Snapshot],
        asked: Asked,
        attempt: Attempt | None,
        *,
        tick: Round,
        recall: Recall,
    ) -> Situation:
        return situation_for(
            advice,
            look,
            asked,
            store=recall,
            deployment=rolled_back(self._deployment, recall.note(ROLLED_BACK)),
            facts=tick.facts,
            policy=self._policy,
            entries=tick.entries.get(advice.job_id, ()),
            attempt=attempt,
            pending_since=self._pending_since.get(advice.attempt_id),
            partition_nodes=self._usable_nodes(attempt, view_in(look, advice), tick),
            deadline_s=self._config.deadline_s,
            silence=self._silence,
        )

    def _usable_nodes(
        self, attempt: Attempt | None, view: JobView | None, tick: Round
    ) -> tuple[str, ...] | None:
        if attempt is None or view is None or not impossible(view):
            return None
        if tick.partitions is None:
            tick.partitions = self._scheduler.partitions()
        return usable_nodes(attempt, tick.partitions)

    def _store_end(
        self, attempt: Attempt | None, advice: Advice, view: JobView | None, tick: Round
    ) -> Attempt | None:
        ended = end_to_store(attempt, advice, view, tick.now)
        if ended is None:
            return attempt
        self._store.apply(Change(lease=tick.lease, now=tick.now, attempts=(ended,)))
        return self._store.attempt(advice.attempt_id)

    def _note_sightings(
        self, advice: Advice, look: Answer[Snapshot], view: JobView | None, tick: Round
    ) -> None:
        """Milestones that only a look can tell: held, and running."""
        if not isinstance(look, Known):
            return
        if view is None or place(advice, view) is not Place.SUCCESSOR:
            self._pending_since.pop(advice.attempt_id, None)
            self._seen_running.discard(advice.attempt_id)
            return
        first = advice.attempt_id not in self._pending_since
        if view.state is JobState.PENDING:
            self._pending_since.setdefault(advice.attempt_id, look.as_of)
        runs = view.state is JobState.RUNNING
        if runs and advice.attempt_id in self._seen_running:
            return
        actions = self._store.actions(advice.attempt_id) if runs else ()
        milestone = sighted(advice, view, look.as_of, first=first, actions=actions)
        if milestone is not None:
            change = Change(lease=tick.lease, now=tick.now, milestones=(milestone,))
            self._store.apply(change)
            if runs:
                self._seen_running.add(advice.attempt_id)

    # ------------------------------------------------------------------ acting and recording

    def _act(self, situation: Situation, step: Act, view: JobView | None, tick: Round) -> None:
        advice, action = situation.advice, step.action
        if view is None:
            return
        started = self.clock.now()
        if not self._lead.outlasts_a_command(tick.term):
            # Another leader could be elected while the command runs: renew first, next round.
            tick.again = True
            return
        own: tuple[str, ...] = ()
        if action.exclusions is not None and isinstance(situation.detail, Known):
            own = users_own(situation, situation.detail.value)
        entries = record.journal_entries(
            action,
            advice,
            view,
            cluster_name=self._deployment.owned_cluster_name,
            user_exclusions=own,
            now=started,
            max_hold_s=self._config.max_hold_s,
            settle_s=self._settle_s(situation.facts),
        )
        for entry in entries:
            self._journal.append(entry)
        intent = record.planned(
            advice, action, len(situation.actions), view, started, user_exclusions=own
        )
        self._store.apply(Change(lease=tick.lease, now=started, actions=(intent,)))
        late = self._too_late(situation, action, tick)
        if late:
            # A slow disk lies between the look and the command: look again, then decide again.
            unsent = record.not_sent(intent, late, self.clock.now())
            self._store.apply(Change(actions=(unsent,)))
            tick.again = True
            return
        result = self._scheduler.perform(action, self._config.deadline_s)
        if result.answered is Answered.NO_ANSWER:
            self._silent_since = self._silent_since or result.started_at
        for entry in record.announced_again(
            entries, started, result, self._config.deadline_s, self._settle_s(situation.facts)
        ):
            self._journal.append(entry)
        done = record.performed(intent, result)
        self._store.apply(
            Change(
                actions=(done,),
                milestones=record.milestones_of(advice, done),
                audit=(
                    record.audit_of_action(advice, done, result.ended_at),
                    *record.audit_of_lost_log(situation, action, result.ended_at),
                ),
            )
        )
        tick.actions, tick.sent = tick.actions + 1, advice.attempt_id
        tick.again = True

    def _too_late(self, situation: Situation, action: Action, tick: Round) -> str:
        """Why the command must not be sent any more, now that everything about it is on disk."""
        if action.kind in NEW_WORK and self.stale(situation.look):
            return TOO_OLD
        if not self._lead.outlasts_a_command(tick.term):
            return NOT_SENT + "the lease might have ended first"
        now = rolled_back(self._deployment, self._store.note(ROLLED_BACK))
        if now.rolled_back and situation.gates.first_closed() is None:
            return NOT_SENT + "the deployment was rolled back meanwhile"
        return ""

    def _settle_s(self, facts: ClusterFacts) -> float:
        return self._config.deadline_s + facts.message_timeout_s + SETTLE_MARGIN_S

    def _report(
        self, situation: Situation, step: Report, view: JobView | None, tick: Round
    ) -> None:
        advice = situation.advice
        status = Status(
            advice.generation, step.disposition, step.reason, tick.now, step.detail, self._holder
        )
        self._write_status(advice, status, tick)
        # While the attempt waits, the watchdog still has to know which exclusions are ours.
        waits = view is not None and view.state is JobState.PENDING
        if situation.actions and not waits and isinstance(situation.look, Known):
            restarts = view.restarts if view is not None else advice.attempt_index + 1
            self._settle(advice, restarts, tick, goes_on=view is not None and not view.ended)
        self._pending_since.pop(advice.attempt_id, None)
        tick.outcomes += 1

    def _settle(self, advice: Advice, restarts: int, tick: Round, *, goes_on: bool) -> None:
        """Write that nothing of ours stands on that attempt any more, and what of it goes on."""
        name = self._deployment.owned_cluster_name
        owed = tick.owed.get((advice.job_id, restarts))
        if goes_on and owed is not None and (owed.hold or owed.fence):
            # A slurmctld that is killed now comes back with what we have just let go. The watchdog
            # looks on until that can no longer be, and settles it then.
            return
        self._journal.append(record.settled(advice, name, restarts, tick.now))
        if goes_on and owed is not None and owed.exclude is not None:
            # Exclusions outlive a requeue, and may make the next attempt impossible.
            self._journal.append(owed.exclude)

    def _wait(self, situation: Situation, step: Wait, tick: Round) -> None:
        advice = situation.advice
        status = Status(
            advice.generation, Disposition.PENDING, step.reason, tick.now, step.why, self._holder
        )
        self._write_status(advice, status, tick)
        if requeues(situation):
            # Something of ours is on its way: look again soon.
            tick.again = True

    def _write_status(self, advice: Advice, status: Status, tick: Round) -> None:
        try:
            after = reported(advice, status)
        except RefusedReport as error:
            self.tell(advice, error)
            return
        if after is advice:
            return
        before = advice.status
        told = before is not None and (before.disposition, before.reason) == (
            status.disposition,
            status.reason,
        )
        # The trail has a line for each turn, not for each sentence about the same one.
        audit = () if told else (record.audit_of_status(advice, status),)
        self._store.apply(Change(lease=tick.lease, now=tick.now, advice=(after,), audit=audit))
