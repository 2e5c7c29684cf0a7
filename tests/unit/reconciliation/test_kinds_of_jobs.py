"""What docs/kinds-of-jobs.md quotes is what the program says, and it says nothing else of a kind."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from middlewatch.adapters.slurm.words import checked_job_id
from middlewatch.model.action import ActionKind, Answered
from middlewatch.model.advice import DesiredState
from middlewatch.model.attempt import Dependent, EndedBy
from middlewatch.model.scheduler import JobFlag, JobState
from middlewatch.ports.errors import Refused
from middlewatch.reconciliation.plan import next_step
from middlewatch.reconciliation.situation import Report, Situation, Wait
from middlewatch.remediation import Refrain, decide
from tests.unit.attribution.made import ecc, end_signal, ended, exception
from tests.unit.reconciliation.worlds import (
    advice,
    at,
    attempt,
    detail,
    record,
    situation,
    successor,
    target,
)
from tests.unit.remediation.made import inputs

PAGE = Path(__file__).parents[3] / "docs" / "kinds-of-jobs.md"
MAY_END = advice(may_end_running=True)
RELEASED = advice(DesiredState.RELEASED)
OUR_REQUEUE = record(ActionKind.REQUEUE, 0.5)
ONLY_BATCH = replace(
    record(ActionKind.REQUEUE, 9.5, Answered.REFUSED),
    text="Only batch jobs are accepted or processed for job 123",
)


def step(made: Situation) -> Callable[[], str]:
    """What the controller reports or waits for in that situation."""

    def said() -> str:
        found = next_step(made, at(10))
        if isinstance(found, Report):
            return found.detail
        assert isinstance(found, Wait), found
        return found.why

    return said


def refrain(by: EndedBy, state: JobState | None = None) -> Callable[[], str]:
    """What the decision says of an attempt that ended so."""

    def said() -> str:
        over = ended(by)
        if state is not None and over.end is not None:
            over = replace(over, end=replace(over.end, state=state))
        found = decide(inputs(over, exception(0), end_signal(30)))
        assert isinstance(found, Refrain), found
        return found.explanation

    return said


def not_requeueable() -> str:
    job = replace(ended(EndedBy.FAILURE), requeueable=False)
    found = decide(inputs(job, ecc(0), end_signal(30)))
    assert isinstance(found, Refrain)
    return found.explanation


def chained() -> str:
    job = replace(ended(EndedBy.FAILURE), dependents=(Dependent("9", "afterany"),))
    found = decide(inputs(job, ecc(0), end_signal(30)))
    assert isinstance(found, Refrain)
    return found.explanation


def no_number() -> str:
    with pytest.raises(Refused) as error:
        checked_job_id("7;east")
    return str(error.value)


RUNNING = target(JobState.RUNNING)
SAID: tuple[tuple[str, Callable[[], str]], ...] = (
    ("tasks not split off yet", step(situation(target(JobState.PENDING, array_pending=True)))),
    ("heterogeneous", step(situation(target(heterogeneous=True, apart="one is not")))),
    (
        "heterogeneous",
        step(situation(replace(RUNNING, heterogeneous=True, apart="one is not"), advice=MAY_END)),
    ),
    ("heterogeneous", step(situation(target(heterogeneous=True), detail=detail(uneven=True)))),
    ("`--no-requeue`", not_requeueable),
    ("`--no-requeue`", step(situation(target(requeueable=False)))),
    ("of `srun` or `salloc`", step(situation(target(), actions=(ONLY_BATCH,)))),
    (
        "held by an operator while it runs",
        step(situation(replace(RUNNING, priority=0, reason="JobHeldAdmin"), advice=MAY_END)),
    ),
    (
        "held by its owner while it runs",
        step(situation(replace(RUNNING, priority=0, reason="JobHeldUser"), advice=MAY_END)),
    ),
    ("held by an operator, ended", step(situation(target(priority=0)))),
    (
        "held in the window of our restart",
        step(
            situation(
                successor(priority=0, reason="JobHeldAdmin", eligible_at=at(0)),
                actions=(OUR_REQUEUE, record(ActionKind.UPDATE, 5, start_now=True)),
                pending_since=at(1),
                detail=detail(excluded_nodes=("gpu-001",), held_by_operator=True),
                attempt=attempt(),
            )
        ),
    ),
    (
        "held before it has run",
        step(
            situation(
                target(JobState.PENDING, priority=0, reason="JobHeldAdmin"),
                advice=RELEASED,
                detail=detail(held_by_operator=True),
            )
        ),
    ),
    ("suspended", step(situation(target(JobState.SUSPENDED, priority=0), advice=MAY_END))),
    ("completing", step(situation(target(flags=frozenset({JobFlag.COMPLETING}))))),
    (
        "starting, resizing",
        step(situation(replace(RUNNING, flags=frozenset({JobFlag.CONFIGURING})), advice=MAY_END)),
    ),
    ("pending, `--begin`", step(situation(target(JobState.PENDING)))),
    (
        "hung, and an older job",
        step(
            situation(
                RUNNING,
                advice=MAY_END,
                attempt=attempt(end=None, dependents=(Dependent("9", "singleton"),)),
            )
        ),
    ),
    ("a parent whose failure", chained),
    (
        "a parent whose failure",
        step(situation(target(), attempt=attempt(dependents=(Dependent("9", "afterany"),)))),
    ),
    ("pre-empted and cancelled", refrain(EndedBy.PREEMPTION)),
    ("pre-empted and cancelled", step(situation(target(JobState.PREEMPTED)))),
    ("pre-empted and requeued", refrain(EndedBy.PREEMPTION)),
    ("time limit", refrain(EndedBy.TIME_LIMIT)),
    ("time limit", step(situation(target(JobState.TIMEOUT)))),
    ("deadline", refrain(EndedBy.DEADLINE)),
    ("deadline", step(situation(target(JobState.DEADLINE)))),
    ("completed, cancelled", step(situation(target(JobState.COMPLETED)))),
    ("completed, cancelled", step(situation(target(JobState.CANCELLED)))),
    ("`RequeueExit`", refrain(EndedBy.REQUEUE)),
    ("held by Slurm after a failing prolog", refrain(EndedBy.LAUNCH, JobState.CANCELLED)),
    (
        "no node is left for it",
        step(
            situation(
                successor(priority=0, reason="BadConstraints"),
                actions=(OUR_REQUEUE,),
                pending_since=at(1),
                detail=detail(excluded_nodes=()),
            )
        ),
    ),
    ("forgotten by slurmctld", step(situation(None))),
    (
        "its number belongs to another job",
        step(situation(target(submitted_at=at(5), uid=1), attempt=attempt())),
    ),
)


def rows() -> dict[str, list[str]]:
    """Each kind's first cell, with the sentences that its row quotes."""
    found: dict[str, list[str]] = {}
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and len(cells) == 8:
            found[cells[0]] = re.findall("“([^”]+)”", cells[6])
    return found


