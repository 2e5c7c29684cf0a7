"""Whom an issue implicates, and on which ground."""

from __future__ import annotations

import pytest

from middlewatch.attribution import issues_from, same_belief, verdict_for
from middlewatch.attribution.classes import Depth, depth_of, domain_of
from middlewatch.attribution.verdict import own_node, ranks_on_nodes
from middlewatch.model.attempt import Attempt
from middlewatch.model.issue import Confidence, Verdict, VerdictBasis
from middlewatch.model.signal import Domain, Signal, SignalKind
from tests.unit.attribution.made import (
    at,
    attempt,
    ecc,
    end_signal,
    exception,
    lost_peer,
    signal,
    watchdog,
)


def verdict(*signals: Signal, of: Attempt | None = None) -> Verdict:
    where = of or attempt()
    (issue,) = issues_from(signals, (), where)
    return verdict_for(issue, signals, where, at(60))


def test_a_line_that_names_a_node_of_the_allocation_implicates_it() -> None:
    found = verdict(ecc(0, nodes=("n2",), ranks=(3,)))
    assert (found.domain, found.nodes, found.ranks) == (Domain.HARDWARE, ("n2",), (3,))
    assert found.basis is VerdictBasis.LINE_NAMES_NODE
    assert found.confidence is Confidence.HIGH


def test_a_node_outside_the_allocation_is_dropped_and_said() -> None:
    found = verdict(ecc(0, nodes=("n7", "n1")))
    assert found.nodes == ("n1",)
    assert "n7" in found.explanation
    assert "not believed" in found.explanation


def test_without_a_known_allocation_no_node_is_believed() -> None:
    assert verdict(ecc(0, nodes=("n1",)), of=attempt(nodes=(), node_count=0)).nodes == ()


@pytest.mark.parametrize(
    ("name", "allocation", "meant"),
    [
        ("n2", ("n1", "n2"), "n2"),
        ("n2.site.example", ("n1", "n2"), "n2"),
        ("N2", ("n1", "n2"), "n2"),
        ("n2", ("n1.a", "n2.a"), "n2.a"),
        ("n2", ("n2.a", "n2.b"), None),
        ("n2.b", ("n2.a",), None),
        ("n22", ("n2",), None),
        ("", ("n2",), None),
        (".", ("n2",), None),
    ],
)
def test_names_are_compared_as_nodes(
    name: str, allocation: tuple[str, ...], meant: str | None
) -> None:
    assert own_node(name, allocation) == meant


def test_a_rank_is_its_node_where_there_is_one_node() -> None:
    found = verdict(ecc(0, ranks=(3,)), of=attempt(nodes=("n1",), node_count=1))
    assert (found.nodes, found.basis) == (("n1",), VerdictBasis.LINE_NAMES_RANK)


def test_a_rank_is_not_guessed_onto_one_of_several_nodes() -> None:
    found = verdict(ecc(0, ranks=(3,)))
    assert (found.nodes, found.ranks) == ((), (3,))
    assert "not known" in found.explanation


def test_a_rank_is_on_the_node_that_another_line_names_with_it() -> None:
    launcher = signal(SignalKind.CASCADE_LINE, 1, nodes=("n2",), ranks=(3,))
    found = verdict(ecc(0, ranks=(3,)), launcher)
    assert found.nodes == ("n2",)


def test_lines_that_contradict_each_other_map_no_rank() -> None:
    lines = (
        signal(SignalKind.CASCADE_LINE, 1, nodes=("n1",), ranks=(3,)),
        signal(SignalKind.CASCADE_LINE, 2, nodes=("n2",), ranks=(3, 4)),
    )
    assert ranks_on_nodes(lines, attempt()) == {4: "n2"}


def test_consequences_blame_nobody() -> None:
    found = verdict(exception(0), signal(SignalKind.CASCADE_LINE, 1, nodes=("n1",), ranks=(0,)))
    assert found.nodes == ()


def test_the_same_symptom_on_other_nodes_blames_only_the_first() -> None:
    found = verdict(lost_peer(0, nodes=("n1",)), lost_peer(1, nodes=("n2",)))
    assert found.nodes == ("n1",)


def test_the_same_proof_on_another_node_implicates_both() -> None:
    found = verdict(ecc(0, nodes=("n1",)), ecc(1, nodes=("n2",)))
    assert found.nodes == ("n1", "n2")


