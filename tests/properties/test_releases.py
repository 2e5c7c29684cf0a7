"""Random histories of the jobs that a held job waits for, judged with hindsight.

Each history is a list of attempts that run, end somehow, and are or are not followed by a restart of
ours, with everything that we learn of that arriving late and in any order: accounting's word, the
rest of the log, the evidence that a restart is decided on, the outcome of the advice. The decision
only sees what was known at each moment. Afterwards it is known what really happened: if the job was
let go, nothing of ours may have run behind that moment, and each parent must have ended as asked.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from middlewatch.model.advice import Advice, Disposition, Reason
from middlewatch.model.attempt import Attempt, AttemptEnd, EndedBy
from middlewatch.model.dependency import Condition, Dependency
from middlewatch.model.optin import JobMode, OptIn
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import JobState
from middlewatch.remediation.parents import ParentFacts, Seen
from middlewatch.remediation.release import Release, ReleaseInputs, release_for
from tests.unit.attribution.made import at, attempt
from tests.unit.remediation.made import advice, gates, status

SETTLES = 60
POLICY = Policy(parent_settles_s=SETTLES)
STATES = {
    JobState.COMPLETED: EndedBy.COMPLETION,
    JobState.FAILED: EndedBy.FAILURE,
    JobState.TIMEOUT: EndedBy.TIME_LIMIT,
    JobState.NODE_FAIL: EndedBy.NODE_FAILURE,
    JobState.CANCELLED: EndedBy.OWNER,
}
FOR_EVER = 10_000


@dataclass(frozen=True)
class Lived:
    """One attempt as it really was. Seconds after the end: when that was ``learnt``, ``confirmed`` by
    accounting, ``judged`` (an issue was made of it), when the log was ``read`` to its end, when the
    ``evidence`` came on which a restart was decided, and how long its advice stayed ``open``."""

    runs: int
    state: JobState
    learnt: int
    confirmed: int
    judged: int
    read: int
    evidence: int
    open: int
    restarted: bool


@st.composite
def lives(draw: st.DrawFn, last: bool) -> Lived:
    few = st.integers(0, 20)
    failed = draw(st.sampled_from(sorted(set(STATES) - {JobState.COMPLETED})))
    state = draw(st.sampled_from(sorted(STATES))) if last else failed
    learnt = draw(few)
    read = draw(st.integers(0, 300))
    # The watcher tells of an end as soon as it has learnt it; what a log says is known when it has
    # been read, and the rest comes within the time that the policy waits for it.
    latest = max(read, learnt + SETTLES)
    return Lived(
        runs=draw(st.integers(1, 200)),
        state=state,
        learnt=learnt,
        confirmed=learnt + draw(st.integers(0, 100)),
        judged=learnt + draw(few),
        read=read,
        evidence=draw(st.integers(learnt, latest)),
        open=draw(st.integers(1, 200)),
        restarted=not last,
    )


@st.composite
def histories(draw: st.DrawFn) -> list[Lived]:
    before = [draw(lives(last=False)) for _ in range(draw(st.integers(0, 3)))]
    return [*before, draw(lives(last=True))]


def began(history: list[Lived]) -> list[int]:
    """When each attempt began: its requeue comes two seconds after its evidence."""
    moments = [0]
    for lived in history[:-1]:
        moments.append(moments[-1] + lived.runs + lived.evidence + 2)
    return moments


def over(history: list[Lived]) -> int:
    """When the last attempt had really ended."""
    return began(history)[-1] + history[-1].runs


def recovering(history: list[Lived], now: int) -> bool:
    """Whether a restart that led to the newest attempt has no outcome yet."""
    if len(history) == 1:
        return False
    return now < began(history)[-1] + history[-2].open


def facts(job: str, condition: Condition, history: list[Lived], now: int) -> ParentFacts:
    """What was known of the parent at that moment."""
    shown = [n for n, begin in enumerate(began(history)) if begin <= now]
    index = shown[-1]
    newest, ended = _attempt(job, history, index, now)
    stood = (_advice(job, history, n, now) for n in (index - 1, index) if n >= 0)
    known = tuple(one for one in stood if one is not None)
    lived = history[index]
    since = now - began(history)[index] - lived.runs
    asked = ""
    if ended and since >= lived.judged:
        # Before the evidence has come, what there is says that it is left alone.
        advised = lived.restarted and since >= lived.evidence
        asked = "advise" if advised else "budget_spent"
    return ParentFacts(
        Dependency(job, condition),
        Seen.WATCHED,
        attempt=newest,
        advice=known,
        asked=asked,
        end_told=ended and since >= lived.judged,
        read_at=at(now) if since >= lived.read else at(-10_000),
    )


def _attempt(job: str, history: list[Lived], index: int, now: int) -> tuple[Attempt, bool]:
    lived, begin = history[index], began(history)[index]
    made = attempt(job_id=job, attempt_index=index, submitted_at=at(begin - 1000), uid=7)
    since = now - begin - lived.runs
    if since < lived.learnt:
        return made, False
    end = AttemptEnd(
        lived.state,
        STATES[lived.state],
        None,
        None,
        at(begin + lived.runs),
        at(begin + lived.runs + lived.learnt),
        final=since >= lived.confirmed,
    )
    return replace(made, state=lived.state, end=end), True


def _advice(job: str, history: list[Lived], index: int, now: int) -> Advice | None:
    """What stood for an attempt that was restarted: from a second after its evidence on."""
    lived = history[index]
    written = began(history)[index] + lived.runs + lived.evidence + 1
    if not lived.restarted or now < written:
        return None
    target, _ = _attempt(job, history, index, now)
    made = advice(target)
    if now >= began(history)[index + 1] + lived.open:
        return replace(made, status=status(Disposition.CONVERGED, Reason.DESIRED_STATE_OBSERVED))
    return made


def met(condition: Condition, state: JobState) -> bool:
    completed = state is JobState.COMPLETED
    return {
        Condition.AFTEROK: completed,
        Condition.AFTERANY: True,
        Condition.AFTERNOTOK: not completed,
    }[condition]


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(list(Condition)), histories()), min_size=1, max_size=3))
def test_nothing_is_let_go_before_its_parents_are_done_and_all_is_in_the_end(
    parents: list[tuple[Condition, list[Lived]]],
) -> None:
    named = [(str(100 + n), condition, lived) for n, (condition, lived) in enumerate(parents)]
    child = attempt(
        job_id="50",
        submitted_at=at(0),
        state=JobState.PENDING,
        held=True,
        reason="JobHeldUser",
        uid=7,
        opt_in=OptIn(
            JobMode.ACTION,
            "prod",
            depends_on=tuple(Dependency(job, condition) for job, condition, _ in named),
        ),
    )
    wanted = all(met(condition, lived[-1].state) for condition, lived in parents)
    done = max(over(lived) for _, lived in parents)
    turns = sorted(
        {
            moment + more
            for _, lived in parents
            for begin, one in zip(began(lived), lived, strict=True)
            for moment in (begin, begin + one.runs, begin + one.runs + one.evidence)
            for more in (0, 1, 2, 3, one.learnt, one.confirmed, one.judged, one.read, SETTLES)
        }
        | {FOR_EVER}
    )
    let_go = False
    for now in turns:
        outcome = release_for(
            ReleaseInputs(
                attempt=child,
                mode=JobMode.ACTION,
                parents=tuple(facts(job, c, lived, now) for job, c, lived in named),
                policy=POLICY,
                gates=gates(child),
                existing=None,
                now=at(now),
            )
        )
        let_go = isinstance(outcome, Release)
        if let_go:
            assert wanted, "a parent ended otherwise than asked for"
            assert now >= done, f"let go at {now}, and a parent ran until {done}"
            assert not any(recovering(lived, now) for _, lived in parents)
    assert let_go is wanted
