"""What must hold of every decision, whatever the signals, the history and the gates."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from middlewatch.attribution import governing, issues_from, signals_of, verdict_for
from middlewatch.attribution.classes import domain_of
from middlewatch.model.advice import Disposition, Reason, Status, revised
from middlewatch.model.attempt import Attempt, Dependent, EndedBy
from middlewatch.model.gates import Mode
from middlewatch.model.optin import JobMode
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import JobState, PartitionView
from middlewatch.model.signal import Progress, Signal, SignalKind, SourceKind
from middlewatch.remediation import (
    Advise,
    BudgetName,
    DecisionInputs,
    History,
    PastAttempt,
    Successor,
    decide,
    witnesses_of,
)
from middlewatch.remediation.budgets import restarts_without_checkpoint
from tests.unit.attribution.made import at, attempt, ended, signal
from tests.unit.remediation.made import advice, gates, past

NODES = tuple(f"n{n}" for n in range(1, 9))
CLASSES = (
    "gpu_ecc_uncorrectable",
    "user_exception",
    "peer_connection_lost",
    "storage_full",
    "ib_link_error",
    "host_oom",
    "silent_hang",
    "site_specific",
)
nodes = st.lists(st.sampled_from(NODES), max_size=4, unique=True).map(tuple)
steps = st.none() | st.integers(0, 200)


@st.composite
def attempts(draw: st.DrawFn) -> Attempt:
    allocation = draw(st.lists(st.sampled_from(NODES), min_size=1, max_size=4, unique=True))
    common: dict[str, Any] = {
        "nodes": tuple(allocation),
        "node_count": len(allocation),
        "excluded_nodes": draw(nodes),
        "required_nodes": draw(st.just(()) | st.just((allocation[0],))),
        "requeueable": draw(st.sampled_from([True, True, True, None, False])),
        "dependents": draw(
            st.just(())
            | st.just((Dependent("43", "afterany"),))
            | st.just((Dependent("43", "afterok"),))
        ),
    }
    if draw(st.booleans()):
        return attempt(
            state=draw(st.sampled_from([JobState.RUNNING] * 3 + [JobState.PENDING])),
            completing=draw(st.sampled_from([False] * 3 + [True])),
            **common,
        )
    return ended(draw(st.sampled_from(list(EndedBy))), **common)


@st.composite
def signals(draw: st.DrawFn, kinds: tuple[SignalKind, ...] = tuple(SignalKind)) -> Signal:
    failure_class = draw(st.sampled_from(CLASSES))
    kind = draw(st.sampled_from(kinds))
    made = signal(
        kind,
        draw(st.integers(0, 100)),
        failure_class,
        position=str(draw(st.integers(0, 50))),
        nodes=draw(nodes),
        ranks=tuple(draw(st.lists(st.integers(0, 7), max_size=2))),
        domain=domain_of(failure_class),
    )
    if kind is SignalKind.SECOND_WITNESS and draw(st.booleans()):
        made = replace(made, source=replace(made.source, kind=SourceKind.LOG))
    return made


def histories() -> st.SearchStrategy[History]:
    one = st.builds(
        past,
        st.integers(0, 9),
        restarted_by_us=st.booleans(),
        ended_by=st.sampled_from(list(EndedBy)),
        blamed_nodes=nodes,
        excluded_by_us=nodes,
        last_step=steps,
        checkpoint_step=steps,
        loaded_step=steps,
    )
    return st.lists(one, max_size=5).map(lambda some: History(tuple(some), weighs_progress=True))


@st.composite
def situations(draw: st.DrawFn, *, partitions_known: bool | None = None) -> DecisionInputs | None:
    target = draw(attempts())
    given_signals = tuple(
        replace(s, attempt_id=target.id) for s in draw(st.lists(signals(), min_size=1, max_size=8))
    )
    issues = issues_from(given_signals, (), target)
    issue = governing(issues)
    if issue is None:
        return None
    known = draw(st.booleans()) if partitions_known is None else partitions_known
    usable = draw(st.lists(st.sampled_from(NODES), unique=True, max_size=8))
    status = draw(
        st.none()
        | st.builds(
            Status,
            st.just(1),
            st.just(Disposition.ABANDONED),
            st.sampled_from([Reason.NOT_PERMITTED, Reason.STALE_ATTEMPT]),
            st.integers(0, 120).map(at),
        )
    )
    return DecisionInputs(
        attempt=target,
        mode=draw(st.sampled_from([JobMode.ACTION, JobMode.ACTION, JobMode.OBSERVE, JobMode.OFF])),
        issue=issue,
        verdict=verdict_for(issue, given_signals, target, at(60)),
        witnesses=witnesses_of(signals_of(issue, given_signals)),
        progress=draw(
            st.none()
            | st.builds(
                Progress,
                st.just(target.id),
                last_step=steps,
                checkpoint_step=steps,
                loaded_step=steps,
            )
        ),
        history=draw(histories()),
        policy=Policy(
            attempts_without_checkpoint=draw(st.integers(0, 4)),
            restarts_without_progress=draw(st.integers(1, 4)),
            max_exclusions=draw(st.integers(0, 4)),
            min_spare_nodes=draw(st.integers(0, 2)),
            act_on_silence=draw(st.booleans()),
            act_on_silence_partitions=draw(st.sampled_from([(), ("batch",), ("other",)])),
            restart_on_time_limit=draw(st.booleans()),
        ),
        gates=gates(target, mode=draw(st.sampled_from(list(Mode)))),
        partitions=(PartitionView("batch", NODES, tuple(usable)),) if known else None,
        partitions_unknown="" if known else "no answer",
        successor=draw(
            st.none()
            | st.builds(
                Successor, st.just(1), st.sampled_from([JobState.PENDING, JobState.RUNNING])
            )
        ),
        existing=draw(st.none() | st.just(advice(target, status))),
        now=at(draw(st.integers(60, 300))),
    )


@given(situations())
def test_the_same_inputs_give_the_same_outcome(made: DecisionInputs | None) -> None:
    if made is not None:
        assert decide(made) == decide(made)


@given(situations())
def test_a_decision_twice_makes_one_generation(made: DecisionInputs | None) -> None:
    if made is None:
        return
    outcome = decide(made)
    if not isinstance(outcome, Advise):
        return
    before = made.existing or advice(made.attempt)
    once = revised(before, outcome.intent, made.now, decided_anew=outcome.decided_anew)
    again = decide(replace(made, existing=once, now=made.now + timedelta(seconds=1)))
    if isinstance(again, Advise):
        assert not again.decided_anew
        twice = revised(once, again.intent, made.now + timedelta(seconds=1))
        assert twice.generation == once.generation


@given(situations())
def test_evidence_excludes_only_nodes_of_the_allocation_or_of_the_ledger(
    made: DecisionInputs | None,
) -> None:
    if made is None:
        return
    assert set(made.verdict.nodes) <= set(made.attempt.nodes)
    outcome = decide(made)
    if isinstance(outcome, Advise):
        ledger = {
            node for p in made.history.attempts for node in (*p.blamed_nodes, *p.excluded_by_us)
        }
        standing = set() if made.existing is None else set(made.existing.exclusions)
        assert set(outcome.intent.exclusions) <= set(made.attempt.nodes) | ledger | standing
        assert not set(outcome.intent.exclusions) & set(made.attempt.required_nodes)
        assert len(outcome.intent.exclusions) <= made.policy.max_exclusions


@given(situations(partitions_known=True))
def test_enough_nodes_are_left_wherever_anything_is_excluded(made: DecisionInputs | None) -> None:
    if made is None or made.partitions is None:
        return
    outcome = decide(made)
    if isinstance(outcome, Advise) and outcome.intent.exclusions:
        excluded = set(outcome.intent.exclusions) | set(made.attempt.excluded_nodes)
        left = set(made.partitions[0].usable) - excluded
        assert len(left) >= made.attempt.node_count + made.policy.min_spare_nodes


@given(situations())
def test_a_closed_gate_never_gives_open_advice(made: DecisionInputs | None) -> None:
    if made is None:
        return
    outcome = decide(made)
    if isinstance(outcome, Advise):
        assert outcome.intent.gates == made.gates
        if not made.gates.open:
            assert not outcome.intent.gates.open


@given(situations())
def test_gates_do_not_change_what_is_decided(made: DecisionInputs | None) -> None:
    if made is None:
        return
    other = decide(replace(made, gates=gates(made.attempt, mode=Mode.MONITOR)))
    outcome = decide(made)
    if isinstance(outcome, Advise):
        assert isinstance(other, Advise)
        assert other.intent.exclusions == outcome.intent.exclusions
        assert other.decided_anew == outcome.decided_anew
    else:
        assert other == outcome


@given(situations())
def test_without_opt_in_there_is_no_advice(made: DecisionInputs | None) -> None:
    if made is not None:
        assert not isinstance(decide(replace(made, mode=JobMode.OFF)), Advise)


@given(
    st.lists(signals(kinds=(SignalKind.SILENCE, SignalKind.CANNOT_READ)), min_size=1, max_size=6)
)
def test_silence_alone_never_ends_a_running_attempt(some: list[Signal]) -> None:
    target = attempt()
    issue = governing(issues_from(some, (), target))
    if issue is None:
        return
    outcome = decide(
        DecisionInputs(
            attempt=target,
            mode=JobMode.ACTION,
            issue=issue,
            verdict=verdict_for(issue, some, target, at(60)),
            witnesses=witnesses_of(signals_of(issue, some)),
            progress=None,
            history=History(),
            policy=Policy(),
            gates=gates(target),
            partitions=None,
            partitions_unknown="no answer",
            successor=None,
            existing=None,
            now=at(3600),
        )
    )
    assert not isinstance(outcome, Advise)


LOG_KINDS = (
    SignalKind.FAILURE_LINE,
    SignalKind.WATCHDOG_LINE,
    SignalKind.CASCADE_LINE,
    SignalKind.LAUNCHER_END,
    SignalKind.SILENCE,
    SignalKind.RECOVERED,
)


@given(st.lists(signals(kinds=LOG_KINDS), min_size=1, max_size=12))
def test_what_the_log_alone_says_never_ends_a_running_attempt(some: list[Signal]) -> None:
    target = attempt()
    issue = governing(issues_from(some, (), target))
    if issue is None:
        return
    seen = witnesses_of(signals_of(issue, some))
    made = DecisionInputs(
        attempt=target,
        mode=JobMode.ACTION,
        issue=issue,
        verdict=verdict_for(issue, some, target, at(60)),
        witnesses=seen,
        progress=None,
        history=History(),
        policy=Policy(),
        gates=gates(target),
        partitions=(PartitionView("batch", NODES, NODES),),
        partitions_unknown="",
        successor=None,
        existing=None,
        now=at(3600),
    )
    assert not isinstance(decide(made), Advise)


@given(situations())
def test_a_running_attempt_is_ended_only_with_a_witness_or_after_the_grace(
    made: DecisionInputs | None,
) -> None:
    if made is None or made.attempt.end is not None:
        return
    outcome = decide(made)
    if isinstance(outcome, Advise):
        seen = made.witnesses
        assert made.attempt.state is JobState.RUNNING
        assert outcome.intent.may_end_running
        assert (
            seen.second
            or seen.no_progress_after_failure
            or seen.launcher_end_elsewhere
            or (seen.silence and made.policy.act_on_silence)
            or (
                seen.silence
                and set(made.attempt.partitions) <= set(made.policy.act_on_silence_partitions)
            )
        )


@given(situations())
def test_no_restart_is_given_against_a_budget(made: DecisionInputs | None) -> None:
    if made is None:
        return
    outcome = decide(made)
    assert isinstance(outcome, Advise) or outcome.basis
    if isinstance(outcome, Advise) and made.existing is None and made.successor is None:
        assert all(budget.allowed for budget in outcome.budgets if budget.applies)
        assert [budget.name for budget in outcome.budgets] == list(BudgetName)


@given(situations())
def test_completed_and_cancelled_attempts_are_never_restarted(made: DecisionInputs | None) -> None:
    if made is None or made.attempt.end is None:
        return
    untouchable = {
        EndedBy.COMPLETION,
        EndedBy.OWNER,
        EndedBy.OPERATOR,
        EndedBy.SOMEBODY,
        EndedBy.DEADLINE,
        EndedBy.PREEMPTION,
        EndedBy.UNKNOWN,
    }
    if made.attempt.end.by in untouchable:
        assert not isinstance(decide(made), Advise)


@given(st.lists(signals(), max_size=12), st.lists(signals(), max_size=4))
def test_issues_of_the_same_signals_are_the_same_and_ids_outlive_new_ones(
    first: list[Signal], more: list[Signal]
) -> None:
    target = attempt()
    early = issues_from(first, (), target)
    assert issues_from(first, early, target) == early
    assert len({issue.id for issue in early}) == len(early)
    late = issues_from((*first, *more), early, target)
    assert {issue.id for issue in early} <= {issue.id for issue in late}


@given(histories())
def test_a_new_checkpoint_always_refunds(history: History) -> None:
    line: list[PastAttempt] = list(history.attempts)
    best = max(
        (s for p in line for s in (p.checkpoint_step, p.loaded_step) if s is not None), default=-1
    )
    newer = past(10, checkpoint_step=best + 1, loaded_step=None)
    assert restarts_without_checkpoint([*line, newer]) == 0