def test_a_witness_of_another_kind_adds_its_node() -> None:
    witness = signal(SignalKind.SECOND_WITNESS, 5, nodes=("n2",), identity="dcgm")
    assert verdict(watchdog(0), witness).nodes == ("n2",)


def test_a_failed_node_is_the_schedulers_word() -> None:
    found = verdict(exception(0), end_signal(9, "node_failure", nodes=("n2",)))
    assert (found.domain, found.nodes) == (Domain.HARDWARE, ("n2",))
    assert (found.basis, found.confidence) == (VerdictBasis.SCHEDULER_FACT, Confidence.HIGH)


def test_a_failed_node_that_accounting_names_is_implicated_and_others_are_not() -> None:
    signals = (exception(0), end_signal(9, "node_failure"))
    (issue,) = issues_from(signals, (), attempt())
    found = verdict_for(issue, signals, attempt(), at(60), failed_nodes=("n2", "n9"))
    assert found.nodes == ("n2",)
    assert "n9" in found.explanation


def test_what_accounting_says_of_nodes_is_heard_only_about_a_node_failure() -> None:
    signals = (exception(0),)
    (issue,) = issues_from(signals, (), attempt())
    assert verdict_for(issue, signals, attempt(), at(60), failed_nodes=("n2",)).nodes == ()


def test_a_line_about_the_failed_node_names_it_for_a_scheduler_that_does_not() -> None:
    line = signal(SignalKind.FAILURE_LINE, 8, "node_failure", nodes=("n1",))
    assert verdict(line, end_signal(9, "node_failure")).nodes == ("n1",)


def test_a_node_failure_without_a_name_says_so() -> None:
    assert "did not say which" in verdict(end_signal(9, "node_failure")).explanation


@pytest.mark.parametrize(
    ("cause", "domain", "basis", "confidence"),
    [
        (exception(0), Domain.APPLICATION, VerdictBasis.PATTERN_DOMAIN, Confidence.MEDIUM),
        (lost_peer(0), Domain.UNKNOWN, VerdictBasis.NOTHING, Confidence.LOW),
        (
            signal(SignalKind.SILENCE, 0),
            Domain.UNKNOWN,
            VerdictBasis.SILENCE_ONLY,
            Confidence.LOW,
        ),
        (
            end_signal(0, "time_limit"),
            Domain.SCHEDULER,
            VerdictBasis.SCHEDULER_FACT,
            Confidence.HIGH,
        ),
        (end_signal(0), Domain.UNKNOWN, VerdictBasis.SCHEDULER_FACT, Confidence.LOW),
        (
            signal(SignalKind.FAILURE_LINE, 0, "storage_full"),
            Domain.STORAGE,
            VerdictBasis.PATTERN_DOMAIN,
            Confidence.MEDIUM,
        ),
        # The pattern's own domain goes before the usual one of the class.
        (
            signal(SignalKind.FAILURE_LINE, 0, "peer_connection_lost", domain=Domain.NETWORK),
            Domain.NETWORK,
            VerdictBasis.PATTERN_DOMAIN,
            Confidence.MEDIUM,
        ),
    ],
)
def test_domain_and_ground_follow_from_the_cause(
    cause: Signal, domain: Domain, basis: VerdictBasis, confidence: Confidence
) -> None:
    found = verdict(cause)
    assert (found.domain, found.basis, found.confidence) == (domain, basis, confidence)


def test_a_cause_that_cannot_be_read_any_more_implicates_nobody() -> None:
    (issue,) = issues_from((ecc(0, nodes=("n1",)),), (), attempt())
    found = verdict_for(issue, (), attempt(), at(60))
    assert (found.nodes, found.basis) == ((), VerdictBasis.NOTHING)


def test_two_verdicts_of_different_times_can_be_the_same_belief() -> None:
    signals = (ecc(0, nodes=("n1",)),)
    (issue,) = issues_from(signals, (), attempt())
    early = verdict_for(issue, signals, attempt(), at(1))
    late = verdict_for(issue, signals, attempt(), at(2))
    assert early != late
    assert same_belief(early, late)
    assert not same_belief(early, verdict_for(issue, (), attempt(), at(1)))


def test_a_class_that_nobody_knows_is_a_symptom_of_unknown_domain() -> None:
    assert depth_of("site_specific") is Depth.SYMPTOM
    assert domain_of("site_specific") is Domain.UNKNOWN
