"""The commands that change something, as values, and what is remembered of each.

An action is decided first and performed by somebody else, so it can be printed, refused,
journalled and replayed. What came of it is one of three: done, refused, or no answer, and no
answer means that it may still happen.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from middlewatch.model.identity import AttemptId


class ActionKind(StrEnum):
    REQUEUE = "requeue"
    REQUEUE_HOLD = "requeue_hold"
    UPDATE = "update"
    RELEASE = "release"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True)
class Action:
    """One scheduler command. ``exclusions`` (single node names) replaces the job's whole list;
    None leaves it. ``requeueable`` sets Slurm's Requeue flag; None leaves it."""

    kind: ActionKind
    job_id: str
    why: str
    exclusions: tuple[str, ...] | None = None
    start_now: bool = False
    requeueable: bool | None = None


class Answered(StrEnum):
    DONE = "done"
    REFUSED = "refused"
    NO_ANSWER = "no_answer"
    IN_FLIGHT = "in_flight"
    """Written before the command is started; what a killed controller leaves behind."""


NOT_SENT = "not sent: "
"""How the text of a command begins that was withheld in the last moment."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """What a performed action came to. ``argv`` is the literal command, ``text`` its answer."""

    answered: Answered
    argv: tuple[str, ...]
    exit_code: int | None
    text: str
    started_at: datetime
    ended_at: datetime


@dataclass(frozen=True, slots=True)
class ActionRecord:
    """One action taken for one generation of advice; written before the command and after it."""

    id: str
    attempt_id: AttemptId
    generation: int
    action: Action
    answered: Answered
    started_at: datetime
    ended_at: datetime | None = None
    exit_code: int | None = None
    argv: tuple[str, ...] = ()
    text: str = ""
    saw_restarts: int = 0
    """The restart count in the look that justified the action."""
    ours: tuple[str, ...] = ()
    """Which of the exclusions that it sets are not the user's own."""

    @property
    def withheld(self) -> bool:
        """Whether it was planned and then not sent, by ourselves: nobody has refused it."""
        return self.answered is Answered.REFUSED and self.text.startswith(NOT_SENT)
