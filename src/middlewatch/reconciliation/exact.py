"""TERMINATED(k), RELEASED(k) and constraint-only(k): for exactly attempt k, never a successor."""

from __future__ import annotations

from datetime import datetime

from middlewatch.model.action import Action, ActionKind
from middlewatch.model.advice import Disposition, Reason
from middlewatch.model.answer import Absent, Known
from middlewatch.model.scheduler import JobState, JobView
from middlewatch.reconciliation import exclusions
from middlewatch.reconciliation.in_flight import refused_until, unanswered
from middlewatch.reconciliation.restart import UNEVEN
from middlewatch.reconciliation.situation import (
    Act,
    Fact,
    Need,
    Place,
    Report,
    Situation,
    Step,
    Wait,
    abandoned,
    place,
)


def terminate_step(situation: Situation, view: JobView | None, now: datetime) -> Step:
    """Cancel attempt k; converged when it has ended and nothing will run it again."""
    if view is None:
        return _converged(situation, "the job has ended and is forgotten")
    at = place(situation.advice, view)
    if at is not Place.SAME:
        return _elsewhere(at)
    if view.completing:
        return Wait("the attempt is completing")
    if view.ended:
        return _converged(situation, f"the attempt ended as {view.state.value}")
    return _unless_busy(
        situation,
        now,
        Act(Action(ActionKind.CANCEL, view.job_id, situation.advice.explanation or "terminate")),
    )


def release_step(situation: Situation, view: JobView | None, now: datetime) -> Step:
    """Let attempt k go; an operator's hold is not ours to lift."""
    if view is None:
        return abandoned(Reason.TARGET_GONE, "the scheduler has forgotten the job")
    at = place(situation.advice, view)
    if at is not Place.SAME:
        return _elsewhere(at)
    if view.held and view.ended:
        return abandoned(Reason.TARGET_ENDED, f"the attempt ended as {view.state.value}, held")
    if not view.held or view.state is not JobState.PENDING:
        return _converged(situation, "the attempt is not held")
    if exclusions.impossible(view):
        return Wait("no node can satisfy the job: not a hold")
    match situation.detail:
        case None:
            return Need(Fact.DETAIL)
        case Known(value=detail):
            operator = detail.held_by_operator
        case _:
            return Wait("the job's details cannot be read", None, Reason.UNKNOWN_STATE)
    if operator is True or view.reason == "JobHeldAdmin":
        return abandoned(Reason.OPERATOR_HOLD, "an operator holds the job")
    if operator is None:
        why = "it cannot be told whether an operator holds the job"
        return Wait(why, None, Reason.UNKNOWN_STATE)
    return _unless_busy(
        situation, now, Act(Action(ActionKind.RELEASE, view.job_id, "release as advised"))
    )


def constrain_step(situation: Situation, view: JobView | None, now: datetime) -> Step:
    """Exclude nodes for a pending attempt; running work is never touched for it."""
    if view is None:
        return abandoned(Reason.TARGET_GONE, "the scheduler has forgotten the job")
    at = place(situation.advice, view)
    if at is not Place.SAME:
        return _elsewhere(at)
    if view.ended or view.completing:
        return abandoned(Reason.TARGET_ENDED, f"the attempt ended as {view.state.value}")
    if view.state is not JobState.PENDING:
        return abandoned(Reason.TARGET_RUNNING, "a running attempt cannot take constraints")
    if view.apart:
        return Wait(f"{view.apart}: waiting until its components stand alike")
    match situation.detail:
        case None:
            return Need(Fact.DETAIL)
        case Known(value=detail):
            pass
        case Absent():
            return Wait("the job vanished between two looks")
        case _:
            return Wait("the job's details cannot be read", None, Reason.UNKNOWN_STATE)
    if detail.uneven:
        return abandoned(Reason.NOT_PERMITTED, UNEVEN)
    if exclusions.impossible(view):
        shorter = exclusions.shortened(situation, view, detail)
        if shorter is None:
            return Wait("no node can satisfy the job, by no exclusion of ours")
        why = exclusions.SHORTENED + "no node is left for the job"
        return _unless_busy(
            situation, now, Act(Action(ActionKind.UPDATE, view.job_id, why, shorter))
        )
    if exclusions.carried(situation, detail):
        return _converged(situation, "the attempt carries the exclusions")
    wanted = exclusions.united(situation, detail)
    return _unless_busy(
        situation, now, Act(Action(ActionKind.UPDATE, view.job_id, "exclude as advised", wanted))
    )


def _unless_busy(situation: Situation, now: datetime, act: Act) -> Step:
    kinds = (act.action.kind,)
    if unanswered(situation, kinds, now) is not None:
        return Wait(f"a command ({act.action.kind.value}) without an answer may still take effect")
    resting = refused_until(situation, kinds, now)
    if resting is not None:
        return Wait(resting[1], resting[0])
    return act


def _elsewhere(at: Place) -> Step:
    match at:
        case Place.TURNING:
            return Wait("the job is being requeued")
        case Place.REPLACED:
            return abandoned(Reason.TARGET_REPLACED, "the number now belongs to another job")
        case Place.ROLLED_BACK:
            return abandoned(
                Reason.TARGET_GONE, "the scheduler came back from a state older than the attempt"
            )
        case _:
            return abandoned(Reason.STALE_ATTEMPT, "the scheduler is past the attempt")


def _converged(situation: Situation, detail: str) -> Report:
    acted = any(r.generation == situation.advice.generation for r in situation.actions)
    reason = Reason.DESIRED_STATE_OBSERVED if acted else Reason.ALREADY_SATISFIED
    return Report(Disposition.CONVERGED, reason, detail)
