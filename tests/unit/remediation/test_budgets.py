"""How often, and what refunds."""

from __future__ import annotations

import pytest

from middlewatch.model.attempt import Attempt, EndedBy
from middlewatch.model.policy import Policy
from middlewatch.model.signal import Domain
from middlewatch.model.steps import StepCounter
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


# -- restarted, not recovered -----------------------------------------------------------------


def vain(*line: PastAttempt, now: int = 35, most: int = 2) -> Budget:
    """The budget of restarts in vain, weighed for attempt 9, which failed in step ``now``."""
    made = inputs(
        failed(9),
        ecc(0, attempt_id=failed(9).id),
        progress=progress(now),
        history=History(line, weighs_progress=True),
        policy=Policy(restarts_without_progress=most),
    )
    return weighed(BudgetName.WITHOUT_PROGRESS, budgets_for(made))


def ecc_at(index: int, last_step: int | None, **given: object) -> PastAttempt:
    return past(
        index,
        failure_class="gpu_ecc_uncorrectable",
        last_step=last_step,
        domain=Domain.HARDWARE,
        **given,
    )


def test_restarts_that_never_passed_the_lost_step_are_counted() -> None:
    assert vain(ecc_at(7, 37)).used == 1
    second = vain(ecc_at(7, 37), ecc_at(8, 33))
    assert (second.used, second.limit, second.allowed, second.applies) == (2, 2, False, True)
    assert second.note == (
        "restarted, not recovered: gpu_ecc_uncorrectable again, step 37 not passed"
    )
    assert vain(ecc_at(7, 37), ecc_at(8, 33), most=3).allowed


def test_step_that_was_passed_begins_the_count_anew() -> None:
    assert vain(ecc_at(6, 37), ecc_at(7, 20), ecc_at(8, 38), now=36).used == 1
    assert not vain(ecc_at(6, 37), ecc_at(7, 20), now=38).applies


def test_restart_that_was_not_ours_begins_the_count_anew() -> None:
    line = (ecc_at(6, 37), ecc_at(7, 30, restarted_by_us=False), ecc_at(8, 33))
    assert vain(*line).used == 1


def test_restart_that_brought_a_new_checkpoint_was_not_in_vain() -> None:
    """Three nodes fail, one after the other: the job never came as far as at first, and its
    checkpoints go on all the same."""
    first = ecc_at(7, 100, checkpoint_step=50)
    further = ecc_at(8, 90, loaded_step=50, checkpoint_step=80)
    assert vain(first, further, now=95).used == 1
    again = ecc_at(8, 90, loaded_step=50, checkpoint_step=50)
    assert not vain(first, again, now=95).allowed
    loaded = ecc_at(8, 90, loaded_step=50)
    assert not vain(first, loaded, now=95).allowed


def test_start_that_the_scheduler_broke_is_no_restart_in_vain() -> None:
    broken = ecc_at(8, None, ended_by=EndedBy.LAUNCH)
    assert vain(ecc_at(7, 37), broken).used == 1


def test_failure_before_the_first_step_passed_nothing() -> None:
    assert vain(ecc_at(7, 37), ecc_at(8, None)).used == 2


def test_failures_that_differ_in_class_and_step_are_left_to_the_other_budgets() -> None:
    other = past(8, failure_class="host_oom", last_step=33)
    budget = vain(ecc_at(7, 37), other)
    assert (budget.allowed, budget.applies) == (True, False)
    assert budget.note == "step 37 not passed, by gpu_ecc_uncorrectable, host_oom"
    same_step = past(8, failure_class="host_oom", last_step=35)
    assert vain(ecc_at(7, 37), same_step).note == (
        "restarted, not recovered: step 35 again, step 37 not passed"
    )


def test_job_that_prints_no_steps_has_no_such_budget() -> None:
    made = inputs(
        failed(9),
        ecc(0, attempt_id=failed(9).id),
        history=History((ecc_at(7, None), ecc_at(8, None)), 0, True),
    )
    budget = weighed(BudgetName.WITHOUT_PROGRESS, budgets_for(made))
    assert not budget.applies
    assert "prints no steps" in budget.note


def test_start_up_loop_passes_no_step_of_training() -> None:
    """The successor dies while it loads files: "2000" is no step beyond 37."""
    training, loop = StepCounter("megatron.step", 1), StepCounter("loop.step", -2)
    line = (ecc_at(7, 37, steps_of=training), ecc_at(8, 2000, steps_of=loop))
    budget = vain(*line)
    assert (budget.used, budget.allowed) == (2, False)
    assert "step 37 not passed" in budget.note
    # What older versions froze is decided as they did.
    assert vain(ecc_at(7, 37), ecc_at(8, 2000)).used == 1


def test_ends_of_start_up_loops_are_not_alike_because_their_numbers_are() -> None:
    training, loop = StepCounter("megatron.step", 1), StepCounter("loop.step", -2)
    first = ecc_at(6, 37, steps_of=training)
    second = past(7, failure_class="host_oom", last_step=35, steps_of=loop)
    third = past(8, failure_class="nccl_timeout", last_step=35, steps_of=loop)
    assert not vain(first, second, third).applies


def test_steps_of_another_counter_are_no_restart_in_vain() -> None:
    one, other = StepCounter("megatron.step", 1), StepCounter("job.progress", 2)
    assert vain(ecc_at(7, 37, steps_of=one), ecc_at(8, 33, steps_of=one)).used == 2
    assert vain(ecc_at(7, 37, steps_of=one), ecc_at(8, 33, steps_of=other), now=20).used == 1


def test_two_restarts_in_vain_are_the_last_ones() -> None:
    made = inputs(
        failed(9),
        ecc(0, attempt_id=failed(9).id),
        progress=progress(35),
        history=History((ecc_at(7, 37), ecc_at(8, 33)), weighs_progress=True),
    )
    outcome = decide(made)
    assert refrained(outcome) is RefrainBasis.BUDGET_SPENT
    assert isinstance(outcome, Refrain)
    assert outcome.explanation.startswith("restarts_without_progress: 2 of 2 used (restarted, not")


def test_decisions_of_versions_that_did_not_weigh_it_come_out_the_same() -> None:
    made = inputs(
        failed(9),
        ecc(0, attempt_id=failed(9).id),
        progress=progress(35),
        history=History((ecc_at(7, 37), ecc_at(8, 33))),
    )
    names = [budget.name for budget in budgets_for(made)]
    assert BudgetName.WITHOUT_PROGRESS not in names
    advised(decide(made))
