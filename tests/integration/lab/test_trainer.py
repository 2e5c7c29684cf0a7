"""The trainer by itself: ranks as plain processes, the environment of Slurm made by hand."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from middlewatch.lab import jobs
from middlewatch.lab.jobs import TrainerOptions

SOURCE = Path(jobs.__file__).parent


@dataclass
class Ended:
    codes: list[int]
    text: str

    def losses(self) -> dict[int, str]:
        """Step and loss, as printed."""
        found = re.findall(r"middlewatch: step=(\d+) total=\d+ loss=(\S+)", self.text)
        return {int(step): loss for step, loss in found}


def start(folder: Path, ranks: int, attempt: int, *words: str) -> list[subprocess.Popen[str]]:
    """Start all ranks of one attempt."""
    command = [
        sys.executable, "-m", "trainer", f"--checkpoint-dir={folder}", "--step-seconds=0",
        "--checkpoint-every=5", "--format=plain", *words,
    ]  # fmt: skip
    env = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(SOURCE),
        "PYTHONDONTWRITEBYTECODE": "1",
        "SLURM_NTASKS": str(ranks),
        "SLURM_JOB_ID": "7",
        "SLURM_RESTART_COUNT": str(attempt),
        "SLURM_STEP_ID": "0",
    }
    return [
        subprocess.Popen(
            command,
            env={**env, "SLURM_PROCID": str(rank), "SLURMD_NODENAME": f"gpu-{rank + 1:03d}"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(ranks)
    ]


def finish(processes: Sequence[subprocess.Popen[str]], seconds: float = 30) -> Ended:
    """Wait for all; ranks that only wait for a dead one are ended as srun would end them."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and all(p.poll() is None for p in processes):
        time.sleep(0.02)
    if any(p.returncode for p in processes):
        time.sleep(0.3)
        for p in processes:
            if p.poll() is None:
                p.terminate()
    text = "".join(p.communicate(timeout=seconds)[0] for p in processes)
    return Ended([p.returncode for p in processes], text)


def saved(folder: Path, step: int, seconds: float = 90) -> int:
    """Wait for a checkpoint of that step or a later one; the newest one's step."""
    deadline = time.monotonic() + seconds
    while True:
        newest = max(
            (int(p.stem.removeprefix("step-")) for p in folder.glob("step-*.json")), default=0
        )
        if newest >= step:
            return newest
        assert time.monotonic() < deadline, f"no checkpoint of step {step} after {seconds} s"
        time.sleep(0.02)


def run(folder: Path, ranks: int, attempt: int, *words: str) -> Ended:
    return finish(start(folder, ranks, attempt, *words))


def test_a_resumed_run_computes_exactly_what_an_uninterrupted_one_computes(tmp_path: Path) -> None:
    whole = run(tmp_path / "whole", 3, 0, "--steps=30")
    first = run(tmp_path / "cut", 3, 0, "--steps=30", "--fault=crash-python", "--fault-at=18")
    second = run(tmp_path / "cut", 3, 1, "--steps=30", "--fault=crash-python", "--fault-at=18")

    assert whole.codes == [0, 0, 0]
    assert first.codes[2] == 1
    assert second.codes == [0, 0, 0]
    assert max(first.losses()) == 17
    assert "checkpoint=loaded step=15 " in second.text
    assert min(second.losses()) == 16
    assert {**first.losses(), **second.losses()} == whole.losses()


def test_the_loss_falls(tmp_path: Path) -> None:
    losses = run(tmp_path, 2, 0, "--steps=60").losses()
    assert float(losses[60]) < float(losses[1]) / 100


def test_a_checkpoint_that_was_cut_short_is_passed_over(tmp_path: Path) -> None:
    run(tmp_path, 1, 0, "--steps=10")
    (tmp_path / "step-0000010.json").write_text('{"step": 10, "wei')
    again = run(tmp_path, 1, 1, "--steps=12")
    assert "checkpoint=loaded step=5 " in again.text
    assert min(again.losses()) == 6


def test_only_the_newest_checkpoints_are_kept(tmp_path: Path) -> None:
    run(tmp_path, 1, 0, "--steps=40", "--keep=2")
    assert sorted(path.name for path in tmp_path.glob("step-*")) == [
        "step-0000035.json",
        "step-0000040.json",
    ]


@pytest.mark.parametrize(
    ("fault", "code", "text"),
    [
        ("crash-python", 1, "[rank1]: IndexError: list index out of range"),
        ("crash-cuda", 1, "gpu-002 kernel: NVRM: Xid (PCI:0000:3b:00): 48, "),
        ("crash-cuda", 1, "[rank1]: RuntimeError: CUDA error: uncorrectable ECC error encountered"),
        ("crash-segv", -signal.SIGSEGV, ""),
        ("crash-exit", 1, "rank 1 on gpu-002: exiting with code 1"),
        (
            "oom",
            -signal.SIGKILL,
            "slurmstepd-gpu-002: error: Detected 1 oom_kill event in StepId=7.0",
        ),
        ("disk-full", 1, "[rank1]: OSError: [Errno 28] No space left on device"),
        ("nccl-remote-error", 1, "[rank1]: ncclRemoteError: A call failed"),
    ],
)
def test_a_fault_ends_its_rank_as_it_does_in_the_world(
    tmp_path: Path, fault: str, code: int, text: str
) -> None:
    ended = run(tmp_path, 2, 0, "--steps=20", f"--fault={fault}", "--fault-at=8", "--fault-rank=1")
    assert ended.codes[1] == code
    assert text in ended.text
    assert max(ended.losses()) == 7


