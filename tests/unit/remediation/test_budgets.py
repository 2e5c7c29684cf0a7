"""How often, and what refunds."""

from __future__ import annotations

import pytest

from middlewatch.model.attempt import Attempt, EndedBy
from middlewatch.model.policy import Policy
from middlewatch.model.signal import Domain
from middlewatch.remediation import (
    Budget,
    BudgetName,
    History,
    PastAttempt,
    Refrain,
    RefrainBasis,
    decide,
)
from middlewatch.remediation.budgets import budgets_for, restarts_without_checkpoint
from tests.unit.attribution.made import ecc, ended, exception, lost_peer
from tests.unit.remediation.made import advised, inputs, past, progress, refrained


def failed(index: int) -> Attempt:
    return ended(EndedBy.FAILURE, attempt_index=index)


def weighed(name: BudgetName, budgets: tuple[Budget, ...]) -> Budget:
    return next(budget for budget in budgets if budget.name is name)


@pytest.mark.parametrize(
    ("line", "used"),
    [
        ([past(0)], 0),
        ([past(0), past(1)], 1),
        ([past(0), past(1), past(2), past(3)], 3),
        # Somebody else's restarts cost nothing.
        ([past(0, restarted_by_us=False), past(1)], 0),
        # A new checkpoint refunds all.
        ([past(0), past(1), past(2, checkpoint_step=50)], 0),
        ([past(0), past(1, checkpoint_step=50), past(2)], 1),
        # An old checkpoint, loaded again, is no new one.
        ([past(0, checkpoint_step=50), past(1, loaded_step=50), past(2, loaded_step=50)], 2),
        # A later checkpoint proves itself by being loaded.
        ([past(0, loaded_step=10), past(1, loaded_step=40)], 0),
        ([past(0, checkpoint_step=50), past(1, checkpoint_step=60), past(2)], 1),
        # A lower number than the best is no progress.
        ([past(0, checkpoint_step=50), past(1, checkpoint_step=40)], 1),
        # Starts that the scheduler broke cost nothing.
        ([past(0), past(1, ended_by=EndedBy.LAUNCH), past(2)], 1),
        ([past(0), past(1, ended_by=EndedBy.LAUNCH)], 0),
    ],
)
def test_restarts_in_a_row_that_brought_no_new_checkpoint(
    line: list[PastAttempt], used: int
) -> None:
    assert restarts_without_checkpoint(line) == used


def test_three_restarts_without_a_checkpoint_are_the_end() -> None:
    history = History((past(0), past(1), past(2)))
    made = inputs(failed(3), exception(0, of=failed(3)), history=history)
    outcome = decide(made)
    assert refrained(outcome) is RefrainBasis.BUDGET_SPENT
    assert isinstance(outcome, Refrain)
    assert "3 of 3" in outcome.explanation


def test_the_third_restart_is_still_given() -> None:
    history = History((past(0), past(1)))
    outcome = advised(decide(inputs(failed(2), exception(0, of=failed(2)), history=history)))
    budget = weighed(BudgetName.WITHOUT_CHECKPOINT, outcome.budgets)
    assert (budget.used, budget.limit, budget.allowed) == (2, 3, True)


def test_a_checkpoint_of_the_present_attempt_refunds() -> None:
    history = History((past(0), past(1), past(2)))
    made = inputs(failed(3), lost_peer(0, of=failed(3)), history=history, progress=progress(99, 90))
    assert weighed(BudgetName.WITHOUT_CHECKPOINT, advised(decide(made)).budgets).used == 0


def test_all_restarts_are_bounded_whatever_the_checkpoints() -> None:
    attempts = tuple(past(n, checkpoint_step=10 * n) for n in range(5))
    made = inputs(
        failed(5),
        lost_peer(0, of=failed(5)),
        history=History(attempts),
        progress=progress(60, 55),
        policy=Policy(max_restarts=5),
    )
    outcome = decide(made)
    assert refrained(outcome) is RefrainBasis.BUDGET_SPENT
    assert isinstance(outcome, Refrain)
    assert not weighed(BudgetName.RESTARTS, outcome.budgets).allowed
    assert weighed(BudgetName.WITHOUT_CHECKPOINT, outcome.budgets).allowed


