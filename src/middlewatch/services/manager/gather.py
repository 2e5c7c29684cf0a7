"""Everything that a decision looks at, fetched before it is made.

The scheduler is asked rarely and the answers are kept for a while: its own name for a few
seconds, its partitions for half a minute and only where a node may have to be excluded. What it
does not answer stays unknown; nothing is made up for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from middlewatch.model.answer import Absent, Answer, Known, Unknown
from middlewatch.model.attempt import Attempt
from middlewatch.model.identity import AttemptId
from middlewatch.model.scheduler import ClusterFacts, PartitionView
from middlewatch.model.signal import Signal
from middlewatch.ports.scheduler import Scheduler
from middlewatch.ports.store import Store
from middlewatch.remediation import History, earlier_attempts, past_attempt

T = TypeVar("T")

FACTS_FOR = timedelta(seconds=5)
PARTITIONS_FOR = timedelta(seconds=30)
NOT_KNOWN_FOR = timedelta(seconds=1)
"""How long a failed look is believed: short, or one hiccup would delay every decision."""

PAGE = 1000
SIGNALS_AT_MOST = 20_000
"""Signals are capped per pattern when they are stored; this only bounds what one read costs."""
PAST_AT_MOST = 50


@dataclass(slots=True)
class _Kept(Generic[T]):
    answer: Answer[T] | None = None
    until: datetime | None = None

    def fresh(self, now: datetime) -> bool:
        return self.until is not None and now < self.until


class Looks:
    """The scheduler's answers, each kept for as long as it may be believed."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._facts: _Kept[ClusterFacts] = _Kept()
        self._partitions: _Kept[tuple[PartitionView, ...]] = _Kept()

    def cluster_name(self, now: datetime) -> str | None:
        """What the scheduler calls itself; None where it does not say."""
        if not self._facts.fresh(now):
            answer = self._scheduler.facts()
            self._facts = _Kept(
                answer, now + (FACTS_FOR if isinstance(answer, Known) else NOT_KNOWN_FOR)
            )
        answered = self._facts.answer
        return answered.value.name if isinstance(answered, Known) else None

    def partitions(self, now: datetime) -> tuple[tuple[PartitionView, ...] | None, str]:
        """The partitions, or None and why not."""
        if not self._partitions.fresh(now):
            answer = self._scheduler.partitions()
            self._partitions = _Kept(
                answer, now + (PARTITIONS_FOR if isinstance(answer, Known) else NOT_KNOWN_FOR)
            )
        match self._partitions.answer:
            case Known(value=views):
                return views, ""
            case Unknown(why=why):
                return None, f"the scheduler does not show its partitions ({why})"
            case Absent() | None:
                return None, "the scheduler shows no partitions"

    def failed_nodes(self, attempt: Attempt, now: datetime) -> tuple[str, ...]:
        """The nodes of an attempt that the scheduler says have failed.

        Accounting names the node on newer releases; on older ones it is the one node of the
        allocation that cannot take work any more. Where that is not one node, none is named.
        """
        told = self._scheduler.accounting(attempt.job_id)
        if isinstance(told, Known):
            for record in told.value:
                if record.submitted_at == attempt.submitted_at and record.failed_node:
                    return tuple(name for name in record.failed_node.split(",") if name)
        self._partitions = _Kept()
        views, _ = self.partitions(now)
        known = {node for view in views or () for node in view.nodes}
        usable = {node for view in views or () for node in view.usable}
        down = [n for n in attempt.nodes if n in known and n not in usable]
        return tuple(down) if len(down) == 1 else ()


def signals_of_attempt(store: Store, attempt_id: AttemptId) -> tuple[Signal, ...]:
    """All stored signals of an attempt, in storage order."""
    found: list[Signal] = []
    after = 0
    while len(found) < SIGNALS_AT_MOST:
        page = store.signals(attempt_id, after, PAGE)
        found.extend(signal for _, signal in page)
        if len(page) < PAGE:
            break
        after = page[-1][0]
    return tuple(found)


def history_of(store: Store, attempts: tuple[Attempt, ...], target: Attempt) -> History:
    """What the earlier attempts of the target's job came to."""
    earlier = earlier_attempts(attempts, target)[-PAST_AT_MOST:]
    first = earlier[0] if earlier else target
    return History(
        tuple(
            past_attempt(
                attempt,
                generations=store.generations(attempt.id),
                actions=store.actions(attempt.id),
                verdicts=store.verdicts(attempt.id),
                progress=store.progress(attempt.id),
            )
            for attempt in earlier
        ),
        unknown_before=first.attempt_index,
        weighs_progress=True,
    )
