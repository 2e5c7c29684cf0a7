"""The decision: what, if anything, should happen next to one attempt.

The rules are tried in a written order and the first that speaks decides. A running attempt may
be ended only by a witness besides the log, or by a failure that was followed by no progress: a
program that crashes inside and goes on by itself is left alone, and so is one that is merely
silent. An ended attempt is restarted after failures, not after it completed, was cancelled, made
room for others or ran out of time. Then come what the job can do at all, the budgets, and last
the nodes to avoid.

Gates do not change a decision: they are frozen into it. What was decided under a closed gate is
*would have*, for ever; only new trouble is decided anew.
"""

from __future__ import annotations

from datetime import timedelta
from typing import assert_never

from middlewatch.model.advice import DecisionBasis, DesiredState, Intent
from middlewatch.model.attempt import TAKES_OVER, AttemptEnd, EndedBy
from middlewatch.model.gates import GateName, Gates
from middlewatch.model.issue import NO_FAULT
from middlewatch.model.optin import JobMode
from middlewatch.model.scheduler import ENDED, JobState
from middlewatch.model.signal import Domain
from middlewatch.remediation.budgets import budgets_for, spent
from middlewatch.remediation.exclusions import blamed_nodes, exclusions_for
from middlewatch.remediation.inputs import DecisionInputs
from middlewatch.remediation.outcome import (
    Advise,
    Budget,
    Dropped,
    Outcome,
    Refrain,
    RefrainBasis,
)
from middlewatch.remediation.standing import standing
from middlewatch.remediation.words import about_nodes, cancelled_by, explanation, how_it_ended

WAIT_FOR_PARTITIONS = timedelta(seconds=10)
"""How long a decision that wants to exclude a node waits for a scheduler that does not say what
its partitions can spare."""

STOPPED_BEFORE = timedelta(minutes=10)
"""How long before its end a program may have been told to stop for that to be the reason. Clouds
give two minutes' notice, Slurm's grace times are shorter than ten."""


"""Dependencies that a failed end lets go: that job is then the successor."""


def decide(inputs: DecisionInputs) -> Outcome:
    """The outcome for one attempt and its governing issue. Same inputs, same outcome."""
    attempt = inputs.attempt
    if inputs.mode is JobMode.OFF:
        return Refrain(
            RefrainBasis.NOT_OPTED_IN,
            f"The job's comment does not opt in for environment {attempt.cluster.environment}.",
        )
    if attempt.vanished:
        return Refrain(
            RefrainBasis.VANISHED,
            "The scheduler came back from an older state and no longer knows this attempt.",
        )
    if inputs.issue.failure_class in NO_FAULT:
        return Refrain(RefrainBasis.NO_FAILURE, "The issue is no failure of the attempt.")
    settled = standing(inputs)
    if settled is not None:
        return settled
    if attempt.end is None:
        return _while_it_lives(inputs)
    return _after_its_end(inputs, attempt.end)


# -- the attempt lives ------------------------------------------------------------------------


def _while_it_lives(inputs: DecisionInputs) -> Outcome:
    attempt = inputs.attempt
    if attempt.completing or attempt.state in ENDED:
        return Refrain(
            RefrainBasis.WAITING_FOR_END, "The attempt is ending; the scheduler will say how."
        )
    match attempt.state:
        case JobState.RUNNING:
            return _running(inputs)
        case JobState.SUSPENDED:
            return Refrain(RefrainBasis.NOT_RUNNING, "The attempt is suspended.")
        case _:
            return Refrain(
                RefrainBasis.NOT_RUNNING, f"The attempt is {attempt.state.value}, not running."
            )


