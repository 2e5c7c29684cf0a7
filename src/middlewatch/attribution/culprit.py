"""Where a failure began: the rank, its number on the node, the node.

The line that names the cause is often printed without any prefix, while a consequence of it, a
moment later, carries the rank; and the launcher's table names one for certain that may only be the
first that was noticed. So the sources are asked in the order of what they are worth, and what
nobody says stays open.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from middlewatch.attribution.classes import KILLED_UNKNOWN, class_of
from middlewatch.attribution.collectives import WAITING, finding_of, rank_in
from middlewatch.attribution.places import Places
from middlewatch.model.issue import Issue
from middlewatch.model.signal import Signal, SignalKind

NOBODYS = frozenset(
    {
        "time_limit",
        "preemption",
        "user_cancel",
        "silent_hang",
        "slow_input",
        "slow_fabric",
        "slow_node",
        "slow_job",
    }
)
"""Classes of the whole job: a rank that says so is only the one that spoke first."""

_AT_WHOLE = frozenset({"watchdog_stuck", "collective_timeout_unattributed"})
"""Classes that have a node at best."""

_DETAIL = re.compile(r"(\w+)=(\S+)")
_NCCL = re.compile(r"(?:\d+: ?)?([A-Za-z][\w.-]*):\d+:\d+ \[(\d+)\] ")
"""NCCL's own prefix: host, process, thread, device."""
_GPU = re.compile(r"\bGPU ?(\d{1,2})\b(?![:.\w])")
_NEAR_S = 120.0
"""How far from the cause another line may lie and still tell its place."""
_DEEPER_S = 600.0
_REPORTERS = frozenset({SignalKind.LAUNCHER_END, SignalKind.CASCADE_LINE})


@dataclass(frozen=True, slots=True)
class Culprit:
    rank: int | None = None
    local_rank: int | None = None
    node: str | None = None


def culprit_of(
    issue: Issue, own: Sequence[Signal], places: Places, failed_nodes: Sequence[str] = ()
) -> Culprit:
    """Where the failure of an issue began. ``own`` are its signals in storage order,
    ``failed_nodes`` what the scheduler says has failed."""
    cause = next((s for s in own if s.key == issue.first_cause), None)
    if cause is None:
        return Culprit()
    told = _of_the_job(issue.failure_class, cause, own, places, failed_nodes=failed_nodes)
    if told is not None:
        return told
    return _of_a_process(issue.failure_class, cause, own, places)


def _of_the_job(
    named: str,
    cause: Signal,
    own: Sequence[Signal],
    places: Places,
    *,
    failed_nodes: Sequence[str],
) -> Culprit | None:
    """The place of what concerns the whole job or a whole node; None for a process's failure."""
    if cause.kind is SignalKind.SLOW and len(cause.ranks) == 1:
        # Measured against all other ranks, not said by one.
        return _placed(cause.ranks[0], None, _single(cause.nodes, places), places)
    if named == "silent_hang" and places.absent is not None:
        return _placed(places.absent, None, None, places)
    if named == "dns_failure":
        return _alone(named, own, places)
    if named in NOBODYS:
        nodes = cause.nodes or tuple({n for s in own if s.key != cause.key for n in s.nodes})
        if not nodes and named == "slow_node" and places.alone():
            nodes = places.nodes
        return Culprit(node=_single(nodes, places) if named.startswith("slow") else None)
    if named == "peer_connection_lost":
        lost = _accused(own)
        if lost is not None:
            return Culprit(lost, None, places.node_of(lost))
        return Culprit(node=_peer(own, places))
    if named == "container_start":
        return Culprit(node=_where_alone(cause, own, places))
    if named == "rendezvous_timeout":
        if places.absent is not None:
            return _placed(places.absent, None, None, places)
        return Culprit(node=_missing(own, places))
    if named == "node_failure":
        return Culprit(node=_failed(own, places, failed_nodes))
    if named == "watchdog_stuck":
        stuck = {r for s in own if class_of(s) == named and (r := rank_in(s.excerpt)) is not None}
        if len(stuck) == 1:
            return _placed(stuck.pop(), None, None, places)
    if named in _AT_WHOLE:
        return Culprit(node=_node_at_whole(named, cause, own, places))
    if named in WAITING:
        names = {SignalKind.HINT, SignalKind.FAILURE_LINE}
        if cause.kind in names and len(cause.ranks) == 1:
            return _placed(cause.ranks[0], None, None, places)
        found = finding_of(own, places.world)
        late = None if found is None else found.rank
        late = _accused(own) if late is None else late
        return _placed(places.absent if late is None else late, None, None, places)
    return None


