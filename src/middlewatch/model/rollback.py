"""Back to monitor mode at once, whatever the settings say: a note that outlives every restart.

Settings are read when a process starts; whoever wants a robot's hands off his cluster does not want
to find out first how it is started. While the note stands, the deployment's gate is closed for
every process that reads the store. What was decided meanwhile stays not permitted for ever; what we
hold is let go as always.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import datetime

from middlewatch.model.gates import Deployment

NOTE = "deployment/rolled_back"
"""The name under which the store keeps it; an empty text: taken back."""
REASON_MAX = 500


@dataclass(frozen=True, slots=True)
class Rollback:
    at: datetime
    by: str
    reason: str


def as_text(rollback: Rollback | None) -> str:
    """For the store; `from_text` reads it."""
    if rollback is None:
        return ""
    return json.dumps(
        {"at": rollback.at.isoformat(), "by": rollback.by, "reason": rollback.reason},
        ensure_ascii=True,
        separators=(",", ":"),
    )


def from_text(text: str | None) -> Rollback | None:
    """What `as_text` wrote; None where nothing stands. Raises ValueError."""
    if not text:
        return None
    try:
        found = json.loads(text)
        return Rollback(
            at=datetime.fromisoformat(found["at"]), by=str(found["by"]), reason=str(found["reason"])
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"the stored rollback cannot be read: {error!r}") from error


def rolled_back(deployment: Deployment, text: str | None) -> Deployment:
    """The deployment as the note leaves it. A note that cannot be read closes the gate as well: it
    was written by somebody who wanted it closed."""
    try:
        found = from_text(text)
    except ValueError as error:
        return replace(deployment, rolled_back=str(error))
    if found is None:
        return deployment
    when = found.at.isoformat(timespec="seconds")
    return replace(deployment, rolled_back=f"by {found.by} at {when}: {found.reason}")
