"""Which attempts are of one job, and which restarts were ours."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from middlewatch.model.action import Action, ActionKind, ActionRecord, Answered
from middlewatch.model.advice import Advice, DesiredState, Disposition, Reason
from middlewatch.model.attempt import TOLD, Attempt, EndedBy
from middlewatch.model.gates import Gate, GateName, Gates, Mode
from middlewatch.model.identity import ClusterId
from middlewatch.model.issue import Confidence, Verdict, VerdictBasis
from middlewatch.model.scheduler import JobState
from middlewatch.model.signal import Domain
from middlewatch.remediation import (
    RefrainBasis,
    decide,
    earlier_attempts,
    past_attempt,
    restarted_by_us,
    successor_lost,
    successor_of,
)
from tests.unit.attribution.made import at, attempt, ecc, ended
from tests.unit.remediation.made import advice, gates, ground, inputs, progress, status


def run(index: int, seconds: float, **given: Any) -> Attempt:
    return attempt(attempt_index=index, submitted_at=at(seconds), **given)


def test_attempts_of_one_job_follow_each_other_with_growing_index() -> None:
    line = [run(0, 0), run(1, 100), run(2, 200)]
    assert earlier_attempts(line, line[2]) == tuple(line[:2])
    assert earlier_attempts(reversed(line), line[1]) == (line[0],)  # type: ignore[arg-type]
    assert earlier_attempts(line, line[0]) == ()


def test_a_number_that_came_back_is_another_job() -> None:
    older = [run(0, 0), run(1, 100)]
    newer = [run(0, 5000), run(1, 5100)]
    assert earlier_attempts([*older, *newer], newer[1]) == (newer[0],)
    assert earlier_attempts([*older, *newer], newer[0]) == ()


def test_attempts_of_another_user_are_another_jobs_however_their_index_grows() -> None:
    theirs, mine = run(0, 0, uid=2001), run(1, 5000, uid=2002)
    assert earlier_attempts([theirs, mine], mine) == ()
    assert successor_of([theirs, mine], theirs) is None
    assert not successor_lost([theirs, replace(mine, vanished=True)], theirs)


def test_an_attempt_first_seen_late_has_no_known_relatives() -> None:
    assert earlier_attempts([run(5, 0)], run(5, 0)) == ()
    assert earlier_attempts([run(3, 0), run(7, 100)], run(7, 100)) == (run(3, 0),)


def test_vanished_attempts_and_other_clusters_do_not_count() -> None:
    gone = run(1, 100, vanished=True)
    elsewhere = run(1, 110, cluster=ClusterId("slurm", "other"))
    assert earlier_attempts([run(0, 0), gone, elsewhere], run(2, 200)) == (run(0, 0),)


def test_attempts_that_the_api_alone_told_of_weigh_nothing() -> None:
    lie = run(1, 100, source=TOLD)
    assert earlier_attempts([run(0, 0), lie], run(2, 200)) == (run(0, 0),)
    assert earlier_attempts([run(0, 0), run(9, 100, source=TOLD)], run(1, 200)) == (run(0, 0),)
    assert successor_of([run(0, 0), lie], run(0, 0)) is None


def test_the_successor_is_the_next_attempt_of_the_same_job() -> None:
    here, after = run(0, 0), run(1, 100, state=JobState.PENDING)
    found = successor_of([run(2, 200), after, here], here)
    assert found is not None
    assert (found.attempt_index, found.state) == (1, JobState.PENDING)


@pytest.mark.parametrize(
    "other",
    [
        run(0, 100),
        run(1, 100, vanished=True),
        run(1, 100, cluster=ClusterId("slurm", "other")),
        run(1, -100),
    ],
)
def test_nobody_else_is_the_successor(other: Attempt) -> None:
    assert successor_of([run(0, 0), other], run(0, 0)) is None


def test_a_successor_that_vanished_is_lost_until_another_one_is_seen() -> None:
    here, gone = run(0, 0), run(1, 100, vanished=True)
    assert successor_lost([here, gone], here)
    assert not successor_lost([here], here)
    assert not successor_lost([here, gone, run(1, 300)], here)
    assert not successor_lost([run(0, 100, vanished=True), here], here)


CONVERGED = status(Disposition.CONVERGED, Reason.DESIRED_STATE_OBSERVED)


def action(kind: ActionKind, answered: Answered = Answered.DONE) -> ActionRecord:
    return ActionRecord("1", attempt().id, 1, Action(kind, "42", "why"), answered, at(40))


@pytest.mark.parametrize(
    ("generations", "actions", "ours"),
    [
        ([], [], False),
        ([advice(attempt())], [], False),
        ([advice(attempt(), CONVERGED)], [], True),
        ([advice(attempt(), CONVERGED), advice(attempt(), generation=2)], [], True),
        ([advice(attempt(), status(Disposition.CONVERGED, Reason.ALREADY_SATISFIED))], [], False),
        ([advice(attempt(), status(Disposition.ABANDONED, Reason.NOT_PERMITTED))], [], False),
        ([advice(attempt(), CONVERGED, desired=DesiredState.RELEASED)], [], False),
        ([advice(attempt(), CONVERGED)], [action(ActionKind.REQUEUE)], True),
        # Requeued, and the outcome is not told yet: it has happened all the same.
        ([advice(attempt())], [action(ActionKind.REQUEUE)], True),
        ([advice(attempt())], [action(ActionKind.REQUEUE, Answered.REFUSED)], False),
        # Slurm requeued by itself after a node failure; we only excluded the node.
        ([advice(attempt(), CONVERGED)], [action(ActionKind.UPDATE)], False),
    ],
)
def test_only_what_we_restarted_is_ours(
    generations: list[Advice], actions: list[ActionRecord], ours: bool
) -> None:
    assert restarted_by_us(generations, actions) is ours


def verdict(issue: str, nodes: tuple[str, ...], failure_class: str) -> Verdict:
    return Verdict(
        issue,
        attempt().id,
        Domain.HARDWARE,
        failure_class,
        nodes,
        (),
        VerdictBasis.LINE_NAMES_NODE,
        Confidence.HIGH,
        "",
        at(0),
    )


def test_an_earlier_attempt_is_told_by_its_newest_beliefs() -> None:
    verdicts = [
        verdict("a", ("n1",), "gpu_off_bus"),
        verdict("b", ("n3",), "gpu_off_bus"),
        verdict("a", ("n2",), "gpu_ecc_uncorrectable"),
    ]
    told = past_attempt(
        ended(EndedBy.FAILURE),
        generations=[advice(attempt(), CONVERGED, exclusions=("n2",))],
        actions=[],
        verdicts=verdicts,
        progress=progress(120, 100, 60),
    )
    assert set(told.blamed_nodes) == {"n2", "n3"}
    assert told.excluded_by_us == ("n2",)
    assert told.failure_class == "gpu_ecc_uncorrectable"
    assert (told.last_step, told.checkpoint_step, told.loaded_step) == (120, 100, 60)
    assert told.restarted_by_us
    assert told.ended_by is EndedBy.FAILURE


def test_an_earlier_attempt_of_which_nothing_is_known_says_nothing() -> None:
    told = past_attempt(run(0, 0), generations=[], actions=[], verdicts=[], progress=None)
    assert (told.restarted_by_us, told.ended_by, told.checkpoint_step) == (False, None, None)


def unseen(made: Gates) -> Gates:
    return Gates(
        tuple(
            Gate(g.name, g.name is not GateName.OWNERSHIP and g.open, g.detail) for g in made.gates
        )
    )


def test_a_gate_that_nobody_could_see_is_not_frozen_as_closed() -> None:
    target = ended(EndedBy.FAILURE)
    made = replace(
        inputs(target, ecc(0, nodes=("n1",))), gates=unseen(gates(target)), cluster_seen=False
    )
    assert ground(made) is RefrainBasis.WAITING_FOR_SCHEDULER
    closed = replace(made, gates=unseen(gates(target, mode=Mode.MONITOR)))
    assert decide(closed) != decide(made)
    assert not isinstance(ground(closed), RefrainBasis)
