"""Attempts, patterns, hits and batches for tests of the detection room."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from middlewatch.detection.batch import Batch, Hit
from middlewatch.detection.observe import observe
from middlewatch.detection.state import DetectionState, fresh
from middlewatch.model.attempt import Attempt, AttemptEnd, EndedBy
from middlewatch.model.identity import AttemptKey, ClusterId
from middlewatch.model.pattern import Pattern, PatternKind, ProgressForm
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import JobState
from middlewatch.model.signal import Domain, Phase, Signal, SignalKind

CLUSTER = ClusterId("slurm", "prod")
T0 = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def attempt(**fields: Any) -> Attempt:
    key = AttemptKey(CLUSTER, "7", T0)
    made = Attempt(
        id=key.attempt_id(),
        cluster=CLUSTER,
        job_id="7",
        attempt_index=0,
        submitted_at=T0,
        first_seen_at=T0,
        last_seen_at=T0,
        state=JobState.RUNNING,
        started_at=T0,
        uid=2001,
        user="alice",
    )
    return replace(made, **fields)


def ended(by: EndedBy = EndedBy.FAILURE, **fields: Any) -> Attempt:
    states = {
        EndedBy.FAILURE: JobState.FAILED,
        EndedBy.COMPLETION: JobState.COMPLETED,
        EndedBy.NODE_FAILURE: JobState.NODE_FAIL,
        EndedBy.TIME_LIMIT: JobState.TIMEOUT,
        EndedBy.OUT_OF_MEMORY: JobState.OUT_OF_MEMORY,
        EndedBy.PREEMPTION: JobState.PREEMPTED,
    }
    end = AttemptEnd(
        state=states.get(by, JobState.CANCELLED),
        by=by,
        exit_code=fields.pop("exit_code", 1),
        exit_signal=fields.pop("exit_signal", None),
        at=at(50),
        learned_at=at(51),
    )
    return attempt(state=end.state, end=end, **fields)


CRASH = Pattern(
    "test.crash",
    PatternKind.FAILURE,
    "",
    failure_class="gpu_ecc_uncorrectable",
    domain=Domain.HARDWARE,
)
VAGUE = Pattern("test.vague", PatternKind.FAILURE, "", failure_class="killed_unknown", priority=10)
WATCHDOG = Pattern(
    "test.watchdog", PatternKind.WATCHDOG, "", failure_class="collective_timeout_unattributed"
)
CASCADE = Pattern("test.cascade", PatternKind.CASCADE, "")
LAUNCHER = Pattern("test.launcher", PatternKind.LAUNCHER_END, "")
TRACEBACK = Pattern("test.traceback", PatternKind.TRACEBACK, "")
EXCEPTION = Pattern("test.exception", PatternKind.EXCEPTION, "", failure_class="user_exception")
HARMLESS = Pattern("test.harmless", PatternKind.HARMLESS, "")
IGNORED = Pattern("test.ignored", PatternKind.HARMLESS, "", opens=True)
RESTARTING = Pattern("test.restarting", PatternKind.RESTARTING, "")
STEP = Pattern("test.step", PatternKind.PROGRESS, "")
BAR = Pattern("test.bar", PatternKind.PROGRESS, "", form=ProgressForm.BAR)
TICK = Pattern("test.tick", PatternKind.PROGRESS, "", form=ProgressForm.TICK)
OWN = Pattern("middlewatch.progress", PatternKind.PROGRESS, "")
TOTAL = Pattern("test.total", PatternKind.TOTAL, "")
SAVING = Pattern("test.saving", PatternKind.CHECKPOINT_SAVING, "")
SAVING_SILENTLY = Pattern(
    "test.saving_silently", PatternKind.CHECKPOINT_SAVING, "", confirmed_by_progress=True
)
SAVED = Pattern("test.saved", PatternKind.CHECKPOINT_SAVED, "")
LOADED = Pattern("test.loaded", PatternKind.CHECKPOINT_LOADED, "")
STACK = Pattern("test.stack", PatternKind.STACK, "")
COMPILING = Pattern("test.compiling", PatternKind.PHASE, "", phase=Phase.COMPILE)
FIRST_STEP = Pattern("test.first_step", PatternKind.PHASE, "", phase=Phase.FIRST_STEP)
PLAN = Pattern("test.plan", PatternKind.PLAN, "")
STARTING = Pattern("test.starting", PatternKind.PHASE, "", phase=Phase.STARTING)
ATTEMPT = Pattern("test.attempt", PatternKind.ATTEMPT, "")
METRIC = Pattern("test.metric", PatternKind.METRIC, "")
OTHER = Pattern("test.other", PatternKind.PROGRESS, "")
EVALUATION = Pattern("test.evaluation", PatternKind.EVALUATION, "")
SHUTDOWN = Pattern("test.shutdown", PatternKind.PHASE, "", phase=Phase.SHUTDOWN)


def hit(
    pattern: Pattern, offset: int = 0, line: str = "", stream: str = "f#0", **groups: Any
) -> Hit:
    pairs = tuple((name, str(value)) for name, value in groups.items() if value is not None)
    return Hit(pattern, stream, offset, line or pattern.id, pairs, "/out.log")


class Story:
    """One attempt told in order: lines at times, and what came of them."""

    def __init__(
        self,
        resume_above: int | None = None,
        policy: Policy | None = None,
        of: Attempt | None = None,
    ) -> None:
        self.attempt = of or attempt()
        self.state: DetectionState = fresh(self.attempt.id, resume_above)
        self.policy = policy or Policy()
        self.signals: list[Signal] = []
        self.resumed: list[tuple[int, datetime]] = []
        self._offset = 0

    def look(self, seconds: float, *hits: Hit, **batch: Any) -> list[Signal]:
        """One round at T0 + seconds; ``hits`` are given offsets of their own."""
        placed = []
        for one in hits:
            self._offset += 100
            placed.append(replace(one, offset=one.offset or self._offset))
        output = at(seconds) if hits else None
        fields = {"output_at": output, **batch}
        found = observe(
            self.state, Batch(self.attempt, tuple(placed), **fields), at(seconds), self.policy
        )
        self.state = found.state
        self.signals.extend(found.signals)
        if found.resumed:
            self.resumed.append(found.resumed)
        return list(found.signals)

    def steps(self, first: int, last: int, start: float, every: float = 1.0) -> float:
        """Printed steps, one per round; the time of the last."""
        when = start
        for number, step in enumerate(range(first, last + 1)):
            when = start + number * every
            self.look(when, hit(STEP, step=step, total=1000))
        return when

    def kinds(self) -> list[SignalKind]:
        return [signal.kind for signal in self.signals]
