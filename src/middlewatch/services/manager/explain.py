"""The whole story of one attempt, read back from the store, with each decision made again."""

from __future__ import annotations

from dataclasses import dataclass

from middlewatch.model.action import ActionRecord
from middlewatch.model.advice import Advice, Status
from middlewatch.model.attempt import Attempt
from middlewatch.model.change import Decision
from middlewatch.model.identity import AttemptId
from middlewatch.model.issue import Issue, Verdict
from middlewatch.model.milestone import Milestone
from middlewatch.model.policy import Policy
from middlewatch.model.signal import Progress, Signal
from middlewatch.ports.errors import NotFound, Unreadable
from middlewatch.ports.store import Store
from middlewatch.services.manager.frozen import (
    AnyOutcome,
    Inputs,
    inputs_of,
    outcome_of,
    replay,
)
from middlewatch.services.manager.gather import signals_of_attempt


@dataclass(frozen=True, slots=True)
class Told:
    """One decision with its inputs. ``replayed`` is what comes of them now, ``same`` whether
    that is what came of them then; ``unreadable`` says why neither can be told."""

    decision: Decision
    inputs: Inputs | None = None
    outcome: AnyOutcome | None = None
    replayed: AnyOutcome | None = None
    same: bool | None = None
    unreadable: str = ""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Seen, believed, decided, done: in that order, each oldest first."""

    attempt: Attempt
    progress: Progress | None
    signals: tuple[Signal, ...]
    issues: tuple[Issue, ...]
    verdicts: tuple[Verdict, ...]
    decisions: tuple[Told, ...]
    advice: Advice | None
    generations: tuple[Advice, ...]
    statuses: tuple[Status, ...]
    actions: tuple[ActionRecord, ...]
    milestones: tuple[Milestone, ...]


def explain(store: Store, attempt_id: AttemptId, policy: Policy | None = None) -> Explanation:
    """Everything known about an attempt; ``policy`` replays its decisions under another one.

    Raises `NotFound` for an attempt that the store does not know.
    """
    attempt = store.attempt(attempt_id)
    if attempt is None:
        raise NotFound(f"no attempt {attempt_id} is recorded")
    advice = store.advice(attempt_id)
    return Explanation(
        attempt=attempt,
        progress=store.progress(attempt_id),
        signals=signals_of_attempt(store, attempt_id),
        issues=store.issues(attempt_id, 0, 1000),
        verdicts=store.verdicts(attempt_id),
        decisions=tuple(told(decision, policy) for decision in store.decisions(attempt_id)),
        advice=advice,
        generations=store.generations(attempt_id),
        statuses=store.statuses(attempt_id),
        actions=store.actions(attempt_id),
        milestones=() if advice is None else store.milestones(advice.sequence_id),
    )


def told(decision: Decision, policy: Policy | None = None) -> Told:
    """A stored decision, read and made again."""
    try:
        again = replay(decision, policy)
        return Told(decision, inputs_of(decision), outcome_of(decision), again.outcome, again.same)
    except Unreadable as error:
        return Told(decision, unreadable=str(error))