def test_the_same_failure_at_the_same_step_is_the_end_though_checkpoints_come() -> None:
    attempts = tuple(past(n, last_step=100, checkpoint_step=90 + n) for n in range(3))
    made = inputs(
        failed(3),
        exception(0, of=failed(3)),
        history=History(attempts),
        progress=progress(100, 95),
    )
    outcome = decide(made)
    assert refrained(outcome) is RefrainBasis.BUDGET_SPENT
    assert isinstance(outcome, Refrain)
    budget = weighed(BudgetName.SAME_FAILURE, outcome.budgets)
    assert (budget.used, budget.note) == (3, "user_exception at step 100")


@pytest.mark.parametrize(
    "different",
    [
        {"last_step": 101},
        {"failure_class": "native_crash"},
        {"blamed_nodes": ("n1",)},
        {"restarted_by_us": False},
    ],
)
def test_another_failure_between_starts_the_count_anew(different: dict[str, object]) -> None:
    attempts = (past(0, last_step=100), past(1, **{"last_step": 100, **different}))
    made = inputs(
        failed(2),
        exception(0, of=failed(2)),
        history=History(attempts),
        progress=progress(100),
    )
    assert weighed(BudgetName.SAME_FAILURE, budgets_for(made)).used == 0


def test_a_failure_of_hardware_is_never_the_same_failure_of_the_program() -> None:
    made = inputs(failed(0), ecc(0, nodes=("n1",)), progress=progress(100))
    assert not weighed(BudgetName.SAME_FAILURE, budgets_for(made)).applies


def test_an_unknown_step_is_not_step_zero() -> None:
    attempts = tuple(past(n, last_step=None) for n in range(5))
    made = inputs(failed(5), exception(0, of=failed(5)), history=History(attempts))
    budget = weighed(BudgetName.SAME_FAILURE, budgets_for(made))
    assert not budget.applies
    assert "not known" in budget.note


def test_broken_starts_cost_the_job_nothing_but_end() -> None:
    broken = {"ended_by": EndedBy.LAUNCH, "domain": Domain.UNKNOWN}
    attempts = (past(0), *(past(n, **broken) for n in range(1, 4)))
    target = ended(EndedBy.LAUNCH, attempt_index=4)
    for limit, allowed in ((5, True), (4, False)):
        made = inputs(
            target,
            lost_peer(0, of=target),
            history=History(attempts),
            policy=Policy(max_restarts=limit),
        )
        budgets = budgets_for(made)
        assert weighed(BudgetName.WITHOUT_CHECKPOINT, budgets).used == 0
        assert weighed(BudgetName.RESTARTS, budgets).used == 0
        assert weighed(BudgetName.BROKEN_STARTS, budgets).used == 4
        assert weighed(BudgetName.BROKEN_STARTS, budgets).allowed is allowed


def test_every_budget_is_weighed_each_time() -> None:
    outcome = advised(decide(inputs(failed(0), exception(0))))
    assert [budget.name for budget in outcome.budgets] == list(BudgetName)


def test_a_refusal_for_another_reason_still_shows_the_budgets() -> None:
    outcome = decide(inputs(ended(EndedBy.FAILURE, requeueable=False), exception(0)))
    assert isinstance(outcome, Refrain)
    assert [budget.name for budget in outcome.budgets] == list(BudgetName)


def test_ours_are_counted_also_where_earlier_attempts_were_never_seen() -> None:
    target = failed(7)
    history = History((past(6),), unknown_before=6)
    made = inputs(target, exception(0, of=target), history=history)
    assert weighed(BudgetName.RESTARTS, budgets_for(made)).used == 1