def _running(inputs: DecisionInputs) -> Outcome:
    seen = inputs.witnesses
    if inputs.issue.failure_class.startswith("slow_"):
        return _slow(inputs)
    stopping = _stopped_by_its_own_word(inputs)
    if stopping is not None:
        return Refrain(
            RefrainBasis.WAITING_FOR_END,
            f"{stopping.explanation} It still runs: the scheduler will say how it ended.",
        )
    basis: DecisionBasis | None = None
    ground = ""
    if seen.second and (seen.something_failed or seen.silence):
        basis = DecisionBasis.SECOND_WITNESS
        besides = "the failure in its log" if seen.something_failed else "its silence"
        ground = f"{', '.join(seen.second[:3])} confirms {besides}"
    elif seen.launcher_end_elsewhere:
        basis = DecisionBasis.LAUNCHER_REPORTED_END
        ground = "the launcher says that the workers have ended"
    elif seen.no_progress_after_failure and seen.something_failed:
        basis, ground = _no_progress(inputs)
    elif seen.silence and not seen.something_failed and (where := _silence_is_enough(inputs)):
        basis = DecisionBasis.SILENCE
        ground = f"no progress for longer than its limit, and the policy acts on silence {where}"
    elif seen.numbers and inputs.policy.act_on_numbers:
        basis = DecisionBasis.NUMBERS
        ground = f"{seen.numbers}, and the policy acts on numbers"
    if basis is not None:
        return _restart(inputs, basis, f"Still running, but {ground}.", may_end_running=True)
    if seen.numbers and not seen.something_failed:
        return Refrain(
            RefrainBasis.NUMBERS_ALONE,
            f"It runs on with numbers that are none ({seen.numbers}): its newest checkpoints may "
            "hold them too, so that is told and left to its owner.",
        )
    if seen.overdue and not seen.silence and not seen.something_failed:
        return Refrain(
            RefrainBasis.SILENCE_ALONE,
            "The attempt is silent for longer than this phase should take, and not yet for longer "
            "than it may: an alarm, no action.",
        )
    if seen.silence and not seen.something_failed and not seen.second:
        return Refrain(
            RefrainBasis.SILENCE_ALONE,
            "The attempt is silent and no witness of another kind says that it hangs: an alarm, no "
            f"action. {_about_silence(inputs)}",
        )
    return Refrain(
        RefrainBasis.WAITING_FOR_WITNESS,
        "The attempt still runs. A line alone does not end it: waiting for its end, for a second "
        "witness, or for progress to stay away.",
    )


def _silence_is_enough(inputs: DecisionInputs) -> str:
    """Where the policy lets silence alone end this attempt; empty: nowhere."""
    policy, partitions = inputs.policy, inputs.attempt.partitions
    if policy.act_on_silence:
        return "everywhere"
    if partitions and set(partitions) <= set(policy.act_on_silence_partitions):
        return f"in partition {', '.join(partitions)}"
    return ""


def _about_silence(inputs: DecisionInputs) -> str:
    partitions = ", ".join(inputs.attempt.partitions) or "(not known)"
    return f"Policy: silence alone is not acted on in partition {partitions}."


def _slow(inputs: DecisionInputs) -> Outcome:
    """A slow job works. It is moved only away from a node that is seen to slow it, and only where
    the site's policy and the job's own opt-in (a gate of its class) want that."""
    measured = inputs.witnesses.slow or "it has lost speed"
    if not blamed_nodes(inputs.verdict):
        return Refrain(
            RefrainBasis.SLOW_WITHOUT_NODE,
            f"Slow ({measured}), but no node is seen to be at fault: another place would not "
            "help for any reason that is known.",
        )
    if not inputs.policy.act_on_slow:
        return Refrain(
            RefrainBasis.SLOW_ALONE,
            f"Slow ({measured}); the policy does not act on slowness: an alarm, no action.",
        )
    ground = f"Still running, but slow: {measured}; the policy moves slow jobs off such a node."
    return _restart(inputs, DecisionBasis.SLOW_NODE, ground, may_end_running=True)


def _no_progress(inputs: DecisionInputs) -> tuple[DecisionBasis, str]:
    seen = inputs.witnesses
    if seen.launcher_end_in_log:
        return (
            DecisionBasis.LAUNCHER_REPORTED_END,
            "its launcher reported the workers' end and no progress followed within the grace",
        )
    if seen.watchdog_lines and not seen.failure_lines:
        return (
            DecisionBasis.WATCHDOG_AND_NO_PROGRESS,
            "a communication watchdog reported a hang and no progress followed within the grace",
        )
    return (
        DecisionBasis.FAILURE_LINE_AND_NO_PROGRESS,
        "it printed a failure and no progress followed within the grace",
    )


# -- the attempt has ended --------------------------------------------------------------------


