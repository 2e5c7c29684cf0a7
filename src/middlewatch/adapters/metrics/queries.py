"""What is asked: PromQL with gaps, and names that are put into the gaps as data.

Node names come from the scheduler and job ids from the job's row, but the query is a program: they
are quoted for the regular expression and for the string that it stands in, so that no name can be
anything but a name. Sites that measure otherwise write their own queries; what they must give is
one series for each node (or job), named by one label.

Every default looks at real samples of the last ``$window`` only: the value that Prometheus goes on
repeating for five minutes after an exporter died is no measurement.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from middlewatch.model.activity import ActivityKind

LONGEST_QUERY = 12_000
"""VictoriaMetrics refuses queries of more than 16 KiB."""
DCGM_LABEL = "Hostname"
NODE_LABEL = "instance"
JOB_LABEL = "job_id"
_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\Z")
_GAP = re.compile(r"\$(nodes|node_label|job_label|job|window)\b")
_NAME = re.compile(r"[A-Za-z0-9_.\-]{1,255}\Z")

POWER = (
    'max by ($node_label) (avg_over_time(DCGM_FI_DEV_POWER_USAGE{$node_label=~"$nodes"}[$window]))'
)
TENSOR = 'max by ($node_label) (avg_over_time(DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{$node_label=~"$nodes"}[$window]))'
SM = 'max by ($node_label) (avg_over_time(DCGM_FI_PROF_SM_ACTIVE{$node_label=~"$nodes"}[$window]))'
CPU = 'sum by ($node_label) (rate(node_cpu_seconds_total{mode!~"idle|iowait|steal",$node_label=~"$nodes"}[$window]))'
DISK = (
    'sum by ($node_label) (rate(node_disk_read_bytes_total{$node_label=~"$nodes"}[$window])'
    ' + rate(node_disk_written_bytes_total{$node_label=~"$nodes"}[$window]))'
)
NETWORK = (
    'sum by ($node_label) (rate(node_infiniband_port_data_received_bytes_total{$node_label=~"$nodes"}[$window])'
    ' or rate(node_network_receive_bytes_total{device!="lo",$node_label=~"$nodes"}[$window]))'
    ' + sum by ($node_label) (rate(node_infiniband_port_data_transmitted_bytes_total{$node_label=~"$nodes"}[$window])'
    ' or rate(node_network_transmit_bytes_total{device!="lo",$node_label=~"$nodes"}[$window]))'
)
STEP = "max by ($job_label) (last_over_time(middlewatch_step[$window]))"

DEFAULTS: Mapping[ActivityKind, str] = {
    ActivityKind.GPU_POWER: POWER,
    ActivityKind.GPU_TENSOR: TENSOR,
    ActivityKind.GPU_SM: SM,
    ActivityKind.CPU_TIME: CPU,
    ActivityKind.DISK_IO: DISK,
    ActivityKind.NETWORK_IO: NETWORK,
}
_OF_DCGM = frozenset({ActivityKind.GPU_POWER, ActivityKind.GPU_TENSOR, ActivityKind.GPU_SM})


class BadQueryError(ValueError):
    """A query or label that cannot be used: which one, and how to mend it."""


@dataclass(frozen=True, slots=True)
class Queries:
    """Raises `BadQueryError` for labels that are none and queries without the gap they need.

    ``activity`` has a query for each kind that is asked for; ``node_label`` is empty where each
    exporter's own is meant. ``step`` is empty where no step counter is measured.
    """

    activity: Mapping[ActivityKind, str] = field(default_factory=lambda: dict(DEFAULTS))
    step: str = STEP
    node_label: str = ""
    job_label: str = JOB_LABEL
    window_s: float = 60.0

    def __post_init__(self) -> None:
        for key, label in (("node_label", self.node_label), ("job_label", self.job_label)):
            if label and not _LABEL.match(label):
                raise BadQueryError(f"{key}: {label[:80]!r} is no name of a label")
        for kind, query in self.activity.items():
            if "$nodes" not in query:
                raise BadQueryError(
                    f'the query for {kind.value} has no "$nodes": it would fetch all nodes for '
                    'each job; write {label=~"$nodes"} in it'
                )

    def label_of(self, kind: ActivityKind) -> str:
        return self.node_label or (DCGM_LABEL if kind in _OF_DCGM else NODE_LABEL)

    def ask(self, kind: ActivityKind, nodes: Sequence[str], job_id: str) -> Iterator[str]:
        """Queries that together cover the nodes, none of them too long."""
        names = [name for name in dict.fromkeys(nodes) if _NAME.match(name)]
        room = LONGEST_QUERY // max(1, self.activity[kind].count("$nodes"))
        part: list[str] = []
        size = 0
        for name in names:
            pattern = _quoted(f"{_literal(name)}{_REST}")
            if part and size + len(pattern) > room:
                yield self._filled(self.activity[kind], kind, "|".join(part), job_id)
                part, size = [], 0
            part.append(pattern)
            size += len(pattern) + 1
        if part:
            yield self._filled(self.activity[kind], kind, "|".join(part), job_id)

    def ask_any(self, kind: ActivityKind) -> str:
        """The query for all nodes."""
        return self._filled(self.activity[kind], kind, ".+", "")

    def ask_steps(self) -> str:
        return self._filled(self.step, ActivityKind.CPU_TIME, ".+", "")

    def _filled(self, query: str, kind: ActivityKind, nodes: str, job_id: str) -> str:
        values = {
            "nodes": nodes,
            "job": _quoted(job_id),
            "node_label": self.label_of(kind),
            "job_label": self.job_label,
            "window": f"{max(1, round(self.window_s))}s",
        }
        return _GAP.sub(lambda found: values[found[1]], query)


_REST = r"(?:\.[A-Za-z0-9.-]+)?(?::[0-9]+)?"
"""Behind a node's name there may be its domain, and the exporter's port."""


def _literal(name: str) -> str:
    """A name as a regular expression that matches nothing else."""
    return re.sub(r"([^A-Za-z0-9_])", r"\\\1", name)


def _quoted(text: str) -> str:
    """A text inside double quotes of PromQL. What is no printable ASCII stands as its code."""
    return "".join(
        f"\\{c}" if c in '\\"' else c if " " <= c <= "~" else f"\\U{ord(c):08x}" for c in text
    )


def node_of(label: str, wanted: Mapping[str, str]) -> str:
    """Which of the nodes a label's value names; empty for none. ``wanted`` has the nodes by their
    names and by their short names."""
    host = label.rpartition(":")[0] if label.rpartition(":")[2].isdigit() else label
    return wanted.get(host or label) or wanted.get((host or label).partition(".")[0], "")


def selector(labels: Mapping[str, str]) -> str:
    """What selects the series with these labels; their values are data."""
    matchers = ",".join(
        f'{name}="{_quoted(value)}"'
        for name, value in labels.items()
        if name == "__name__" or _LABEL.match(name)
    )
    return f"{{{matchers}}}"
