"""Many advices at once: what they need is asked for together, and what was read is not read again.

When hundreds of jobs fail in one moment, a command or eight for each of them, one after the other, is
minutes of work, in which the begin times that hold their successors run out. So the advices that
have something to do are taken in groups, small enough that a look at the whole group is still fresh
when its last command is sent: one look, one question about what the users wrote, one about accounting
where it is needed, and then each job by itself, as if it were alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Protocol, TypeVar

from middlewatch.model.action import ActionRecord
from middlewatch.model.advice import Advice
from middlewatch.model.answer import Answer, Known, Unknown
from middlewatch.model.identity import AttemptId
from middlewatch.model.scheduler import Snapshot
from middlewatch.model.signal import Progress, Signal
from middlewatch.ports.clock import Clock
from middlewatch.ports.remote import ControllerStore
from middlewatch.ports.scheduler import Scheduler, accountings_of, details_of
from middlewatch.reconciliation.situation import Fact, Need, Situation, Step
from middlewatch.services.controller.gather import Asked

T = TypeVar("T")

AIM_S = 0.7
"""So long one group is to take: what its look shows is then still younger than a second."""
FEWEST, MOST = 8, 48
ROUND_S = 5.0
"""So long new groups are begun in one round, and so long a group goes on: a round that outlasted its
lease would be worth nothing."""
PATIENCE = 6
"""Rounds in a row that had no time for what is new; in the next one it comes first."""
FEW = 2
"""Up to so many advices are handled one after the other, without a first look at which have work."""


class Hand(Protocol):
    """Whoever handles single advices: the controller in one of its rounds."""

    def handle(
        self,
        advice: Advice,
        look: Answer[Snapshot],
        *,
        asked: Asked | None = None,
        recall: Recall | None = None,
        lightly: bool = False,
    ) -> Situation | None:
        """One advice, with what was fetched for it already. ``lightly``: only where nothing has to
        be fetched or done; otherwise its situation, in which something has. What one advice
        breaks, it breaks alone: nothing is raised."""

    def step_for(
        self, advice: Advice, look: Answer[Snapshot], asked: Asked, recall: Recall
    ) -> Step | None:
        """Its next step with these facts; None where that cannot be told. Does nothing."""

    def look_at(self, job_ids: Sequence[str]) -> Answer[Snapshot]: ...
    def new_work(self, step: Step) -> bool:
        """Whether the job's own opt-in is read before that step, though it does not ask for it."""

    def acted(self, advice: Advice) -> bool:
        """Whether the last `handle` sent a command for it."""

    def seconds(self) -> float:
        """Of a clock that only runs forward."""

    def put_off(self, count: int) -> None:
        """So many advices have something to do and must wait for the next round."""


def work_on(
    active: Sequence[Advice],
    look: Answer[Snapshot],
    hand: Hand,
    *,
    scheduler: Scheduler,
    recall: Recall,
    pace: Pace,
) -> None:
    """One round over all of them, which ``look`` shows: what is under way first, those of it that only
    wait or are done without a group; then, in groups, what is new. However slow everything is, each
    round handles somebody who needs something, and in the end everybody."""
    if len(active) <= FEW:
        for advice in active:
            hand.handle(advice, look)
        return
    began = hand.seconds()
    until = began + ROUND_S
    # Which of them are under way is remembered, not read: hundreds that are to begin cost nothing yet.
    pace.begun &= {advice.attempt_id for advice in active}
    under_way = [advice for advice in active if advice.attempt_id in pace.begun]
    busy = [a for a in under_way if hand.handle(a, look, recall=recall, lightly=True) is not None]
    busy = pace.in_order(busy, [one for one in active if one.attempt_id not in pace.begun])
    began, first = hand.seconds(), True
    while busy and (first or began <= until):
        first, some = False, busy[: pace.together]
        # A look shows those alone that it was made for: none is kept for another group.
        shown = hand.look_at([advice.job_id for advice in some])
        asked = asked_ahead(scheduler, some, shown, hand, recall)
        handled = 0
        for advice in some:
            if handled and hand.seconds() - began > ROUND_S:
                break  # a scheduler that has fallen silent costs a deadline for each of them
            hand.handle(advice, shown, asked=asked[advice.attempt_id], recall=recall)
            handled += 1
            if hand.acted(advice):
                pace.begun.add(advice.attempt_id)
        busy = busy[handled:]
        ended = hand.seconds()
        pace.took(handled, ended - began)
        began = ended
    pace.left(busy)
    if busy:
        hand.put_off(len(busy))


