"""Decisions as text: what is frozen beside each one, and how it is decided again.

A decision is stored with all that it looked at. Reading it back gives the very inputs, and
deciding is a pure function, so that anybody can check it: the same inputs, the same outcome. With
another policy they show what that policy would have done.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from middlewatch.model.change import Decision
from middlewatch.model.policy import Policy
from middlewatch.ports.errors import Unreadable
from middlewatch.remediation import Advise, DecisionInputs, Outcome, Refrain, decide
from middlewatch.remediation.release import (
    Await,
    AwaitBasis,
    Release,
    ReleaseInputs,
    ReleaseOutcome,
    release_for,
)

ADVISED = "advise"
"""``Decision.result`` of an `Advise`; other words are a `RefrainBasis`, or about a held job."""
RELEASED = "release"
"""``Decision.result`` of a `Release`; of an `Await` it is the `AwaitBasis`."""
RELEASE_RESULTS = frozenset({RELEASED, *(basis.value for basis in AwaitBasis)})

Inputs = DecisionInputs | ReleaseInputs
AnyOutcome = Outcome | ReleaseOutcome


def frozen_inputs(inputs: Inputs) -> str:
    return msgspec.json.encode(inputs).decode()


def frozen_outcome(outcome: AnyOutcome) -> str:
    return msgspec.json.encode(outcome).decode()


def result_of(outcome: AnyOutcome) -> str:
    """The word that a decision is stored under."""
    if isinstance(outcome, Advise):
        return ADVISED
    return RELEASED if isinstance(outcome, Release) else outcome.basis.value


def inputs_of(decision: Decision) -> Inputs:
    """What the decision looked at. Raises `Unreadable` for what this version cannot read."""
    try:
        if decision.result in RELEASE_RESULTS:
            return msgspec.json.decode(decision.inputs, type=ReleaseInputs)
        return msgspec.json.decode(decision.inputs, type=DecisionInputs)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Unreadable(f"decision {decision.id}: its inputs cannot be read: {error}") from error


def outcome_of(decision: Decision) -> AnyOutcome:
    """What the decision came to. Raises `Unreadable` for what this version cannot read."""
    try:
        if decision.result == RELEASED:
            return msgspec.json.decode(decision.outcome, type=Release)
        if decision.result in RELEASE_RESULTS:
            return msgspec.json.decode(decision.outcome, type=Await)
        if decision.result == ADVISED:
            return msgspec.json.decode(decision.outcome, type=Advise)
        return msgspec.json.decode(decision.outcome, type=Refrain)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Unreadable(f"decision {decision.id}: its outcome cannot be read: {error}") from error


@dataclass(frozen=True, slots=True)
class Replayed:
    """A decision made again. ``same`` says whether it came out as it did then."""

    outcome: AnyOutcome
    same: bool


def replay(decision: Decision, policy: Policy | None = None) -> Replayed:
    """Decide again from the frozen inputs, with ``policy`` in place of that day's where given.

    Raises `Unreadable` where the record cannot be read by this version.
    """
    inputs = inputs_of(decision)
    if policy is not None:
        inputs = replace(inputs, policy=policy)
    outcome = release_for(inputs) if isinstance(inputs, ReleaseInputs) else decide(inputs)
    return Replayed(outcome, outcome == outcome_of(decision))
