"""A finished log, driven through the live system's own code by a virtual clock.

The bytes are given in the order of time, in rounds of about a second, to the scanner and the fold;
what the fold says becomes issues, verdict and decision exactly as in the manager. Where nothing is
written the clock goes on to the moment at which the fold would speak, and no moment in between is
visited: it is pure, so it can be asked.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from math import ceil
from statistics import median

from middlewatch.attribution import governing, issues_from, signals_of, verdict_for
from middlewatch.attribution.classes import Depth, class_of, depth_of
from middlewatch.attribution.kind import CaseKind, kind_of
from middlewatch.detection.batch import Batch, Hit
from middlewatch.detection.observe import Observation, observe
from middlewatch.detection.progress import any_loop
from middlewatch.detection.state import DetectionState, fresh
from middlewatch.model.attempt import Attempt, AttemptEnd, EndedBy
from middlewatch.model.gates import Deployment, Mode, gates_for
from middlewatch.model.identity import AttemptKey, ClusterId
from middlewatch.model.issue import Issue, Verdict
from middlewatch.model.optin import JobMode, OptIn
from middlewatch.model.pattern import Pattern
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import JobState, PartitionView
from middlewatch.model.signal import Phase, Progress, Signal, SignalKind
from middlewatch.ports.scanner import Scanner
from middlewatch.remediation import Advise, DecisionInputs, History, Outcome, decide, witnesses_of
from middlewatch.wiring.analysis.facts import Facts
from middlewatch.wiring.analysis.timeline import LEAP_S, Timeline

TICK_S = 1.0
ASKED_FROM = 5
"""Ticks without a line from which the fold is asked whether it would speak in between."""
PATH = "log"
PARTITION = "any"
CLUSTER = ClusterId("slurm", "analysis")
UNCLOCKED_LINES = 64
"""Lines in one round where the log has no clock."""
NEWS = frozenset(
    {
        SignalKind.LAUNCHER_END,
        SignalKind.SILENCE,
        SignalKind.OVERDUE,
        SignalKind.NO_PROGRESS_AFTER_FAILURE,
        SignalKind.SCHEDULER_END,
        SignalKind.SECOND_WITNESS,
        SignalKind.SLOW,
        SignalKind.NUMERIC,
    }
)
"""Kinds that make an issue worth an alarm: a failure line alone may still be recovered from."""


_STOPPED = {
    "time_limit": (JobState.TIMEOUT, EndedBy.TIME_LIMIT),
    "preemption": (JobState.PREEMPTED, EndedBy.PREEMPTION),
    "user_cancel": (JobState.CANCELLED, EndedBy.SOMEBODY),
}
_FROM_OUTSIDE = frozenset(
    {
        EndedBy.TIME_LIMIT,
        EndedBy.DEADLINE,
        EndedBy.PREEMPTION,
        EndedBy.REQUEUE,
        EndedBy.OWNER,
        EndedBy.OPERATOR,
        EndedBy.SOMEBODY,
    }
)
_LAST_WORDS = re.compile(
    r"srun: |CANCELLED AT|exits? with (?:return )?code|exited with code|Killed$"
)


@dataclass(frozen=True, slots=True)
class Alarm:
    """``line`` is the last line written by then, ``at`` the moment."""

    line: int
    at: datetime
    kind: CaseKind
    failure_class: str
    would_act: bool


@dataclass(frozen=True, slots=True)
class Drive:
    """What the live system would know when the log ends, and what it said on the way."""

    attempt: Attempt
    signals: tuple[Signal, ...]
    issues: tuple[Issue, ...]
    progress: Progress
    alarms: tuple[Alarm, ...]
    now: datetime
    outcome: Outcome | None = None
    verdict: Verdict | None = None
    usual_interval_s: float | None = None
    """The usual time between two progress lines, as the fold had learnt it."""

    boundaries: tuple[int, ...] = ()
    """Offsets at which the fold saw another attempt begin in the same file."""

    @property
    def issue(self) -> Issue | None:
        return governing(self.issues)

    @property
    def own(self) -> tuple[Signal, ...]:
        """The signals of the governing issue."""
        issue = self.issue
        return () if issue is None else signals_of(issue, self.signals)


@dataclass(slots=True)
class _Desk:
    """The manager's desk for this one attempt."""

    policy: Policy
    history: History
    failed_nodes: tuple[str, ...]
    known: tuple[Issue, ...] = ()
    raised: dict[str, tuple[CaseKind, bool]] = field(default_factory=dict)
    alarms: list[Alarm] = field(default_factory=list)
    outcome: Outcome | None = None
    verdict: Verdict | None = None
    usual_s: float = 0.0
    """The usual time between two progress lines."""

    def settle(
        self,
        signals: Sequence[Signal],
        attempt: Attempt,
        progress: Progress,
        *,
        now: datetime,
        line: int,
    ) -> None:
        """What the manager does when something new was learnt."""
        self.known = issues_from(signals, self.known, attempt)
        issue = governing(self.known)
        self.outcome = self.verdict = None
        if issue is None:
            return
        own = signals_of(issue, signals)
        verdict = verdict_for(issue, own, attempt, now, failed_nodes=self.failed_nodes)
        self.verdict = verdict
        gates = gates_for(_deployment(), attempt, CLUSTER.environment, issue.failure_class)
        self.outcome = decide(
            DecisionInputs(
                attempt=attempt,
                mode=JobMode.ACTION,
                issue=issue,
                verdict=verdict,
                witnesses=witnesses_of(own),
                progress=progress,
                history=self.history,
                policy=self.policy,
                gates=gates,
                partitions=_partitions(attempt),
                partitions_unknown="",
                successor=None,
                existing=None,
                now=now,
            )
        )
        acts = isinstance(self.outcome, Advise) and gates.open
        if attempt.completing and not acts:
            return  # its end is coming, and will say more
        if not acts and not any(map(_worth_an_alarm, own)) and not self.waits(own, progress, now):
            return
        kind = kind_of(issue, own, attempt)
        before = self.raised.get(issue.id)
        if before is not None and before[0] is kind and (before[1] or not acts):
            return
        self.raised[issue.id] = (kind, acts or (before is not None and before[1]))
        self.alarms.append(Alarm(line, now, kind, issue.failure_class, acts))

    def waits(self, own: Sequence[Signal], progress: Progress, now: datetime) -> bool:
        """Whether watchdogs are to be believed at once: those of several ranks, or one of a job
        that has not stepped for long. A single line may be quoted, as any line."""
        lines = [s for s in own if s.kind is SignalKind.WATCHDOG_LINE]
        if not lines:
            return False
        stepped = progress.last_step_at
        still = (now - stepped).total_seconds() if stepped is not None else 0.0
        long = max(60.0, 3 * self.usual_s) if self.usual_s else float("inf")
        return len({s.ranks for s in lines if s.ranks}) > 1 or still > long


