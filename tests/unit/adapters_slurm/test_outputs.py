"""Each expected path was made by a real job on 22.05 with that pattern."""

from __future__ import annotations

import pytest

from middlewatch.adapters.slurm.outputs import Naming, output_path

ONE = Naming(13, "n m", "games", "/h", first_node="gpu-003")
TASK = Naming(20, "j", "games", "/h", array_id=14, task=5)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("", "/h/slurm-13.out"),
        ("/h/A-%j-%J-%5j-%x-%A-%a-%u", "/h/A-13-13-00013-n m-13-4294967294-games"),
        ("/h/%N-%n-%t-%s", "/h/gpu-003-0-0-batch"),
        ("/h/-%b-%%-%q-%z-%.log", "/h/-%b-%-%q-%z-%.log"),
        ("/h/E%", "/h/E%"),
        ("/h/%.log", "/h/%.log"),
        ("/h/C\\\\%j.log", "/h/C\\%j.log"),
        ("/h/F\\%%j", "/h/F%%j"),
        ("sub/%j.out", "/h/sub/13.out"),
        ("none", "/dev/null"),
        ("/dev/null", "/dev/null"),
        ("%20j", "/h/0000000013"),
    ],
)
def test_a_pattern_becomes_the_path_that_slurm_opened(pattern: str, path: str) -> None:
    assert output_path(pattern, ONE) == path


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("", "/h/slurm-14_5.out"),
        ("/h/slurm-20.out", "/h/slurm-14_5.out"),
        ("/h/rel/B-%A_%3a.log", "/h/rel/B-14_005.log"),
        ("/h/%j-%b", "/h/20-5"),
    ],
)
def test_an_array_task_has_its_own_default_and_numbers(pattern: str, path: str) -> None:
    assert output_path(pattern, TASK) == path


def test_the_node_of_a_waiting_job_stays_a_pattern() -> None:
    assert output_path("%N.out", Naming(1, "n", "u", "/h/")) == "/h/%N.out"