def test_a_fault_strikes_only_in_the_attempt_it_was_meant_for(tmp_path: Path) -> None:
    ended = run(tmp_path, 2, 1, "--steps=10", "--fault=crash-python", "--fault-at=8")
    assert ended.codes == [0, 0]


def test_after_a_collective_time_out_every_rank_but_the_missing_one_reports(tmp_path: Path) -> None:
    words = ["--steps=20", "--fault=nccl-timeout", "--fault-at=6", "--collective-timeout=0.5"]
    ended = run(tmp_path, 3, 0, *words)
    assert ended.codes == [-signal.SIGABRT, -signal.SIGABRT, -signal.SIGTERM]
    reports = re.findall(r"\[Rank (\d)\] Watchdog caught collective operation timeout", ended.text)
    assert sorted(reports) == ["0", "1"]


def test_a_rank_that_recovers_prints_a_traceback_and_loses_nothing(tmp_path: Path) -> None:
    whole = run(tmp_path / "whole", 2, 0, "--steps=12")
    ended = run(tmp_path / "other", 2, 0, "--steps=12", "--fault=self-recover", "--fault-at=6")
    assert ended.codes == [0, 0]
    assert "Traceback (most recent call last)" in ended.text
    assert ended.losses() == whole.losses()


def test_a_hanging_rank_makes_all_wait(tmp_path: Path) -> None:
    hang = ("--fault=hang", "--fault-at=8", "--checkpoint-every=7")
    processes = start(tmp_path, 2, 0, "--steps=20", *hang)
    saved(tmp_path, 7)
    time.sleep(0.3)
    alive = [p.poll() for p in processes]
    for p in processes:
        p.kill()
    ended = finish(processes)
    assert alive == [None, None]
    assert max(ended.losses()) == 7


def test_an_order_in_the_control_file_strikes_a_running_job_once(tmp_path: Path) -> None:
    processes = start(tmp_path, 2, 0, "--steps=100000", "--step-seconds=0.01")
    saved(tmp_path, 5)
    (tmp_path / "control.json").write_text("this is no order")
    # Every rank reads it before each of its steps.
    saved(tmp_path, saved(tmp_path, 5) + 10)
    (tmp_path / "new").write_text(json.dumps({"fault": "crash-python", "rank": 0}))
    (tmp_path / "new").rename(tmp_path / "control.json")
    ended = finish(processes)
    assert ended.codes[0] == 1
    assert "[rank0]: IndexError" in ended.text
    assert "cannot be understood" in ended.text

    again = run(tmp_path, 2, 1, f"--steps={max(ended.losses()) + 3}")
    assert again.codes == [0, 0]


@pytest.mark.parametrize(
    ("form", "patterns"),
    [
        (
            "megatron",
            [
                r"^ \[[-\d]{10} [\d:.]{15}\] iteration {8}3/ {6}10 \| consumed samples: +48 \| ",
                r"\| elapsed time per iteration \(ms\): [\d.]+ \| .*\| lm loss: \d\.\d{6}E[+-]\d\d \|",
                r"^\[.*\] saving checkpoint at iteration {7}5 to \S+ in torch format$",
                r"^  \[.*\] successfully saved checkpoint from iteration {7}5 to \S+ \[",
            ],
        ),
        (
            "hf",
            [
                r"^\{'loss': [\d.]+, 'grad_norm': [\d.e-]+, 'learning_rate': 0.05, 'epoch': 0.3\}$",
                r" 3/10 \[\d\d:\d\d<\d\d:\d\d, +[\d.]+s/it\]",
                r"^Saving model checkpoint to \S+/checkpoint-5$",
            ],
        ),
    ],
)
def test_the_trainer_prints_the_lines_of_the_program_it_imitates(
    tmp_path: Path, form: str, patterns: list[str]
) -> None:
    ended = run(tmp_path, 2, 0, "--steps=10", f"--format={form}")
    assert ended.codes == [0, 0]
    for pattern in patterns:
        assert re.search(pattern, ended.text.replace("\r", "\n"), re.MULTILINE), pattern


def test_a_batch_script_cannot_be_broken_out_of() -> None:
    bin_folder, home = Path("/lab/bin"), Path("/lab/ho me")
    options = TrainerOptions(
        name="a b; rm -rf /", comment='{"a": "b"}', checkpoint_dir=Path("/x $(id)")
    )
    text = jobs.script(options, bin_folder, home)
    assert "#SBATCH --job-name='a b; rm -rf /'\n" in text
    assert '#SBATCH --comment=\'{"a": "b"}\'\n' in text
    assert text.endswith(" --checkpoint-dir='/x $(id)'\n")
    usual = jobs.script(TrainerOptions(), bin_folder, home)
    assert usual.endswith(" --checkpoint-dir='/lab/ho me/checkpoints'/\"$SLURM_JOB_ID\"\n")
    for bad in ("it's", "two\nlines"):
        with pytest.raises(ValueError, match="single quote or a line end"):
            jobs.script(TrainerOptions(comment=bad), bin_folder, home)