class Pace:
    """How many advices make a group, by how long those before them took; and whose turn it is."""

    def __init__(self) -> None:
        self.together = 24
        self.begun: set[AttemptId] = set()
        """For whom a command was sent; a new process does not know, and only their order suffers."""
        self._next: set[AttemptId] = set()
        """The first for whom the last round had no time: of those that are under way, and of others."""
        self._new = 0
        self._passed_over = 0

    def in_order(self, under_way: list[Advice], new: list[Advice]) -> list[Advice]:
        """All of them as a round takes them, each kind from where the last round ended."""
        self._new = len(new)
        one, other = self._in_turn(under_way), self._in_turn(new)
        return other + one if self._passed_over >= PATIENCE else one + other

    def _in_turn(self, waiting: list[Advice]) -> list[Advice]:
        first = next((i for i, a in enumerate(waiting) if a.attempt_id in self._next), 0)
        return waiting[first:] + waiting[:first]

    def left(self, waiting: list[Advice]) -> None:
        """The round has ended without these, in their order."""
        under_way = [a.attempt_id for a in waiting if a.attempt_id in self.begun]
        new = [a.attempt_id for a in waiting if a.attempt_id not in self.begun]
        self._next = {*under_way[:1], *new[:1]}
        passed_over = bool(new) and len(new) == self._new
        self._passed_over = self._passed_over + 1 if passed_over else 0

    def took(self, count: int, seconds: float) -> None:
        """A group of ``count`` has taken so long."""
        at_this_pace = int(AIM_S * count / seconds) if seconds > 0 else MOST
        self.together = max(FEWEST, min(MOST, at_this_pace))


def asked_ahead(
    scheduler: Scheduler,
    some: Sequence[Advice],
    look: Answer[Snapshot],
    hand: Hand,
    recall: Recall,
) -> dict[AttemptId, Asked]:
    """What can be fetched for several of them together, as far as their next steps want it. What
    is missing afterwards is fetched by whoever needs it."""
    asked = {advice.attempt_id: Asked() for advice in some}
    if not isinstance(look, Known):
        return asked

    def wanting(fact: Fact) -> dict[str, AttemptId]:
        found: dict[str, AttemptId] = {}
        for advice in some:
            step = hand.step_for(advice, look, asked[advice.attempt_id], recall)
            first = fact is Fact.DETAIL and step is not None and hand.new_work(step)
            if first or (isinstance(step, Need) and step.fact is fact):
                found[advice.job_id] = advice.attempt_id
        return found

    one = wanting(Fact.DETAIL)
    for job_id, detail in details_of(scheduler, tuple(one)).items():
        if isinstance(detail, Unknown):
            continue  # the long answer may be too much for a machine that still gives short ones
        asked[one[job_id]] = replace(asked[one[job_id]], detail=detail)
    chains = {
        advice.attempt_id: step.jobs
        for advice in some
        if isinstance(step := hand.step_for(advice, look, asked[advice.attempt_id], recall), Need)
        and step.fact is Fact.CHAIN
    }
    if chains:
        waited = hand.look_at(sorted({job_id for jobs in chains.values() for job_id in jobs}))
        for attempt_id in chains:
            asked[attempt_id] = replace(asked[attempt_id], chain=waited)
    two = wanting(Fact.ACCOUNTING)
    for job_id, records in accountings_of(scheduler, tuple(two)).items():
        asked[two[job_id]] = replace(asked[two[job_id]], accounting=records)
    return asked


class Recall:
    """What the store says of attempts, remembered while one step about each is looked for: the
    same questions come up for every fact that is fetched.

    Nothing is remembered for longer than ``age_s``, nor beyond a write about that attempt
    (`forget`), so that a decision never rests on what was true before.
    """

    def __init__(self, store: ControllerStore, clock: Clock, age_s: float) -> None:
        self._store = store
        self._clock = clock
        self._age = timedelta(seconds=age_s)
        self._known: dict[str, tuple[datetime, dict[str, object]]] = {}

    def forget(self, attempt_id: AttemptId) -> None:
        self._known.pop(attempt_id, None)

    def note(self, name: str) -> str | None:
        return self._once(name, "note", lambda: self._store.note(name))

    def progress(self, attempt_id: AttemptId) -> Progress | None:
        return self._once(attempt_id, "progress", lambda: self._store.progress(attempt_id))

    def actions(self, attempt_id: AttemptId) -> tuple[ActionRecord, ...]:
        return self._once(attempt_id, "actions", lambda: self._store.actions(attempt_id))

    def placed(self, attempt_id: AttemptId) -> tuple[ActionRecord, ...]:
        return self._once(attempt_id, "placed", lambda: self._store.placed(attempt_id))

    def signals(
        self, attempt_id: AttemptId, after: int = 0, limit: int = 1000
    ) -> tuple[tuple[int, Signal], ...]:
        return self._once(
            attempt_id,
            f"signals {after} {limit}",
            lambda: self._store.signals(attempt_id, after, limit),
        )

    def _once(self, attempt_id: str, what: str, read: Callable[[], T]) -> T:
        now = self._clock.now()
        since, known = self._known.get(attempt_id, (now, {}))
        if not timedelta(0) <= now - since <= self._age:
            since, known = now, {}
        self._known[attempt_id] = since, known
        if what not in known:
            known[what] = read()
        return known[what]  # type: ignore[return-value]