def _alone(named: str, own: Sequence[Signal], places: Places) -> Culprit:
    """The one rank of several that tells of it: the others could do what it could not."""
    spoken = {r for s in own if class_of(s) == named and (r := _rank_of(s, places)) is not None}
    several = (places.world or len(places.pairs)) > 1
    unknown = any(class_of(s) == named and _rank_of(s, places) is None for s in own)
    if len(spoken) == 1 and several and not unknown:
        return _placed(spoken.pop(), None, None, places)
    return Culprit()


def _accused(own: Sequence[Signal]) -> int | None:
    """The one rank that lines about the others' waiting name as missing, or as lost; of several the
    one that most of the lines name. None where they name none, or none in particular."""
    named: Counter[str] = Counter()
    for signal in own:
        if class_of(signal) in WAITING or class_of(signal) == "peer_connection_lost":
            ranks = dict(_DETAIL.findall(signal.detail)).get("ranks", "")
            named.update({part for part in ranks.split(",") if part})
    return _number(_majority(named))


def _majority(named: Counter[str]) -> str | None:
    """The name that more lines give than all others together; of one, that one."""
    if not named:
        return None
    name, most = named.most_common(1)[0]
    return name if 2 * most > named.total() else None


def _of_a_process(named: str, cause: Signal, own: Sequence[Signal], places: Places) -> Culprit:
    """The process that failed, from whoever says so."""
    if named == "ib_link_error" and "peer=" in cause.detail:
        blamed = _blamed(own, places)
        if blamed is not None:
            return blamed
    witnesses = (cause, *_same(cause, own))
    for signal in witnesses:
        if places.launchers and "srun: " in signal.excerpt:
            continue  # its tasks are launchers
        rank = _rank_of(signal, places)
        if rank is None:
            rank = places.rank_of_process(signal.excerpt)
        if rank is None:
            on = _single(signal.nodes, places) or places.node_at_head(signal.excerpt)
            rank = places.rank_in_kernel(signal.excerpt, on)
        if rank is not None:
            return _placed(rank, None, _single(signal.nodes, places), places)
    node = next((n for s in witnesses if (n := _single(s.nodes, places)) is not None), None)
    node = node or next(
        (n for s in witnesses if (n := places.node_told(s.excerpt)) is not None), None
    )
    for tell in (_written_on, _addressed, _begun_by):
        node = node or next((n for s in witnesses if (n := tell(s, places))), None)
    first_seen = _explained(cause, own, node, places)
    if first_seen is not None:
        return _placed(first_seen, None, node, places)
    for signal in witnesses:
        found_at = _told_by(signal, places)
        if found_at.rank is not None:
            return found_at
    found = finding_of(own, places.world)
    late = None if found is None else found.rank
    if late is not None and node is not None and places.node_of(late) == node:
        return _placed(late, None, node, places)
    if named == "port_in_use":
        # Who listens for the others is their first rank.
        return _placed(0, None, node, places)
    reported = _reported(cause, own, places)
    if reported.rank is not None and (node is None or reported.node in {None, node}):
        return reported
    if node is None:
        node = reported.node or (places.nodes[0] if places.alone() else None)
    return Culprit(node=node)


def _explained(
    cause: Signal, own: Sequence[Signal], node: str | None, places: Places
) -> int | None:
    """The rank of the symptom that a deeper line of the same place explains."""
    for signal in own:
        near = abs((signal.happened_at - cause.happened_at).total_seconds()) <= _DEEPER_S
        if signal.kind is not SignalKind.FAILURE_LINE or signal.key == cause.key or not near:
            continue
        rank = _rank_of(signal, places)
        if rank is not None and (node is None or places.node_of(rank) in {None, node}):
            return rank
    return None


def _failed(own: Sequence[Signal], places: Places, told: Sequence[str]) -> str | None:
    """The node that was lost: as the scheduler says, or as its lines say."""
    if len(told) == 1:
        return told[0]
    for signal in own:
        if signal.failure_class == "node_failure" and len(signal.nodes) == 1:
            return _single(signal.nodes, places)
    return None


def _missing(own: Sequence[Signal], places: Places) -> str | None:
    """The one node that does not say that it waited in vain: the others wait for it."""
    spoken = {node for s in own for name in s.nodes if (node := _own(name, places)) is not None}
    rest = [node for node in places.nodes if node not in spoken]
    return rest[0] if len(rest) == 1 and len(spoken) > 1 else None


def _told_by(signal: Signal, places: Places) -> Culprit:
    detail = dict(_DETAIL.findall(signal.detail))
    node = _single(signal.nodes, places)
    rank = _rank_of(signal, places)
    if places.launchers and "srun: " in signal.excerpt:
        rank = None
    local = _number(detail.get("local_rank"))
    nccl = _NCCL.match(signal.excerpt)
    if nccl is not None:
        node = node or _single((nccl.group(1),), places)
        local = _number(nccl.group(2)) if local is None else local
    if local is None:
        gpu = _GPU.search(signal.excerpt)
        told = _number(detail.get("gpu"))
        local = told if told is not None or gpu is None else _number(gpu.group(1))
    return _placed(rank, local, node, places)


