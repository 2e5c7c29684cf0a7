"""The watchdog's arithmetic: which deadlines can protect anybody.

A hold that ends after the site's patience, a check rarer than the holds it checks, or a deadline
that passes while the command may still be under way looks like protection and is none. So the
numbers are judged together, before anything is held.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from middlewatch.model.scheduler import ClusterFacts

SLURM_MESSAGE_TIMEOUT_S = 10.0
"""Slurm's default, assumed where the scheduler has not told its own."""
MARGIN_S = 5.0


@dataclass(frozen=True, slots=True)
class WatchdogConfig:
    """Seconds throughout.

    ``max_hold_s``: the longest that a hold of ours may stand, whatever its journal line says.
    ``site_max_hold_s``: what the site tolerates at all. ``max_fence_s``: the longest that a
    Requeue=0 of ours may stand. ``interval_s``: between two ticks. ``command_deadline_s``: when
    one scheduler command is killed. ``heartbeat_stale_s``: after how long a silence the watchdog
    counts as dead. ``spacing_s`` and ``per_tick`` spread what is let go.
    """

    max_hold_s: float = 900.0
    site_max_hold_s: float = 3600.0
    max_fence_s: float = 60.0
    interval_s: float = 5.0
    command_deadline_s: float = 15.0
    heartbeat_stale_s: float = 120.0
    spacing_s: float = 1.0
    per_tick: int = 4


def in_flight_s(facts: ClusterFacts | None) -> float:
    """How long after it was sent a command without an answer may still take effect, once the
    scheduler answers looks again."""
    timeout = SLURM_MESSAGE_TIMEOUT_S if facts is None else facts.message_timeout_s
    return timeout + MARGIN_S


def release_by(now: datetime, wanted_s: float, config: WatchdogConfig) -> datetime:
    """The deadline to write into the journal for a hold wanted for ``wanted_s``."""
    return now + timedelta(seconds=min(wanted_s, config.max_hold_s))


def check_deadlines(config: WatchdogConfig, facts: ClusterFacts | None) -> tuple[str, ...]:
    """What makes these deadlines useless, one sentence each with the remedy; empty: they protect.

    ``facts`` None: Slurm's default time-out is assumed; check again when they are known.
    """
    problems: list[str] = []
    numbers = {
        "max_hold_s": config.max_hold_s,
        "site_max_hold_s": config.site_max_hold_s,
        "max_fence_s": config.max_fence_s,
        "interval_s": config.interval_s,
        "command_deadline_s": config.command_deadline_s,
        "heartbeat_stale_s": config.heartbeat_stale_s,
    }
    problems += [
        f"{name} is {value:g}: it must be a number of seconds above 0"
        for name, value in numbers.items()
        if not 0 < value < float("inf")
    ]
    if not 0 <= config.spacing_s < float("inf"):
        problems.append(f"spacing_s is {config.spacing_s:g}: it must be 0 or more seconds")
    if config.per_tick < 1:
        problems.append(f"per_tick is {config.per_tick}: with less than 1 nothing is ever let go")
    if problems:
        return tuple(problems)
    timeout = SLURM_MESSAGE_TIMEOUT_S if facts is None else facts.message_timeout_s
    flight = in_flight_s(facts)
    if config.max_hold_s > config.site_max_hold_s:
        problems.append(
            f"max_hold_s ({config.max_hold_s:g}) is beyond the site's maximum site_max_hold_s "
            f"({config.site_max_hold_s:g}): lower it"
        )
    for name, value in (("max_hold_s", config.max_hold_s), ("max_fence_s", config.max_fence_s)):
        if value <= flight:
            problems.append(
                f"{name} ({value:g}) passes while the command may still be under way "
                f"(the scheduler's MessageTimeout {timeout:g} + {MARGIN_S:g}): "
                f"set it above {flight:g}"
            )
    if config.interval_s >= config.max_hold_s:
        problems.append(
            f"interval_s ({config.interval_s:g}) is not shorter than max_hold_s "
            f"({config.max_hold_s:g}): a hold would outlive its deadline unseen; check more often"
        )
    if config.command_deadline_s <= timeout:
        problems.append(
            f"command_deadline_s ({config.command_deadline_s:g}) kills a command before the "
            f"scheduler's own MessageTimeout ({timeout:g}): no answer would ever come; "
            f"set it above {timeout:g}"
        )
    if config.heartbeat_stale_s >= config.max_hold_s:
        problems.append(
            f"heartbeat_stale_s ({config.heartbeat_stale_s:g}) is not shorter than max_hold_s "
            f"({config.max_hold_s:g}): a dead watchdog would be noticed after the holds it guards"
        )
    busy = config.interval_s + 2 * config.command_deadline_s
    if config.heartbeat_stale_s <= busy:
        problems.append(
            f"heartbeat_stale_s ({config.heartbeat_stale_s:g}) is shorter than one slow round "
            f"(interval_s + 2 × command_deadline_s = {busy:g}): a working watchdog would be "
            f"taken for dead; set it above {busy:g}"
        )
    return tuple(problems)
