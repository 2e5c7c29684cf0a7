"""Whether a silent job's nodes stand still, judged by what they did while it trained.

Utilisation proves nothing: a process that waits for ever in a collective keeps its processor busy.
Power and tensor activity tell waiting from work, but their scale is the job's own, so that each
node is compared with itself. What was not measured is unknown, never still: there must be enough
samples on both sides of the beginning of the silence, of a node that did work before it. And a job
whose nodes still work somewhere (they draw power, compile, write a checkpoint) is no witness
against itself, whatever else of it is still.

If all nodes are still, no node is at fault. A single still one among several that work is named.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite

from middlewatch.model.activity import Activity, ActivityKind, NodeSeries

ENOUGH_BEFORE = 10
ENOUGH_DURING = 4
LEAST_SPAN_S = 120.0
"""The samples before the silence lie at least so far apart."""
STILL_FOR_S = 180.0
"""A node must have been still for so long: programs compile, and load, for a minute or two without
a word and with idle accelerators."""
STALE_WINDOWS = 3.0
"""A node whose newest sample is older than so many windows is not measured any more."""
LEAST_SHARE = 0.5
"""Of an attempt's nodes so many must be measured before all can be called still."""
BUSIER = 1.5
KEEPS = 0.85
"""A node that draws this share of its former power works, whatever else of it is still."""
MORE_IO = 0.5


@dataclass(frozen=True, slots=True)
class Rule:
    """A node is still where its median fell to ``share`` of its median before (or to ``near``, in
    the kind's unit) and its upper values to ``peak`` of it; ``least`` is the median from which on
    it can be said to have worked at all."""

    share: float
    peak: float
    near: float
    least: float
    unit: str
    words: str


RULES: dict[ActivityKind, Rule] = {
    ActivityKind.GPU_POWER: Rule(0.5, 0.65, 0.0, 60.0, "W", "power"),
    ActivityKind.GPU_TENSOR: Rule(0.1, 0.2, 0.005, 0.03, "", "tensor activity"),
    ActivityKind.GPU_SM: Rule(0.1, 0.2, 0.01, 0.1, "", "activity of the multiprocessors"),
    ActivityKind.CPU_TIME: Rule(0.25, 0.4, 0.0, 0.5, "processors", "processor time"),
    ActivityKind.DISK_IO: Rule(0.02, 0.1, 0.0, 1e6, "bytes/s", "disk traffic"),
    ActivityKind.NETWORK_IO: Rule(0.02, 0.1, 0.0, 1e6, "bytes/s", "network traffic"),
}
FLOOR_TIMES = 1.25
FLOOR_SHARE = 0.2
"""Power must be near the least that the node drew before the silence: not above it by more than
this share of what it drew at work."""
_GPU = frozenset({ActivityKind.GPU_POWER, ActivityKind.GPU_TENSOR})
_IO = frozenset({ActivityKind.DISK_IO, ActivityKind.NETWORK_IO})


@dataclass(frozen=True, slots=True)
class NodeJudgement:
    """One node: ``still`` is None where that cannot be told. ``before`` and ``during`` are medians,
    ``high`` the upper values before the silence."""

    node: str
    still: bool | None
    before: float = 0.0
    during: float = 0.0
    high: float = 0.0


@dataclass(frozen=True, slots=True)
class Witness:
    """One kind that speaks against the job. ``nodes`` are those that stand still while others
    work; empty where all stand still."""

    kind: ActivityKind
    nodes: tuple[str, ...]
    sentence: str


def witnesses(
    activities: Iterable[Activity],
    nodes: Sequence[str],
    trained_from_s: float,
    silent_from_s: float,
) -> tuple[Witness, ...]:
    """What the activities of an attempt's ``nodes`` testify, one witness for each kind.

    The attempt trained from ``trained_from_s`` on and has been silent since ``silent_from_s``,
    seconds since the epoch.
    """
    allocation = frozenset(nodes)
    judged = {
        activity.kind: (
            activity,
            [
                judged_node(activity, series, trained_from_s, silent_from_s)
                for series in activity.nodes
                if series.node in allocation
            ],
        )
        for activity in activities
        if not activity.unknown
    }
    working = _working({kind: found for kind, (_, found) in judged.items()})
    result: list[Witness] = []
    for activity, found in judged.values():
        witness = _witness(activity, found, len(allocation), working)
        if witness is not None:
            result.append(witness)
    return tuple(sorted(result, key=lambda one: list(ActivityKind).index(one.kind)))


