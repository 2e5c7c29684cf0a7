"""The job manager: from stored signals to issues, verdicts and advice.

It is level-triggered. New signals, ended attempts and attempts that wait are only reasons to look;
what is looked at is always everything that stands about that attempt. So a tick may be repeated,
cut short or lost: the next one comes to the same. Signals are read behind a durable cursor that is
moved after their attempts are settled, and a restarted manager looks once at whatever lives or
ended lately, whatever its cursor says.

Everything outside is gathered before deciding. One evaluation is one transaction, bound to the
version of the attempt, its issues and its advice; if one of them moved, it is done again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from middlewatch.attribution import governing, issues_from, signals_of, verdict_for
from middlewatch.model.attempt import Attempt
from middlewatch.model.change import Change
from middlewatch.model.gates import Deployment, gates_for
from middlewatch.model.identity import AttemptId
from middlewatch.model.issue import Issue, IssueState, Verdict
from middlewatch.model.optin import JobMode
from middlewatch.model.policy import Policy
from middlewatch.model.rollback import NOTE as ROLLED_BACK
from middlewatch.model.rollback import rolled_back
from middlewatch.model.signal import Signal
from middlewatch.ports.errors import Conflict, PortError, Refused, Unreadable
from middlewatch.ports.scheduler import Scheduler
from middlewatch.ports.store import AttemptFilter, Store
from middlewatch.remediation import (
    DecisionInputs,
    History,
    Refrain,
    RefrainBasis,
    blamed_nodes,
    decide,
    successor_lost,
    successor_of,
    witnesses_of,
)
from middlewatch.services.manager.frozen import result_of
from middlewatch.services.manager.gather import Looks, history_of, signals_of_attempt
from middlewatch.services.manager.parents import Parents
from middlewatch.services.manager.recovering import Recoveries
from middlewatch.services.manager.releasing import Releases, declares
from middlewatch.services.manager.written import Written, beliefs, decided, merged

CURSOR = "manager.cursor"
"""The note that keeps the row number of the last signal whose attempt is settled."""

BATCH = 1000
AT_ONCE = 200
"""Attempts looked at in one tick; the rest waits for the next, which is asked for at once."""
TRIES = 4
ENDED_LATELY = timedelta(minutes=15)
ENDED_EVERY = timedelta(seconds=1)
PAGE = 250
ISSUES_AT_MOST = 1000

NAMELESS_FOR = timedelta(minutes=2)
"""How long the name of a failed node is asked for: accounting lags, and Slurm's own begin time
keeps the successor from starting for as long."""

AFTER_A_BREAK = timedelta(seconds=10)
"""When an attempt is looked at again that broke its evaluation in a way nobody foresaw."""

_LOOK_AGAIN: dict[RefrainBasis, timedelta] = {
    RefrainBasis.WAITING_FOR_PARTITIONS: timedelta(seconds=1),
    RefrainBasis.WAITING_FOR_SCHEDULER: timedelta(seconds=1),
    RefrainBasis.WAITING_FOR_END: timedelta(seconds=2),
    RefrainBasis.WAITING_FOR_OUTCOME: timedelta(seconds=2),
    RefrainBasis.NOT_RUNNING: timedelta(seconds=5),
    RefrainBasis.END_UNKNOWN: timedelta(seconds=5),
}


@dataclass(frozen=True, slots=True)
class ManagerReport:
    """What a tick did. ``again`` asks for the next one at once: more is waiting."""

    signals: int = 0
    evaluated: int = 0
    advised: tuple[AttemptId, ...] = ()
    refrained: tuple[AttemptId, ...] = ()
    conflicts: int = 0
    failed: tuple[AttemptId, ...] = ()
    again: bool = False


@dataclass(slots=True)
class _Tick:
    now: datetime
    evaluated: int = 0
    advised: list[AttemptId] = field(default_factory=list)
    refrained: list[AttemptId] = field(default_factory=list)
    conflicts: int = 0
    failed: list[AttemptId] = field(default_factory=list)
    unsettled: bool = False


class Manager:
    """One manager of one deployment. Not for use from several threads at once."""

    def __init__(
        self,
        *,
        store: Store,
        scheduler: Scheduler,
        deployment: Deployment,
        policy: Policy,
        on_advice: Callable[[], None] = lambda: None,
        on_error: Callable[[str, Exception], None] = lambda _what, _error: None,
    ) -> None:
        """``on_advice`` is called after new advice was stored (a hint for the controller);
        ``on_error`` with an attempt's id and what kept it from being evaluated."""
        self._store = store
        self._deployment = deployment
        self._policy = policy
        self._looks = Looks(scheduler)
        self._recoveries = Recoveries(store, deployment.cluster, policy, on_error)
        self._on_advice = on_advice
        self._on_error = on_error
        self._releases = Releases(
            store=store,
            looks=self._looks,
            parents=Parents(store, scheduler, deployment.cluster),
            policy=policy,
            gates=lambda attempt, name: gates_for(self._standing(), attempt, name),
            asked=self._asked,
        )
        self._cursor: int | None = None
        self._begun = False
        self._backlog: dict[AttemptId, None] = {}
        self._waiting: dict[AttemptId, datetime] = {}
        self._ended: dict[AttemptId, int] = {}
        self._ended_at: datetime | None = None

    def tick(self, now: datetime) -> ManagerReport:
        """Settle what is new. Raises `PortError` where the store cannot be used at all: nothing
        is lost by that, the cursor stays where it was."""
        tick = _Tick(now)
        cursor = self._read_cursor()
        rows = self._store.signals_after(cursor, BATCH)
        fresh = dict.fromkeys(signal.attempt_id for _, signal in rows)
        for attempt_id in fresh:
            self._evaluate(attempt_id, tick)
        if rows and not tick.unsettled:
            self._move_cursor(rows[-1][0])
        # Kept until settled: an error of the store ends the tick between any two of them.
        self._backlog = dict.fromkeys(self._due(now, set(fresh)))
        for attempt_id in tuple(self._backlog)[:AT_ONCE]:
            del self._backlog[attempt_id]
            self._evaluate(attempt_id, tick)
        if tick.advised:
            self._on_advice()
        if not tick.unsettled:
            self._keep_book(now, tick)
        return ManagerReport(
            signals=len(rows),
            evaluated=tick.evaluated,
            advised=tuple(tick.advised),
            refrained=tuple(tick.refrained),
            conflicts=tick.conflicts,
            failed=tuple(tick.failed),
            again=bool(self._backlog) or tick.unsettled or len(rows) == BATCH,
        )

    def _keep_book(self, now: datetime, tick: _Tick) -> None:
        """Recoveries are told from what is stored, at any time later: no decision waits for that."""
        try:
            self._recoveries.tick(now, tick.advised)
        except Exception as error:  # noqa: BLE001 - what one job's records break must not end the loop
            self._on_error("recoveries", error)

    # -- which attempts -----------------------------------------------------------------------

    def _read_cursor(self) -> int:
        if self._cursor is None:
            text = self._store.note(CURSOR) or "0"
            if not (text.isascii() and text.isdigit()):
                raise Unreadable(f"note {CURSOR} is {text[:40]!r}, not a number; remove it")
            self._cursor = int(text)
        return self._cursor

    def _move_cursor(self, row: int) -> None:
        self._store.put_notes(((CURSOR, str(row)),))
        self._cursor = row

    def _due(self, now: datetime, done: set[AttemptId]) -> list[AttemptId]:
        """Attempts to look at without a new signal, each once."""
        if not self._begun:
            # Whoever lived here before may have been killed between any two lines.
            live = self._store.live_attempts(self._deployment.cluster)
            self._backlog.update(dict.fromkeys(attempt.id for attempt in live))
            self._begun = True
        found = dict(self._backlog)
        for attempt_id, when in tuple(self._waiting.items()):
            if when <= now:
                del self._waiting[attempt_id]
                found[attempt_id] = None
        found.update(dict.fromkeys(self._ended_lately(now)))
        return [attempt_id for attempt_id in found if attempt_id not in done]

    def _ended_lately(self, now: datetime) -> Iterable[AttemptId]:
        """Ended attempts of which something changed: who ended them is learnt later than that."""
        if self._ended_at is not None and now - self._ended_at < ENDED_EVERY:
            return ()
        self._ended_at = now
        where = AttemptFilter(
            cluster=self._deployment.cluster, final=True, ended_from=now - ENDED_LATELY
        )
        seen: dict[AttemptId, int] = {}
        offset = 0
        while True:
            page = self._store.attempts(where, offset, PAGE)
            seen.update((attempt.id, attempt.version) for attempt in page)
            if len(page) < PAGE:
                break
            offset += PAGE
        changed = [i for i, version in seen.items() if self._ended.get(i) != version]
        self._ended = seen
        return changed

    # -- one attempt --------------------------------------------------------------------------

    def _evaluate(self, attempt_id: AttemptId, tick: _Tick) -> None:
        tick.evaluated += 1
        for _ in range(TRIES):
            try:
                self._settle(attempt_id, tick)
            except Conflict:
                tick.conflicts += 1
            except (Refused, Unreadable) as error:
                # One attempt whose records do not fit must not keep the others waiting.
                tick.failed.append(attempt_id)
                self._on_error(attempt_id, error)
                return
            except PortError:
                self._backlog[attempt_id] = None
                raise
            except Exception as error:  # noqa: BLE001 - what one job's records break, they break alone
                tick.failed.append(attempt_id)
                self._on_error(attempt_id, error)
                self._wait(attempt_id, tick.now + AFTER_A_BREAK)
                return
            else:
                return
        tick.unsettled = True
        self._backlog[attempt_id] = None

    def _settle(self, attempt_id: AttemptId, tick: _Tick) -> None:
        """Read, decide, write, once. Raises `Conflict` where something moved meanwhile."""
        now = tick.now
        attempt = self._store.attempt(attempt_id)
        if attempt is None:
            return
        if attempt.vanished:
            self._look_at_the_one_before(attempt)
        signals = signals_of_attempt(self._store, attempt_id)
        if not signals:
            return
        known = self._store.issues(attempt_id, 0, ISSUES_AT_MOST)
        issues = issues_from(signals, known, attempt)
        held = self._store.verdicts(attempt_id)
        verdicts = {issue.id: self._verdict(issue, signals, attempt, held, now) for issue in issues}
        believed = beliefs(
            attempt,
            issues=issues,
            known=known,
            verdicts=tuple(verdicts.values()),
            held=held,
            now=now,
        )
        issue = governing(issues)
        written = Written(Change())
        if issue is not None and self._opted_in(attempt):
            written = self._decided(attempt, issue, verdicts[issue.id], signals, now)
        let_go = self._released(attempt, now)
        change = merged(believed, written.change, let_go.change, attempt=attempt)
        if not change.empty:
            self._store.apply(change)
        if written.advised or let_go.advised:
            tick.advised.append(attempt_id)
        if written.refrained or let_go.refrained:
            tick.refrained.append(attempt_id)

    def _released(self, attempt: Attempt, now: datetime) -> Written:
        """What comes of a held job that waits for others."""
        if not (declares(attempt) and self._opted_in(attempt)):
            return Written(Change())
        mode = attempt.opt_in.effective(self._deployment.cluster.environment)
        written, again = self._releases.decided(attempt, mode, now)
        if again is not None:
            self._wait(attempt.id, again)
        return written

    def _asked(self, attempt: Attempt, now: datetime) -> str:
        """The word of the decision about an attempt, made now and not written; empty where no issue
        of it is open, or nothing is decided about it."""
        signals = signals_of_attempt(self._store, attempt.id)
        known = self._store.issues(attempt.id, 0, ISSUES_AT_MOST)
        issue = governing(issues_from(signals, known, attempt))
        if issue is None or not self._opted_in(attempt):
            return ""
        held = self._store.verdicts(attempt.id)
        verdict = self._verdict(issue, signals, attempt, held, now)
        return result_of(decide(self._inputs(attempt, issue, verdict, signals, now)))

    def _look_at_the_one_before(self, vanished: Attempt) -> None:
        """What had converged on an attempt that the scheduler has forgotten is to be decided anew,
        and nothing need have changed in the record of the attempt that it was decided about."""
        earlier = [
            other
            for other in self._store.attempts_of_job(vanished.cluster, vanished.job_id)
            if other.submitted_at < vanished.submitted_at and not (other.vanished or other.told)
        ]
        if earlier:
            self._backlog[max(earlier, key=lambda other: other.submitted_at).id] = None

    def _opted_in(self, attempt: Attempt) -> bool:
        """Without opt-in signals are still sorted into issues; nothing is decided about the job."""
        mode = attempt.opt_in.effective(self._deployment.cluster.environment)
        return mode is not JobMode.OFF and attempt.cluster == self._deployment.cluster

    def _verdict(
        self,
        issue: Issue,
        signals: tuple[Signal, ...],
        attempt: Attempt,
        held: tuple[Verdict, ...],
        now: datetime,
    ) -> Verdict:
        before = next((v for v in reversed(held) if v.issue_id == issue.id), None)
        known = () if before is None else before.nodes
        verdict = verdict_for(issue, signals, attempt, now, failed_nodes=known)
        nameless = issue.failure_class == "node_failure" and not verdict.nodes
        fresh = now - issue.learned_at <= NAMELESS_FOR
        if nameless and fresh and issue.state is IssueState.OPEN and self._opted_in(attempt):
            failed = self._looks.failed_nodes(attempt, now)
            if failed:
                return verdict_for(issue, signals, attempt, now, failed_nodes=failed)
            self._wait(attempt.id, now + timedelta(seconds=2))
        return verdict

    def _decided(
        self,
        attempt: Attempt,
        issue: Issue,
        verdict: Verdict,
        signals: tuple[Signal, ...],
        now: datetime,
    ) -> Written:
        inputs = self._inputs(attempt, issue, verdict, signals, now)
        outcome = decide(inputs)
        if isinstance(outcome, Refrain) and outcome.basis in _LOOK_AGAIN:
            self._wait(attempt.id, now + _LOOK_AGAIN[outcome.basis])
        decisions = self._store.decisions(attempt.id)
        cause = next((s for s in signals if s.key == issue.first_cause), None)
        return decided(inputs, outcome, cause, decisions[-1] if decisions else None)

    def _standing(self) -> Deployment:
        """The site's side of the gates, unless somebody rolled the deployment back meanwhile."""
        return rolled_back(self._deployment, self._store.note(ROLLED_BACK))

    def _wait(self, attempt_id: AttemptId, until: datetime) -> None:
        self._waiting[attempt_id] = min(until, self._waiting.get(attempt_id, until))

    def _inputs(
        self,
        attempt: Attempt,
        issue: Issue,
        verdict: Verdict,
        signals: tuple[Signal, ...],
        now: datetime,
    ) -> DecisionInputs:
        relatives = self._store.attempts_of_job(attempt.cluster, attempt.job_id)
        existing = self._store.advice(attempt.id)
        history = history_of(self._store, relatives, attempt)
        name = self._looks.cluster_name(now)
        inputs = DecisionInputs(
            attempt=attempt,
            mode=attempt.opt_in.effective(self._deployment.cluster.environment),
            issue=issue,
            verdict=verdict,
            witnesses=witnesses_of(signals_of(issue, signals)),
            progress=self._store.progress(attempt.id),
            history=history,
            policy=self._policy,
            gates=gates_for(self._standing(), attempt, name, issue.failure_class),
            partitions=None,
            partitions_unknown="no node is to be excluded, so nobody was asked",
            successor=successor_of(relatives, attempt),
            successor_lost=successor_lost(relatives, attempt),
            existing=existing,
            now=now,
            cluster_seen=name is not None,
        )
        standing = () if existing is None else existing.exclusions
        if not (blamed_nodes(verdict) or standing or _ledger(history)):
            return inputs
        views, why = self._looks.partitions(now)
        return replace(inputs, partitions=views, partitions_unknown=why)


def _ledger(history: History) -> bool:
    return any(past.blamed_nodes or past.excluded_by_us for past in history.attempts)
