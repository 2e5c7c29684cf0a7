"""What a person should do about a failure: restart, leave it, or restart elsewhere.

The policy says what this program may do by itself; this says what is sensible, which is another
question: a program bug fails again however often it is restarted, a dead GPU fails again on the
same node, and of a killed process nobody knows. The default stands in a table, one line for each
class; what the attempt itself shows can turn it, and then the reason says so. Where a class says
nothing by itself, one more try is advised if nothing is lost by it, and the reason says what to look
at should it fail again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from middlewatch.model.attempt import Attempt, EndedBy


class Advisable(StrEnum):
    YES = "yes"
    NO = "no"
    ELSEWHERE = "only-with-node-excluded"
    UNCLEAR = "unclear"
    NOT_APPLICABLE = "not-applicable"


@dataclass(frozen=True, slots=True)
class Opinion:
    """``why`` is a sentence for people."""

    advisable: Advisable
    why: str


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What turns a default. ``evidence`` is the line that names the cause; ``repeated``: it failed
    before in the same way and place; ``requeued``: the scheduler has already put the job back;
    ``stepped``: it had made steps; ``saved``: it had saved a checkpoint of its own."""

    nodes: tuple[str, ...] = ()
    evidence: str = ""
    repeated: bool = False
    requeued: bool = False
    stepped: bool = False
    saved: bool = False
    finished: bool = False
    """All its steps were done."""


_YES, _NO, _EXCL, _ASK = Advisable.YES, Advisable.NO, Advisable.ELSEWHERE, Advisable.UNCLEAR

_DEFAULTS: dict[str, tuple[Advisable, str]] = {
    "gpu_ecc_uncorrectable": (_EXCL, "the GPU's memory is bad until it is reset or replaced"),
    "gpu_off_bus": (_EXCL, "the GPU does not answer until its node is rebooted"),
    "gpu_nvlink_fabric": (_EXCL, "the link between GPUs is down until it is reset"),
    "gpu_firmware_hang": (_EXCL, "the GPU's firmware hangs until it is reset"),
    "gpu_memory_fault": (_YES, "no proof of bad hardware; worth one more try"),
    "ib_link_error": (_YES, "a link or switch port failed, which often heals"),
    "ib_adapter_fatal": (_EXCL, "the network adapter is dead until it is reset"),
    "peer_connection_lost": (_YES, "a peer went away; nothing here says that it would again"),
    "dns_failure": (_YES, "name resolution usually comes back; wait a little before"),
    "rendezvous_timeout": (_YES, "not all workers came in time, and another try loses nothing"),
    "port_in_use": (_YES, "another port, or the same one once it is free"),
    "collective_missing_rank": (_YES, "one rank fell behind; why is not shown"),
    "collective_mismatch": (_NO, "the ranks call different operations: the program would again"),
    "collective_timeout_unattributed": (
        _YES,
        "all ranks wait for the same collective; one restart is reasonable, then check the nodes",
    ),
    "watchdog_stuck": (
        _YES,
        "the watchdog itself hung; one restart is reasonable, then check the nodes",
    ),
    "storage_full": (_NO, "the next attempt finds the same full file system"),
    "storage_io_error": (_YES, "I/O errors and lost mounts often pass"),
    "checkpoint_corrupt": (_NO, "it would load the same checkpoint; choose an older one first"),
    "host_oom": (_NO, "it needs more memory than it was given, and would again"),
    "shm_exhausted": (_NO, "shared memory is as small in the next attempt"),
    "native_crash": (_YES, "native code crashed without a reason in sight; worth one more try"),
    "driver_mismatch": (_EXCL, "driver and libraries of this node do not fit together"),
    "container_start": (_YES, "images and registries fail in passing"),
    "env_import_error": (_NO, "the environment is broken for every attempt"),
    "node_failure": (_EXCL, "the scheduler lost the node"),
    "time_limit": (_YES, "the time was used up: resume from the last checkpoint"),
    "preemption": (_YES, "it made room for others and was not put back by the scheduler"),
    "user_cancel": (_NO, "a person stopped it on purpose"),
    "user_exception": (_NO, "the program would fail in the same place again"),
    "config_error": (_NO, "the options are wrong for every attempt"),
    "data_error": (_NO, "the next attempt reads the same data"),
    "cuda_device_assert": (_NO, "the program would feed the GPU the same values again"),
    "gpu_oom": (_NO, "the model does not fit into the GPU's memory"),
    "numerical_divergence": (
        _NO,
        "the same checkpoint leads there again: choose an older one, or other settings",
    ),
    "silent_hang": (_YES, "it stands still without a reason in sight"),
    "silent_hang_located": (_YES, "it stands still; the dump shows where, not why"),
    "slow_node": (_EXCL, "one node or GPU slows everybody down"),
    "slow_input": (_YES, "reading slowed down; a restart often clears it"),
    "slow_fabric": (_EXCL, "communication slowed down"),
    "slow_job": (_NO, "no node is seen to be at fault: another place would not help"),
    "killed_unknown": (
        _YES,
        "nothing says who ended it or why; one more try, and look for a reason if it ends again",
    ),
}

