"""One simulated job, watched by the real fold on a virtual clock.

The job's lines are given to `observe` in rounds, as a watcher would read them: at every look that
finds something new, and in a silence of more than 50 s at looks that grow rarer with it, so that
an alarm is at most a twentieth later than with a look every second. What the fold says goes the way
of every signal: issue, verdict, decision.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from math import ceil

from middlewatch.attribution import governing, issues_from, signals_of, verdict_for
from middlewatch.detection.batch import Batch, Hit
from middlewatch.detection.observe import observe
from middlewatch.detection.state import DetectionState, fresh
from middlewatch.lab.streams import Job, Printed, What
from middlewatch.model.attempt import Attempt, AttemptEnd, EndedBy
from middlewatch.model.gates import Deployment, Mode, gates_for
from middlewatch.model.identity import AttemptKey, ClusterId
from middlewatch.model.optin import JobMode, OptIn
from middlewatch.model.pattern import Pattern, PatternKind
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import JobState, PartitionView
from middlewatch.model.signal import Phase, Progress, Signal, SignalKind
from middlewatch.remediation import Advise, DecisionInputs, History, decide, witnesses_of

LOOK_S = 2.0
QUIET_S = 50.0
"""A shorter silence is looked at only when it ends: no limit is as short."""
RARER = 0.05
"""Looks during a silence are this share of it apart."""
GIVE_UP_S = 3 * 3600.0
"""How long a stuck job is looked at."""
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
CLUSTER = ClusterId("slurm", "simulated")
NODES = ("n1", "n2", "n3", "n4")
PARTITION = "any"

_PATTERNS = {
    What.STEP: Pattern("simulated.step", PatternKind.PROGRESS, ""),
    What.SAVING: Pattern("simulated.saving", PatternKind.CHECKPOINT_SAVING, ""),
    What.SAVED: Pattern("simulated.saved", PatternKind.CHECKPOINT_SAVED, ""),
    What.EVALUATION: Pattern("simulated.evaluation", PatternKind.EVALUATION, ""),
    What.STARTING: Pattern("simulated.starting", PatternKind.PHASE, "", phase=Phase.STARTING),
    What.COMPILING: Pattern("simulated.compiling", PatternKind.PHASE, "", phase=Phase.COMPILE),
    What.FINISHED: Pattern("simulated.finished", PatternKind.PHASE, "", phase=Phase.SHUTDOWN),
}


@dataclass(frozen=True, slots=True)
class Heard:
    """One signal, when it came (seconds since the job's start), the last step printed then and
    where the job stood."""

    kind: SignalKind
    at_s: float
    step: int
    value: float | None
    failure_class: str
    place: str = ""


@dataclass(frozen=True, slots=True)
class Played:
    """What came of one job. ``ended_running``: how often the default policy would have ended it
    while it ran, every gate open; ``ended_boldly``: the same with a policy that also acts on
    silence and slowness."""

    job: Job
    heard: tuple[Heard, ...]
    hours: float
    ended_running: int
    ended_boldly: int

    def first(self, kind: SignalKind, after_s: float) -> Heard | None:
        """The first signal of that kind after a moment."""
        return next((h for h in self.heard if h.kind is kind and h.at_s > after_s), None)

    @property
    def silences(self) -> tuple[Heard, ...]:
        """The alarms of silence: one each, though it may be told as overdue first."""
        told: list[Heard] = []
        overdue = False
        for heard in self.heard:
            if heard.kind is SignalKind.OVERDUE or (
                heard.kind is SignalKind.SILENCE and not overdue
            ):
                told.append(heard)
            if heard.kind in {SignalKind.OVERDUE, SignalKind.SILENCE, SignalKind.RECOVERED}:
                overdue = heard.kind is SignalKind.OVERDUE
        return tuple(told)


def play(job: Job, policy: Policy | None = None, *, clocked: bool = True) -> Played:
    """Watch the job to its end, or until nobody would wait any longer. ``clocked``: the lines'
    source knows when they were written."""
    watching = _Watching(job, policy or Policy(), clocked=clocked)
    last_s = job.lines[-1].at_s if job.lines else 0.0
    until = last_s + GIVE_UP_S if job.ends_s is None else job.ends_s
    for lines, at_s in _looks(job.lines, 0.0, until):
        watching.look(lines, at_s)
        if watching.stuck_and_told:
            break
    return watching.result()


def play_slowdowns(jobs: Sequence[Job], steps: int, *, clocked: bool = True) -> list[Played]:
    """Watch jobs that are the same until their fault: what is the same is watched once, the rest
    of each until it is called slow, ``steps`` steps long at most."""
    first = jobs[0]
    began_s, began = first.fault_s or 0.0, first.fault_step or 0
    common = [line for line in first.lines if line.at_s < began_s - LOOK_S]
    before = _Watching(first, Policy(), clocked=clocked)
    for lines, at_s in _looks(common, 0.0, None):
        before.look(lines, at_s)
    played = []
    for job in jobs:
        watching = before.copy(job)
        rest = [
            line
            for line in job.lines[len(common) :]
            if line.step is None or line.step <= began + steps
        ]
        for lines, at_s in _looks(rest, before.now_s, None):
            watching.look(lines, at_s)
            if watching.slow_since(began_s):
                break
        played.append(watching.result(ended=False))
    return played


def _looks(
    lines: Sequence[Printed], now: float, until: float | None
) -> Iterator[tuple[Sequence[Printed], float]]:
    """The rounds: the lines that each finds, and when it is, seconds since the job's start."""
    new: list[Printed] = []
    for line in lines:
        if line.at_s > now:
            if new:
                yield new, now
                new = []
            yield from (((), at) for at in _rarer(now, line.at_s))
            now = ceil(line.at_s / LOOK_S) * LOOK_S
        new.append(line)
    if new:
        yield new, now
    if until is not None:
        yield from (((), at) for at in _rarer(now, until))


def _rarer(since: float, until: float) -> Iterator[float]:
    at = since + QUIET_S
    while at < until:
        yield at
        at += max(2 * LOOK_S, RARER * (at - since))


@dataclass(slots=True)
class Places:
    """Where a job stands, as its last line tells: ``name`` is the phase and, for saves and
    evaluations, which one it is."""

    steps: int
    last: What | None = None
    step: int = 0
    count: int = 0

    def after(self, line: Printed) -> None:
        """One more line."""
        if line.what is not What.EVALUATION or self.last is not What.EVALUATION:
            self.count += 1
        self.last = line.what
        self.step = self.step if line.step is None else line.step

    @property
    def phase(self) -> str:
        """One of the phases in which something may hang."""
        match self.last:
            case None:
                return "start"
            case What.OUTPUT | What.STARTING if not self.step:
                return "load"
            case What.COMPILING:
                return "compile"
            case What.SAVING:
                return "checkpoint"
            case What.EVALUATION:
                return "evaluation"
            case _:
                ends = self.last is What.FINISHED or self.step >= self.steps
                return "shutdown" if ends else "training"

    @property
    def name(self) -> str:
        phase = self.phase
        return f"{phase}/{self.count}" if phase in {"checkpoint", "evaluation"} else phase


class _Watching:
    def __init__(self, job: Job, policy: Policy, *, clocked: bool) -> None:
        self._job, self._policy, self._clocked = job, policy, clocked
        self._attempt = _attempt(job)
        self._state: DetectionState = fresh(self._attempt.id)
        self._signals: list[Signal] = []
        self._heard: list[Heard] = []
        self._acted: set[str] = set()
        self._boldly: set[str] = set()
        self._now_s = 0.0
        self._offset = 0
        self._total = str(job.profile.steps)
        self._places = Places(job.profile.steps)

    @property
    def stuck_and_told(self) -> bool:
        """A stuck job whose silence has come to count needs no more looks."""
        stuck_s = self._job.fault_s
        return self._job.ends_s is None and any(
            h.kind is SignalKind.SILENCE and h.at_s >= (stuck_s or 0.0) for h in self._heard
        )

    @property
    def now_s(self) -> float:
        return self._now_s

    def slow_since(self, began_s: float) -> bool:
        """Whether it was called slow after that moment."""
        return any(h.kind is SignalKind.SLOW and h.at_s > began_s for h in self._heard)

    def copy(self, job: Job) -> _Watching:
        """The same watching, going on with another job that was the same until now."""
        other = _Watching(job, self._policy, clocked=self._clocked)
        other._attempt, other._state = self._attempt, self._state
        other._signals, other._heard = list(self._signals), list(self._heard)
        other._now_s, other._offset = self._now_s, self._offset
        other._places = replace(self._places)
        return other

    def look(self, lines: Sequence[Printed], at_s: float) -> None:
        """One round."""
        self._now_s = at_s
        written = START + timedelta(seconds=lines[-1].at_s) if lines else None
        for line in lines:
            self._places.after(line)
        hits = tuple(hit for line in lines if (hit := self._hit(line)) is not None)
        self._take(Batch(self._attempt, hits, output_at=written))

    def result(self, *, ended: bool = True) -> Played:
        """What came of it, after its end as the scheduler tells it if it has ``ended``."""
        if ended and self._job.ends_s is not None:
            self._now_s = self._job.ends_s
            at = START + timedelta(seconds=self._now_s)
            end = AttemptEnd(JobState.COMPLETED, EndedBy.COMPLETION, 0, None, at, at)
            self._attempt = replace(self._attempt, state=JobState.COMPLETED, end=end)
            self._take(Batch(self._attempt, drained=True))
        return Played(
            job=self._job,
            heard=tuple(self._heard),
            hours=self._now_s / 3600,
            ended_running=len(self._acted),
            ended_boldly=len(self._boldly),
        )

    def _hit(self, line: Printed) -> Hit | None:
        self._offset += 200
        pattern = _PATTERNS.get(line.what)
        if pattern is None:
            return None
        groups: list[tuple[str, str]] = []
        if line.step is not None:
            groups = [("step", str(line.step)), ("total", self._total)]
            if line.own_s is not None:
                groups.append(("step_s", str(line.own_s)))
            if line.throughput is not None:
                groups.append(("throughput", str(line.throughput)))
            if line.batch is not None:
                groups.append(("batch_size", str(line.batch)))
        written = None
        if not self._job.profile.tells_time:
            written = START + timedelta(seconds=int(line.at_s))
        elif self._clocked:
            written = START + timedelta(seconds=line.at_s)
        return Hit(pattern, "simulated", self._offset, pattern.id, tuple(groups), "log", written)

    def _take(self, batch: Batch) -> None:
        now = START + timedelta(seconds=self._now_s)
        found = observe(self._state, batch, now, self._policy)
        self._state = found.state
        if not found.signals:
            return
        self._signals.extend(found.signals)
        step = found.progress.last_step or 0
        self._heard.extend(
            Heard(s.kind, self._now_s, step, s.value, s.failure_class, self._places.name)
            for s in found.signals
        )
        if batch.attempt.end is None:
            self._decide(found.progress, now)

    def _decide(self, progress: Progress, now: datetime) -> None:
        issue = governing(issues_from(self._signals, (), self._attempt))
        if issue is None:
            return
        bold = replace(self._policy, act_on_silence=True, act_on_slow=True)
        own = signals_of(issue, self._signals)
        verdict = verdict_for(issue, own, self._attempt, now)
        inputs = DecisionInputs(
            attempt=self._attempt,
            mode=JobMode.ACTION,
            issue=issue,
            verdict=verdict,
            witnesses=witnesses_of(own),
            progress=progress,
            history=History(),
            policy=self._policy,
            gates=gates_for(_OPEN, self._attempt, CLUSTER.environment, issue.failure_class),
            partitions=(PartitionView(PARTITION, _MANY, _MANY),),
            partitions_unknown="",
            successor=None,
            existing=None,
            now=now,
        )
        if isinstance(decide(inputs), Advise):
            self._acted.add(issue.id)
        if isinstance(decide(replace(inputs, policy=bold)), Advise):
            self._boldly.add(issue.id)


_OPEN = Deployment(
    cluster=CLUSTER,
    owned_cluster_name=CLUSTER.environment,
    mode=Mode.ACTION,
    acknowledge_scheduler_actions=True,
    partitions=("*",),
)
_MANY = tuple(f"n{number}" for number in range(1, 17))


def _attempt(job: Job) -> Attempt:
    return Attempt(
        id=AttemptKey(CLUSTER, job.seed, START).attempt_id(),
        cluster=CLUSTER,
        job_id="1",
        attempt_index=0,
        submitted_at=START,
        first_seen_at=START,
        last_seen_at=START,
        state=JobState.RUNNING,
        partitions=(PARTITION,),
        nodes=NODES,
        node_count=len(NODES),
        requeueable=True,
        opt_in=OptIn(JobMode.ACTION, CLUSTER.environment, "middlewatch", slow_restart=True),
        started_at=START,
    )
