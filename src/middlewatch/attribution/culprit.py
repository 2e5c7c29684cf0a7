"""Where a failure began: the rank, its number on the node, the node.

The line that names the cause is often printed without any prefix, while a consequence of it, a
moment later, carries the rank; and the launcher's table names one for certain that may only be the
first that was noticed. So the sources are asked in the order of what they are worth, and what
nobody says stays open.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from middlewatch.attribution.collectives import WAITING, finding_of, rank_in
from middlewatch.attribution.issues import class_of
from middlewatch.attribution.places import Places
from middlewatch.model.issue import Issue
from middlewatch.model.signal import Signal, SignalKind

NOBODYS = frozenset(
    {
        "time_limit",
        "preemption",
        "user_cancel",
        "silent_hang",
        "dns_failure",
        "container_start",
        "rendezvous_timeout",
        "slow_input",
        "slow_fabric",
        "slow_node",
    }
)
"""Classes of the whole job: a rank that says so is only the one that spoke first."""

_AT_WHOLE = frozenset({"node_failure", "watchdog_stuck", "collective_timeout_unattributed"})
"""Classes that have a node at best."""

_DETAIL = re.compile(r"(\w+)=(\S+)")
_NEAR_S = 120.0
"""How far from the cause another line may lie and still tell its place."""
_REPORTERS = frozenset({SignalKind.LAUNCHER_END, SignalKind.CASCADE_LINE})


@dataclass(frozen=True, slots=True)
class Culprit:
    rank: int | None = None
    local_rank: int | None = None
    node: str | None = None


def culprit_of(issue: Issue, own: Sequence[Signal], places: Places) -> Culprit:
    """Where the failure of an issue began. ``own`` are its signals in storage order."""
    cause = next((s for s in own if s.key == issue.first_cause), None)
    if cause is None:
        return Culprit()
    named = issue.failure_class
    if named in NOBODYS:
        return Culprit(node=_single(cause.nodes, places) if named.startswith("slow") else None)
    if named == "peer_connection_lost":
        return Culprit(node=_peer(own, places))
    witnesses = (cause, *_same(cause, own))
    if named in _AT_WHOLE:
        return Culprit(node=_node_at_whole(named, cause, own, places))
    if named in WAITING:
        found = finding_of(own, places.world)
        rank = None if found is None else found.rank
        return _placed(rank, None, None, places)
    for signal in witnesses:
        found_at = _told_by(signal, places)
        if found_at.rank is not None:
            return found_at
    node = next((n for s in witnesses if (n := _single(s.nodes, places)) is not None), None)
    reported = _reported(cause, own, places)
    if reported.rank is not None and (node is None or reported.node in {None, node}):
        return reported
    if node is None:
        node = reported.node or (places.nodes[0] if len(places.nodes) == 1 else None)
    return Culprit(node=node)


def _told_by(signal: Signal, places: Places) -> Culprit:
    detail = dict(_DETAIL.findall(signal.detail))
    node = _single(signal.nodes, places)
    rank = signal.ranks[0] if len(signal.ranks) == 1 else rank_in(signal.excerpt)
    local = (
        _number(detail.get("local_rank")) if "local_rank" in detail else _number(detail.get("gpu"))
    )
    return _placed(rank, local, node, places)


def _placed(rank: int | None, local: int | None, node: str | None, places: Places) -> Culprit:
    """Fill in what follows from the rest."""
    if rank is None and local is not None:
        where = node or (places.nodes[0] if len(places.nodes) == 1 else None)
        if where is not None:
            rank = places.rank_at(where, local)
            node = where
    if rank is None:
        return Culprit(None, local, node)
    if node is None:
        node = places.node_of(rank)
    if local is None:
        local = places.local_of(rank)
    return Culprit(rank, local, node)


def _same(cause: Signal, own: Sequence[Signal]) -> list[Signal]:
    """Other lines that tell of the very same failure: they may carry the place that it lacks."""
    kind = class_of(cause)
    return [
        s
        for s in own
        if s.key != cause.key
        and s.kind not in _REPORTERS
        and class_of(s) == kind
        and abs((s.happened_at - cause.happened_at).total_seconds()) <= _NEAR_S
    ]


def _reported(cause: Signal, own: Sequence[Signal], places: Places) -> Culprit:
    """The process that the launcher saw die first."""
    best = Culprit()
    for signal in own:
        if signal.kind not in _REPORTERS or signal.key == cause.key:
            continue
        found = _told_by(signal, places)
        if found.rank is not None:
            return found
        if best.node is None and found.node is not None and best.local_rank is None:
            best = found
    return best


def _node_at_whole(named: str, cause: Signal, own: Sequence[Signal], places: Places) -> str | None:
    if named == "collective_timeout_unattributed":
        return None
    node = _single(cause.nodes, places)
    if node is not None:
        return node
    ranks = [r for s in own if class_of(s) == named and (r := rank_in(s.excerpt)) is not None]
    found = {n for r in ranks if (n := places.node_of(r)) is not None}
    return next(iter(found)) if len(found) == 1 else None


def _peer(own: Iterable[Signal], places: Places) -> str | None:
    """The other end of a lost connection, where it is named and is one of ours."""
    for signal in own:
        detail = dict(_DETAIL.findall(signal.detail))
        for name in (detail.get("peer", ""), detail.get("host", "")):
            node = _own(name, places)
            if node is not None:
                return node
    return None


def _single(nodes: Sequence[str], places: Places) -> str | None:
    if len(nodes) != 1:
        return None
    return _own(nodes[0], places) or nodes[0]


def _own(name: str, places: Places) -> str | None:
    """The node of the job that a name means: logs print it with or without its domain."""
    if not name:
        return None
    if name in places.nodes:
        return name
    short = name.partition(".")[0].lower()
    alike = [node for node in places.nodes if node.partition(".")[0].lower() == short]
    return alike[0] if len(alike) == 1 and short else None


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 8 else None