def row(kind: str) -> tuple[str, list[str]]:
    (name,) = [name for name in rows() if name.startswith(kind)]
    return name, rows()[name]


@pytest.mark.parametrize(("kind", "said"), SAID)
def test_what_the_program_says_of_a_kind_is_quoted_in_its_row(
    kind: str, said: Callable[[], str]
) -> None:
    _, quoted = row(kind)
    assert any(sentence in said() for sentence in quoted), (said(), quoted)


def test_no_row_quotes_what_the_program_does_not_say() -> None:
    said: dict[str, list[str]] = {}
    for kind, what in SAID:
        said.setdefault(row(kind)[0], []).append(what())
    for name, quoted in rows().items():
        for sentence in quoted:
            assert any(sentence in text for text in said.get(name, ())), (name, sentence)


def test_how_a_number_of_another_cluster_is_refused_is_quoted() -> None:
    (sentence,) = re.findall("“(is not a job [^”]+)”", PAGE.read_text().replace("\n", " "))
    assert sentence in no_number()


def test_the_tests_that_the_page_names_exist() -> None:
    root = PAGE.parents[1]
    text = PAGE.read_text()
    for path in set(re.findall(r"`(tests/[\w/.]+)`", text)):
        assert (root / path).exists(), path
    for name in set(re.findall(r"`(test_\w+\.py)`", text)):
        assert list((root / "tests").rglob(name)), name
