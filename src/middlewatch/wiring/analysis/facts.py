"""What the scheduler says of a job, as people write it down beside a log.

Slurm, Kubernetes and a bare shell have different words for the same few ends, in any case, and
people add to them ("RUNNING at last write, then FAILED"). Here the words become the same record
that a look at a live scheduler would have given.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from middlewatch.model.attempt import EndedBy
from middlewatch.model.scheduler import JobState

_RUNNING = frozenset({"RUNNING", "R", "SUSPENDED", "STAGE_OUT", "RESIZING", "SIGNALING", "ACTIVE"})
_AGAIN = frozenset(
    {"PENDING", "PD", "REQUEUED", "RQ", "REQUEUE", "REQUEUE_HOLD", "RH", "CONFIGURING", "CF",
     "SPECIAL_EXIT", "QUEUED", "WAITING"}
)  # fmt: skip
_EXITED = frozenset(
    {"EXITED", "EXIT", "EXITS", "ENDED", "DONE", "DEAD", "FINISHED", "TERMINATED", "STOPPED",
     "COMPLETING", "CG"}
)  # fmt: skip
_ENDS: dict[str, tuple[JobState, EndedBy]] = {
    "COMPLETED": (JobState.COMPLETED, EndedBy.COMPLETION),
    "COMPLETE": (JobState.COMPLETED, EndedBy.COMPLETION),
    "CD": (JobState.COMPLETED, EndedBy.COMPLETION),
    "SUCCEEDED": (JobState.COMPLETED, EndedBy.COMPLETION),
    "SUCCESS": (JobState.COMPLETED, EndedBy.COMPLETION),
    "FAILED": (JobState.FAILED, EndedBy.FAILURE),
    "F": (JobState.FAILED, EndedBy.FAILURE),
    "ERROR": (JobState.FAILED, EndedBy.FAILURE),
    "CRASHED": (JobState.FAILED, EndedBy.FAILURE),
    "CRASHLOOPBACKOFF": (JobState.FAILED, EndedBy.FAILURE),
    "BACKOFFLIMITEXCEEDED": (JobState.FAILED, EndedBy.FAILURE),
    "NODE_FAIL": (JobState.NODE_FAIL, EndedBy.NODE_FAILURE),
    "NF": (JobState.NODE_FAIL, EndedBy.NODE_FAILURE),
    "NODELOST": (JobState.NODE_FAIL, EndedBy.NODE_FAILURE),
    "NODE_LOST": (JobState.NODE_FAIL, EndedBy.NODE_FAILURE),
    "OUT_OF_MEMORY": (JobState.OUT_OF_MEMORY, EndedBy.OUT_OF_MEMORY),
    "OUT_OF_ME": (JobState.OUT_OF_MEMORY, EndedBy.OUT_OF_MEMORY),
    "OOM": (JobState.OUT_OF_MEMORY, EndedBy.OUT_OF_MEMORY),
    "OOMKILLED": (JobState.OUT_OF_MEMORY, EndedBy.OUT_OF_MEMORY),
    "OOM_KILLED": (JobState.OUT_OF_MEMORY, EndedBy.OUT_OF_MEMORY),
    "TIMEOUT": (JobState.TIMEOUT, EndedBy.TIME_LIMIT),
    "TO": (JobState.TIMEOUT, EndedBy.TIME_LIMIT),
    "TIMED_OUT": (JobState.TIMEOUT, EndedBy.TIME_LIMIT),
    "DEADLINEEXCEEDED": (JobState.TIMEOUT, EndedBy.TIME_LIMIT),
    "DEADLINE": (JobState.DEADLINE, EndedBy.DEADLINE),
    "DL": (JobState.DEADLINE, EndedBy.DEADLINE),
    "PREEMPTED": (JobState.PREEMPTED, EndedBy.PREEMPTION),
    "PR": (JobState.PREEMPTED, EndedBy.PREEMPTION),
    "RECLAIMED": (JobState.PREEMPTED, EndedBy.PREEMPTION),
    "RECLAIM": (JobState.PREEMPTED, EndedBy.PREEMPTION),
    "PREEMPTION": (JobState.PREEMPTED, EndedBy.PREEMPTION),
    "SPOT": (JobState.PREEMPTED, EndedBy.PREEMPTION),
    "EVICTED": (JobState.PREEMPTED, EndedBy.PREEMPTION),
    "BOOT_FAIL": (JobState.BOOT_FAIL, EndedBy.LAUNCH),
    "BF": (JobState.BOOT_FAIL, EndedBy.LAUNCH),
    "LAUNCH_FAILED": (JobState.FAILED, EndedBy.LAUNCH),
    "CANCELLED": (JobState.CANCELLED, EndedBy.SOMEBODY),
    "CANCELED": (JobState.CANCELLED, EndedBy.SOMEBODY),
    "CA": (JobState.CANCELLED, EndedBy.SOMEBODY),
    "KILLED": (JobState.FAILED, EndedBy.FAILURE),
}  # fmt: skip
_INTERRUPTED = 130
"""What a shell makes of a program that Ctrl-C ended."""
_BY_UID = re.compile(r"CANCELL?ED\+?\s+by\s+(\S+)", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z][A-Za-z_]*")


class BadFacts(ValueError):
    """The facts cannot be used; the message says which of them, and what would be right."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of the job beside its log. Everything may be missing.

    ``ended`` is None while it runs or where nothing is known; ``requeued`` says that a next
    attempt was already waiting. ``nodes`` are named by the facts, in their order; ``told`` what
    they say of single nodes.
    """

    given: bool = False
    state: str = ""
    job_id: str = ""
    ended: tuple[JobState, EndedBy] | None = None
    running: bool = False
    requeued: bool = False
    exit_code: int | None = None
    exit_signal: int | None = None
    nodes: tuple[str, ...] = ()
    told: tuple[tuple[str, str], ...] = ()
    restart_count: int | None = None
    observed_at: datetime | None = None
    log_last_write: datetime | None = None

    @property
    def failed_nodes(self) -> tuple[str, ...]:
        """Nodes of which the scheduler itself says that they are gone."""
        return tuple(
            name for name, said in self.told if re.match(r"(?i)(down|fail|not.?respond)", said)
        )

    @property
    def quiet_after_s(self) -> float:
        """How long nothing had been written when somebody looked."""
        if self.observed_at is None or self.log_last_write is None:
            return 0.0
        return max(0.0, (self.observed_at - self.log_last_write).total_seconds())


def read_facts(value: object) -> Facts:
    """Facts from a mapping as JSON or YAML give it; a whole label is taken for its
    ``scheduler_facts``. Raises `BadFacts`."""
    if not isinstance(value, Mapping):
        raise BadFacts("the facts must be a mapping, such as {state: FAILED, exit_code: '1:0'}")
    inner = value.get("scheduler_facts")
    if isinstance(inner, Mapping):
        value = inner
    state = _text(value.get("state"))
    code, signal = _exit(value.get("exit_code"))
    ended, running, requeued = _ending(state, code, signal)
    return Facts(
        given=True,
        state=state,
        job_id=_text(value.get("job_id")),
        ended=ended,
        running=running,
        requeued=requeued,
        exit_code=code,
        exit_signal=signal,
        nodes=_nodes(value),
        told=_told(value.get("nodes")),
        restart_count=_count(value.get("restart_count")),
        observed_at=_moment(value.get("observed_at"), "observed_at"),
        log_last_write=_moment(value.get("log_last_write"), "log_last_write"),
    )


def _text(value: object) -> str:
    return "" if value is None else str(value).strip()


def _exit(value: object) -> tuple[int | None, int | None]:
    text = _text(value)
    if not text:
        return None, None
    code, _, signal = text.partition(":")
    try:
        return int(code), int(signal) if signal else None
    except ValueError as error:
        raise BadFacts(
            f"exit_code {text[:40]!r} is neither a number nor Slurm's 'code:signal'"
        ) from error


def _ending(
    state: str, code: int | None, signal: int | None
) -> tuple[tuple[JobState, EndedBy] | None, bool, bool]:
    """How it ended, whether it runs, whether it waits to run again."""
    by_whom = _BY_UID.search(state)
    words = [word.upper() for word in _WORD.findall(state)]
    if "LAUNCH" in words and "FAILED" in words:
        words.append("LAUNCH_FAILED")
    ended: tuple[JobState, EndedBy] | None = None
    running = again = False
    for word in words:
        if word in _ENDS:
            ended, running, again = _ENDS[word], False, False
        elif word in _EXITED:
            ended, running, again = _by_exit(code, signal), False, False
        elif word in _RUNNING:
            ended, running, again = None, True, False
        elif word in _AGAIN:
            running, again = False, True
    if ended == _ENDS["CANCELLED"] and by_whom is not None:
        root = by_whom.group(1).strip("()") in {"0", "root"}
        ended = JobState.CANCELLED, EndedBy.OPERATOR if root else EndedBy.OWNER
    if again and ended is None:
        ended = JobState.CANCELLED, EndedBy.REQUEUE
    if not words and (code is not None or signal is not None):
        ended = _by_exit(code, signal)
    return ended, running, again


def _by_exit(code: int | None, signal: int | None) -> tuple[JobState, EndedBy] | None:
    if code is None and signal is None:
        return JobState.FAILED, EndedBy.UNKNOWN
    if not code and not signal:
        return _ENDS["COMPLETED"]
    if code in {_INTERRUPTED, -2} or signal == 2:
        return _ENDS["CANCELLED"]
    return _ENDS["FAILED"]


def _nodes(value: Mapping[str, Any]) -> tuple[str, ...]:
    found: list[str] = []
    for key in ("current_nodes", "hosts", "node_list", "nodes"):
        named = value.get(key)
        if isinstance(named, str):
            found.extend(part for part in re.split(r"[,\s]+", named) if part)
        elif isinstance(named, list | tuple):
            found.extend(str(name) for name in named)
    return tuple(dict.fromkeys(found))[:4096]


def _told(value: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, Mapping):
        return ()
    return tuple((str(name), _text(said)) for name, said in value.items())


def _count(value: object) -> int | None:
    text = _text(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _moment(value: object, name: str) -> datetime | None:
    if value is None or value == "":
        return None
    if isinstance(value, datetime):
        found = value
    else:
        try:
            found = datetime.fromisoformat(_text(value))
        except ValueError as error:
            raise BadFacts(
                f"{name} {_text(value)[:40]!r} is no time; write 2025-02-11 03:52:50"
            ) from error
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
