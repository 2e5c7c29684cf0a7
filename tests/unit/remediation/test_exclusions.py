"""Which nodes a restart avoids, and which it does not although evidence names them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from middlewatch.model.attempt import EndedBy
from middlewatch.model.issue import Confidence
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import PartitionView
from middlewatch.model.signal import Domain, Signal, SignalKind
from middlewatch.remediation import (
    Dropped,
    DroppedNode,
    History,
    RefrainBasis,
    blamed_nodes,
    decide,
)
from middlewatch.remediation.exclusions import exclusions_for
from tests.unit.attribution.made import at, ecc, ended, exception, signal
from tests.unit.remediation.made import BATCH, advice, advised, ground, inputs, past

FAILED = ended(EndedBy.FAILURE)


def line(failure_class: str, domain: Domain) -> Signal:
    return signal(SignalKind.FAILURE_LINE, 0, failure_class, domain=domain, nodes=("n1",))


@pytest.mark.parametrize(
    ("evidence", "excluded"),
    [
        (line("gpu_ecc_uncorrectable", Domain.HARDWARE), ("n1",)),
        (line("ib_link_error", Domain.NETWORK), ("n1",)),
        (line("storage_io_error", Domain.STORAGE), ("n1",)),
        (line("driver_mismatch", Domain.SYSTEM_SOFTWARE), ("n1",)),
        # The seat of these is not the node that noticed.
        (line("storage_full", Domain.STORAGE), ()),
        (line("checkpoint_corrupt", Domain.STORAGE), ()),
        (line("dns_failure", Domain.NETWORK), ()),
        (line("user_exception", Domain.APPLICATION), ()),
        (line("gpu_oom", Domain.USER), ()),
        (line("host_oom", Domain.SYSTEM_SOFTWARE), ()),
        (line("peer_connection_lost", Domain.UNKNOWN), ()),
        (ecc(0), ()),
    ],
)
def test_nodes_are_excluded_only_on_evidence_about_a_place(
    evidence: Signal, excluded: tuple[str, ...]
) -> None:
    assert advised(decide(inputs(FAILED, evidence))).intent.exclusions == excluded


def test_a_belief_of_low_confidence_excludes_nothing() -> None:
    made = inputs(FAILED, ecc(0, nodes=("n1",)))
    assert blamed_nodes(made.verdict) == ("n1",)
    assert blamed_nodes(replace(made.verdict, confidence=Confidence.LOW)) == ()


def test_a_required_node_is_never_excluded() -> None:
    target = ended(EndedBy.FAILURE, required_nodes=("n1",))
    found = exclusions_for(inputs(target, ecc(0, nodes=("n1",))))
    assert (found.nodes, found.dropped) == ((), (DroppedNode("n1", Dropped.REQUIRED),))


def test_what_the_user_excluded_is_not_ours_to_add() -> None:
    target = ended(EndedBy.FAILURE, excluded_nodes=("n1",))
    found = exclusions_for(inputs(target, ecc(0, nodes=("n1",))))
    assert (found.nodes, found.dropped) == ((), (DroppedNode("n1", Dropped.EXCLUDED_BY_USER),))


def test_a_partition_that_cannot_spare_a_node_keeps_it() -> None:
    small = replace(BATCH, usable=("n1", "n2"))
    found = exclusions_for(inputs(FAILED, ecc(0, nodes=("n1",)), partitions=(small,)))
    assert (found.nodes, found.dropped) == ((), (DroppedNode("n1", Dropped.NOT_SPARED),))


def test_as_many_nodes_as_can_be_spared_are_excluded() -> None:
    three = replace(BATCH, usable=("n1", "n2", "n3"))
    both = ecc(0, nodes=("n1", "n2"))
    found = exclusions_for(inputs(FAILED, both, partitions=(three,)))
    assert found.nodes == ("n1",)
    assert found.dropped == (DroppedNode("n2", Dropped.NOT_SPARED),)


def test_the_users_own_exclusions_use_up_what_can_be_spared() -> None:
    target = ended(EndedBy.FAILURE, excluded_nodes=("n3", "n4"))
    assert exclusions_for(inputs(target, ecc(0, nodes=("n1",)))).nodes == ()


def test_the_site_can_ask_for_spare_nodes() -> None:
    made = inputs(FAILED, ecc(0, nodes=("n1",)), policy=Policy(min_spare_nodes=2))
    assert exclusions_for(made).nodes == ()
    assert exclusions_for(replace(made, policy=Policy(min_spare_nodes=1))).nodes == ("n1",)


def test_a_node_that_is_out_of_service_can_be_excluded_for_nothing() -> None:
    without = replace(BATCH, usable=("n2", "n3"))
    assert exclusions_for(inputs(FAILED, ecc(0, nodes=("n1",)), partitions=(without,))).nodes == (
        "n1",
    )


def test_one_of_several_partitions_is_enough() -> None:
    target = ended(EndedBy.FAILURE, partitions=("small", "batch"))
    small = PartitionView("small", ("n1", "n2"), ("n1", "n2"))
    found = exclusions_for(inputs(target, ecc(0, nodes=("n1",)), partitions=(small, BATCH)))
    assert found.nodes == ("n1",)


def test_a_partition_of_other_jobs_spares_nothing() -> None:
    other = replace(BATCH, name="other")
    assert exclusions_for(inputs(FAILED, ecc(0, nodes=("n1",)), partitions=(other,))).nodes == ()


def test_the_policy_bounds_the_exclusions() -> None:
    both = ecc(0, nodes=("n1", "n2"))
    found = exclusions_for(inputs(FAILED, both, policy=Policy(max_exclusions=1)))
    assert found.nodes == ("n1",)
    assert found.dropped == (DroppedNode("n2", Dropped.TOO_MANY),)


def test_nodes_that_broke_earlier_attempts_stay_excluded() -> None:
    history = History((past(0, excluded_by_us=("n3",)), past(1, blamed_nodes=("n4",))))
    found = exclusions_for(inputs(FAILED, exception(0), history=history))
    assert found.nodes == ("n3", "n4")


def test_fresh_evidence_goes_before_the_ledger() -> None:
    history = History((past(0, excluded_by_us=("n3",)),))
    made = inputs(FAILED, ecc(0, nodes=("n1",)), history=history, policy=Policy(max_exclusions=1))
    assert exclusions_for(made).nodes == ("n1",)


def test_our_own_earlier_exclusion_on_the_job_is_not_taken_for_the_users() -> None:
    target = ended(EndedBy.FAILURE, excluded_nodes=("n3",))
    history = History((past(0, excluded_by_us=("n3",)),))
    assert exclusions_for(inputs(target, exception(0), history=history)).nodes == ("n3",)


def test_what_stands_in_the_advice_is_kept() -> None:
    standing = advice(FAILED, exclusions=("n3",))
    found = exclusions_for(inputs(FAILED, ecc(0, nodes=("n1",)), existing=standing))
    assert found.nodes == ("n1", "n3")


UNSEEN = {"partitions": None, "partitions_unknown": "the scheduler did not answer"}


def test_without_a_view_of_the_partitions_a_decision_waits_a_moment() -> None:
    made = inputs(FAILED, ecc(0, nodes=("n1",)), now=at(3), **UNSEEN)
    assert ground(made) is RefrainBasis.WAITING_FOR_PARTITIONS


def test_and_is_then_made_without_new_exclusions_and_says_so() -> None:
    made = inputs(FAILED, ecc(0, nodes=("n1",)), now=at(30), **UNSEEN)
    outcome = advised(decide(made))
    assert outcome.intent.exclusions == ()
    assert "did not answer" in outcome.intent.explanation


def test_nothing_waits_for_partitions_where_no_node_is_to_be_excluded() -> None:
    made = inputs(FAILED, exception(0), now=at(1), **UNSEEN)
    assert advised(decide(made)).intent.exclusions == ()


def test_what_was_excluded_before_stays_so_though_nobody_can_look() -> None:
    history = History((past(0, excluded_by_us=("n3",)),))
    made = inputs(FAILED, exception(0), history=history, now=at(1), **UNSEEN)
    assert advised(decide(made)).intent.exclusions == ("n3",)
