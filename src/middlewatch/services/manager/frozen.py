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

ADVISED = "advise"
"""``Decision.result`` of an `Advise`; every other word is a `RefrainBasis`."""


def frozen_inputs(inputs: DecisionInputs) -> str:
    return msgspec.json.encode(inputs).decode()


def frozen_outcome(outcome: Outcome) -> str:
    return msgspec.json.encode(outcome).decode()


def result_of(outcome: Outcome) -> str:
    """The word that a decision is stored under."""
    return ADVISED if isinstance(outcome, Advise) else outcome.basis.value


def inputs_of(decision: Decision) -> DecisionInputs:
    """What the decision looked at. Raises `Unreadable` for what this version cannot read."""
    try:
        return msgspec.json.decode(decision.inputs, type=DecisionInputs)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Unreadable(f"decision {decision.id}: its inputs cannot be read: {error}") from error


def outcome_of(decision: Decision) -> Outcome:
    """What the decision came to. Raises `Unreadable` for what this version cannot read."""
    try:
        if decision.result == ADVISED:
            return msgspec.json.decode(decision.outcome, type=Advise)
        return msgspec.json.decode(decision.outcome, type=Refrain)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Unreadable(f"decision {decision.id}: its outcome cannot be read: {error}") from error


@dataclass(frozen=True, slots=True)
class Replayed:
    """A decision made again. ``same`` says whether it came out as it did then."""

    outcome: Outcome
    same: bool


def replay(decision: Decision, policy: Policy | None = None) -> Replayed:
    """Decide again from the frozen inputs, with ``policy`` in place of that day's where given.

    Raises `Unreadable` where the record cannot be read by this version.
    """
    inputs = inputs_of(decision)
    if policy is not None:
        inputs = replace(inputs, policy=policy)
    outcome = decide(inputs)
    return Replayed(outcome, outcome == outcome_of(decision))