def _worth_an_alarm(signal: Signal) -> bool:
    """What need not wait for more: also the hardware's own word that it is broken."""
    proof = depth_of(class_of(signal)) is Depth.PROOF
    return signal.kind in NEWS or (signal.kind is SignalKind.FAILURE_LINE and proof)


def _deployment() -> Deployment:
    return Deployment(
        cluster=CLUSTER,
        owned_cluster_name=CLUSTER.environment,
        mode=Mode.ACTION,
        acknowledge_scheduler_actions=True,
        partitions=("*",),
    )


def _partitions(attempt: Attempt) -> tuple[PartitionView, ...]:
    """A partition with as many spare nodes as the job has: nothing is judged by want of nodes."""
    spare = tuple(f"spare-{number}" for number in range(max(len(attempt.nodes), 1) + 8))
    every = (*attempt.nodes, *spare)
    return (PartitionView(PARTITION, every, every),)


def attempt_of(facts: Facts, nodes: Sequence[str], began: datetime, index: int) -> Attempt:
    """The attempt as a scheduler would show it while it runs, with every gate of its own open."""
    job = facts.job_id or "log"
    return Attempt(
        id=AttemptKey(CLUSTER, job, began).attempt_id(),
        cluster=CLUSTER,
        job_id=job,
        attempt_index=index,
        submitted_at=began,
        first_seen_at=began,
        last_seen_at=began,
        state=JobState.RUNNING,
        partitions=(PARTITION,),
        nodes=tuple(nodes),
        node_count=len(nodes),
        requeueable=True,
        opt_in=OptIn(mode=JobMode.ACTION, environment=CLUSTER.environment, key="middlewatch"),
        started_at=began,
    )


