"""Which step a checkpoint is of, where no framework's words say it: numbers of jobs, users, days
and parts are none, and a line that speaks of a checkpoint does not save one."""

from __future__ import annotations

from functools import cache

import pytest

from middlewatch.wiring.analysis import Analyst

STEPS = 600


@cache
def analyst() -> Analyst:
    return Analyst.ready()


def checkpoint_told(line: str) -> int | None:
    """The last checkpoint of a plain loop that prints ``line`` at step 600 and goes on."""
    lines = [f"step {n} loss 2.3 lr 1e-4" for n in range(1, STEPS + 1)]
    lines += [line, *(f"step {n} loss 2.3 lr 1e-4" for n in range(STEPS + 1, STEPS + 11))]
    data = "".join(one + "\n" for one in lines).encode()
    said = analyst().analyse(data, None, tuple(2.0 * n for n in range(len(lines)))).as_json()
    assert said["alarms"] == []
    assert said["last_progress_step"] == STEPS + 10
    step = said["last_checkpoint_step"]
    return step if step is None else int(step)


@pytest.mark.parametrize(
    "line",
    [
        "checkpoint -> /p/scratch/u1234/2026-03-04_run17/it600 ok (40.2 s)",
        "checkpoint written to http://10.1.1.1:9000/ckpts/step600.pt 12345678 bytes",
        "checkpoint saved | step=600 | eta 2026-03-05 10:00",
        "wrote checkpoint /scratch/p2026/x/run_884213/iter_0000600 in 33.1 s",
        "Checkpoint saved: /models/gpt_1300m/exp_512/600",
        "Saved checkpoint to /scratch/job-21868/ckpt/last.pt",
        "saved checkpoint: 14523 tensors, 512 files",
        "saved model state, 2048 shards, took 12345ms",
        "checkpoint saved in 1523 ms",
        "Checkpoint #12 saved",
        "saved checkpoint 12/50",
        "[2026-03-04T10:10:10] saved ckpt 600",
    ],
)
def test_the_step_is_the_named_one_or_the_one_that_was_reached(line: str) -> None:
    assert checkpoint_told(line) == STEPS


@pytest.mark.parametrize(
    "line",
    [
        "checkpoints are written to /ckpt every 500 steps",
        "deleted checkpoint step_400 done",
        "best checkpoint so far: step 300 (saved earlier)",
        "skipping checkpoint at step 600: disk not ok",
        "pushed weights step 600 to inference servers ok",
        "EMA weights updated (decay 0.9999), 1234 params saved",
        "optimizer state sharded over 1024 ranks, complete",
        "node state 512 finished health check",
        "dataset snapshot 20260304 ready: 100 files written",
        "checkpoint of step 600 failed: OSError No space left; will retry",
    ],
)
def test_a_line_about_something_else_saves_nothing(line: str) -> None:
    assert checkpoint_told(line) is None


def test_a_number_in_a_path_far_beyond_the_last_step_is_a_jobs() -> None:
    assert checkpoint_told("wrote checkpoint /scratch/run-884213") == STEPS