def _after_its_end(inputs: DecisionInputs, end: AttemptEnd) -> Outcome:
    policy = inputs.policy
    match end.by:
        case EndedBy.FAILURE | EndedBy.OUT_OF_MEMORY:
            stopped = _stopped_by_its_own_word(inputs)
            told = (end.at or end.learned_at) - inputs.issue.happened_at
            if stopped is not None and told <= STOPPED_BEFORE:
                return stopped
            return _ended(inputs, DecisionBasis.ATTEMPT_ENDED_IN_FAILURE, how_it_ended(end))
        case EndedBy.NODE_FAILURE:
            return _ended(inputs, DecisionBasis.NODE_FAILURE, "A node failed under it.")
        case EndedBy.LAUNCH:
            if end.state is JobState.FAILED:
                why = "The scheduler could not start it."
                return _ended(inputs, DecisionBasis.ATTEMPT_ENDED_IN_FAILURE, why)
            if end.state is JobState.CANCELLED:
                # So `superseded` calls a start whose successor Slurm holds for its prolog. Each such
                # start takes a node out of service, and the job itself may be why.
                return Refrain(
                    RefrainBasis.HELD_AFTER_BROKEN_START,
                    "The scheduler could not start it, requeued it and holds it. Where the job itself "
                    "breaks its starts, each one costs a node: a person lets it go (scontrol release "
                    f"{inputs.attempt.job_id}) once the cause is mended.",
                )
            return Refrain(
                RefrainBasis.NOT_RESTARTABLE_STATE,
                f"The scheduler could not start it and left it {end.state.value}: "
                "a requeue is the scheduler's own there.",
            )
        case EndedBy.COMPLETION:
            return Refrain(RefrainBasis.COMPLETED, "The attempt completed: nothing to restart.")
        case EndedBy.OWNER | EndedBy.OPERATOR | EndedBy.SOMEBODY:
            if policy.restart_after_person_cancelled:
                return _ended(
                    inputs, DecisionBasis.ATTEMPT_ENDED_IN_FAILURE, how_it_ended(end), end.state
                )
            return Refrain(RefrainBasis.CANCELLED_BY_PERSON, cancelled_by(end.by))
        case EndedBy.PREEMPTION:
            if policy.restart_on_preemption:
                return _ended(
                    inputs, DecisionBasis.ATTEMPT_ENDED_IN_FAILURE, how_it_ended(end), end.state
                )
            return Refrain(
                RefrainBasis.PREEMPTED, "Pre-empted: it made room for others by the site's rules."
            )
        case EndedBy.TIME_LIMIT:
            if policy.restart_on_time_limit:
                return _ended(
                    inputs, DecisionBasis.ATTEMPT_ENDED_IN_FAILURE, how_it_ended(end), end.state
                )
            return Refrain(
                RefrainBasis.TIME_LIMIT,
                "It used up its time limit, and the policy leaves it there.",
            )
        case EndedBy.DEADLINE:
            return Refrain(RefrainBasis.DEADLINE, "Its deadline has passed.")
        case EndedBy.REQUEUE:
            return _requeued(inputs)
        case EndedBy.UNKNOWN:
            return Refrain(RefrainBasis.END_UNKNOWN, "How the attempt ended is not known.")
        case _:
            assert_never(end.by)


def _stopped_by_its_own_word(inputs: DecisionInputs) -> Refrain | None:
    """Other schedulers and clouds only see a program fail that they stopped. Where nothing but its
    being stopped is known of it, the log is believed in that, for it keeps us from acting."""
    policy = inputs.policy
    match inputs.issue.failure_class:
        case "preemption" if not policy.restart_on_preemption:
            return Refrain(RefrainBasis.PREEMPTED, "Its log says that it was pre-empted.")
        case "time_limit" if not policy.restart_on_time_limit:
            return Refrain(RefrainBasis.TIME_LIMIT, "Its log says that its time was used up.")
        case "user_cancel" if not policy.restart_after_person_cancelled:
            return Refrain(
                RefrainBasis.CANCELLED_BY_PERSON, "Its log says that it was interrupted."
            )
        case _:
            return None


def _ended(
    inputs: DecisionInputs, basis: DecisionBasis, ground: str, also: JobState | None = None
) -> Outcome:
    """A restart after an end; ``also`` is the state beyond the plain failures that allows it."""
    if _successor_stands(inputs):
        return _requeued(inputs)
    if _history(inputs):
        return Refrain(
            RefrainBasis.ENDED_BEFORE_SEEN,
            "It had ended long before it was first seen: somebody may have dealt with it.",
        )
    over = sorted(d.job_id for d in inputs.attempt.dependents if d.kind in TAKES_OVER)
    if over:
        return Refrain(
            RefrainBasis.SUCCEEDED_BY_DEPENDENT,
            f"Its end let {', '.join(over[:5])} of its chain go: that is the successor.",
        )
    after = () if also is None else (also.value,)
    return _restart(inputs, basis, ground, may_restart_after=after)


