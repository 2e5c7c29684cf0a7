"""What the world itself says: Slurm, its accounting, and what the jobs wrote down of themselves.

Nothing here asks Middlewatch. A job writes down its own beginnings and ends, and each rank of its
training its signs of life, in files that no requeue truncates.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path

from middlewatch.lab import jobs
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
    home = cluster.home(cluster.spec.job_users[0])
    fault = {Kind.CRASH: "crash-cuda", Kind.HANG: "hang", Kind.NODE: None}[schedule.kind]
    options = TrainerOptions(
        name=f"faults-{schedule.seed}",
        nodes=2,
        steps=schedule.steps,
        step_seconds=STEP_S,
        checkpoint_every=5,
        fault=fault,
        fault_at=schedule.fault_at,
        fault_rank=1,
        comment=comment,
        append=schedule.append,
        exclude=own_exclusion(schedule, cluster),
        heartbeat=home / "beats" / str(schedule.seed),
    )
    *head, launch = jobs.script(options, cluster.layout.bin, home).splitlines()
    body = [
        f'world="{home}/world/$SLURM_JOB_ID"; attempt="${{SLURM_RESTART_COUNT:-0}}"',
        f'mkdir -p "{home}/world" "{home}/beats"',
        'note() { echo "$1 $attempt $(date +%s.%N) $2" >> "$world"; }',
        'note begin "$SLURM_JOB_NODELIST"',
    ]
    if schedule.kind is not Kind.HANG:
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


def own_exclusion(schedule: Schedule, cluster: Cluster) -> str | None:
    """The node that the job's owner excludes from the start."""
    return cluster.nodes[schedule.seed % 3] if schedule.user_exclusion else None


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


@dataclass(frozen=True, slots=True)
class Life:
    """When the trainers of one attempt gave signs of life, epoch seconds."""

    attempt: int
    first: float
    last: float


def lives(cluster: Cluster, schedule: Schedule) -> tuple[Life, ...]:
    """Of each attempt that trained, by its ranks' own lines."""
    return lives_in(cluster.home(cluster.spec.job_users[0]) / "beats" / str(schedule.seed))


def lives_in(path: Path) -> tuple[Life, ...]:
    """From the lines ``attempt rank host epoch-seconds``."""
    found: dict[int, Life] = {}
    with contextlib.suppress(OSError):
        for line in path.read_text().splitlines():
            words = line.split()
            if len(words) != 4:
                continue
            attempt, at = int(words[0]), float(words[3])
            known = found.get(attempt, Life(attempt, at, at))
            found[attempt] = Life(attempt, min(known.first, at), max(known.last, at))
    return tuple(found[attempt] for attempt in sorted(found))


# ------------------------------------------------------------------------------------------- Slurm


@dataclass(frozen=True, slots=True)
class Row:
    """What slurmctld shows of a job. ``known`` false: it knows no such job, or does not answer.
    ``eligible`` and ``submitted`` in epoch seconds, ``at`` when it was asked."""

    known: bool
    state: str = ""
    reason: str = ""
    priority: int = -1
    restarts: int = 0
    eligible: float = 0.0
    submitted: float = 0.0
    requeue: int = -1
    excluded: str = ""
    at: float = 0.0

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
            and self.eligible > self.at + 0.5
        )


def read_row(text: str, at: float) -> Row:
    """From what `scontrol -o show job` printed, times as epoch seconds."""
    fields = dict(word.split("=", 1) for word in text.split() if "=" in word)
    if "JobState" not in fields:
        return Row(known=False, at=at)

    def number(name: str) -> float:
        try:
            return float(fields.get(name, ""))
        except ValueError:
            return 0.0

    excluded = fields.get("ExcNodeList", "")
    return Row(
        known=True,
        state=fields["JobState"],
        reason=fields.get("Reason", ""),
        priority=int(number("Priority")),
        restarts=int(number("Restarts")),
        eligible=number("EligibleTime"),
        submitted=number("SubmitTime"),
        requeue=int(number("Requeue")),
        excluded="" if excluded == "(null)" else excluded,
        at=at,
    )


def row(cluster: Cluster, job_id: str) -> Row:
    """A fresh look at one job."""
    answer = cluster.run(
        ["scontrol", "-o", "show", "job", job_id],
        check=False,
        env={"SLURM_TIME_FORMAT": "%s"},
    )
    return read_row(answer.stdout if answer.returncode == 0 else "", time.time())


def names(cluster: Cluster, expression: str) -> frozenset[str]:
    """Single node names of a host list."""
    if not expression or expression == "(null)":
        return frozenset()
    return frozenset(cluster.run(["scontrol", "show", "hostnames", expression]).stdout.split())
