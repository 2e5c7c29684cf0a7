"""What a person should do, by class and by what the attempt itself shows."""

from __future__ import annotations

import pytest

from middlewatch.model.attempt import EndedBy
from middlewatch.remediation.advisable import Advisable, Circumstances, advisable
from tests.unit.attribution.made import attempt, ended

FAILED = ended(EndedBy.FAILURE)


@pytest.mark.parametrize(
    ("failure_class", "advice"),
    [
        ("gpu_ecc_uncorrectable", Advisable.ELSEWHERE),
        ("node_failure", Advisable.ELSEWHERE),
        ("ib_link_error", Advisable.YES),
        ("silent_hang", Advisable.YES),
        ("time_limit", Advisable.YES),
        ("preemption", Advisable.YES),
        ("user_exception", Advisable.NO),
        ("user_cancel", Advisable.NO),
        ("a_site_named_this", Advisable.UNCLEAR),
    ],
)
def test_each_class_has_a_default_with_a_reason(failure_class: str, advice: Advisable) -> None:
    opinion = advisable(failure_class, FAILED, Circumstances())
    assert opinion.advisable is advice
    assert opinion.why.endswith(".")


def test_nothing_wrong_needs_nothing_and_a_completed_job_no_restart() -> None:
    assert advisable("", attempt(), Circumstances()).advisable is Advisable.NOT_APPLICABLE
    done = ended(EndedBy.COMPLETION)
    assert advisable("user_exception", done, Circumstances()).advisable is Advisable.NO


def test_an_end_that_nothing_explains_is_unclear() -> None:
    assert advisable("", FAILED, Circumstances()).advisable is Advisable.UNCLEAR


def test_what_the_scheduler_puts_back_is_not_restarted_twice() -> None:
    around = Circumstances(requeued=True)
    assert advisable("preemption", FAILED, around).advisable is Advisable.NO


def test_the_same_again_in_the_same_place_is_no_accident() -> None:
    again = Circumstances(repeated=True)
    assert advisable("killed_unknown", FAILED, Circumstances()).advisable is Advisable.YES
    assert advisable("killed_unknown", FAILED, again).advisable is Advisable.NO
    assert advisable("silent_hang", FAILED, again).advisable is Advisable.YES
    link = Circumstances(repeated=True, nodes=("n1",))
    assert advisable("ib_link_error", FAILED, link).advisable is Advisable.ELSEWHERE


def test_the_node_to_avoid_is_named() -> None:
    opinion = advisable("gpu_off_bus", FAILED, Circumstances(nodes=("n7",)))
    assert "n7" in opinion.why


@pytest.mark.parametrize(
    ("failure_class", "evidence", "advice"),
    [
        ("data_error", "OSError: /data/train/shard-3.tar is damaged", Advisable.NO),
        ("data_error", "json.JSONDecodeError: /tmp/cache/index.json is empty", Advisable.YES),
        ("data_error", "HTTPError: 503 Service Unavailable", Advisable.YES),
        ("user_exception", "KeyError: 'labels'", Advisable.NO),
        (
            "user_exception",
            "requests.exceptions.ConnectionError: Max retries exceeded",
            Advisable.YES,
        ),
        ("container_start", "pyxis: failed to import docker image: 500 error", Advisable.YES),
        ("container_start", "manifest unknown: tag v9", Advisable.NO),
    ],
)
def test_the_evidence_can_turn_the_default(
    failure_class: str, evidence: str, advice: Advisable
) -> None:
    around = Circumstances(evidence=evidence)
    assert advisable(failure_class, FAILED, around).advisable is advice


def test_memory_that_grew_is_worth_a_restart_and_memory_that_never_sufficed_is_not() -> None:
    assert advisable("host_oom", FAILED, Circumstances()).advisable is Advisable.NO
    grew = Circumstances(stepped=True, saved=True)
    assert advisable("host_oom", FAILED, grew).advisable is Advisable.YES


def test_what_has_finished_its_work_is_not_run_again() -> None:
    done = Circumstances(stepped=True, saved=True, finished=True)
    assert advisable("silent_hang", attempt(), done).advisable is Advisable.NO
    assert advisable("time_limit", FAILED, done).advisable is Advisable.YES
