"""What slurmctld says of itself and of its nodes."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime

from middlewatch.adapters.slurm.words import moment
from middlewatch.model.scheduler import ClusterFacts, PartitionView
from middlewatch.ports.errors import Unreadable

CONFIG_ARGV = ("scontrol", "show", "config")
NODES_ARGV = ("sinfo", "-h", "-a", "-N", "-o", "%R|%a|%N|%T")
DEFAULT_CRED_EXPIRE = 120
_LINE = re.compile(r"([A-Za-z_]\w*)\s*= (.*)")
_CRED_EXPIRE = re.compile(r"(?:^|,)\s*cred_expire=(\d+)")
_NUMBER = re.compile(r"\d+")
_NAME_AND_UID = re.compile(r"([^()]+)\((\d+)\)")

# Words of sinfo's long state. A node in another one, or with another mark behind the word, gets
# no work now: "*" does not answer, "$" is in maintenance, "@" and "^" are about to reboot, "!"
# and "%" go to sleep; "~", "#" sleep or wake up, and "-" is planned for somebody.
_TAKES_WORK = frozenset({"idle", "mixed", "allocated", "completing", "planned"})
_HARMLESS_MARKS = frozenset({"", "-", "~", "#", "+"})
_STATE = re.compile(r"([a-z_]+)([^a-z_]?)")


def read_config(text: str) -> dict[str, str]:
    """``scontrol show config`` as names and values. Raises `Unreadable` where it is not that."""
    values: dict[str, str] = {}
    for line in text.splitlines():
        match = _LINE.fullmatch(line.rstrip())
        if match is not None:
            values[match.group(1)] = match.group(2)
    if "ClusterName" not in values or "SLURM_VERSION" not in values:
        raise Unreadable("scontrol show config names neither ClusterName nor SLURM_VERSION")
    return values


def facts_from(config: dict[str, str]) -> ClusterFacts:
    """The facts in that configuration. Raises `Unreadable` for a number that is none."""
    found = _CRED_EXPIRE.search(config.get("AuthInfo", ""))
    expire = int(found.group(1)) if found else DEFAULT_CRED_EXPIRE
    private = config.get("PrivateData", "none")
    return ClusterFacts(
        name=config["ClusterName"],
        version=config["SLURM_VERSION"],
        begin_delay_s=float(expire + 1),
        message_timeout_s=_seconds(config, "MessageTimeout", 10.0),
        min_job_age_s=_seconds(config, "MinJobAge", 300.0),
        kill_wait_s=_seconds(config, "KillWait", 30.0),
        started_at=_boot_time(config.get("BOOT_TIME", "")),
        job_requeue_default=config.get("JobRequeue", "1") != "0",
        file_append=config.get("JobFileAppend", "0") != "0",
        private_data=frozenset(
            word for word in re.split(r"[,\s]+", private) if word and word != "none"
        ),
    )


def slurm_user(config: dict[str, str]) -> tuple[str, int] | None:
    """Name and number of the user that slurmctld runs as."""
    match = _NAME_AND_UID.fullmatch(config.get("SlurmUser", ""))
    return (match.group(1), int(match.group(2))) if match else None


def version_tuple(text: str) -> tuple[int, ...]:
    """``22.05.8`` as (22, 5, 8); an empty tuple, older than all, where there is no number."""
    return tuple(int(part) for part in _NUMBER.findall(text)[:3])


def _boot_time(text: str) -> datetime | None:
    # Without an offset it is in the client's zone, and our commands run in UTC.
    if "T" not in text:
        return moment(text)
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    except ValueError as error:
        raise Unreadable(f"BOOT_TIME {text[:40]!r} is no time") from error


def _seconds(config: dict[str, str], key: str, default: float) -> float:
    found = _NUMBER.search(config.get(key, ""))
    return float(found.group()) if found else default


def read_partitions(
    text: str, expand: Callable[[str], tuple[str, ...]]
) -> tuple[PartitionView, ...]:
    """The partitions in the answer to `NODES_ARGV`, in the order of their first line.

    Raises `Unreadable` for a line of another shape.
    """
    nodes: dict[str, list[str]] = {}
    usable: dict[str, list[str]] = {}
    for line in text.splitlines():
        cells = line.split("|")
        if len(cells) != 4:
            raise Unreadable(f"sinfo printed a line of another shape: {line[:120]!r}")
        partition, available, name, state = (cell.strip() for cell in cells)
        names = expand(name) if name not in {"", "(null)"} else ()
        nodes.setdefault(partition, []).extend(names)
        if available == "up" and takes_work(state):
            usable.setdefault(partition, []).extend(names)
    return tuple(
        PartitionView(name, tuple(all_), tuple(usable.get(name, ())))
        for name, all_ in nodes.items()
    )


def takes_work(state: str) -> bool:
    """Whether a node in that long state of sinfo's can take a job now or soon."""
    match = _STATE.fullmatch(state)
    return match is not None and match.group(1) in _TAKES_WORK and match.group(2) in _HARMLESS_MARKS
