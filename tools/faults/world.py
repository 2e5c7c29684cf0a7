"""What the world itself says: Slurm, the commands that were issued, the jobs' own notes, /proc.

Nothing here asks Middlewatch. A job writes down its own beginnings and ends; a sampler looks every
second which trainings are alive; the lab's log of commands is read as it grows.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from middlewatch.lab import commandlog, jobs
from middlewatch.lab.cluster import Cluster
from middlewatch.lab.jobs import TrainerOptions
from tools.faults.schedule import Kind, Schedule

ENDED = frozenset(
    {"COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "DEADLINE"}
)
WAITING = frozenset({"PENDING", "SPECIAL_EXIT", "REQUEUE_HOLD", "REQUEUED"})
"""Slurm's words for a job that has not begun; the last three for one that was requeued."""
STEP_S = 0.1
XID = (
    "kernel: NVRM: Xid (PCI:0000:3b:00): 48, pid=1, name=python3, An uncorrectable double bit "
    "error (DBE) has been detected on GPU in the framebuffer at partition 0, subpartition 1."
)


# ----------------------------------------------------------------------------------------- the job


def job_script(schedule: Schedule, cluster: Cluster, comment: str) -> str:
    """The schedule's batch script: the lab's trainer, and the job's own notes around it."""
    crashes = schedule.kind in (Kind.CRASH, Kind.HOLD, Kind.CANCEL_LATER)
    options = TrainerOptions(
        name=f"faults-{schedule.seed}",
        nodes=2,
        steps=schedule.steps,
        step_seconds=STEP_S,
        checkpoint_every=5,
        fault="crash-cuda" if crashes else "hang",
        fault_at=schedule.fault_at,
        fault_rank=1,
        comment=comment,
        append=schedule.append,
        exclude=cluster.nodes[schedule.seed % 3] if schedule.user_exclusion else None,
    )
    home = cluster.home(cluster.spec.job_users[0])
    *head, launch = jobs.script(options, cluster.layout.bin, home).splitlines()
    body = [
        f'world="{home}/world/$SLURM_JOB_ID"; attempt="${{SLURM_RESTART_COUNT:-0}}"',
        f'mkdir -p "{home}/world"',
        'note() { echo "$1 $attempt $(date +%s.%N) $2" >> "$world"; }',
        'note begin "$SLURM_JOB_NODELIST"',
    ]
    if crashes:
        body += [launch, "code=$?"]
    else:
        body += _hanging(schedule.fault_at - 1)
        body += [
            f"{launch} &",
            "training=$!",
            'while kill -0 "$training" 2>/dev/null; do',
            # Somebody's word that the job's work is done: it ends in success at once.
            '  if [ "$attempt" = 0 ] && [ -e "$world.finish" ]; then',
            '    kill "$training"; wait "$training"; note completed 0; exit 0',
            "  fi",
            "  sleep 0.1",
            "done",
            'wait "$training"; code=$?',
        ]
    return "\n".join([*head, *body, 'note end "$code"', 'exit "$code"']) + "\n"


def _hanging(last_step: int) -> list[str]:
    """In attempt 0: the failure of the last node in the log once the ranks have stopped."""
    return [
        'if [ "$attempt" = 0 ]; then (',
        f'  until grep -q "iteration *{last_step}/" "slurm-$SLURM_JOB_ID.out"; do sleep 0.1; done',
        "  sleep 0.3",
        '  bad=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | tail -n 1)',
        f'  echo "$bad {XID}"',
        '  echo "RuntimeError: CUDA error: uncorrectable ECC error encountered"',
        '  note hang "$bad"',
        ") & fi",
    ]


@dataclass(frozen=True, slots=True)
class Note:
    """One line that the job wrote: ``begin``, ``hang``, ``completed`` or ``end`` of an attempt."""

    word: str
    attempt: int
    at: float
    text: str


def notes(cluster: Cluster, job_id: str) -> tuple[Note, ...]:
    """What the job wrote down so far."""
    path = cluster.home(cluster.spec.job_users[0]) / "world" / job_id
    found: list[Note] = []
    with contextlib.suppress(OSError):
        for line in path.read_text().splitlines():
            words = line.split(" ", 3)
            if len(words) == 4:
                found.append(Note(words[0], int(words[1]), float(words[2]), words[3]))
    return tuple(found)


def finish(cluster: Cluster, job_id: str) -> None:
    """Let the job complete."""
    folder = cluster.home(cluster.spec.job_users[0]) / "world"
    (folder / f"{job_id}.finish").touch()


# ------------------------------------------------------------------------------------------- Slurm


