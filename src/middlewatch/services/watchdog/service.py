"""The watchdog's round: read the journal, look, let go one job at a time, look again.

It needs the journal and the scheduler's commands and nothing else, because it is there for the
hour in which everything else is dead. With an empty journal a round asks the scheduler nothing.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from middlewatch.model.action import Action, Answered, CommandResult
from middlewatch.model.answer import Known, Unknown
from middlewatch.model.gates import Mode
from middlewatch.model.scheduler import ClusterFacts, Snapshot
from middlewatch.ports.errors import PortError
from middlewatch.ports.journal import Journal
from middlewatch.ports.scheduler import Scheduler
from middlewatch.reconciliation.deadlines import WatchdogConfig, check_deadlines, in_flight_s
from middlewatch.reconciliation.holds import Obligation, hurried, settled, standing
from middlewatch.reconciliation.outstanding import Standing, standing_of
from middlewatch.reconciliation.traces import Part
from middlewatch.reconciliation.watchdog import (
    Due,
    LeftAlone,
    Plan,
    Planned,
    due,
    watchdog_actions,
)

FACTS_AGE_S = 60.0
_JOB_ID = re.compile(r"[0-9]+(?:_[0-9]+)?", re.ASCII)
"""What a look may be asked for: one odd line must not make the whole look impossible."""
REST_S = 60.0
"""How long a job is left in peace that was refused, or that somebody else decides about."""


@dataclass(frozen=True, slots=True)
class Round:
    """What one tick found and did.

    ``standing`` counts obligations that keep a job waiting or may come to; ``lurking`` those that
    are only exclusions on a job that waits; both are None where it could not be told (the journal
    or the scheduler did not answer). ``overdue`` counts the jobs that the tick's
    look showed past a deadline, those that somebody else decides about (``left_to_others``) aside.
    ``done`` holds the commands that were issued, ``would`` those that monitor mode withheld.
    ``refused`` names the jobs that are still overdue because the scheduler refused a command.
    """

    standing: int | None = 0
    lurking: int | None = 0
    overdue: int = 0
    left_to_others: int = 0
    done: tuple[CommandResult, ...] = ()
    would: tuple[Action, ...] = ()
    problems: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()

    @property
    def quiet(self) -> bool:
        """Nothing of ours stands, and that is known."""
        return self.standing == 0 and self.lurking == 0

    @property
    def may_leave(self) -> bool:
        """Nothing is left that this process could still do for a job that waits for us."""
        return self.standing is not None and self.overdue == 0 and self.standing == 0


@dataclass(slots=True)
class _Tally:
    done: list[CommandResult] = field(default_factory=list)
    would: list[Action] = field(default_factory=list)
    left: list[LeftAlone] = field(default_factory=list)


class Watchdog:
    """Let go, in time, what our journal says is ours. Not to be shared by threads."""

    def __init__(
        self,
        scheduler: Scheduler,
        journal: Journal,
        config: WatchdogConfig,
        mode: Mode,
        log: logging.Logger,
        *,
        pulse: Callable[[], None] = lambda: None,
    ) -> None:
        """``pulse`` is called whenever some time may have passed within a tick. Any mode but
        ``action`` issues no changing command."""
        self._scheduler = scheduler
        self._journal = journal
        self._config = config
        self._acting = mode is Mode.ACTION
        self._log = log
        self._pulse = pulse
        self._facts: ClusterFacts | None = None
        self._facts_at: datetime | None = None
        self._problems: tuple[str, ...] = ()
        self._last_slot: datetime | None = None
        self._rest: dict[str, datetime] = {}
        self._others: set[str] = set()
        self._over_since: dict[tuple[str, str, int, datetime], datetime] = {}
        self._said: dict[str, str] = {}
        self._refused: set[str] = set()

    def tick(self, now: datetime, *, leaving: bool = False) -> Round:
        """One round. ``leaving``: everything of ours counts as past its deadline now.

        Never raises for what the journal or the scheduler do.
        """
        try:
            entries = self._journal.entries()
        except PortError as error:
            self._once("journal", f"the journal cannot be read: {error}")
            return Round(None, None, problems=(str(error),))
        self._forget("journal")
        obligations = standing(entries)
        if not obligations:
            self._over_since.clear()
            self._rest.clear()
            self._others.clear()
            self._refused.clear()
            self._said.clear()
            return Round(problems=self._problems)
        if leaving:
            obligations = hurried(obligations, now)
        self._learn_facts(now)
        nameable = [one.job_id for one in obligations if _JOB_ID.fullmatch(one.job_id)]
        look = self._scheduler.look(tuple(dict.fromkeys(nameable)))
        self._pulse()
        if not isinstance(look, Known):
            why = look.why if isinstance(look, Unknown) else "no answer"
            self._once("look", f"the scheduler cannot be seen, nothing is done: {why}")
            self._over_since.clear()
            return Round(None, None, problems=(*self._problems, why))
        self._forget("look")
        now = max(now, look.as_of)
        found = due(obligations, look, self._facts, now, self._config)
        tally = _Tally()
        self._let_go(obligations, found, now, tally)
        return self._judge(obligations, look.value, found, now, tally)

    # ------------------------------------------------------------------------------- acting

    def _let_go(
        self,
        obligations: Sequence[Obligation],
        found: Sequence[Due],
        now: datetime,
        tally: _Tally,
    ) -> None:
        rested = [one for one in found if now >= self._rest.get(one.view.job_id, now)]
        # Twice as many as may be let go: some turn out to be somebody else's to decide.
        for one in rested[: 2 * self._config.per_tick]:
            seen = self._act_on(one.view.job_id, obligations, tally)
            self._pulse()
            if not seen:
                return

    def _act_on(self, job_id: str, obligations: Sequence[Obligation], tally: _Tally) -> bool:
        """Look at one job again, as the last thing before the command; False where the
        scheduler has stopped answering."""
        detail = self._scheduler.detail(job_id)
        if isinstance(detail, Unknown):
            self._once(f"detail {job_id}", f"job {job_id} cannot be read: {detail.why}")
            return False
        self._forget(f"detail {job_id}")
        look = self._scheduler.look((job_id,))
        if not isinstance(look, Known):
            return False
        now = look.as_of
        owed = [one for one in obligations if one.job_id == job_id]
        still_due = due(owed, look, self._facts, now, self._config)
        plan = watchdog_actions(
            still_due,
            {job_id: detail},
            self._facts,
            now,
            self._config,
            last_slot=self._last_slot,
        )
        for alone in plan.left_alone:
            tally.left.append(alone)
            self._leave(alone, now)
        for step in plan.planned:
            self._others.discard(job_id)
            if step.not_before <= now:
                self._take(step, now, tally)
        if plan == Plan() and any(one.part is Part.EXCLUDE for one in still_due):
            # Impossible without us: none of ours is in its list.
            self._rest[job_id] = now + timedelta(seconds=REST_S)
            self._others.add(job_id)
        return True

    def _leave(self, alone: LeftAlone, now: datetime) -> None:
        self._rest[alone.job_id] = now + timedelta(seconds=REST_S)
        if alone.for_good:
            self._others.add(alone.job_id)
        self._once(
            f"left {alone.job_id}",
            f"job {alone.job_id} is past its deadline and is left alone: {alone.why}",
        )

    def _take(self, step: Planned, now: datetime, tally: _Tally) -> None:
        action = step.action
        if not self._acting:
            tally.would.append(action)
            self._once(
                f"would {action.job_id}", f"would {action.kind} job {action.job_id}: {action.why}"
            )
            self._last_slot = step.slot or self._last_slot
            return
        result = self._scheduler.perform(action, self._config.command_deadline_s)
        tally.done.append(result)
        self._last_slot = step.slot or self._last_slot
        text = f"{' '.join(result.argv)} ({action.why})"
        if result.answered is Answered.DONE:
            self._refused.discard(action.job_id)
            self._log.info("done: %s", text)
        elif result.answered is Answered.REFUSED:
            self._rest[action.job_id] = result.ended_at + timedelta(seconds=REST_S)
            self._refused.add(action.job_id)
            self._log.error("refused: %s: %s%s", text, result.text, _missing_right(result.text))
        else:
            # It may still happen: not repeated before the scheduler's own time-out has passed.
            wait = timedelta(seconds=in_flight_s(self._facts))
            self._rest[action.job_id] = result.ended_at + wait
            self._log.warning("no answer: %s: %s", text, result.text)

    # ------------------------------------------------------------------------------ judging

    def _judge(
        self,
        obligations: Sequence[Obligation],
        snapshot: Snapshot,
        found: Sequence[Due],
        now: datetime,
        tally: _Tally,
    ) -> Round:
        present = {one.view.job_id for one in found}
        self._others &= present
        self._refused &= present
        stands = lurks = 0
        still_over = set()
        for one in obligations:
            if not _JOB_ID.fullmatch(one.job_id):
                lurks += 1
                self._once(f"name {one.job_id}", f"{one.job_id[:80]!r} in the journal is no job")
                continue
            judged = standing_of(one, snapshot, self._facts, now, self._config)
            if judged is Standing.OVER:
                key = (one.cluster_name, one.job_id, one.restarts, one.written_until)
                still_over.add(key)
                since = self._over_since.setdefault(key, now)
                if now - since >= timedelta(seconds=in_flight_s(self._facts)):
                    self._settle(one)
                else:
                    stands += 1
            elif judged is Standing.UNSEEN:
                stands += 1
                self._once(
                    f"unseen {one.cluster_name}",
                    f"the journal speaks of cluster {one.cluster_name}, but the scheduler calls "
                    f"itself {snapshot.cluster_name}: its jobs are not touched",
                )
            elif judged is Standing.STANDS and one.job_id not in self._others:
                stands += 1
            elif judged is Standing.LURKS or judged is Standing.STANDS:
                lurks += 1
        self._over_since = {key: at for key, at in self._over_since.items() if key in still_over}
        return Round(
            stands,
            lurks,
            overdue=len(present - self._others),
            left_to_others=len(self._others),
            done=tuple(tally.done),
            would=tuple(tally.would),
            problems=self._problems,
            refused=tuple(sorted(self._refused)),
        )

    def _settle(self, obligation: Obligation) -> None:
        try:
            self._journal.append(settled(obligation))
        except PortError as error:
            self._once("settle", f"the journal cannot be written: {error}")
        else:
            self._forget("settle")
            self._log.info(
                "nothing of ours stands on job %s (restart %d) any more",
                obligation.job_id,
                obligation.restarts,
            )

    # ------------------------------------------------------------------------------- knowing

    def _learn_facts(self, now: datetime) -> None:
        if self._facts_at is not None and now - self._facts_at < timedelta(seconds=FACTS_AGE_S):
            return
        answer = self._scheduler.facts()
        self._pulse()
        if not isinstance(answer, Known):
            return  # what was known of the cluster stays the best guess
        self._facts, self._facts_at = answer.value, now
        self._problems = check_deadlines(self._config, answer.value)
        for problem in self._problems:
            self._once(f"deadline {problem}", f"a deadline protects nobody: {problem}")

    def _once(self, about: str, text: str) -> None:
        """Say it when it begins or changes, not at every tick."""
        if self._said.get(about) != text:
            self._said[about] = text
            self._log.warning("%s", text)

    def _forget(self, about: str) -> None:
        if self._said.pop(about, None) is not None:
            self._log.info("%s: well again", about)


_DENIED = ("Access/permission denied", "Invalid user id")


def _missing_right(text: str) -> str:
    """What to do about a refusal, where it is a right that is missing."""
    if not any(said in text for said in _DENIED):
        return ""
    return (
        "; this user may not change that job: run the watchdog as the job's owner or as an Operator "
        "(sacctmgr modify user … set adminlevel=Operator), and let go by hand: scontrol release"
    )
