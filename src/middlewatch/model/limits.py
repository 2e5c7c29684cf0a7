"""The limits of detection that may change while jobs run.

A limit is a duration of the policy after which a silence is worth an alarm. The settings give it;
somebody who is allowed to may change it over the API, for everybody, with a reason, until it is
taken back. What a change would have meant for the silences of the past can be asked before.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime
from math import isfinite

from middlewatch.model.policy import Policy
from middlewatch.model.signal import Pause

SHORTEST_S = 1.0
LONGEST_S = 30 * 86_400.0
NOT_OF_DETECTION = frozenset({"advice_age_limit_s"})

NOTE = "limits"
"""The name under which the store keeps them."""

NAMES: tuple[str, ...] = tuple(
    field.name
    for field in fields(Policy)
    if field.name.endswith(("_limit_s", "_floor_s")) and field.name not in NOT_OF_DETECTION
)
"""The fields of the policy that can be changed, in its order."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What was changed over the API: seconds by field name. ``version`` grows with each change."""

    values: tuple[tuple[str, float], ...] = ()
    version: int = 0
    changed_at: datetime | None = None
    changed_by: str = ""
    reason: str = ""


def changed(limits: Limits, values: Mapping[str, float], reset: tuple[str, ...]) -> Limits:
    """The limits with other values. Raises ValueError with a sentence for what is no limit."""
    for name in (*values, *reset):
        if name not in NAMES:
            raise ValueError(f"{name[:60]!r} is no limit; there are {', '.join(NAMES)}")
    for name, seconds in values.items():
        if not isfinite(seconds) or not SHORTEST_S <= seconds <= LONGEST_S:
            raise ValueError(
                f"{name} is {seconds} s; give {SHORTEST_S:.0f} s to {LONGEST_S:.0f} s (30 days)"
            )
    kept = {name: value for name, value in limits.values if name not in reset}
    kept.update(values)
    return replace(limits, values=tuple((name, kept[name]) for name in NAMES if name in kept))


def with_limits(policy: Policy, limits: Limits) -> Policy:
    """The policy with what was changed. A name that this version does not know changes nothing."""
    known = {name: value for name, value in limits.values if name in NAMES}
    if not known:
        return policy
    return replace(policy, version=f"{policy.version}+limits.{limits.version}", **known)  # type: ignore[arg-type]  # all of NAMES are float fields


def limit_of(pause: Pause, policy: Policy) -> float:
    """The limit that a silence would have had under ``policy``, seconds."""
    given = getattr(policy, pause.limit, 0.0) if pause.limit in NAMES else 0.0
    return max(float(given) * pause.times, pause.learnt_s)


def alarms(pause: Pause, policy: Policy) -> bool:
    """Whether a silence would have been an alarm under ``policy``."""
    return pause.length_s > limit_of(pause, policy)


def as_text(limits: Limits) -> str:
    """For the store; `from_text` reads it."""
    return json.dumps(
        {
            "values": dict(limits.values),
            "version": limits.version,
            "changed_at": limits.changed_at.isoformat() if limits.changed_at else None,
            "changed_by": limits.changed_by,
            "reason": limits.reason,
        },
        ensure_ascii=True,
        separators=(",", ":"),
    )


def from_text(text: str | None) -> Limits:
    """What `as_text` wrote; None is what stands before the first change. Raises ValueError."""
    if text is None:
        return Limits()
    try:
        found = json.loads(text)
        at = found["changed_at"]
        return Limits(
            values=tuple((str(name), float(value)) for name, value in found["values"].items()),
            version=int(found["version"]),
            changed_at=None if at is None else datetime.fromisoformat(at),
            changed_by=str(found["changed_by"]),
            reason=str(found["reason"]),
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"the stored limits cannot be read: {error!r}") from error
