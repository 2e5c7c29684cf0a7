"""What a job's nodes did while it said nothing: time series that the job's user cannot write.

A silent log is one witness. That the graphics processors draw no power, that the processors and
the disks stand still or that a checkpoint directory does not grow is another one, of another kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class ActivityKind(StrEnum):
    """One thing that is measured on a node. The value is also the name of its witness."""

    GPU_POWER = "gpu_power"
    """Watts of the node's busiest graphics processor."""
    GPU_TENSOR = "gpu_tensor"
    """Share of time in which its tensor pipes work, 0 to 1."""
    GPU_SM = "gpu_sm"
    """Share of its multiprocessors that have something to do, 0 to 1."""
    CPU_TIME = "cpu_time"
    """Processors of the node that work, as a number of them."""
    DISK_IO = "disk_io"
    """Bytes read and written per second."""
    NETWORK_IO = "network_io"
    """Bytes sent and received per second, InfiniBand and Ethernet together."""


@dataclass(frozen=True, slots=True)
class NodeSeries:
    """The samples of one node: (seconds since the epoch, value), ascending by time. There is no
    sample where nothing was measured; a value may be NaN."""

    node: str
    samples: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Activity:
    """One kind for the nodes of one attempt. Each sample speaks of the ``window_s`` seconds before
    it; ``as_of`` is when the newest of them could have been measured. ``unknown`` says why nothing
    is known; then ``nodes`` is empty and nothing may be concluded."""

    kind: ActivityKind
    nodes: tuple[NodeSeries, ...]
    as_of: datetime
    window_s: float
    unknown: str = ""


@dataclass(frozen=True, slots=True)
class Growth:
    """A checkpoint directory: ``newest`` is when anything in it was last written."""

    path: str
    newest: datetime
