"""That a gate was closed is proved by the commands that were not issued.

A lab's folder has a ``bin/`` with stand-ins for Slurm's commands. Whoever has it first in PATH
(``Cluster.env()``) runs the real commands through a recorder, which passes everything through
and appends one line of JSON per command to ``commands.jsonl``. The recorder can also be told to
fail as a real scheduler fails: late, with the reply lost, or with the caller killed around it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from middlewatch.lab.config import Layout

COMMANDS: tuple[str, ...] = (
    "scontrol",
    "scancel",
    "sbatch",
    "squeue",
    "sacct",
    "sinfo",
    "sdiag",
    "srun",
    "sacctmgr",
)
"""Commands that have a stand-in."""

FaultAction = Literal[
    "delay-before",
    "delay-after",
    "drop-reply",
    "refuse",
    "kill-before",
    "kill-instead",
    "kill-after",
    "meet-before",
    "meet-after",
    "nothing",
]
"""What a recorder can do to a command.

``delay-before``/``delay-after`` seconds: it takes effect late, or answers late. ``drop-reply``
text: it takes effect, the caller gets the text as an error and exit 1. ``refuse`` text: the
same without an effect. ``kill-before``/``kill-after`` file: kill -9 the process numbers (a
negative one: the group) in the file, then run it, or run it, then kill. ``kill-instead``: kill
and do not run it. ``meet-before``/``meet-after`` path: make the file ``path.here`` and wait for
``path.go``, three minutes at most; a word in it (`answer`) says how to go on. ``nothing``: so that
not the first command is met, but a later one.
"""

_PRCTL = {"x86_64": 157, "aarch64": 167}


@dataclass(frozen=True, slots=True)
class Command:
    """One command as issued. ``exit_code`` is None while it runs, or if its caller was killed."""

    at: datetime
    argv: tuple[str, ...]
    uid: int
    exit_code: int | None
    duration_s: float | None

    @property
    def changing(self) -> bool:
        """Whether the command could change anything; see ``is_changing``."""
        return is_changing(self.argv)


def install(layout: Layout, prefix: tuple[str, ...] = ()) -> None:
    """Write the stand-ins into the lab's ``bin/`` and the empty logs that they append to."""
    text = resources.files("middlewatch.lab").joinpath("recorder.pl").read_text()
    quoted = ", ".join(
        "'" + word.replace("\\", "\\\\").replace("'", "\\'") + "'" for word in prefix
    )
    folder = str(layout.folder).replace("\\", "\\\\").replace("'", "\\'")
    text = (
        text.replace("@FOLDER@", folder)
        .replace("@PREFIX@", quoted)
        .replace("@PRCTL@", str(_PRCTL.get(os.uname().machine, 0)))
    )
    recorder = layout.bin / ".recorder"
    recorder.write_text(text)
    recorder.chmod(0o755)
    for command in COMMANDS:
        (layout.bin / command).symlink_to(recorder.name)
    for name in ("commands.jsonl", "started.jsonl", "faults"):
        path = layout.folder / name
        path.touch()
        path.chmod(0o666)  # commands are issued by several users


def commands(folder: Path) -> tuple[Command, ...]:
    """All commands issued through the stand-ins of the lab in ``folder``, in order of start."""
    ended = {record["id"]: record for record in _records(folder / "commands.jsonl")}
    found = [
        Command(
            at=datetime.fromisoformat(record["at"]),
            argv=tuple(record["argv"]),
            uid=int(record["uid"]),
            exit_code=ended.get(record["id"], {}).get("exit_code"),
            duration_s=ended.get(record["id"], {}).get("duration_s"),
        )
        for record in _records(folder / "started.jsonl")
    ]
    return tuple(sorted(found, key=lambda command: command.at))


def clear(folder: Path) -> None:
    """Forget the commands issued so far."""
    for name in ("commands.jsonl", "started.jsonl"):
        os.truncate(folder / name, 0)


