"""A recovery is believed when the thing it recovers from was real.

``break_it`` breaks a job, a node or a daemon of a lab by name, for a person (``lab break``),
for tests and for the demo. Jobs obey through the trainer's control file; nodes and daemons are
killed, frozen or drained as they would be in the world.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from middlewatch.lab.cluster import Cluster
from middlewatch.lab.errors import LabError


@dataclass(frozen=True, slots=True)
class Kind:
    """One way to break something: what it is aimed at (``job``, ``node`` or nothing), and what
    it does."""

    target: str
    text: str


_JOB_FAULTS: Mapping[str, tuple[str, str]] = {
    "crash": ("crash-python", "a rank ends with a Python exception"),
    "cuda": ("crash-cuda", "a rank reports an uncorrectable ECC error and an Xid, and ends"),
    "segv": ("crash-segv", "a rank dies of a segmentation fault"),
    "oom": ("oom", "a rank is killed as the kernel kills for memory"),
    "disk-full": ("disk-full", "a rank meets a full disk"),
    "nccl-remote-error": ("nccl-remote-error", "a rank ends with NCCL's remote error"),
    "hang": ("hang", "a rank stops for ever, the others wait for it"),
    "slow": ("slow", "a rank takes four times as long for each step"),
    "heal": ("heal", "a slow rank is quick again"),
    "self-recover": ("self-recover", "a rank prints a traceback and goes on"),
}

_DAEMONS: Mapping[str, str] = {
    "ctld": "slurmctld",
    "dbd": "slurmdbd",
    "munge": "munged",
    "db": "mariadbd",
}


def _kinds() -> dict[str, Kind]:
    kinds = {name: Kind("job", text) for name, (_fault, text) in _JOB_FAULTS.items()}
    kinds |= {
        "kill-node": Kind("node", "kill -9 of the node's slurmd: a node failure"),
        "start-node": Kind("node", "start the node's slurmd again"),
        "drain-node": Kind("node", "drain the node"),
        "down-node": Kind("node", "set the node down: its jobs are requeued"),
        "resume-node": Kind("node", "bring the node back"),
    }
    for short, daemon in _DAEMONS.items():
        kinds |= {
            f"stop-{short}": Kind("", f"stop {daemon}"),
            f"kill-{short}": Kind("", f"kill -9 of {daemon}"),
            f"start-{short}": Kind("", f"start {daemon} again"),
            f"freeze-{short}": Kind("", f"freeze {daemon}: it accepts and does not answer"),
            f"thaw-{short}": Kind("", f"let {daemon} go on"),
        }
    return kinds


KINDS: Mapping[str, Kind] = _kinds()
"""All kinds of breakage by name."""


def break_it(
    cluster: Cluster, kind: str, target: str | None = None, rank: int = -1, factor: float = 4.0
) -> str:
    """Break something and say in one line what was done.

    ``target`` is a job id or a node name, as the kind asks; ``rank`` (-1: the last) and
    ``factor`` (of ``slow``) concern jobs. Raises LabError with what would have been right.
    """
    chosen = KINDS.get(kind)
    if chosen is None:
        raise LabError(f"no breakage {kind!r}; there are: {', '.join(KINDS)}")
    if bool(chosen.target) != (target is not None):
        raise LabError(
            f"{kind} needs a {chosen.target}" if chosen.target else f"{kind} takes no target"
        )
    if chosen.target == "job":
        return _order(cluster, str(target), kind, rank, factor)
    if chosen.target == "node":
        return _node(cluster, kind, str(target))
    return _daemon(cluster, kind)


def _order(cluster: Cluster, job_id: str, kind: str, rank: int, factor: float) -> str:
    note = cluster.layout.jobs / f"{job_id}.json"
    if "/" in job_id or not note.exists():
        raise LabError(
            f"job {job_id} does not run the trainer; submit one with `middlewatch lab submit`"
        )
    job = cluster.job(job_id)
    if job.get("JobState") != "RUNNING":
        raise LabError(f"job {job_id} is {job.get('JobState', 'unknown')}, not RUNNING")
    attempt = int(job["Restarts"])
    known = json.loads(note.read_text())
    order = {
        "fault": _JOB_FAULTS[kind][0],
        "rank": rank,
        "attempt": attempt,
        "factor": factor,
        # The trainer takes each text once; the same order again must be another text.
        "at": cluster.run(["date", "+%s.%N"]).stdout.strip(),
    }
    # Written by the job's user: the folder is theirs, and whoever owns a folder could have put
    # a link to anything in the file's place.
    cluster.run(
        [
            "sh",
            "-c",
            'cat > "$1.new" && mv "$1.new" "$1"',
            "sh",
            f"{known['checkpoints']}/control.json",
        ],
        user=known["user"],
        stdin=json.dumps(order),
    )
    return f"job {job_id}, attempt {attempt}: {KINDS[kind].text}"


def _node(cluster: Cluster, kind: str, name: str) -> str:
    if name not in cluster.nodes:
        raise LabError(f"no node {name!r}; this lab has {', '.join(cluster.nodes)}")
    acts: dict[str, Callable[[], object]] = {
        "kill-node": lambda: cluster.kill_node(name),
        "start-node": lambda: cluster.start_node(name),
        "drain-node": lambda: _state(cluster, name, "DRAIN"),
        "down-node": lambda: _state(cluster, name, "DOWN"),
        "resume-node": lambda: _state(cluster, name, "RESUME"),
    }
    acts[kind]()
    return f"{name}: {KINDS[kind].text}"


def _state(cluster: Cluster, name: str, state: str) -> None:
    words = ["scontrol", "update", f"nodename={name}", f"state={state}"]
    if state != "RESUME":
        words.append("reason=lab break")
    cluster.run(words)


def _daemon(cluster: Cluster, kind: str) -> str:
    verb, short = kind.split("-", 1)
    name = _DAEMONS[short]
    acts: dict[str, Callable[[], object]] = {
        "stop": lambda: cluster.stop_daemon(name),
        "kill": lambda: cluster.stop_daemon(name, signal.SIGKILL),
        "start": lambda: cluster.start_daemon(name),
        "freeze": lambda: cluster.freeze(name),
        "thaw": lambda: cluster.thaw(name),
    }
    acts[verb]()
    return KINDS[kind].text
