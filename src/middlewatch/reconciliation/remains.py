"""Whether something of ours stands for an advice after a step: then a stop has to wait for it."""

from __future__ import annotations

from datetime import datetime

from middlewatch.model.answer import Known
from middlewatch.model.scheduler import JobView
from middlewatch.reconciliation.in_flight import fence_stands
from middlewatch.reconciliation.plan import hold_stands
from middlewatch.reconciliation.situation import (
    Act,
    Place,
    Report,
    Situation,
    Wait,
    place,
    requeues,
)


def remains(
    situation: Situation, view: JobView | None, now: datetime, step: Act | Report | Wait
) -> int:
    """1 where something of ours stands for this advice after ``step``, else 0."""
    if isinstance(step, Report) or not situation.actions:
        return 0
    if isinstance(step, Act):
        return 1
    ours = bool(requeues(situation))
    if view is None:
        return int(ours and not isinstance(situation.look, Known))
    standing = hold_stands(situation, view, now) or fence_stands(situation.actions)
    return int(standing or (ours and place(situation.advice, view) is Place.TURNING))
