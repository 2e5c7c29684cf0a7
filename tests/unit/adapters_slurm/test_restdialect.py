"""What is sent to which slurmrestd, and what its answers mean."""

from __future__ import annotations

import pytest

from middlewatch.adapters.slurm.restcall import Answer
from middlewatch.adapters.slurm.restdialect import Dialect, request, spoken
from middlewatch.model.action import Action, ActionKind
from middlewatch.ports.errors import Refused, Unreadable

OLD = Dialect("v0.0.38")
MIDDLE = Dialect("v0.0.42", accounts=True)
NEW = Dialect("v0.0.45", requeues=True, tells_conf=True, accounts=True)


def paths(*found: str) -> dict[str, object]:
    return {"paths": {path: {} for path in found}}


def test_the_newest_interface_that_both_sides_know_is_spoken() -> None:
    served = paths("/slurm/v0.0.42/jobs/", "/slurm/v0.0.41/jobs/", "/slurm/v0.0.99/jobs/")
    assert spoken(served) == Dialect("v0.0.42")
    assert spoken(served, "v0.0.41") == Dialect("v0.0.41")
    full = paths(
        "/slurm/v0.0.45/jobs/requeue", "/slurm/v0.0.45/conf", "/slurmdb/v0.0.45/job/{job_id}"
    )
    assert spoken(full) == NEW
    # 22.05's accounting tells wrong exit codes.
    assert not spoken(paths("/slurm/v0.0.38/jobs", "/slurmdb/v0.0.38/job/{job_id}")).accounts


@pytest.mark.parametrize(
    ("description", "said"),
    [
        ({}, "no paths"),
        ({"paths": []}, "no paths"),
        (paths("/slurm/v0.0.99/jobs/"), r"serves v0\.0\.99; we know v0\.0\.38, "),
        (paths(), "serves nothing"),
    ],
)
def test_a_slurmrestd_that_we_do_not_know_is_named(
    description: dict[str, object], said: str
) -> None:
    with pytest.raises(Unreadable, match=said):
        spoken(description)


def test_one_request_carries_all_of_an_update() -> None:
    action = Action(
        ActionKind.UPDATE, "7", "t", exclusions=("a", "b"), start_now=True, requeueable=False
    )
    verb, path, body = request(NEW, action)
    assert (verb, path) == ("POST", "/slurm/v0.0.45/job/7")
    assert body == {
        "excluded_nodes": ["a", "b"],
        "begin_time": {"set": True, "infinite": False, "number": 1},
        "requeue": False,
    }


def test_exclusions_are_cleared_by_an_empty_text_because_an_empty_list_changes_nothing() -> None:
    _, _, body = request(MIDDLE, Action(ActionKind.UPDATE, "7", "t", exclusions=()))
    assert body == {"excluded_nodes": ""}


def test_the_oldest_has_words_of_its_own() -> None:
    action = Action(ActionKind.UPDATE, "7", "t", exclusions=("a", "b"), start_now=True)
    assert request(OLD, action)[2] == {"exclude_nodes": "a,b", "begin_time": "now"}


def test_a_requeue_hold_bears_the_mark_of_ours() -> None:
    verb, path, body = request(NEW, Action(ActionKind.REQUEUE_HOLD, "7", "t"))
    assert (verb, path) == ("POST", "/slurm/v0.0.45/jobs/requeue")
    assert body == {"jobs": ["7"], "flags": ["Hold", "SpecialExit"]}
    assert request(NEW, Action(ActionKind.REQUEUE, "7", "t"))[2] == {"jobs": ["7"]}


@pytest.mark.parametrize(
    ("dialect", "action"),
    [
        (MIDDLE, Action(ActionKind.REQUEUE, "7", "t")),
        (OLD, Action(ActionKind.REQUEUE_HOLD, "7", "t")),
        (OLD, Action(ActionKind.UPDATE, "7", "t", requeueable=True)),
        (OLD, Action(ActionKind.CANCEL, "7_1", "t")),
        (NEW, Action(ActionKind.REQUEUE, "7_1", "t")),
        (NEW, Action(ActionKind.UPDATE, "7_1", "t", start_now=True)),
        (NEW, Action(ActionKind.UPDATE, "7", "t")),
        (NEW, Action(ActionKind.UPDATE, "7", "t", exclusions=("a,b",))),
        (NEW, Action(ActionKind.CANCEL, "7/../8", "t")),
        (NEW, Action(ActionKind.CANCEL, "7?signal=KILL", "t")),
    ],
)
def test_what_cannot_be_done_is_refused_before_it_is_sent(dialect: Dialect, action: Action) -> None:
    with pytest.raises(Refused):
        request(dialect, action)


def test_an_error_beside_a_status_of_success_is_an_error() -> None:
    killed = {"status": [{"error": {"string": "Invalid job id specified", "code": 2017}}]}
    assert Answer(200, killed).errors == ("Invalid job id specified",)
    requeued = {
        "status": [
            [
                {"error": "No error", "error_code": 0},
                {"error": "Job is pending execution", "error_code": 2024},
            ]
        ]
    }
    assert Answer(200, requeued).errors == ("Job is pending execution",)
    assert Answer(200, {"errors": [{"description": "x", "error": "y"}]}).errors == ("y",)
    assert Answer(200, {"errors": [], "status": []}).errors == ()
