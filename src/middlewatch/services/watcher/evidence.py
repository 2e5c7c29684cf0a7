"""What the watcher asks besides the logs, of whom, and how seldom.

A job that trains is left alone. One that is silent is looked at from another side: its nodes'
metrics and its checkpoint directory, each at most once in a while, a few questions in a tick, and
all kinds of one look together, because one kind can excuse another. Two questions are about all
jobs at once: which nodes are measured at all, and how far the jobs' own step counters are.

A server that does not answer is one sentence in the report. It concludes nothing, and a slow one is
asked the less the slower it is, so that no log waits for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from middlewatch.detection.batch import Batch, Hit
from middlewatch.detection.state import DetectionState
from middlewatch.detection.testimony import Quiet, quiet, wants_growth
from middlewatch.model.activity import Activity, ActivityKind, Growth
from middlewatch.model.answer import Answer, Known, Unknown
from middlewatch.model.attempt import Attempt
from middlewatch.model.copies import replace
from middlewatch.model.identity import AttemptId
from middlewatch.model.pattern import Pattern, PatternKind
from middlewatch.model.scheduler import JobState
from middlewatch.ports.clock import Clock
from middlewatch.ports.metrics import Directories, Metrics
from middlewatch.services.watcher.report import WatcherReport

_V = TypeVar("_V")
QUESTIONS_PER_TICK = 8
SECONDS_PER_TICK = 0.5
REST_TIMES = 9.0
"""After a question the watcher does other work for so many times as long as it took."""
QUICK_S = 0.1
MEASURED_EVERY_S = 60.0
GROWTH_EVERY_S = 30.0
REMEMBERED = 4096
STEP_METRIC = Pattern(
    "metrics.step", PatternKind.PROGRESS, "", source="the site's metrics: a step counter"
)
"""A sample of a job's step counter counts as a line that prints the step."""


@dataclass(slots=True)
class _Look:
    """One attempt's look at metrics: what is still to be asked, and what came of the rest."""

    silence: str
    began: datetime
    left: list[ActivityKind]
    got: list[Activity] = field(default_factory=list)