def _placed(rank: int | None, local: int | None, node: str | None, places: Places) -> Culprit:
    """Fill in what follows from the rest."""
    if rank is None and local is not None:
        where = node or (places.nodes[0] if places.alone() else None)
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
    """The process that the launcher saw die first. Its table names the root cause last."""
    reports = [s for s in own if _reports(s) and s.key != cause.key]
    found = [(s, _told_by(s, places)) for s in reports]
    table = [c for s, c in found if s.kind is SignalKind.CASCADE_LINE and "local_rank" in s.detail]
    local = _told_by(cause, places).local_rank
    same = [c for c in table if local is not None and c.local_rank == local]
    if same:
        return same[-1]
    first = next((c for _, c in found if c.rank is not None or c.local_rank is not None), None)
    if first is None:
        return next((c for _, c in found if c.node is not None), Culprit())
    if first.rank is not None and (not table or first is not table[0]):
        return first
    if table:
        local = first.local_rank
        alike = [c for c in table if c.local_rank == local and first is not table[0]]
        return alike[0] if alike else table[-1]
    return first


def _reports(signal: Signal) -> bool:
    """A launcher's or Slurm's word about a process that has died."""
    unclassed = class_of(signal) == KILLED_UNKNOWN
    return signal.kind is SignalKind.LAUNCHER_END or (
        unclassed and signal.kind in {SignalKind.CASCADE_LINE, SignalKind.FAILURE_LINE}
    )


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
    """The other end of a lost connection, where it is named and not only numbered: whom most of
    those who lost one name, or else whom the first of them names."""
    named: list[str] = []
    for signal in own:
        name = re.split(r"[<:,]", dict(_DETAIL.findall(signal.detail)).get("peer", ""))[0]
        if name and name[0].isdigit() and (node := places.node_told(name)) is not None:
            named.append(node)
            continue
        if not name or name[0].isdigit() or name[0] == "[":
            continue  # an address; whose it is nobody says
        dotted = any("." in node for node in places.nodes)
        node = _own(name, places) or dict(places.aliases).get(name)
        named.append(node or (name if dotted else name.partition(".")[0]))
    return _majority(Counter(named)) or next(iter(named), None)


def _blamed(own: Sequence[Signal], places: Places) -> Culprit | None:
    """The node that several others say they lost over the network, and that blames nobody; with
    its rank, where all of them lost it at one device: rails join like devices."""
    accusers: dict[str, set[str]] = {}
    devices: set[str] = set()
    for signal in own:
        detail = dict(_DETAIL.findall(signal.detail))
        writer = _single(signal.nodes, places)
        if class_of(signal) != "ib_link_error" or "peer" not in detail or writer is None:
            continue
        peer = places.node_told(re.split(r"[<:,]", detail["peer"])[0])
        if peer is not None:
            accusers.setdefault(peer, set()).add(writer)
            devices.add(detail.get("gpu", ""))
    blamers = {writer for writers in accusers.values() for writer in writers}
    guilty = [n for n, writers in accusers.items() if len(writers) > 1 and n not in blamers]
    if len(guilty) != 1 or len(accusers) != 1:
        return None
    local = _number(devices.pop()) if len(devices) == 1 else None
    return _placed(None, local, guilty[0], places)


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


def _where_alone(cause: Signal, own: Sequence[Signal], places: Places) -> str | None:
    """The one node on which a container could not be started, where it is only one of several."""
    found: set[str] = set()
    for signal in (cause, *_same(cause, own)):
        node = _single(signal.nodes, places) or places.node_told(signal.excerpt)
        node = node or _written_on(signal, places)
        if node is None:
            return None
        found.add(node)
    return found.pop() if len(found) == 1 and len(places.nodes) > 1 else None


def _rank_of(signal: Signal, places: Places) -> int | None:
    """The rank that a line names, or that wrote it as its head says."""
    if len(signal.ranks) == 1:
        return signal.ranks[0]
    rank = rank_in(signal.excerpt)
    return places.rank_at_head(signal.excerpt) if rank is None else rank


def _begun_by(signal: Signal, places: Places) -> str | None:
    return places.node_at_head(signal.excerpt)


def _addressed(signal: Signal, places: Places) -> str | None:
    return places.address_told(signal.excerpt)


def _written_on(signal: Signal, places: Places) -> str | None:
    """The node of the job whose output the line is, as its prefix says."""
    name = dict(_DETAIL.findall(signal.detail)).get("writer", "")
    return _own(name, places) or (places.node_told(name) if name else None)


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 8 else None