@dataclass(frozen=True, slots=True)
class Row:
    """What slurmctld shows of a job. ``known`` false: it knows no such job."""

    known: bool
    state: str = ""
    reason: str = ""
    priority: int = -1
    restarts: int = 0
    eligible: float = 0.0
    requeue: int = -1
    excluded: str = ""

    @property
    def held(self) -> bool:
        return self.state in WAITING and self.priority == 0

    @property
    def waits_for_begin(self) -> bool:
        """A begin time that a requeue set keeps it from starting."""
        return (
            self.state in WAITING
            and self.restarts > 0
            and self.priority != 0
            and self.eligible > time.time() + 0.5
        )


def row(cluster: Cluster, job_id: str) -> Row:
    """A fresh look at one job."""
    answer = cluster.run(
        ["scontrol", "-o", "show", "job", job_id],
        check=False,
        env={"SLURM_TIME_FORMAT": "%s"},
    )
    words = answer.stdout.split() if answer.returncode == 0 else []
    fields = dict(word.split("=", 1) for word in words if "=" in word)
    if not fields:
        return Row(known=False)

    def number(name: str) -> float:
        try:
            return float(fields.get(name, ""))
        except ValueError:
            return 0.0

    excluded = fields.get("ExcNodeList", "")
    return Row(
        known=True,
        state=fields.get("JobState", ""),
        reason=fields.get("Reason", ""),
        priority=int(number("Priority")),
        restarts=int(number("Restarts")),
        eligible=number("EligibleTime"),
        requeue=int(number("Requeue")),
        excluded="" if excluded == "(null)" else excluded,
    )


def names(cluster: Cluster, expression: str) -> frozenset[str]:
    """Single node names of a host list."""
    if not expression or expression == "(null)":
        return frozenset()
    return frozenset(cluster.run(["scontrol", "show", "hostnames", expression]).stdout.split())


# ------------------------------------------------------------------------------ what goes on there


@dataclass(slots=True)
class Issued:
    """One changing command of the lab's log; ``exit_code`` None: not (yet) answered."""

    at: str
    argv: tuple[str, ...]
    exit_code: int | None = None


@dataclass
class Watch:
    """Reads a lab's command log as it grows, and samples which trainings are alive."""

    cluster: Cluster
    folder: Path = field(init=False)
    _commands: dict[str, Issued] = field(default_factory=dict)
    _offsets: dict[str, int] = field(default_factory=dict)
    _alive: dict[str, list[tuple[float, frozenset[int]]]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder = self.cluster.folder

    def start(self) -> None:
        for work, every_s in ((self._read_log, 0.1), (self._sample, 0.7)):
            thread = threading.Thread(target=self._turn, args=(work, every_s), daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _turn(self, work: object, every_s: float) -> None:
        while not self._stop.wait(every_s):
            if callable(work):
                work()

    def issued(self, job_id: str) -> tuple[Issued, ...]:
        """The changing commands that named the job, in order of start."""
        self._read_log()
        with self._lock:
            found = [c for c in self._commands.values() if _names(c.argv, job_id)]
        return tuple(sorted(found, key=lambda c: c.at))

    def overlaps(self, job_id: str) -> int:
        """At how many samples two attempts of the job trained side by side."""
        with self._lock:
            return sum(len(alive) > 1 for _, alive in self._alive.get(job_id, ()))

    def _read_log(self) -> None:
        with self._lock:
            for name in ("started.jsonl", "commands.jsonl"):
                for record in self._new_lines(name):
                    argv = tuple(record["argv"])
                    if not commandlog.is_changing(argv):
                        continue
                    known = self._commands.setdefault(record["id"], Issued(record["at"], argv))
                    if "exit_code" in record:
                        known.exit_code = int(record["exit_code"])

    def _new_lines(self, name: str) -> Iterator[dict[str, Any]]:
        path = self.folder / name
        offset = self._offsets.get(name, 0)
        try:
            with path.open("rb") as file:
                file.seek(offset)
                data = file.read()
        except OSError:
            return
        whole = data[: data.rfind(b"\n") + 1]
        self._offsets[name] = offset + len(whole)
        for line in whole.splitlines():
            with contextlib.suppress(ValueError):
                yield json.loads(line)

    def _sample(self) -> None:
        conf = f"{self.folder}/etc/slurm.conf".encode()
        found: dict[str, set[int]] = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                if b"-m\0trainer" not in (entry / "cmdline").read_bytes():
                    continue
                pairs = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            env = dict(pair.split(b"=", 1) for pair in pairs if b"=" in pair)
            if env.get(b"SLURM_CONF") == conf and b"SLURM_JOB_ID" in env:
                attempt = int(env.get(b"SLURM_RESTART_COUNT", b"0") or 0)
                found.setdefault(env[b"SLURM_JOB_ID"].decode(), set()).add(attempt)
        now = time.time()
        with self._lock:
            for job_id, attempts in found.items():
                self._alive.setdefault(job_id, []).append((now, frozenset(attempts)))


def _names(argv: tuple[str, ...], job_id: str) -> bool:
    return job_id in argv or f"jobid={job_id}" in argv