class Evidence:
    """For one watcher. ``every_s``: how often metrics are asked about one silent job, and about
    the step counters of all."""

    def __init__(
        self,
        metrics: Metrics | None = None,
        directories: Directories | None = None,
        clock: Clock | None = None,
        every_s: float = 30.0,
    ) -> None:
        self._metrics = metrics
        self._directories = directories
        self._clock = clock
        self._every = timedelta(seconds=every_s)
        self._looks: dict[AttemptId, _Look] = {}
        self._grown: dict[AttemptId, datetime] = {}
        self._questions = 0
        self._spent_s = 0.0
        self._rests_until = float("-inf")
        self._names: frozenset[str] | None = None
        self._named_at: datetime | None = None
        self._stepped_at: datetime | None = None
        """Up to when steps were read; they may have been asked for since, in vain."""
        self._steps_asked_at: datetime | None = None
        self._steps: dict[str, tuple[tuple[float, int], ...]] = {}
        self._counted: dict[AttemptId, float] = {}
        self._troubles: dict[str, str] = {}
        """What was answered badly, by the question: told in each tick until it is answered well."""

    def begin(self, now: datetime, report: WatcherReport) -> None:
        """A tick begins: what is asked about all jobs at once."""
        self._questions, self._spent_s = QUESTIONS_PER_TICK, 0.0
        self._steps = {}
        metrics = self._metrics
        if metrics is None:
            return
        for why in self._troubles.values():
            _say(report, why)
        due = metrics.counts_steps and _due(self._steps_asked_at, now, self._every)
        if due and self._may_ask():
            self._ask_steps(metrics, now, report)
        if _due(self._named_at, now, timedelta(seconds=MEASURED_EVERY_S)) and self._may_ask():
            self._ask_names(metrics, now, report)

    def onto(
        self, batch: Batch, state: DetectionState, now: datetime, report: WatcherReport
    ) -> Batch:
        """The batch with what is known besides the log."""
        attempt = batch.attempt
        if not attempt.live or attempt.state is not JobState.RUNNING or attempt.completing:
            return batch
        hits = tuple(self._hits(attempt, state))
        if hits:
            batch = replace(batch, hits=(*batch.hits, *hits))
        if state.counter.pattern == STEP_METRIC.id:
            batch = replace(batch, sampled=self._is_sampled(attempt, now))
        if self._names is not None and attempt.nodes:
            batch = replace(batch, measured=any(map(self._is_named, attempt.nodes)))
        judged = batch.caught_up and batch.readable and batch.sampled and not hits
        silence = quiet(state) if judged else None
        if silence is None:
            return batch
        activity = self._activity(attempt, silence, now, report)
        growth = self._growth(attempt, state, now, report)
        if activity or growth is not None:
            batch = replace(batch, activity=activity, growth=growth)
        return batch

    def has_steps(self, attempt: Attempt) -> bool:
        """Whether this tick's answer holds steps of the attempt's job: the next one will not."""
        return attempt.job_id in self._steps

    def says_of(self, attempt: Attempt, state: DetectionState) -> bool:
        """Whether the attempt's next batch may get something from here."""
        if self._metrics is None and self._directories is None:
            return False
        if self.has_steps(attempt) or state.counter.pattern == STEP_METRIC.id:
            return True
        if self._names is not None and not any(map(self._is_named, attempt.nodes)):
            return True
        return quiet(state) is not None

    # -- all jobs at once ------------------------------------------------------------------------

    def _ask_steps(self, metrics: Metrics, now: datetime, report: WatcherReport) -> None:
        since = self._stepped_at or now - self._every
        since = max(since, now - 10 * self._every) - timedelta(seconds=metrics.window_s)
        began = self._seconds()
        answer = metrics.steps(since, now)
        self._asked(began)
        self._steps_asked_at = now
        if self._is_trouble("steps", answer, report):
            return
        self._stepped_at = now
        if isinstance(answer, Known):
            self._steps = {one.job_id: one.samples for one in answer.value}

    def _hits(self, attempt: Attempt, state: DetectionState) -> Iterator[Hit]:
        """The new steps of one attempt. A counter of the attempt before may still be measured for
        a while after this one's start."""
        samples = self._steps.get(attempt.job_id)
        metrics, started = self._metrics, attempt.started_at
        if not samples or metrics is None or started is None:
            return
        last_at = state.progress.last_step_at
        known = self._counted.get(attempt.id)
        if known is None:
            known = last_at.timestamp() if last_at is not None else 0.0
        known = max(known, started.timestamp() + metrics.window_s)
        before = state.progress.last_step
        for at, step in samples:
            if at <= known:
                continue
            known = at
            if step != before:
                before = step
                yield Hit(
                    STEP_METRIC,
                    f"metrics:{attempt.job_id}",
                    round(at * 1000),
                    f"step {step}",
                    (("step", str(step)),),
                    written_at=datetime.fromtimestamp(at, UTC),
                )
        self._remember(self._counted, attempt.id, known)

    def _is_sampled(self, attempt: Attempt, now: datetime) -> bool:
        """Whether this tick's answer shows the attempt's counter as it is now, moved or not."""
        samples = self._steps.get(attempt.job_id)
        if not samples or self._metrics is None:
            return False
        return now.timestamp() - samples[-1][0] <= self._metrics.window_s / 2

    def _ask_names(self, metrics: Metrics, now: datetime, report: WatcherReport) -> None:
        began = self._seconds()
        answer = metrics.measured(now)
        self._asked(began)
        self._named_at = now
        if self._is_trouble("names", answer, report):
            self._names = None
            return
        # All kinds were asked for, and answered.
        self._troubles = {q: why for q, why in self._troubles.items() if q == "steps"}
        self._names = answer.value if isinstance(answer, Known) else frozenset()

    def _is_named(self, node: str) -> bool:
        names = self._names or frozenset()
        return node in names or node.partition(".")[0] in names

    # -- one silent job --------------------------------------------------------------------------

    def _activity(
        self, attempt: Attempt, silence: Quiet, now: datetime, report: WatcherReport
    ) -> tuple[Activity, ...]:
        """All kinds of one look, in the tick in which the last of them was answered."""
        metrics = self._metrics
        if metrics is None or not attempt.nodes:
            return ()
        look = self._looks.get(attempt.id)
        if look is None or look.silence != silence.name or _over(look, now, self._every):
            look = _Look(silence.name, now, list(metrics.kinds))
            self._remember(self._looks, attempt.id, look)
        while look.left and self._may_ask():
            kind = look.left[0]
            began = self._seconds()
            answer = metrics.activity(
                kind, attempt.nodes, attempt.job_id, silence.compare_from, now
            )
            self._asked(began)
            if self._is_trouble(kind.value, answer, report):
                # The kind that is missing may be the one that would have excused the job.
                look.left, look.got = [], []
                return ()
            if isinstance(answer, Known):
                look.got.append(Activity(kind, answer.value, now, metrics.window_s))
            look.left.pop(0)
        if look.left or not look.got:
            return ()
        found, look.got = tuple(look.got), []
        return found

    def _growth(
        self, attempt: Attempt, state: DetectionState, now: datetime, report: WatcherReport
    ) -> Growth | None:
        path = attempt.opt_in.checkpoints or state.saved_in
        if self._directories is None or not path or not wants_growth(state, now):
            return None
        if not _due(self._grown.get(attempt.id), now, timedelta(seconds=GROWTH_EVERY_S)):
            return None
        answer = self._directories.growth(path, attempt.uid)
        if isinstance(answer, Unknown):
            if attempt.opt_in.checkpoints:
                _say(report, f"job {attempt.reference}: {answer.why}")
            return None
        self._remember(self._grown, attempt.id, now)
        return answer.value if isinstance(answer, Known) else None

    def _is_trouble(self, question: str, answer: Answer[_V], report: WatcherReport) -> bool:
        if not isinstance(answer, Unknown):
            self._troubles.pop(question, None)
            return False
        self._troubles[question] = answer.why
        _say(report, answer.why)
        return True

    # -- bounds ----------------------------------------------------------------------------------

    def _may_ask(self) -> bool:
        if self._questions <= 0 or self._spent_s >= SECONDS_PER_TICK:
            return False
        return self._seconds() >= self._rests_until

    def _asked(self, began: float) -> None:
        self._questions -= 1
        now = self._seconds()
        took = now - began
        self._spent_s += took
        if took > QUICK_S:
            self._rests_until = now + REST_TIMES * took

    def _seconds(self) -> float:
        return 0.0 if self._clock is None else self._clock.monotonic()

    @staticmethod
    def _remember(where: dict[AttemptId, _V], key: AttemptId, value: _V) -> None:
        where.pop(key, None)
        where[key] = value
        if len(where) > REMEMBERED:
            del where[next(iter(where))]


def _over(look: _Look, now: datetime, every: timedelta) -> bool:
    """Whether a look is finished, or has become too old to be finished, and a new one is due."""
    return now - look.began >= (every if not look.left else 4 * every)


def _due(last: datetime | None, now: datetime, every: timedelta) -> bool:
    return last is None or now - last >= every


def _say(report: WatcherReport, why: str) -> None:
    if why not in report.errors:
        report.errors.append(why)