def inject(
    folder: Path, command: str, action: FaultAction, argument: str | float, times: int = 1
) -> None:
    """Make the next ``times`` commands that begin with ``command`` fail as ``action`` says.

    ``command`` is compared with the words of the command line joined by blanks, for example
    ``scontrol requeue``. Several faults add up; the first that matches is used.
    """
    fields = (str(times), command, action, str(argument))
    if any("\t" in field or "\n" in field for field in fields):
        raise ValueError("a fault cannot contain tabs or line ends")
    with (folder / "faults").open("a") as handle:
        handle.write("\t".join(fields) + "\n")


def met(path: Path) -> bool:
    """Whether a command waits (or has waited) at a ``meet-before`` or ``meet-after``."""
    return Path(f"{path}.here").exists()


def answer(path: Path, word: Literal["go", "stop", "lose"] = "go") -> None:
    """Let the command that waits at ``path`` go on: ``stop`` (before it): it is not run;
    ``lose`` (after it): it was, and its caller is told that nobody answered."""
    new = Path(f"{path}.go.new")
    new.write_text(word + "\n")
    new.replace(f"{path}.go")


@dataclass(frozen=True, slots=True)
class Witnessed:
    """One changing command with the job as ``scontrol -o show job`` printed it around it, times as
    epoch seconds; empty where slurmctld did not answer within two seconds. ``started`` is when it was
    issued, ``before_at`` when slurmctld was asked; ``after`` and ``exit_code`` are None where it never
    came back."""

    argv: tuple[str, ...]
    started: float
    exit_code: int | None
    before: str
    before_at: float
    after: str | None
    after_at: float | None


def bear_witness(folder: Path) -> None:
    """From now on write down what slurmctld shows of a job around each command that changes it.
    It costs two more questions for each."""
    (folder / "witness").touch()
    log = folder / "witness.jsonl"
    log.touch()
    log.chmod(0o666)


def witnessed(folder: Path) -> tuple[Witnessed, ...]:
    """What was written down since `bear_witness`, in order of start."""
    shown: dict[str, dict[str, tuple[str, float]]] = {}
    for record in _records(folder / "witness.jsonl"):
        shown.setdefault(record["id"], {})[record["when"]] = (record["job"], float(record["at"]))
    codes = {record["id"]: record["exit_code"] for record in _records(folder / "commands.jsonl")}
    found = []
    for record in _records(folder / "started.jsonl"):
        around = shown.get(record["id"])
        if around is None or "before" not in around:
            continue
        argv, started = tuple(record["argv"]), datetime.fromisoformat(record["at"]).timestamp()
        after, after_at = around.get("after", (None, None))
        code = codes.get(record["id"])
        found.append(Witnessed(argv, started, code, *around["before"], after, after_at))
    return tuple(sorted(found, key=lambda one: one.before_at))


def clear_faults(folder: Path) -> None:
    """Forget all faults that have not struck yet."""
    os.truncate(folder / "faults", 0)


def _records(path: Path) -> list[dict[str, Any]]:
    records: list[dict[str, Any]] = []
    for line in path.read_text().splitlines():
        try:
            records.append(json.loads(line))
        except ValueError:
            continue  # the last line of a machine that went down
    return records


_READING = {
    "scontrol": {"show", "ping", "listpids", "listjobs", "liststeps", "getent", "help", "version",
                 "wait_job", "errnumstr", "getaddrs"},
    "sacctmgr": {"show", "list", "dump", "version", "help", "ping"},
}  # fmt: skip
_NEVER = {"squeue", "sacct", "sinfo", "sprio", "sshare", "sreport", "sstat"}
_WITH_VALUE = {"-M", "--clusters", "-u", "--uid", "-n"}


def is_changing(argv: Sequence[str]) -> bool:
    """Whether a Slurm command could change anything. In doubt it could."""
    name = Path(argv[0]).name
    words = list(argv[1:])
    if {"--version", "-V", "--help", "--usage"} & set(words):
        return False
    if name in _NEVER:
        return False
    if name == "sdiag":
        return bool({"-r", "--reset"} & set(words))
    if name == "sbatch":
        return "--test-only" not in words
    reading = _READING.get(name)
    if reading is None:
        return True
    while words and words[0].startswith("-"):
        option = words.pop(0)
        if option in _WITH_VALUE and words:
            words.pop(0)
    return not words or words[0] not in reading
