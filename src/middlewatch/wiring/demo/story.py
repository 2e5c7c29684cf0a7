"""The terminal tells what happens as it happens, from the store alone.

Nothing here knows what the demo wants to show: a line is printed when a record appears, with the
record's own time. Where a record never comes, the story stops there, and so does the demo.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from middlewatch.model.action import ActionRecord, Answered
from middlewatch.model.advice import Advice
from middlewatch.model.attempt import Attempt
from middlewatch.model.identity import ClusterId
from middlewatch.model.milestone import Milestone, MilestoneKind
from middlewatch.model.recovery import Recovery, RecoveryState
from middlewatch.model.signal import Progress, Signal
from middlewatch.ports.store import Store
from middlewatch.wiring.demo.backend import clean
from middlewatch.wiring.plain import plain


@dataclass(slots=True)
class Seen:
    """What the store showed at the last look, for the story and for the result."""

    attempts: tuple[Attempt, ...] = ()
    progress: dict[int, Progress] = field(default_factory=dict)
    signals: tuple[Signal, ...] = ()
    advice: Advice | None = None
    actions: tuple[ActionRecord, ...] = ()
    milestones: dict[MilestoneKind, Milestone] = field(default_factory=dict)
    recovery: Recovery | None = None

    @property
    def verified(self) -> bool:
        """Whether the book says that training is past the fault."""
        return self.recovery is not None and self.recovery.state is RecoveryState.VERIFIED

    def at(self, kind: MilestoneKind) -> datetime | None:
        milestone = self.milestones.get(kind)
        return milestone.at if milestone else None


class Story:
    """Prints each new fact about one job once. ``zero`` is the moment that offsets count from."""

    def __init__(
        self, store: Store, cluster: ClusterId, job_id: str, say: Callable[[str], None]
    ) -> None:
        self._store = store
        self._cluster = cluster
        self._job_id = job_id
        self._say = say
        self._told: set[str] = set()
        self._step_told = 0
        self.zero: datetime | None = None
        self.seen = Seen()

    def look(self) -> Seen:
        """Read everything, tell what is new."""
        store, seen = self._store, self.seen
        seen.attempts = store.attempts_of_job(self._cluster, self._job_id)
        for attempt in seen.attempts:
            progress = store.progress(attempt.id)
            if progress is not None:
                seen.progress[attempt.attempt_index] = progress
        if seen.attempts:
            first = seen.attempts[0]
            seen.signals = tuple(signal for _, signal in store.signals(first.id))
            seen.advice = store.advice(first.id)
            seen.actions = store.actions(first.id)
        if seen.advice is not None:
            seen.milestones = {
                m.kind: m for m in store.milestones(seen.advice.sequence_id) if m.kind is not None
            }
            seen.recovery = store.recovery(seen.advice.sequence_id)
        self.zero = self.zero or seen.at(MilestoneKind.FAULT)
        self._tell()
        return seen

    def _tell(self) -> None:
        lines: list[tuple[datetime, str, str, str]] = []
        for attempt in self.seen.attempts:
            lines.extend(self._of_attempt(attempt))
        lines.extend(
            (s.learned_at, f"signal {s.key}", "SIGNAL", _signal(s)) for s in self.seen.signals
        )
        if self.seen.advice is not None:
            lines.extend(self._of_advice(self.seen.advice))
        lines.extend(
            (r.ended_at, f"action {r.id}", "COMMAND", f"{clean(r.argv)}   exit {r.exit_code}")
            for r in self.seen.actions
            if r.ended_at is not None and r.answered is not Answered.IN_FLIGHT
        )
        lines.extend(
            (m.learned_at, f"milestone {kind}", kind.value.upper(), self._milestone(m, kind))
            for kind, m in self.seen.milestones.items()
            if kind in (MilestoneKind.HELD, MilestoneKind.RUNNING, MilestoneKind.RESUMED)
        )
        for at, key, word, text in sorted(lines, key=lambda line: line[0]):
            if key not in self._told:
                self._told.add(key)
                self._line(at, word, text)
        self._steps()

    def _line(self, at: datetime, word: str, text: str) -> None:
        clock = at.astimezone().strftime("%H:%M:%S.%f")[:-5]
        offset = "" if self.zero is None else f"{(at - self.zero).total_seconds():+.1f} s"
        self._say(f"{clock}  {offset:>8}  {word:<9} {plain(text)}")

    def _steps(self) -> None:
        """A line of progress now and then, so that a person sees that it trains."""
        for index, progress in sorted(self.seen.progress.items()):
            step = progress.last_step or 0
            mark = f"steps {index} {step // 20}"
            if step < 1 or mark in self._told or progress.last_step_at is None:
                continue
            self._told.add(mark)
            total = f"/{progress.total_steps}" if progress.total_steps else ""
            self._line(progress.last_step_at, "TRAINING", f"attempt {index}: step {step}{total}")

    def _of_attempt(self, attempt: Attempt) -> list[tuple[datetime, str, str, str]]:
        index = attempt.attempt_index
        lines = []
        if attempt.nodes and attempt.started_at is not None:
            nodes = ", ".join(attempt.nodes)
            lines.append(
                (attempt.started_at, f"began {index}", "BEGAN", f"attempt {index} on {nodes}")
            )
        if attempt.end is not None:
            end = attempt.end
            code = "" if end.exit_code is None else f", exit code {end.exit_code}"
            text = f"attempt {index}: {end.state.value} ({end.by.value.replace('_', ' ')}{code})"
            lines.append((end.learned_at, f"ended {index}", "ENDED", text))
        return lines

    @staticmethod
    def _of_advice(advice: Advice) -> list[tuple[datetime, str, str, str]]:
        without = ", ".join(advice.exclusions)
        text = f"{advice.desired.value}" + (f" without {without}" if without else "")
        changed = advice.desired_state_changed_at
        lines = [
            (
                changed,
                f"advice {advice.generation}",
                "ADVICE",
                f"{text}, generation {advice.generation}: {advice.basis.value.replace('_', ' ')}",
            )
        ]
        closed = advice.gates.first_closed()
        if closed is not None:
            lines.append(
                (
                    changed,
                    f"would {advice.generation}",
                    "WOULD",
                    f"would have acted, but gate {closed.name.value} is closed: {closed.detail}",
                )
            )
        status = advice.status
        if status is not None and status.terminal:
            outcome = f"{status.disposition.value} {status.reason.value}: {status.detail}"
            lines.append((status.observed_at, f"status {advice.generation}", "OUTCOME", outcome))
        return lines

    def _milestone(self, milestone: Milestone, kind: MilestoneKind) -> str:
        if kind is MilestoneKind.HELD:
            return "attempt 1 waits while it is placed (Slurm's own begin time)"
        if kind is MilestoneKind.RUNNING:
            return "attempt 1 runs"
        before = self.seen.progress.get(0)
        after = self.seen.progress.get(1)
        lost = before.last_step if before else None
        loaded = after.loaded_step if after else None
        return (
            f"step {milestone.step}: past step {lost}, the last before the fault "
            f"(resumed from the checkpoint of step {loaded})"
        )


def _signal(signal: Signal) -> str:
    first = signal.excerpt.strip().splitlines()
    text = first[-1][:110] if first else signal.detail[:110]
    named = ", ".join([*signal.nodes, *(f"rank {rank}" for rank in signal.ranks)])
    name = signal.failure_class or signal.kind.value
    return f"{name}{f' ({named})' if named else ''}: {text}"
