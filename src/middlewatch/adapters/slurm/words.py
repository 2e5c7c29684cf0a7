"""Slurm's small words: job states, times, durations, exit codes, job numbers, node names.

Every release spells them a little differently. Here each is read in one place, and whatever is
not understood is said to be so instead of guessed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from datetime import UTC, datetime

from middlewatch.model.scheduler import JobFlag, JobState, JobView
from middlewatch.ports.errors import Refused, Unreadable

JOB_ID = re.compile(r"[0-9]{1,10}(?:_[0-9]{1,10}|\+[0-9]{1,10})?")
NODE_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,253}[A-Za-z0-9])?")
NOTHING = frozenset({"", "N/A", "n/a", "NONE", "None", "Unknown", "(null)", "None assigned"})

_BASE = {
    "PENDING": JobState.PENDING,
    "RUNNING": JobState.RUNNING,
    "SUSPENDED": JobState.SUSPENDED,
    "COMPLETED": JobState.COMPLETED,
    "CANCELLED": JobState.CANCELLED,
    "FAILED": JobState.FAILED,
    "TIMEOUT": JobState.TIMEOUT,
    "NODE_FAIL": JobState.NODE_FAIL,
    "PREEMPTED": JobState.PREEMPTED,
    "BOOT_FAIL": JobState.BOOT_FAIL,
    "DEADLINE": JobState.DEADLINE,
    "OUT_OF_MEMORY": JobState.OUT_OF_MEMORY,
}
# squeue prints a flag instead of the base state. What the job then is: these have their nodes,
# or wait. A completing job still has its nodes, whatever it will be next.
_FLAGGED = {
    "COMPLETING": (JobState.RUNNING, JobFlag.COMPLETING),
    "CONFIGURING": (JobState.RUNNING, JobFlag.CONFIGURING),
    "POWER_UP_NODE": (JobState.RUNNING, JobFlag.CONFIGURING),
    "RESIZING": (JobState.RUNNING, JobFlag.RESIZING),
    "STOPPED": (JobState.RUNNING, JobFlag.STOPPED),
    "SPECIAL_EXIT": (JobState.PENDING, JobFlag.SPECIAL_EXIT),
    "REQUEUED": (JobState.PENDING, JobFlag.REQUEUED),
    "REQUEUE_HOLD": (JobState.PENDING, JobFlag.REQUEUE_HOLD),
}
_PLAIN = {"SIGNALING": JobState.RUNNING, "STAGE_OUT": JobState.RUNNING}


def job_state(word: str) -> tuple[JobState, frozenset[JobFlag]]:
    """A state as squeue and sacct print it: one word, which may be a flag that hides the base
    state. A word that we do not know is `JobState.UNREADABLE`, with which nobody may act."""
    if word in _BASE:
        return _BASE[word], frozenset()
    if word in _FLAGGED:
        state, flag = _FLAGGED[word]
        return state, frozenset({flag})
    return _PLAIN.get(word, JobState.UNREADABLE), frozenset()


def job_states(words: tuple[str, ...]) -> tuple[JobState, frozenset[JobFlag]]:
    """A state as JSON lists it: the base state among its flags, in any order."""
    base = [_BASE[word] for word in words if word in _BASE]
    flags = frozenset(_FLAGGED[word][1] for word in words if word in _FLAGGED)
    if len(base) == 1:
        return base[0], flags
    if not base and len(words) == 1:
        return job_state(words[0])
    return JobState.UNREADABLE, flags


def moment(text: str) -> datetime | None:
    """Seconds since the epoch (SLURM_TIME_FORMAT=%s); None for Slurm's words for nothing.

    Raises `Unreadable` for anything else.
    """
    if text in NOTHING:
        return None
    if not (text.isascii() and text.isdigit()):
        raise Unreadable(f"{text[:40]!r} is not a time in seconds since the epoch")
    return from_epoch(int(text) if len(text) <= 12 else -1)


def from_epoch(seconds: int) -> datetime:
    """That moment. Raises `Unreadable` for one that no calendar has."""
    if not 0 <= seconds < 253_402_300_800:
        raise Unreadable(f"{str(seconds)[:40]} is not a time in seconds since the epoch")
    return datetime.fromtimestamp(seconds, UTC)


_DURATION = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)")


def duration_s(text: str) -> int | None:
    """``[days-][hours:]minutes:seconds`` in seconds; None for UNLIMITED and every other word."""
    match = _DURATION.fullmatch(text)
    if match is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


_DIGITS = re.compile(r"[0-9]{1,10}")


def exit_status(text: str) -> tuple[int | None, int | None]:
    """Exit code and signal: ``code:signal`` (newer releases) or one raw wait status (22.05).

    Raises `Unreadable` for anything else.
    """
    code, colon, signal = text.partition(":")
    if not _DIGITS.fullmatch(code) or (colon and not _DIGITS.fullmatch(signal)):
        raise Unreadable(f"{text[:40]!r} is not an exit code")
    if colon:
        return int(code), int(signal) or None
    status = int(code)
    return (status >> 8) & 0xFF, (status & 0x7F) or None


def checked_job_id(text: str) -> str:
    """The same text where it is a job's number (``7``, ``7_2``, ``7+1``).

    Raises `Refused` otherwise: nothing else may reach a command line.
    """
    if JOB_ID.fullmatch(text) is None:
        raise Refused(f"{text[:60]!r} is not a job number such as 1234 or 1234_5")
    return text


def checked_node(text: str) -> str:
    """The same text where it is a single node's name. Raises `Refused` otherwise."""
    if NODE_NAME.fullmatch(text) is None:
        raise Refused(f"{text[:60]!r} is not the name of one node")
    return text


def meant(job_id: str, wanted: Collection[str]) -> bool:
    """Whether a look for these numbers means that job. An array's number means its tasks, too."""
    return job_id in wanted or job_id.partition("_")[0] in wanted


def lacking(jobs: Iterable[JobView], wanted: Collection[str]) -> bool:
    """Whether a look for these numbers does not show all of them."""
    shown = {name for job in jobs for name in (job.job_id, job.job_id.partition("_")[0])}
    return not shown.issuperset(wanted)
