"""Everything that the judgement needs of one schedule, as the world showed it: values, no questions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tools.faults.schedule import Schedule
from tools.faults.world import Life, Note, Row


@dataclass(frozen=True, slots=True)
class Command:
    """One changing command of ours. ``started`` is when it was issued, ``before`` and ``after`` what
    slurmctld showed around it (``after`` None: it never came back). ``exit_code`` None: not known."""

    argv: tuple[str, ...]
    started: float
    exit_code: int | None
    before: Row
    after: Row | None

    @property
    def verb(self) -> str:
        name = self.argv[0].rpartition("/")[2]
        return "cancel" if name == "scancel" else self.argv[1]

    @property
    def words(self) -> frozenset[str]:
        return frozenset(self.argv[1:])

    @property
    def effective(self) -> bool:
        """Whether it was carried out: slurmctld said so, or the job shows what only it would change."""
        before, after = self.before, self.after
        if self.exit_code == 0:
            return True
        if after is None or not after.known or not before.known:
            return False
        match self.verb:
            case "requeue" | "requeuehold":
                return after.restarts > before.restarts
            case "cancel":
                return before.state not in GOING and after.state in GOING
            case "release":
                return before.priority == 0 < after.priority
            case _:
                same = before.submitted == after.submitted
                return same and _set_by_update(before) != _set_by_update(after)

    @property
    def requeues(self) -> bool:
        return self.verb in ("requeue", "requeuehold") and self.effective

    @property
    def lets_go(self) -> bool:
        return self.effective and (self.verb == "release" or "StartTime=now" in self.words)


GOING = ("CANCELLED", "COMPLETING")


def _set_by_update(row: Row) -> tuple[object, ...]:
    return (row.requeue, row.excluded, row.eligible)


@dataclass(frozen=True, slots=True)
class Act:
    """What a person did: ``what`` as in `deeds.DEEDS`. ``done``: Slurm took it. ``begun`` and
    ``ended`` around the command; ``until`` when they took it back (a hold), 0: never."""

    what: str
    begun: float
    ended: float
    done: bool
    before: Row
    after: Row
    until: float = 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """A terminal outcome when it was first seen over the API, with the fresh look at the job."""

    record: dict[str, Any]
    row: Row
    excluded: frozenset[str]


@dataclass
class Seen:
    schedule: Schedule
    job_id: str = ""
    bystander_id: str = ""
    events: list[dict[str, Any]] = field(default_factory=list)
    """Each event: ``event`` in words, ``reached``."""
    row: Row = field(default_factory=lambda: Row(known=False))
    bystander: Row = field(default_factory=lambda: Row(known=False))
    notes: tuple[Note, ...] = ()
    lives: tuple[Life, ...] = ()
    commands: tuple[Command, ...] = ()
    foreign: tuple[tuple[str, ...], ...] = ()
    """Changing commands that named another job than ours."""
    acts: list[Act] = field(default_factory=list)
    node_faults: int = 0
    slurmctld_killed: list[float] = field(default_factory=list)
    """When it was killed, epoch seconds: what it had not saved is lost."""
    frozen: list[tuple[float, float]] = field(default_factory=list)
    """When our processes stood still, from and to."""
    samples: list[Row] = field(default_factory=list)
    """Looks at the job while somebody's hold was in force."""
    excluded: frozenset[str] = frozenset()
    user_exclusions: frozenset[str] = frozenset()
    attempt_nodes: dict[int, frozenset[str]] = field(default_factory=dict)
    outcomes: list[Outcome] = field(default_factory=list)
    completed_at: float = 0.0
    """When the job was told to complete; 0: never."""
    stayed_held: bool = False
    """The watchdog alone had to let go, and did not in time."""
    arrived: bool = False
    """The end that the schedule asks for came within its limit."""
    records: tuple[dict[str, Any], ...] = ()
    """All generations of advice about the job, as last read over the API."""
    accounting: tuple[str, ...] = ()
    """States of the attempts by accounting, oldest first."""
    ledger_reads: int = 0
    lost_advice: tuple[str, ...] = ()
    lost_audit: tuple[str, ...] = ()
    stop_code: int = 0
    seconds: float = 0.0

    @property
    def meant_to_end(self) -> bool:
        """Somebody ended it for good: cancelled, or its work was done."""
        return bool(self.completed_at) or any(
            act.what in ("owner cancels", "operator cancels") and act.done for act in self.acts
        )

    @property
    def may_stay_ended(self) -> bool:
        """Its owner took back what a restart needs."""
        return any(act.what in ("owner forbids requeueing", "owner opts out") for act in self.acts)
