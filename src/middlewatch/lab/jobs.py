"""Batch scripts for the trainer, and an interpreter that every user may start.

The running Python may lie in a home that only its owner can enter (pyenv, uv), so jobs use
Debian's ``/usr/bin/python3``; where there is none, the interpreter and its standard library are
copied into the lab.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from middlewatch.lab.config import Layout

DEBIAN_PYTHON = Path("/usr/bin/python3")


@dataclass(frozen=True, slots=True)
class TrainerOptions:
    """One job that runs the trainer. Times in seconds; see ``bin/trainer --help`` for its options.

    ``comment`` is written as ``#SBATCH --comment`` (the opt-in). ``checkpoint_dir`` defaults to
    one per job below its user's folder in the lab; jobs that follow each other share one.
    ``relaunch`` > 0 starts srun again that often after a failure, inside the same job. ``heartbeat``
    is a file to which each rank appends its signs of life.
    """

    name: str = "train"
    nodes: int = 2
    tasks_per_node: int = 1
    partition: str | None = None
    time_limit: str | None = None
    exclude: str | None = None
    dependency: str | None = None
    signal: str | None = None
    array: str | None = None
    comment: str | None = None
    requeue: bool = True
    append: bool | None = None
    output: str | None = None
    relaunch: int = 0
    steps: int = 100
    step_seconds: float = 0.2
    checkpoint_every: int = 10
    checkpoint_seconds: float = 0.0
    startup_seconds: float = 0.0
    checkpoint_dir: Path | None = None
    format: str = "megatron"
    seed: int = 1
    log_every: int = 1
    fault: str | None = None
    fault_at: int = 25
    fault_rank: int = -1
    fault_attempt: int = 0
    fault_every_launch: bool = False
    fault_exit: int = 1
    slow_factor: float = 4.0
    collective_timeout: float = 0.0
    cascade: str = "none"
    heartbeat: Path | None = None

    def folder(self, home: Path, job_id: str) -> Path:
        """Where the job's checkpoints and its control file lie; ``home`` is its user's."""
        return self.checkpoint_dir or home / "checkpoints" / job_id


def install(layout: Layout) -> None:
    """Put the trainer and an interpreter into the lab: ``bin/trainer`` and ``bin/lab-python``."""
    package = layout.folder / "lib" / "trainer"
    package.mkdir(parents=True)
    for source in resources.files("middlewatch.lab.trainer").iterdir():
        if source.name.endswith(".py"):
            (package / source.name).write_text(source.read_text())
    python = layout.bin / "lab-python"
    if _suits(DEBIAN_PYTHON):
        python.symlink_to(DEBIAN_PYTHON)
    else:
        copy_interpreter(layout.folder / "python", python)
    trainer = layout.bin / "trainer"
    trainer.write_text(
        "#!/bin/sh\n"
        f"export PYTHONPATH={shlex.quote(str(package.parent))} PYTHONDONTWRITEBYTECODE=1\n"
        f'exec {shlex.quote(str(python))} -m trainer "$@"\n'
    )
    trainer.chmod(0o755)


def _suits(python: Path) -> bool:
    check = [str(python), "-c", "import sys; sys.exit(sys.version_info < (3, 10))"]
    return python.exists() and subprocess.run(check, check=False).returncode == 0


def copy_interpreter(folder: Path, launcher: Path) -> None:
    """Copy the running interpreter and its standard library, for everybody; ``launcher`` runs it."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    library = Path(sysconfig.get_path("stdlib"))
    (folder / "bin").mkdir(parents=True)
    binary = Path(getattr(sys, "_base_executable", None) or sys.executable).resolve()
    shutil.copy2(binary, folder / "bin" / version)
    shutil.copytree(
        library,
        folder / "lib" / version,
        ignore=shutil.ignore_patterns("site-packages", "test", "tests", "__pycache__", "idlelib"),
    )
    shared = Path(sysconfig.get_config_var("LIBDIR") or "/nonexistent")
    for file in shared.glob("libpython*.so*"):
        shutil.copy2(file, folder / "lib" / file.name)
    for path in folder.rglob("*"):
        path.chmod(
            path.stat().st_mode | (0o555 if path.is_dir() or os.access(path, os.X_OK) else 0o444)
        )
    launcher.write_text(
        "#!/bin/sh\n"
        f"export LD_LIBRARY_PATH={shlex.quote(str(folder / 'lib'))}\n"
        f"export PYTHONHOME={shlex.quote(str(folder))}\n"
        f'exec {shlex.quote(str(folder / "bin" / version))} "$@"\n'
    )
    launcher.chmod(0o755)


