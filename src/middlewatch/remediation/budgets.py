"""How often we restart before somebody has to look.

Counted are our own converged restarts of this very job, not the scheduler's restart count: an
operator's requeue or Slurm's own after a node failure says nothing about us. A new complete
checkpoint refunds: the job got further. A start that the scheduler itself broke never ran, so it
costs the job nothing; that such starts do not go on for ever is a budget of its own. Every budget
is weighed each time, also when an earlier one has decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from middlewatch.model.attempt import EndedBy
from middlewatch.model.signal import Domain
from middlewatch.model.steps import Reached, furthest_of
from middlewatch.remediation.inputs import DecisionInputs, PastAttempt
from middlewatch.remediation.outcome import Budget, BudgetName

_PROGRAM = frozenset({Domain.APPLICATION, Domain.USER})


def budgets_for(inputs: DecisionInputs) -> tuple[Budget, ...]:
    """All budgets, weighed for one more restart of this attempt."""
    line = (*inputs.history.attempts, present(inputs))
    # Decisions of versions that did not weigh it come out the same when they are made again.
    further = inputs.history.weighs_progress
    return (
        _without_checkpoint(line, inputs.policy.attempts_without_checkpoint),
        _all_restarts(line, inputs.policy.max_restarts),
        _same_failure(line, inputs.policy.attempts_without_checkpoint),
        _broken_starts(line, inputs.policy.max_restarts),
        *((_without_progress(line, inputs.policy.restarts_without_progress),) if further else ()),
    )


def spent(budgets: Sequence[Budget]) -> Budget | None:
    """The first budget that forbids."""
    return next((budget for budget in budgets if budget.applies and not budget.allowed), None)


def present(inputs: DecisionInputs) -> PastAttempt:
    """The attempt that is being decided about, in the shape of its predecessors."""
    progress = inputs.progress
    end = inputs.attempt.end
    return PastAttempt(
        attempt_id=inputs.attempt.id,
        attempt_index=inputs.attempt.attempt_index,
        ended_by=None if end is None else end.by,
        failure_class=inputs.verdict.failure_class,
        domain=inputs.verdict.domain,
        blamed_nodes=inputs.verdict.nodes,
        last_step=None if progress is None else progress.last_step,
        checkpoint_step=None if progress is None else progress.checkpoint_step,
        loaded_step=None if progress is None else progress.loaded_step,
        steps_of=None if progress is None else progress.steps_of,
    )


def _broken(attempt: PastAttempt) -> bool:
    return attempt.ended_by is EndedBy.LAUNCH


def _newest_checkpoint(attempt: PastAttempt) -> int | None:
    """The newest complete checkpoint that the attempt proves: written, or loaded by it."""
    steps = [s for s in (attempt.checkpoint_step, attempt.loaded_step) if s is not None]
    return max(steps, default=None)


def restarts_without_checkpoint(line: Sequence[PastAttempt]) -> int:
    """Our restarts in a row, up to the last of ``line``, that brought no new checkpoint.

    ``line`` is oldest first and ends with the attempt that is decided about. A restart of j is
    judged by what came of attempt j + 1.
    """
    best: int | None = None
    used = 0
    before: PastAttempt | None = None
    for attempt in line:
        newest = _newest_checkpoint(attempt)
        if newest is not None and (best is None or newest > best):
            best = newest
            used = 0
        elif before is not None and before.restarted_by_us and not _broken(attempt):
            used += 1
        before = attempt
    return used


def _without_checkpoint(line: Sequence[PastAttempt], limit: int) -> Budget:
    used = restarts_without_checkpoint(line)
    steps = [s for a in line if (s := _newest_checkpoint(a)) is not None]
    note = (
        f"newest known checkpoint: step {max(steps)}"
        if steps
        else "no complete checkpoint of this job is known"
    )
    return Budget(BudgetName.WITHOUT_CHECKPOINT, used, limit, used < limit, note=note)


def _all_restarts(line: Sequence[PastAttempt], limit: int) -> Budget:
    used = sum(
        1 for before, attempt in pairwise(line) if before.restarted_by_us and not _broken(attempt)
    )
    return Budget(BudgetName.RESTARTS, used, limit, used < limit)


def _same_failure(line: Sequence[PastAttempt], limit: int) -> Budget:
    here = line[-1]
    if here.domain not in _PROGRAM or here.blamed_nodes:
        return Budget(
            BudgetName.SAME_FAILURE, 0, limit, True, False, "not a failure of the program alone"
        )
    if here.last_step is None:
        return Budget(
            BudgetName.SAME_FAILURE, 0, limit, True, False, "the step of the failure is not known"
        )
    used = 0
    for attempt in reversed(line[:-1]):
        alike = (
            attempt.failure_class == here.failure_class
            and attempt.last_step == here.last_step
            and not attempt.blamed_nodes
        )
        if not attempt.restarted_by_us or not alike:
            break
        used += 1
    note = f"{here.failure_class} at step {here.last_step}"
    return Budget(BudgetName.SAME_FAILURE, used, limit, used < limit, note=note)


def not_recovered(line: Sequence[PastAttempt]) -> tuple[PastAttempt, ...]:
    """The last attempts of ``line`` that we restarted a job into and that did not pass the step
    which was lost before them, oldest first, with the attempt before them, whose fault it was; empty
    where there are none. Starts that the scheduler itself broke are left out, and an attempt that
    wrote a new checkpoint won something, whatever step it came to; of one whose steps are of another
    counter nobody can tell that it won nothing."""
    stretch: list[PastAttempt] = []
    furthest = _furthest_before(line)
    saved = _saved_before(line)
    for number in range(len(line) - 1, 0, -1):
        attempt, before, lost = line[number], line[number - 1], furthest[number]
        if not before.restarted_by_us or lost.step is None:
            break
        if _broken(attempt):
            continue
        if attempt.reached.beyond(lost) or attempt.reached.another_of(lost):
            break
        best, written = saved[number], attempt.checkpoint_step
        if written is not None and (best is None or written > best):
            break
        stretch.append(attempt)
    if not stretch:
        return ()
    first = line.index(stretch[-1])
    cause = next((a for a in reversed(line[:first]) if not _broken(a)), line[first - 1])
    return (cause, *reversed(stretch))


def _furthest_before(line: Sequence[PastAttempt]) -> list[Reached]:
    """Of each attempt, the furthest step that was seen of those before it."""
    found: list[Reached] = []
    far = Reached()
    for attempt in line:
        found.append(far)
        far = furthest_of(far, attempt.reached)
    return found


def _saved_before(line: Sequence[PastAttempt]) -> list[int | None]:
    """Of each attempt, the newest checkpoint that is proven by those before it."""
    found: list[int | None] = []
    best: int | None = None
    for attempt in line:
        found.append(best)
        newest = _newest_checkpoint(attempt)
        if newest is not None:
            best = newest if best is None else max(best, newest)
    return found


def _without_progress(line: Sequence[PastAttempt], limit: int) -> Budget:
    name = BudgetName.WITHOUT_PROGRESS
    stretch = not_recovered(line)
    if not stretch:
        note = "no restart in vain stands before this"
        if line[-1].last_step is None and _furthest_before(line)[-1].step is None:
            note = "this job prints no steps: whether it got further is not known"
        return Budget(name, 0, limit, True, False, note)
    used = len(stretch) - 1
    far = furthest_of(*(attempt.reached for attempt in line))
    lost = far.step
    classes = {attempt.failure_class for attempt in stretch}
    steps = {a.last_step if a.reached.alike(far) else None for a in stretch[1:]}
    alike = len(classes) == 1 and "" not in classes
    if not alike and (len(steps) > 1 or None in steps):
        told = ", ".join(sorted(classes - {""})) or "nothing that is known"
        return Budget(name, used, limit, True, False, f"step {lost} not passed, by {told}")
    cause = next(iter(classes)) if alike else f"step {next(iter(steps))}"
    note = f"restarted, not recovered: {cause} again, step {lost} not passed"
    return Budget(name, used, limit, used < limit, note=note)


def _broken_starts(line: Sequence[PastAttempt], limit: int) -> Budget:
    used = 0
    for before, attempt in zip(reversed(line[:-1]), reversed(line[1:]), strict=True):
        if not (_broken(attempt) and before.restarted_by_us):
            break
        used += 1
    applies = _broken(line[-1])
    note = "" if applies else "the scheduler did not break this start"
    return Budget(BudgetName.BROKEN_STARTS, used, limit, used < limit, applies, note)