_AGAIN_THE_SAME = frozenset(
    {
        "gpu_memory_fault",
        "port_in_use",
        "storage_io_error",
        "host_oom",
        "native_crash",
        "container_start",
        "data_error",
        "numerical_divergence",
        "killed_unknown",
        "rendezvous_timeout",
        "collective_missing_rank",
        "collective_timeout_unattributed",
    }
)
"""Classes of which a second time in the same place says that a third would come."""

_SERVICE = re.compile(
    r"(?i)\b(?:50[0234]\b|max retries exceeded|connection ?error|remote ?disconnected|read timed? ?out"
    r"|ConnectTimeout|ReadTimeout|temporarily unavailable|service unavailable|slow ?down|SSLError"
    r"|too many requests|429\b|Temporary failure)"
)
_OWN_SPACE = re.compile(
    r"(?:^|[\s'\"(=])/(?:tmp|var/tmp|dev/shm|local|localscratch|scratch_local|mnt/nvme\w*|raid|nvme\w*)/"
)
_OWN_DISK = re.compile(
    r"(?i)\bnvme\d*n?\d*\b[^\n]*(?:timeout|not ready|abort|removing|i/o|error|shut)"
    r"|\b(?:XFS|EXT4-fs)\b[^\n(]*\((?:nvme|sd|md|dm-)|\b(?:I/O|critical medium) error, dev (?:nvme|sd)"
)
"""A kernel's words about a disk in the node."""
_NO_IMAGE = re.compile(
    r"(?i)manifest unknown|not found|unauthorized|access denied|denied|does not exist|invalid reference"
)


def advisable(failure_class: str, attempt: Attempt, around: Circumstances) -> Opinion:
    """The opinion about one attempt. ``failure_class`` is empty where nothing failed."""
    end = attempt.end
    if end is not None and end.by is EndedBy.COMPLETION:
        return Opinion(_NO, "It completed: there is nothing to restart.")
    if not failure_class:
        if end is None:
            return Opinion(Advisable.NOT_APPLICABLE, "Nothing is wrong with it.")
        return Opinion(_ASK, "It ended, and nothing that was seen says why.")
    default, why = _DEFAULTS.get(failure_class, (_ASK, "no rule is known for this failure"))
    if around.requeued:
        return Opinion(_NO, "The scheduler has put it back by itself: a second restart of ours "
                       "would double it.")  # fmt: skip
    if around.finished and failure_class not in {"time_limit", "preemption", "user_cancel"}:
        return Opinion(_NO, "Its work was done; it only failed to exit. End it, and do not run it "
                       "again.")  # fmt: skip
    if around.repeated and failure_class == "ib_link_error" and around.nodes:
        return Opinion(_EXCL, f"The same link failed again: {_named(around.nodes)}.")
    if around.repeated and failure_class in _AGAIN_THE_SAME:
        return Opinion(_NO, "An earlier attempt failed in the same way at the same place: "
                       "another try without a change would, too.")  # fmt: skip
    turned = _turned(failure_class, around)
    if turned is not None:
        return turned
    if default is _EXCL and around.nodes:
        return Opinion(_EXCL, f"{_sentence(why)} Avoid {_named(around.nodes)}.")
    return Opinion(default, _sentence(why))


def _turned(failure_class: str, around: Circumstances) -> Opinion | None:
    """What the evidence itself says against the default of its class."""
    text = around.evidence
    match failure_class:
        case "host_oom" if around.saved:
            return Opinion(_YES, "It ran long enough to save a checkpoint, so memory grew: a "
                           "restart buys time, and the growth should be found.")  # fmt: skip
        case "user_exception" | "data_error" if _SERVICE.search(text) is not None:
            return Opinion(_YES, "A service or the network failed it for a moment, not the "
                           "program.")  # fmt: skip
        case "data_error" if _OWN_SPACE.search(text) is not None:
            return Opinion(_YES, "The file lies in the node's own temporary space, which a new "
                           "start fills again.")  # fmt: skip
        case "storage_io_error" if around.nodes and _OWN_DISK.search(text) is not None:
            return Opinion(_EXCL, "A disk of the node itself failed. Avoid "
                           f"{_named(around.nodes)}.")  # fmt: skip
        case "container_start" if _NO_IMAGE.search(text) is not None:
            return Opinion(_NO, "The image does not exist or may not be read.")
        case _:
            return None


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _named(nodes: Sequence[str]) -> str:
    return ", ".join(nodes[:8])
