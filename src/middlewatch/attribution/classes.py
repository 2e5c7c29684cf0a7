"""How deep each kind of evidence reaches.

A log is full of consequences: one rank's memory fails, and a thousand lines of its peers say that
a connection was lost. Which line names the cause cannot be told from loudness or order alone, so
each failure class has a depth here: a symptom says that others died or wait, a fault that this
process died, a cause says of what, a proof is the hardware's or the scheduler's own word. Unknown classes count as symptoms, so that a
pattern added by a site can be outranked but never outranks.
"""

from __future__ import annotations

from enum import IntEnum

from middlewatch.model.issue import CANNOT_READ, NOT_VISIBLE, VANISHED
from middlewatch.model.signal import Domain, Signal, SignalKind


class Depth(IntEnum):
    SYMPTOM = 1
    FAULT = 2
    CAUSE = 3
    PROOF = 4


NODE_FAILURE = "node_failure"
SILENT_HANG = "silent_hang"
KILLED_UNKNOWN = "killed_unknown"

STOPPED_FROM_OUTSIDE = frozenset({"time_limit", "preemption", "user_cancel"})
"""Ends that make a healthy program print failures while it is being stopped."""

_PROOF = frozenset(
    {
        "gpu_ecc_uncorrectable",
        "gpu_off_bus",
        "gpu_nvlink_fabric",
        "gpu_firmware_hang",
        "ib_adapter_fatal",
        NODE_FAILURE,
    }
)
_CAUSE = frozenset(
    {
        "ib_link_error",
        "dns_failure",
        "port_in_use",
        "collective_mismatch",
        "storage_full",
        "storage_io_error",
        "checkpoint_corrupt",
        "host_oom",
        "shm_exhausted",
        "driver_mismatch",
        "container_start",
        "env_import_error",
        "config_error",
        "data_error",
        "cuda_device_assert",
        "gpu_oom",
        "numerical_divergence",
    }
)

_FAULT = frozenset(
    {
        "gpu_memory_fault",
        "native_crash",
        "user_exception",
        "silent_hang_located",
        "slow_node",
        "slow_input",
        "slow_fabric",
    }
)

OPEN_TO_PROOF = frozenset({"ib_link_error", "storage_io_error", "numerical_divergence"})
"""Causes that the hardware's own word, printed later, explains."""

_DOMAINS: dict[str, Domain] = {
    "gpu_ecc_uncorrectable": Domain.HARDWARE,
    "gpu_off_bus": Domain.HARDWARE,
    "gpu_nvlink_fabric": Domain.HARDWARE,
    "gpu_firmware_hang": Domain.HARDWARE,
    "ib_link_error": Domain.NETWORK,
    "ib_adapter_fatal": Domain.HARDWARE,
    "dns_failure": Domain.NETWORK,
    "rendezvous_timeout": Domain.NETWORK,
    "port_in_use": Domain.USER,
    "collective_mismatch": Domain.APPLICATION,
    "storage_full": Domain.STORAGE,
    "storage_io_error": Domain.STORAGE,
    "checkpoint_corrupt": Domain.STORAGE,
    "host_oom": Domain.SYSTEM_SOFTWARE,
    "shm_exhausted": Domain.SYSTEM_SOFTWARE,
    "native_crash": Domain.APPLICATION,
    "driver_mismatch": Domain.SYSTEM_SOFTWARE,
    "container_start": Domain.SYSTEM_SOFTWARE,
    "env_import_error": Domain.SYSTEM_SOFTWARE,
    NODE_FAILURE: Domain.HARDWARE,
    "time_limit": Domain.SCHEDULER,
    "preemption": Domain.SCHEDULER,
    "user_cancel": Domain.USER,
    "user_exception": Domain.APPLICATION,
    "config_error": Domain.USER,
    "data_error": Domain.USER,
    "cuda_device_assert": Domain.APPLICATION,
    "gpu_oom": Domain.USER,
    "numerical_divergence": Domain.APPLICATION,
    "slow_node": Domain.HARDWARE,
    "slow_input": Domain.STORAGE,
    "slow_fabric": Domain.NETWORK,
    VANISHED: Domain.SCHEDULER,
}


def class_of(signal: Signal) -> str:
    """The failure class that a signal stands for; kinds without one have a class of their own."""
    if signal.failure_class:
        return signal.failure_class
    match signal.kind:
        case SignalKind.SILENCE | SignalKind.OVERDUE:
            return SILENT_HANG
        case SignalKind.WATCHDOG_LINE:
            return "collective_timeout_unattributed"
        case SignalKind.CANNOT_READ:
            return CANNOT_READ
        case SignalKind.VANISHED:
            return VANISHED
        case SignalKind.BLIND:
            return NOT_VISIBLE
        case _:
            return KILLED_UNKNOWN


def depth_of(failure_class: str) -> Depth:
    """How deep evidence of that class reaches; a class nobody knows is a symptom."""
    if failure_class in _PROOF:
        return Depth.PROOF
    if failure_class in _CAUSE or failure_class in STOPPED_FROM_OUTSIDE:
        return Depth.CAUSE
    return Depth.FAULT if failure_class in _FAULT else Depth.SYMPTOM


def domain_of(failure_class: str) -> Domain:
    """The usual domain of a class, for evidence that brings none of its own."""
    return _DOMAINS.get(failure_class, Domain.UNKNOWN)