def drive(
    data: bytes,
    timeline: Timeline,
    lines: range,
    attempt: Attempt,
    facts: Facts,
    *,
    scanner: Scanner,
    loops: Scanner,
    patterns: Mapping[str, Pattern],
    policy: Policy,
    history: History,
    last: bool = True,
) -> Drive:
    """Drive the lines ``lines`` (numbers from 1) of ``data``. ``last`` says that the facts speak
    of this attempt; an earlier one has ended by what followed it."""
    now = timeline.moment(lines[0]) if lines else timeline.base
    run = _Run(
        timeline, attempt, policy, _Desk(policy, history, facts.failed_nodes if last else ()), now
    )
    for block in _rounds(timeline, lines):
        run.wait_until(_tick(timeline, block))
        searched = (scanner, loops) if any_loop(run.state) else (scanner,)
        hits = _hits(data, timeline, block, searched, patterns)
        if last and _being_stopped(facts, hits):
            run.attempt = replace(run.attempt, completing=True)
        run.round(Batch(run.attempt, hits, output_at=timeline.moment(block[-1])))
    written = timeline.moment(lines[-1]) if lines else now
    if last and (not facts.given or (facts.ended and facts.ended[1] is EndedBy.UNKNOWN)):
        told = as_the_log_says(run.desk.known, run.signals, run.state)
        facts = replace(facts, ended=told or facts.ended)
    if facts.ended is None or not last:
        quiet = timedelta(seconds=_quiet_s(facts, timeline, written) if last else 0.0)
        run.wait_until(max(run.now, written + quiet))
        run.round(Batch(run.attempt))
    else:
        run.attempt = ended(run.attempt, facts, written, run.now)
        run.round(Batch(run.attempt, drained=True))
    return run.result()


@dataclass(slots=True)
class _Run:
    """One attempt on its way through time."""

    timeline: Timeline
    attempt: Attempt
    policy: Policy
    desk: _Desk
    now: datetime
    state: DetectionState = field(init=False)
    signals: list[Signal] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.state = fresh(self.attempt.id)

    def round(self, batch: Batch) -> None:
        """One round of looking, at this moment."""
        self._take(observe(self.state, batch, self.now, self.policy))

    def _take(self, found: Observation) -> None:
        self.state = found.state
        if found.signals or self.attempt.end is not None:
            self.signals.extend(found.signals)
            line = self.timeline.last_line_at(self.now)
            intervals = self.state.intervals
            self.desk.usual_s = median(intervals) if intervals else 0.0
            self.desk.settle(self.signals, self.attempt, found.progress, now=self.now, line=line)

    def wait_until(self, until: datetime) -> None:
        """Let the clock run to ``until`` with nothing written, and stop wherever that alone makes
        the fold speak."""
        quiet = Batch(self.attempt)
        began = self.now
        ticks = int((until - began).total_seconds() / TICK_S) - 1
        low = 0
        if ticks < ASKED_FROM:
            ticks = 0  # the next round is soon enough
        while low < ticks and self._speaks(quiet, began, ticks):
            early, late = low, ticks
            while late - early > 1:
                middle = (early + late) // 2
                if self._speaks(quiet, began, middle):
                    late = middle
                else:
                    early = middle
            self.now = began + timedelta(seconds=late * TICK_S)
            self.round(quiet)
            low = late
        self.now = max(self.now, until)

    def _speaks(self, quiet: Batch, began: datetime, ticks: int) -> bool:
        at = began + timedelta(seconds=ticks * TICK_S)
        return bool(observe(self.state, quiet, at, self.policy).signals)

    def result(self) -> Drive:
        """What is known now."""
        intervals = self.state.intervals
        return Drive(
            attempt=self.attempt,
            signals=tuple(self.signals),
            issues=self.desk.known,
            progress=self.state.progress,
            alarms=tuple(self.desk.alarms),
            now=self.now,
            outcome=self.desk.outcome,
            verdict=self.desk.verdict,
            boundaries=tuple(boundary.offset for boundary in self.state.boundaries),
            usual_interval_s=median(intervals) if intervals else None,
        )


