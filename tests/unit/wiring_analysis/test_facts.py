"""What people write about a job beside its log."""

from __future__ import annotations

from typing import Any

import pytest

from middlewatch.model.attempt import EndedBy
from middlewatch.wiring.analysis.facts import BadFacts, read_facts


@pytest.mark.parametrize(
    ("state", "code", "by"),
    [
        ("FAILED", "1:0", EndedBy.FAILURE),
        ("failed", None, EndedBy.FAILURE),
        ("Succeeded", 0, EndedBy.COMPLETION),
        ("COMPLETED", "0:0", EndedBy.COMPLETION),
        ("OOMKilled", 137, EndedBy.OUT_OF_MEMORY),
        ("OUT_OF_MEMORY", "0:125", EndedBy.OUT_OF_MEMORY),
        ("TIMEOUT", "0:0", EndedBy.TIME_LIMIT),
        ("NODE_FAIL", "0:0", EndedBy.NODE_FAILURE),
        ("CANCELLED by 1044", "0:0", EndedBy.OWNER),
        ("CANCELLED by 0", "0:15", EndedBy.OPERATOR),
        ("CANCELLED", None, EndedBy.SOMEBODY),
        ("PREEMPTED->PENDING", "0:15", EndedBy.PREEMPTION),
        ("Evicted", None, EndedBy.PREEMPTION),
        ("REQUEUED", None, EndedBy.REQUEUE),
        ("exited", "1", EndedBy.FAILURE),
        ("Exited", 0, EndedBy.COMPLETION),
        ("exited", None, EndedBy.UNKNOWN),
        ("RUNNING at last write, then FAILED", "1:0", EndedBy.FAILURE),
        ("", 1, EndedBy.FAILURE),
    ],
)
def test_a_state_in_anybodys_words_is_an_end(state: str, code: Any, by: EndedBy) -> None:
    facts = read_facts({"state": state, "exit_code": code})
    assert facts.ended is not None
    assert facts.ended[1] is by


@pytest.mark.parametrize("state", ["RUNNING", "Running", "R", "FAILED once, now RUNNING"])
def test_a_running_job_has_not_ended(state: str) -> None:
    facts = read_facts({"state": state})
    assert (facts.ended, facts.running) == (None, True)


def test_a_job_that_waits_again_was_put_back() -> None:
    assert read_facts({"state": "PREEMPTED->PENDING"}).requeued
    assert not read_facts({"state": "PREEMPTED"}).requeued


def test_the_silence_at_the_end_is_between_the_last_write_and_the_look() -> None:
    facts = read_facts(
        {"observed_at": "2026-01-01 12:10:00", "log_last_write": "2026-01-01T12:00:00+00:00"}
    )
    assert facts.quiet_after_s == 600.0
    assert read_facts({"observed_at": "2026-01-01 12:10:00"}).quiet_after_s == 0.0


def test_nodes_that_are_told_of_are_not_taken_for_all_nodes() -> None:
    facts = read_facts({"nodes": {"n2": "DOWN* (Not responding)", "n3": "DRAIN"}})
    assert (facts.nodes, facts.failed_nodes) == ((), ("n2",))
    assert read_facts({"current_nodes": ["n1", "n2"]}).nodes == ("n1", "n2")


def test_a_whole_label_gives_its_facts() -> None:
    assert read_facts({"kind": "crash", "scheduler_facts": {"job_id": 7}}).job_id == "7"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["FAILED"], "must be a mapping"),
        ({"exit_code": "one"}, "exit_code 'one'"),
        ({"observed_at": "yesterday"}, "observed_at 'yesterday'"),
    ],
)
def test_what_cannot_be_understood_is_named(given: Any, said: str) -> None:
    with pytest.raises(BadFacts, match=said):
        read_facts(given)
