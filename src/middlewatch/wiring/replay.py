"""Deciding again from frozen inputs, to see whether the same comes of it.

The decision is a pure function of its inputs, so a stored decision can be made again on any
machine, years later. Where the answer differs, the code has changed, or the record was.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Replayed:
    """``outcome`` is what comes of it now (JSON); ``why`` says how it differs, or why it could
    not be decided again."""

    same: bool
    why: str
    outcome: str


def replay(decision: Mapping[str, Any]) -> Replayed:
    """Decide again what a stored decision decided (as the API shows it), and compare."""
    from middlewatch.model.change import Decision
    from middlewatch.model.identity import AttemptId
    from middlewatch.ports.errors import Unreadable
    from middlewatch.services.manager import frozen

    stored = Decision(
        id=str(decision.get("id") or ""),
        attempt_id=AttemptId(str(decision.get("attemptId") or "")),
        at=datetime.min.replace(tzinfo=UTC),
        result=str(decision.get("result") or ""),
        policy_version=str(decision.get("policyVersion") or ""),
        inputs=str(decision.get("inputs") or ""),
        outcome=str(decision.get("outcome") or ""),
    )
    try:
        again = frozen.replay(stored)
    except Unreadable as error:
        return Replayed(False, f"the stored record cannot be decided again: {error}", "{}")
    outcome = frozen.frozen_outcome(again.outcome)
    if again.same:
        return Replayed(True, "", outcome)
    before, after = json.loads(stored.outcome), json.loads(outcome)
    different = sorted(k for k in before.keys() | after.keys() if before.get(k) != after.get(k))
    return Replayed(False, f"{', '.join(different)} came out otherwise", outcome)