def _quiet_s(facts: Facts, timeline: Timeline, written: datetime) -> float:
    """How long nothing had been written when somebody looked."""
    if facts.observed_at is None or facts.log_last_write is not None or timeline.clock == "none":
        return facts.quiet_after_s
    lasted = (facts.observed_at - written).total_seconds()
    return lasted if 0 < lasted <= LEAP_S else 0.0


def _being_stopped(facts: Facts, hits: Sequence[Hit]) -> bool:
    """Whether the scheduler is ending the attempt, as it would show while it does."""
    if facts.ended is None or facts.ended[1] not in _FROM_OUTSIDE:
        return False
    return any("CANCELLED AT" in hit.line or hit.pattern.failure_class in _STOPPED for hit in hits)


def as_the_log_says(
    issues: Sequence[Issue], signals: Sequence[Signal], state: DetectionState
) -> tuple[JobState, EndedBy] | None:
    """How an attempt ended of which only the log is there; None where it may still run."""
    issue = governing(issues)
    if issue is None:
        if state.progress.phase is Phase.SHUTDOWN:
            return JobState.COMPLETED, EndedBy.COMPLETION
        return None
    own = signals_of(issue, signals)
    if issue.failure_class in _STOPPED:
        return _STOPPED[issue.failure_class]
    if any(_ends(signal) for signal in own):
        return JobState.FAILED, EndedBy.FAILURE
    return None


def _ends(signal: Signal) -> bool:
    """A launcher's, a scheduler's or a dying process's last word."""
    if signal.kind is SignalKind.LAUNCHER_END:
        return True
    return signal.kind is SignalKind.CASCADE_LINE and _LAST_WORDS.search(signal.excerpt) is not None


def ended(attempt: Attempt, facts: Facts, at: datetime, now: datetime) -> Attempt:
    """The attempt once the scheduler says how it ended."""
    assert facts.ended is not None  # noqa: S101 - asked for only where it is
    state, by = facts.ended
    end = AttemptEnd(
        state=state,
        by=by,
        exit_code=facts.exit_code,
        exit_signal=facts.exit_signal,
        at=min(at, now),
        learned_at=now,
        final=True,
    )
    return replace(attempt, state=state, end=end, completing=False, last_seen_at=now)


def _rounds(timeline: Timeline, lines: range) -> list[range]:
    """The lines in the pieces in which a watcher that looks once a second would read them."""
    rounds: list[range] = []
    at = lines.start
    while at < lines.stop:
        to = at + 1
        if timeline.clock == "none":
            to = min(at + UNCLOCKED_LINES, lines.stop)
        else:
            tick = ceil(timeline.seconds[at - 1] / TICK_S)
            while to < lines.stop and ceil(timeline.seconds[to - 1] / TICK_S) == tick:
                to += 1
        rounds.append(range(at, to))
        at = to
    return rounds


def _tick(timeline: Timeline, block: range) -> datetime:
    seconds = ceil(timeline.seconds[block[-1] - 1] / TICK_S) * TICK_S
    return timeline.base + timedelta(seconds=seconds)


def _hits(
    data: bytes,
    timeline: Timeline,
    block: range,
    scanners: Sequence[Scanner],
    patterns: Mapping[str, Pattern],
) -> tuple[Hit, ...]:
    start = timeline.starts[block.start - 1]
    end = timeline.starts[block.stop - 1] if block.stop <= len(timeline.starts) else len(data)
    clocked = timeline.clock != "none"
    return tuple(
        Hit(
            patterns[raw.pattern_id],
            PATH,
            raw.offset,
            raw.line,
            raw.groups,
            PATH,
            timeline.moment(timeline.line_of(raw.offset)) if clocked else None,
        )
        for raw in sorted(
            (raw for scanner in scanners for raw in scanner.scan(data[start:end], start)),
            key=lambda raw: raw.offset,
        )
    )
