from __future__ import annotations

import json

import pytest

from middlewatch.adapters.slurm.detail import from_json, hold_in_json
from middlewatch.ports.errors import Unreadable
from tests.unit.adapters_slurm.scripted import recording

NEWER = ("24.11.5", "26.05.5")


def names(expression: str) -> tuple[str, ...]:
    return tuple(part for part in expression.split(",") if part)


@pytest.mark.parametrize("release", NEWER)
def test_a_requeue_held_job_is_read_from_its_json(release: str) -> None:
    text = recording(release, "scontrol_show_job_json_requeueheld.json")
    detail = from_json(text, "235", names)
    assert detail.job_id == "235"
    assert detail.submitted_at is not None
    assert (detail.comment, detail.name, detail.work_dir) == ("", "sbatch", "/srv/lab/work")
    assert detail.stdout == detail.stderr == "/srv/lab/work/slurm-235.out"
    assert detail.requeueable is True
    assert detail.held_by_operator is False


@pytest.mark.parametrize("release", ["22.05.8", *NEWER])
def test_an_operators_hold_over_a_requeue_hold_is_seen_in_json(release: str) -> None:
    text = recording(release, "squeue_json_admin_hold.json")
    held = [job for job in json.loads(text)["jobs"] if job["state_reason"] == "JobHeldAdmin"]
    assert held
    for job in held:
        assert hold_in_json(text, str(job["job_id"])) is True
    assert hold_in_json(text, "999999") is None


@pytest.mark.parametrize("release", NEWER)
def test_an_arrays_task_is_found_by_its_own_name_and_its_pattern_filled(release: str) -> None:
    text = recording(release, "squeue_json_stdout.json")
    task = next(job for job in json.loads(text)["jobs"] if job["name"] == "arr")
    array, index = task["array_job_id"]["number"], task["array_task_id"]["number"]
    detail = from_json(text, f"{array}_{index}", names)
    assert detail.stdout == f"/mnt/lab/home/arr_{array}_{index}_{task['job_id']}.out"


def test_22_05_json_has_plain_numbers_and_patterns() -> None:
    text = recording("22.05.8", "squeue_json_stdout.json")
    task = json.loads(text)["jobs"][0]
    job_id = f"{task['array_job_id']}_{task['array_task_id']}"
    detail = from_json(text, job_id, names)
    assert detail.stdout == f"/mnt/lab/home/arr_{job_id}_{task['job_id']}.out"


def test_json_of_another_job_is_not_taken_for_the_one_asked_for() -> None:
    text = recording("24.11.5", "scontrol_show_job_json_requeueheld.json")
    with pytest.raises(Unreadable, match="0 records"):
        from_json(text, "236", names)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"jobs": 5}',
        '{"jobs": [], "errors": [{"description": "Failed while looking for jobs"}]}',
        '{"jobs": [{"job_id": 7, "comment": 5, "job_state": []}]}',
        "[" * 100_000,
    ],
)
def test_json_of_another_shape_is_unreadable(text: str) -> None:
    with pytest.raises(Unreadable):
        from_json(text, "7", names)


def test_a_comment_that_looks_like_json_stays_a_comment() -> None:
    body = {"jobs": [{"job_id": 7, "comment": '"},{"job_id": 8, "comment": "forged'}]}
    text = json.dumps(body)
    assert from_json(text, "7", names).comment.startswith('"},{')
    with pytest.raises(Unreadable):
        from_json(text, "8", names)
