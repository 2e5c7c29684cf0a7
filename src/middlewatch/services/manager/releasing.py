"""Held jobs that wait for others: looked at again and again until they may go, and what is written.

A held job makes no signals. It is looked at because it declared something (one signal, once), and
from then on every few seconds for as long as it waits, less often where many do. What is decided is
recorded when it says something new, with the inputs that it came from; the sentence that it ended
with stands in the attempt, where whoever lists jobs finds it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from middlewatch.model.advice import Advice, DesiredState, revised
from middlewatch.model.attempt import Attempt, Dependent
from middlewatch.model.audit import AuditEvent, AuditKind, AuditLevel
from middlewatch.model.change import Change, Decision
from middlewatch.model.dependency import Condition
from middlewatch.model.gates import Gates
from middlewatch.model.identity import AttemptId
from middlewatch.model.milestone import Milestone, MilestoneKind
from middlewatch.model.optin import JobMode
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import JobState
from middlewatch.ports.store import Store
from middlewatch.remediation.release import (
    NEEDS_A_PERSON,
    SETTLED,
    Await,
    AwaitBasis,
    Release,
    ReleaseInputs,
    release_for,
)
from middlewatch.services.manager.frozen import RELEASE_RESULTS, frozen_outcome
from middlewatch.services.manager.gather import Looks
from middlewatch.services.manager.parents import Asked, Parents
from middlewatch.services.manager.written import (
    Written,
    decision_of,
    event_of,
    first_advice,
    recovery_of,
)

LOOK_AGAIN = timedelta(seconds=2)
PER_JOB = timedelta(milliseconds=40)
"""What each further waiting job adds to the time between two looks at one."""
SAID_AT_MOST = 400

_TAKES_OVER = frozenset({Condition.AFTERANY, Condition.AFTERNOTOK})


class Releases:
    """Decides about held jobs. Not for use from several threads at once."""

    def __init__(
        self,
        *,
        store: Store,
        looks: Looks,
        parents: Parents,
        policy: Policy,
        gates: Callable[[Attempt, str | None], Gates],
        asked: Asked,
    ) -> None:
        """``gates`` gives the gates of an attempt under the scheduler's present name; ``asked`` the
        word of the decision about another attempt, made now."""
        self._store = store
        self._looks = looks
        self._parents = parents
        self._policy = policy
        self._gates = gates
        self._asked = asked
        self._waiting: set[AttemptId] = set()

    def decided(
        self, attempt: Attempt, mode: JobMode, now: datetime
    ) -> tuple[Written, datetime | None]:
        """What is to be written about a job that declares something, and when to look again
        (None: nothing more is to come)."""
        if not _may_wait(attempt):
            self._waiting.discard(attempt.id)
            return Written(_said(attempt, "")), None
        name = self._looks.cluster_name(now)
        past = [d for d in self._store.decisions(attempt.id) if d.result in RELEASE_RESULTS]
        inputs = ReleaseInputs(
            attempt=attempt,
            mode=mode,
            parents=self._parents.of(attempt, self._asked, now) if attempt.held else (),
            policy=self._policy,
            # What an earlier release was decided for closes no gate of a new decision.
            gates=self._gates(replace(attempt, let_go_after=()), name),
            existing=self._store.advice(attempt.id),
            now=now,
            cluster_seen=name is not None,
            waited=any(d.result != AwaitBasis.NOT_HELD.value for d in past),
        )
        outcome = release_for(inputs)
        again = self._again(inputs, now)
        if isinstance(outcome, Release):
            return self._released(inputs, outcome), again
        return self._awaits(inputs, outcome, past[-1] if past else None), again

    def _again(self, inputs: ReleaseInputs, now: datetime) -> datetime | None:
        if inputs.attempt.state is not JobState.PENDING:
            self._waiting.discard(inputs.attempt.id)
            return None
        self._waiting.add(inputs.attempt.id)
        return now + LOOK_AGAIN + PER_JOB * len(self._waiting)

    @staticmethod
    def _awaits(inputs: ReleaseInputs, outcome: Await, last: Decision | None) -> Written:
        if outcome.basis in SETTLED:
            return Written(_said(inputs.attempt, ""))
        said = _said(inputs.attempt, outcome.explanation)
        if last is not None and last.outcome == frozen_outcome(outcome):
            return Written(said)
        decision = decision_of(inputs, outcome, None)
        level = AuditLevel.INFO
        if outcome.basis in NEEDS_A_PERSON:
            level = AuditLevel.ALARM
        elif outcome.basis in {AwaitBasis.NOT_HELD, AwaitBasis.HELD_AGAIN}:
            level = AuditLevel.WARNING
        event = event_of(
            inputs.attempt,
            AuditKind.DECIDED,
            "release.refrained",
            inputs.now,
            {
                "decision": decision.id,
                "basis": outcome.basis.value,
                "explanation": outcome.explanation,
                "parents": {p.dependency: p.standing.value for p in outcome.parents},
            },
            level=level,
            key=f"decision:{decision.id}",
        )
        change = replace(said, decisions=(decision,), audit=(event,))
        return Written(change, refrained=True)

    def _released(self, inputs: ReleaseInputs, outcome: Release) -> Written:
        attempt, now = inputs.attempt, inputs.now
        recovery = recovery_of(attempt, DesiredState.RELEASED, now)
        before = inputs.existing
        if before is None:
            after = first_advice(attempt, outcome.intent, recovery.id, now)
        else:
            after = revised(before, outcome.intent, now, decided_anew=True)
        decision = decision_of(inputs, outcome, after.generation)
        suffix = "" if after.generation == 1 else f":{after.generation}"
        advised = Milestone(
            sequence_id=after.sequence_id,
            idempotency_key=f"{attempt.id}:{MilestoneKind.ADVISED.value}{suffix}",
            at=now,
            learned_at=now,
            kind=MilestoneKind.ADVISED,
            operation=recovery.operation,
        )
        let = replace(attempt, waits_for="", let_go_after=attempt.opt_in.depends_on)
        change = Change(
            # A parent that has moved since it was looked at may be running again.
            expected=tuple(
                (p.attempt.id, p.attempt.version) for p in inputs.parents if p.attempt is not None
            ),
            attempts=(let, *self._succeeded(inputs, outcome)),
            decisions=(decision,),
            sequences=(recovery,) if before is None else (),
            advice=(after,),
            milestones=(advised,),
            audit=(self._event(inputs, outcome, after, decision),),
        )
        return Written(change, advised=True)

    def _succeeded(self, inputs: ReleaseInputs, outcome: Release) -> tuple[Attempt, ...]:
        """Parents that did not complete and whose end lets this job go: from here on it is their
        successor, and they are not to be restarted beside it."""
        if not outcome.intent.gates.open:
            return ()
        noted: dict[AttemptId, Attempt] = {}
        for parent in inputs.parents:
            one = parent.attempt
            if one is None or one.end is None or one.end.state is JobState.COMPLETED:
                continue
            if parent.dependency.condition in _TAKES_OVER:
                dependent = Dependent(inputs.attempt.job_id, parent.dependency.condition.value)
                kept = tuple(d for d in one.dependents if d != dependent)
                noted[one.id] = replace(one, dependents=(*kept, dependent))
        return tuple(noted.values())

    @staticmethod
    def _event(
        inputs: ReleaseInputs, outcome: Release, after: Advice, decision: Decision
    ) -> AuditEvent:
        intent = outcome.intent
        return event_of(
            inputs.attempt,
            AuditKind.DECIDED,
            "decision.advised",
            inputs.now,
            {
                "decision": decision.id,
                "generation": after.generation,
                "desired": after.desired.value,
                "exclusions": [],
                "basis": after.basis.value,
                "explanation": intent.explanation,
                "parents": {p.dependency: p.standing.value for p in outcome.parents},
                "gates": {gate.name.value: gate.open for gate in intent.gates.gates},
                "wouldHave": not intent.gates.open,
                "policyVersion": intent.policy_version,
            },
            key=f"decision:{decision.id}",
        )


def declares(attempt: Attempt) -> bool:
    """Whether its owner declared anything to wait for, or tried to."""
    return bool(attempt.opt_in.depends_on or attempt.opt_in.depends_on_wrong)


def _may_wait(attempt: Attempt) -> bool:
    begun = attempt.attempt_index > 0 or not attempt.live or attempt.told
    return not begun and declares(attempt)


def _said(attempt: Attempt, sentence: str) -> Change:
    """The attempt with the sentence, where it says another one."""
    short = sentence if len(sentence) <= SAID_AT_MOST else f"{sentence[: SAID_AT_MOST - 1]}…"
    if attempt.waits_for == short:
        return Change()
    return Change(attempts=(replace(attempt, waits_for=short),))