def script(options: TrainerOptions, bin_folder: Path, home: Path) -> str:
    """The batch script. Raises ValueError for what cannot stand in a batch script."""
    lines = ["#!/bin/bash", *_directives(options)]
    command = " ".join(shlex.quote(word) for word in _command(options, bin_folder))
    folder = shlex.quote(str(options.folder(home, "")))
    if options.checkpoint_dir is None:
        folder += '/"$SLURM_JOB_ID"'
    launch = f"srun --kill-on-bad-exit=1 {command} --checkpoint-dir={folder}"
    if options.relaunch:
        lines += [
            f"for launch in $(seq 0 {options.relaunch}); do",
            f"  {launch} && exit 0",
            "  code=$?",
            '  echo "launch $launch ended with $code, starting again" >&2',
            "  sleep 1",
            "done",
            'exit "$code"',
        ]
    else:
        lines.append(launch)
    return "\n".join(lines) + "\n"


def _directives(options: TrainerOptions) -> list[str]:
    words: list[tuple[str, str | None]] = [
        ("job-name", options.name),
        ("nodes", str(options.nodes)),
        ("ntasks-per-node", str(options.tasks_per_node)),
        ("partition", options.partition),
        ("time", options.time_limit),
        ("exclude", options.exclude),
        ("dependency", options.dependency),
        ("signal", options.signal),
        ("array", options.array),
        ("output", options.output),
        ("comment", options.comment),
    ]
    lines = [f"#SBATCH --{name}={_quoted(value)}" for name, value in words if value is not None]
    lines.append("#SBATCH --requeue" if options.requeue else "#SBATCH --no-requeue")
    if options.append is not None:
        lines.append(f"#SBATCH --open-mode={'append' if options.append else 'truncate'}")
    return lines


def _quoted(value: str) -> str:
    # sbatch's own reader knows single quotes, and no way to put one between them.
    if "'" in value or "\n" in value:
        raise ValueError(
            f"{value!r}: a single quote or a line end cannot stand in a #SBATCH line; give it as an "
            "argument of sbatch instead"
        )
    return f"'{value}'"


def _command(options: TrainerOptions, bin_folder: Path) -> list[str]:
    words = [
        str(bin_folder / "trainer"),
        f"--steps={options.steps}",
        f"--step-seconds={options.step_seconds}",
        f"--checkpoint-every={options.checkpoint_every}",
        f"--checkpoint-seconds={options.checkpoint_seconds}",
        f"--startup-seconds={options.startup_seconds}",
        f"--format={options.format}",
        f"--seed={options.seed}",
        f"--log-every={options.log_every}",
        f"--collective-timeout={options.collective_timeout}",
        f"--cascade={options.cascade}",
        f"--slow-factor={options.slow_factor}",
    ]
    if options.heartbeat is not None:
        words.append(f"--heartbeat={options.heartbeat}")
    if options.fault is not None:
        words += [
            f"--fault={options.fault}",
            f"--fault-at={options.fault_at}",
            f"--fault-rank={options.fault_rank}",
            f"--fault-attempt={options.fault_attempt}",
            f"--fault-exit={options.fault_exit}",
        ]
        if options.fault_every_launch:
            words.append("--fault-every-launch")
    return words
