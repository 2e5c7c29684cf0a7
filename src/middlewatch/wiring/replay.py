"""Deciding again from frozen inputs, to see whether the same comes of it.

The decision is a pure function of its inputs, so a stored decision can be made again on any
machine, years later. Where the answer differs, the code has changed, or the record was.
"""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Replayed:
    """``outcome`` is what comes of it now (JSON); ``why`` says how it differs, or why it could
    not be decided again."""

    same: bool
    why: str
    outcome: str


def replay(inputs: str, outcome: str) -> Replayed:
    """Decide again from a stored decision's inputs and compare with its outcome (both JSON)."""
    import msgspec

    from middlewatch.remediation.decide import decide
    from middlewatch.remediation.inputs import DecisionInputs

    try:
        frozen = msgspec.json.decode(inputs, type=DecisionInputs)
        before = json.loads(outcome)
    except (msgspec.DecodeError, ValueError) as error:
        return Replayed(False, f"the stored record cannot be read: {error}", "{}")
    again = msgspec.json.encode(decide(frozen)).decode()
    after = json.loads(again)
    different = sorted(
        key for key in before.keys() | after.keys() if before.get(key) != after.get(key)
    )
    if not different:
        return Replayed(True, "", again)
    return Replayed(False, f"{', '.join(different)} came out otherwise", again)
