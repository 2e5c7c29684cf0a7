"""What the earlier attempts of a job come to, told from the records that were kept of them.

A job's number alone does not make attempts relatives: numbers come back. Attempts of one job
follow each other with growing index and belong to one user; an index that does not grow, and
another user, begin another job. Ours is a
restart whose advice converged, or whose requeue was carried out: a converged exclusion on a
requeue that the scheduler did by itself is none.
"""

from __future__ import annotations

from collections.abc import Sequence

from middlewatch.model.action import ActionKind, ActionRecord, Answered
from middlewatch.model.advice import Advice, DesiredState, Disposition, Reason
from middlewatch.model.attempt import Attempt, same_owner
from middlewatch.model.issue import Verdict
from middlewatch.model.signal import Domain, Progress
from middlewatch.remediation.exclusions import blamed_nodes
from middlewatch.remediation.inputs import PastAttempt, Successor

_REQUEUES = frozenset({ActionKind.REQUEUE, ActionKind.REQUEUE_HOLD})


def earlier_attempts(attempts: Sequence[Attempt], target: Attempt) -> tuple[Attempt, ...]:
    """The attempts of the target's job before it, oldest first. ``attempts`` are all that are
    known under its number; vanished ones never became anything and are left out, and so are those
    that the API alone told of: hearsay weighs in no budget and blames no node."""
    line: list[Attempt] = []
    for attempt in sorted(attempts, key=lambda a: a.submitted_at):
        if attempt.vanished or attempt.told or attempt.cluster != target.cluster:
            continue
        if attempt.submitted_at >= target.submitted_at:
            break
        if line and not follows(line[-1], attempt):
            line = []
        line.append(attempt)
    if line and not follows(line[-1], target):
        return ()
    return tuple(line)


def follows(earlier: Attempt, later: Attempt) -> bool:
    """Whether the later of two attempts under one number can be the same job's."""
    grows = later.attempt_index > earlier.attempt_index and not later.numbered_again
    return grows and same_owner(earlier.uid, later.uid)


def successor_of(attempts: Sequence[Attempt], target: Attempt) -> Successor | None:
    """The next attempt of the target's job, or None: a later one with no greater index is
    another job's."""
    later = [
        a
        for a in attempts
        if a.submitted_at > target.submitted_at
        and a.cluster == target.cluster
        and not (a.vanished or a.told)
    ]
    following = min(later, key=lambda a: a.submitted_at, default=None)
    if following is None or not follows(target, following):
        return None
    return Successor(following.attempt_index, following.state)


def successor_lost(attempts: Sequence[Attempt], target: Attempt) -> bool:
    """Whether the scheduler came back from a state older than the target's successor, and shows
    no other one since: what had converged on it is undone."""
    if successor_of(attempts, target) is not None:
        return False
    return any(
        a.vanished
        and a.cluster == target.cluster
        and a.submitted_at > target.submitted_at
        and follows(target, a)
        for a in attempts
    )


def past_attempt(
    attempt: Attempt,
    *,
    generations: Sequence[Advice],
    actions: Sequence[ActionRecord],
    verdicts: Sequence[Verdict],
    progress: Progress | None,
) -> PastAttempt:
    """One earlier attempt as budgets and ledger need it. ``verdicts`` oldest first."""
    last = verdicts[-1] if verdicts else None
    newest = {verdict.issue_id: verdict for verdict in verdicts}
    blamed = dict.fromkeys(node for v in newest.values() for node in blamed_nodes(v))
    excluded = dict.fromkeys(node for g in generations for node in g.exclusions)
    return PastAttempt(
        attempt_id=attempt.id,
        attempt_index=attempt.attempt_index,
        restarted_by_us=restarted_by_us(generations, actions),
        ended_by=None if attempt.end is None else attempt.end.by,
        failure_class="" if last is None else last.failure_class,
        domain=Domain.UNKNOWN if last is None else last.domain,
        blamed_nodes=tuple(blamed),
        excluded_by_us=tuple(excluded),
        last_step=None if progress is None else progress.last_step,
        checkpoint_step=None if progress is None else progress.checkpoint_step,
        loaded_step=None if progress is None else progress.loaded_step,
        steps_of=None if progress is None else progress.steps_of,
    )


def restarted_by_us(generations: Sequence[Advice], actions: Sequence[ActionRecord]) -> bool:
    """Whether the attempt's successor exists because of us."""
    if any(a.action.kind in _REQUEUES and a.answered is Answered.DONE for a in actions):
        return True
    if actions and not any(a.action.kind in _REQUEUES for a in actions):
        # We acted, and not by a requeue: the successor was somebody else's doing.
        return False
    return any(
        g.desired is DesiredState.RESTARTED
        and g.status is not None
        and g.status.disposition is Disposition.CONVERGED
        and g.status.reason is Reason.DESIRED_STATE_OBSERVED
        for g in generations
    )
