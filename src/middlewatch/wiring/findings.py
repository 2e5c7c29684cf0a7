"""What doctor's checks share: what they are given, and the form of what they find."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from middlewatch.adapters.slurm.command import Commands, Finished
from middlewatch.model.scheduler import ActsFor, ClusterFacts
from middlewatch.ports.scheduler import Scheduler
from middlewatch.wiring import places
from middlewatch.wiring.loading import Loaded


class Level(StrEnum):
    OK = "ok"
    INFO = "info"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. ``mend`` says what to do where it is not as it should be."""

    check: str
    level: Level
    text: str
    mend: str = ""


@dataclass(slots=True)
class Examined:
    """What the checks share: settings, places, and what the scheduler said of itself."""

    loaded: Loaded
    places: places.Places
    ask: Callable[[tuple[str, ...]], Finished]
    scheduler: Scheduler
    now: Callable[[], datetime]
    environment: str
    config: Mapping[str, str] = field(default_factory=dict)
    facts: ClusterFacts | None = None
    acts_for: ActsFor | None = None
    """Whose jobs this user may change, once that is known."""
    commands: Commands | None = None
    user: tuple[int, str] | None = None
    """Whom Slurm's commands run as, here or behind the gate."""
    watched: list[str] = field(default_factory=list)
    """Running jobs that have opted in, the newest last."""