def judged_node(
    activity: Activity, series: NodeSeries, trained_from_s: float, silent_from_s: float
) -> NodeJudgement:
    """One node's samples before the silence beside those in it."""
    rule, window = RULES[activity.kind], activity.window_s
    # A sample speaks of the window before it: one that reaches over the edge speaks of both sides.
    good = [(at, value) for at, value in series.samples if isfinite(value) and value >= 0]
    before = [(at, v) for at, v in good if trained_from_s + window <= at <= silent_from_s]
    during = [(at, v) for at, v in good if at >= silent_from_s + window]
    unknown = NodeJudgement(series.node, None)
    if len(before) < ENOUGH_BEFORE or len(during) < ENOUGH_DURING:
        return unknown
    if before[-1][0] - before[0][0] < LEAST_SPAN_S:
        return unknown
    stale = activity.as_of.timestamp() - during[-1][0] > STALE_WINDOWS * window
    if stale or during[-1][0] - during[0][0] < STILL_FOR_S:
        return unknown
    was = sorted(value for _, value in before)
    now = sorted(value for _, value in during)
    usual, median = _at(was, 0.5), _at(now, 0.5)
    if usual < rule.least:
        return unknown
    still = median <= max(rule.share * usual, rule.near) and _at(now, 0.9) <= max(
        rule.peak * usual, rule.near
    )
    if activity.kind is ActivityKind.GPU_POWER:
        floor = _at(was, 0.05)
        near = max(FLOOR_TIMES * floor, floor + FLOOR_SHARE * (usual - floor))
        still = still and median <= near
    return NodeJudgement(series.node, still, usual, median, _at(was, 0.95))


def _working(judged: dict[ActivityKind, list[NodeJudgement]]) -> frozenset[str]:
    """Nodes that are seen to work in the silence, by any kind that can tell that."""
    found: set[str] = set()
    for kind, nodes in judged.items():
        for node in nodes:
            if node.still is None:
                continue
            if kind is ActivityKind.GPU_POWER:
                works = node.during >= KEEPS * node.before
            elif kind is ActivityKind.GPU_TENSOR:
                works = node.during >= BUSIER * RULES[kind].share * node.before
            elif kind is ActivityKind.CPU_TIME:
                works = node.during >= BUSIER * node.before
            elif kind in _IO:
                works = node.during >= max(MORE_IO * node.high, RULES[kind].least)
            else:
                works = False
            if works:
                found.add(node.node)
    return frozenset(found)


def _witness(
    activity: Activity, judged: list[NodeJudgement], of: int, working: frozenset[str]
) -> Witness | None:
    still = [node for node in judged if node.still and node.node not in working]
    moving = [node for node in judged if node.still is False or node.node in working]
    if not still:
        return None
    measured = len({node.node for node in judged if node.still is not None})
    if not moving and not working:
        if measured < LEAST_SHARE * of:
            return None
        nodes: tuple[str, ...] = ()
    elif len(still) == 1 and len(moving) >= 2 and measured == of:
        nodes = (still[0].node,)
    else:
        # Some work and some do not: a save by one of them looks like that, too.
        return None
    return Witness(activity.kind, nodes, _sentence(activity.kind, still, moving, of))


def _sentence(
    kind: ActivityKind, still: list[NodeJudgement], moving: list[NodeJudgement], of: int
) -> str:
    rule = RULES[kind]
    now = _at(sorted(node.during for node in still), 0.5)
    was = _at(sorted(node.before for node in still), 0.5)
    unit = f" {rule.unit}" if rule.unit else ""
    where = f"on {still[0].node}" if len(still) == 1 else f"on {len(still)} of {of} nodes"
    text = (
        f"{rule.words} {where} is {_figure(now)}{unit}, "
        f"against {_figure(was)}{unit} while the job trained"
    )
    return f"{text}; {len(moving)} other nodes work on" if moving else text


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _at(values: Sequence[float], share: float) -> float:
    """A quantile of sorted values, without interpolation."""
    return values[min(len(values) - 1, int(share * len(values)))]