def _requeued(inputs: DecisionInputs) -> Outcome:
    """Somebody has requeued it: only nodes to avoid can still be added, before it runs again."""
    successor = inputs.successor
    ours = inputs.existing is not None and inputs.existing.active
    pending = successor is not None and successor.state is JobState.PENDING
    if ours and inputs.existing is not None:
        # Our own restart is under way: late evidence may add a node to it, nothing else.
        return _restart(
            inputs,
            inputs.existing.basis,
            inputs.existing.explanation,
            may_end_running=inputs.existing.may_end_running,
            may_restart_after=inputs.existing.may_restart_after,
            weigh=False,
        )
    if not pending or not blamed_nodes(inputs.verdict):
        return Refrain(
            RefrainBasis.REQUEUED_ALREADY,
            "It has been requeued already"
            + (" and runs again." if successor is not None and not pending else ".")
            + " No node is to be added to its exclusions.",
        )
    basis = (
        DecisionBasis.NODE_FAILURE
        if inputs.issue.failure_class == "node_failure"
        else DecisionBasis.ATTEMPT_ENDED_IN_FAILURE
    )
    ground = "It has been requeued already and waits: the successor shall avoid the bad node."
    outcome = _restart(inputs, basis, ground, weigh=False)
    if isinstance(outcome, Advise) and not outcome.intent.exclusions:
        return Refrain(
            RefrainBasis.REQUEUED_ALREADY,
            "It has been requeued already, and no node can be excluded. "
            + about_nodes(outcome.exclusions),
        )
    return outcome


def _history(inputs: DecisionInputs) -> bool:
    """A watcher that starts finds what failed before its time in the scheduler's memory."""
    end = inputs.attempt.end
    if end is None or end.at is None:
        return False
    late = timedelta(seconds=inputs.policy.seen_after_end_s)
    return inputs.attempt.first_seen_at - end.at > late


def _successor_stands(inputs: DecisionInputs) -> bool:
    return inputs.successor is not None and not inputs.successor.vanished


# -- the restart ------------------------------------------------------------------------------


def _restart(
    inputs: DecisionInputs,
    basis: DecisionBasis,
    ground: str,
    *,
    may_end_running: bool = False,
    may_restart_after: tuple[str, ...] = (),
    weigh: bool = True,
) -> Outcome:
    """Advise RESTARTED, or say what forbids it. ``weigh`` is False where no restart of ours is
    decided (it is under way, or the scheduler's own): budgets are recorded, but do not forbid."""
    attempt = inputs.attempt
    budgets = budgets_for(inputs)
    if weigh:
        forbidden = _forbidden(inputs, budgets)
        if forbidden is not None:
            return forbidden
    if not inputs.cluster_seen and _only_ownership_is_closed(inputs.gates):
        return Refrain(
            RefrainBasis.WAITING_FOR_SCHEDULER,
            "The scheduler does not answer: a gate that nobody could see would be closed for ever.",
            budgets,
        )
    exclusions = exclusions_for(inputs)
    late = inputs.now - inputs.issue.learned_at < WAIT_FOR_PARTITIONS
    unseen = any(d.why is Dropped.PARTITIONS_UNKNOWN for d in exclusions.dropped)
    if unseen and late:
        return Refrain(
            RefrainBasis.WAITING_FOR_PARTITIONS,
            f"A node should be excluded, and {inputs.partitions_unknown or 'nobody could look'}: "
            "waiting for a moment before deciding without it.",
            budgets,
        )
    intent = Intent(
        desired=DesiredState.RESTARTED,
        exclusions=exclusions.nodes,
        owner=attempt.cluster,
        basis=basis,
        gates=inputs.gates,
        policy_version=inputs.policy.version,
        may_end_running=may_end_running,
        may_restart_after=may_restart_after,
        failure_class=inputs.issue.failure_class,
        issue_ids=(inputs.issue.id,),
        explanation=explanation(inputs, ground, exclusions, budgets),
    )
    anew = inputs.existing is not None and not inputs.existing.active
    return Advise(intent, budgets, exclusions, decided_anew=anew)


def _only_ownership_is_closed(gates: Gates) -> bool:
    return {gate.name for gate in gates.gates if not gate.open} == {GateName.OWNERSHIP}


def _forbidden(inputs: DecisionInputs, budgets: tuple[Budget, ...]) -> Refrain | None:
    if inputs.attempt.requeueable is False:
        return Refrain(
            RefrainBasis.NOT_REQUEUEABLE,
            "The job may not be requeued (Requeue=0): submit it with `#SBATCH --requeue` to let "
            "it be restarted.",
            budgets,
        )
    program = inputs.verdict.domain in {Domain.APPLICATION, Domain.USER}
    if program and not inputs.policy.restart_on_application_failure:
        return Refrain(
            RefrainBasis.APPLICATION_FAILURE,
            f"{inputs.verdict.failure_class} is a failure of the program, and the policy does not "
            "restart those.",
            budgets,
        )
    over = spent(budgets)
    if over is not None:
        note = f" ({over.note})" if over.note else ""
        return Refrain(
            RefrainBasis.BUDGET_SPENT,
            f"{over.name.value}: {over.used} of {over.limit} used{note}. Somebody has to look.",
            budgets,
        )
    return None
