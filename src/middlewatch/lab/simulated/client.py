"""A client of the simulated slurmctld for whom time passes: between question and answer too.

`SimulatedScheduler` answers within the moment. A real client's command travels, waits for a busy
daemon, is killed at its deadline, and may be carried out long after its client has given up; and
between a look and the command that follows from it, anybody may do anything. Here each of these
takes virtual time, and a `Journey` decides how much of it, what becomes of each command, and what
else happens meanwhile. The rules are those seen on real daemons: an answer that does not come is
given up after MessageTimeout or at the client's own deadline, whichever is first, and what a hung
daemon had received is done when it goes on.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Protocol, TypeVar

from middlewatch.lab.simulated.faults import Doom, Fate
from middlewatch.lab.simulated.records import Job
from middlewatch.lab.simulated.scheduler import SimulatedScheduler, argv_of, readable
from middlewatch.lab.simulated.slurmctld import NotDone, SimulatedCluster
from middlewatch.model.action import Action, Answered, CommandResult
from middlewatch.model.answer import Absent, Answer, Known, Unknown
from middlewatch.model.scheduler import (
    AccountingRecord,
    ClusterFacts,
    JobDetail,
    PartitionView,
    Snapshot,
)

T = TypeVar("T")

_NO_ANSWER = "Unexpected message received"
_CUT_SHORT = "squeue: the answer was cut short"


class Journey(Protocol):
    """How one client's questions and commands fare. `pause` lets virtual time pass for this
    client alone, and may never return (it was killed)."""

    def pause(self, seconds: float) -> None: ...

    def now(self) -> datetime:
        """What the client's own clock shows."""

    def look_s(self) -> tuple[float, float]:
        """Seconds on the way to slurmctld and back, for the next question."""

    def command_s(self) -> tuple[float, float]:
        """The same for the next changing command."""

    def doom(self, action: Action) -> Doom: ...

    def cut(self) -> frozenset[str] | None:
        """Jobs that the next listing leaves out without saying so; None: it is cut visibly."""

    def moment(self, name: str) -> None:
        """Called at ``look``, ``looked``, ``send``, ``arrived`` and ``answered``."""

    def looked(self, job_id: str, job: Job | None) -> None:
        """What slurmctld had of a job (a copy) when it answered a look."""

    def detailed(self, job_id: str, job: Job | None) -> None:
        """The same when it answered a question about that job alone."""

    def carried_out(
        self, action: Action, before: Job | None, after: Job | None, refusal: str
    ) -> None:
        """A command of this client has reached slurmctld, perhaps long after it was given up."""


class SimulatedClient:
    """Implements `ports.scheduler.Scheduler` for one process (or thread) of ours."""

    def __init__(
        self, server: SimulatedScheduler, world: SimulatedCluster, journey: Journey
    ) -> None:
        self.cluster = server.cluster
        self._server = server
        self._world = world
        self._journey = journey

    # -------------------------------------------------------------------------------- looks

    def facts(self) -> Answer[ClusterFacts]:
        began = self._there()
        return self._back(self._server.facts(), began)

    def listing(self) -> Answer[Snapshot]:
        began = self._there()
        answer = self._server.listing()
        missing = self._journey.cut()
        if isinstance(answer, Known):
            if missing is None:
                answer = Unknown(_CUT_SHORT, began)
            else:
                shown = tuple(job for job in answer.value.jobs if job.job_id not in missing)
                snapshot = replace(answer.value, as_of=began, jobs=shown)
                answer = Known(snapshot, began)
        return self._back(answer, began)

    def look(self, job_ids: Sequence[str]) -> Answer[Snapshot]:
        began = self._there()
        answer = self._server.look(job_ids)
        if isinstance(answer, Known):
            for job_id in job_ids:
                self._journey.looked(job_id, self._copy(job_id))
            answer = Known(replace(answer.value, as_of=began), began)
        return self._back(answer, began)

    def detail(self, job_id: str) -> Answer[JobDetail]:
        began = self._there()
        answer = self._server.detail(job_id)
        if isinstance(answer, Known):
            self._journey.detailed(job_id, self._copy(job_id))
        return self._back(answer, began)

    def accounting(self, job_id: str) -> Answer[tuple[AccountingRecord, ...]]:
        began = self._there()
        return self._back(self._server.accounting(job_id), began)

    def partitions(self) -> Answer[tuple[PartitionView, ...]]:
        began = self._there()
        return self._back(self._server.partitions(), began)

    def hostnames(self, node_list: str) -> tuple[str, ...]:
        return self._server.hostnames(node_list)

    def _there(self) -> datetime:
        journey = self._journey
        journey.moment("look")
        began = journey.now()
        journey.pause(journey.look_s()[0])
        if self._server.faults.hung:
            journey.pause(self._world.config.message_timeout_s)
        return began

    def _back(self, answer: Answer[T], began: datetime) -> Answer[T]:
        journey = self._journey
        journey.pause(journey.look_s()[1])
        journey.moment("looked")
        match answer:
            case Known(value=value):
                # As old as the question: what came after it, it may not show.
                return Known(value, began)
            case Absent():
                return Absent(began)
            case Unknown(why=why):
                return Unknown(why, began)

    def _copy(self, job_id: str) -> Job | None:
        job = self._world.jobs.get(job_id)
        return None if job is None else copy.copy(job)

    # ------------------------------------------------------------------------------ changes

    def perform(self, action: Action, deadline_s: float) -> CommandResult:
        journey, faults = self._journey, self._server.faults
        journey.moment("send")
        began = journey.now()
        if not readable(action):
            return self._result(action, began, Answered.REFUSED, None, "no job number or node name")
        doom = journey.doom(action)
        there, back = journey.command_s()
        patience = min(deadline_s, self._world.config.message_timeout_s)
        journey.pause(there)
        if faults.unreachable:
            return self._result(action, began, Answered.NO_ANSWER, 1, _NO_ANSWER)
        if faults.hung:
            if doom.fate is not Fate.NEVER:
                self._server.stall(lambda: self._arrive(action))
            return self._given_up(action, began, patience - there)
        refusal = ""
        match doom.fate:
            case Fate.LATE:
                self._world.after(patience - there + doom.after_s, lambda: self._arrive(action))
            case Fate.NORMAL | Fate.REPLY_LOST:
                refusal = self._arrive(action)
                journey.moment("arrived")
            case Fate.NEVER:
                pass
        if doom.fate is not Fate.NORMAL:
            return self._given_up(action, began, patience - there)
        journey.pause(back)
        journey.moment("answered")
        if refusal:
            return self._result(action, began, Answered.REFUSED, 1, refusal)
        return self._result(action, began, Answered.DONE, 0, "")

    def _given_up(self, action: Action, began: datetime, after_s: float) -> CommandResult:
        self._journey.pause(max(after_s, 0.0))
        self._journey.moment("answered")
        return self._result(action, began, Answered.NO_ANSWER, None, _NO_ANSWER)

    def _arrive(self, action: Action) -> str:
        """Carry it out now; the refusal's text, or nothing."""
        before = self._world.jobs.get(action.job_id)
        before = None if before is None else copy.copy(before)
        refusal = ""
        try:
            self._server.carry_out(action)
        except NotDone as error:
            refusal = str(error)
        after = self._world.jobs.get(action.job_id)
        self._journey.carried_out(
            action, before, None if after is None else copy.copy(after), refusal
        )
        return refusal

    def _result(
        self, action: Action, began: datetime, answered: Answered, code: int | None, text: str
    ) -> CommandResult:
        return CommandResult(answered, argv_of(action), code, text, began, self._journey.now())
