"""Which nodes a restart shall avoid: only on evidence, and never more than can be spared.

Too many exclusions turn a job into one that can never start, which is worse than a bad node. So a
node that evidence blames is excluded only while at least one of the job's partitions keeps enough
usable nodes for the job and the spare ones that the site wants; what the job requires by name is
never excluded. A node that an earlier attempt of the job died of stays excluded, or it would come
back with the second restart. Whatever is left out is named with its reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from middlewatch.model.issue import Confidence, Verdict
from middlewatch.model.scheduler import PartitionView
from middlewatch.model.signal import Domain
from middlewatch.remediation.inputs import DecisionInputs
from middlewatch.remediation.outcome import Dropped, DroppedNode, Exclusions

_PLACES = frozenset({Domain.HARDWARE, Domain.NETWORK, Domain.STORAGE})

_SHARED = frozenset(
    {"storage_full", "checkpoint_corrupt", "slow_input", "dns_failure", "rendezvous_timeout"}
)
"""Classes of those domains whose seat is a shared service: the node that noticed is not to blame."""

_PER_NODE = frozenset({"driver_mismatch"})
"""Classes of other domains whose seat is the node."""


def blamed_nodes(verdict: Verdict) -> tuple[str, ...]:
    """The nodes of a verdict that may be excluded on its ground."""
    if verdict.failure_class in _SHARED or verdict.confidence is Confidence.LOW:
        return ()
    if verdict.domain in _PLACES or verdict.failure_class in _PER_NODE:
        return verdict.nodes
    return ()


def exclusions_for(inputs: DecisionInputs) -> Exclusions:
    """What to exclude on the successor of this attempt; never a node that the user excluded
    (theirs are united with ours when the scheduler is told)."""
    blamed = blamed_nodes(inputs.verdict)
    standing = () if inputs.existing is None else inputs.existing.exclusions
    ledger = _ledger(inputs)
    wanted = tuple(dict.fromkeys((*standing, *blamed, *ledger)))
    ours = (node for past in inputs.history.attempts for node in past.excluded_by_us)
    settled = frozenset((*standing, *ours))
    if not wanted:
        return Exclusions()
    chosen: list[str] = []
    dropped: list[DroppedNode] = []
    for node in wanted:
        if node in standing:
            # What was decided is not taken back by how busy the partition looks now.
            chosen.append(node)
            continue
        why = _why_not(node, tuple(chosen), settled, inputs)
        if why is None:
            chosen.append(node)
        else:
            dropped.append(DroppedNode(node, why))
    unknown = inputs.partitions is None and any(
        d.why is Dropped.PARTITIONS_UNKNOWN for d in dropped
    )
    note = f"nothing new is excluded: {inputs.partitions_unknown}" if unknown else ""
    return Exclusions(tuple(sorted(chosen)), tuple(dropped), note)


def _ledger(inputs: DecisionInputs) -> tuple[str, ...]:
    """Nodes that earlier attempts of the job were to avoid or were broken by, newest first."""
    nodes: list[str] = []
    for attempt in reversed(inputs.history.attempts):
        nodes.extend((*attempt.blamed_nodes, *attempt.excluded_by_us))
    return tuple(dict.fromkeys(nodes))


def _why_not(
    node: str, chosen: tuple[str, ...], settled: frozenset[str], inputs: DecisionInputs
) -> Dropped | None:
    attempt = inputs.attempt
    if node in attempt.required_nodes:
        return Dropped.REQUIRED
    if node in attempt.excluded_nodes and node not in settled:
        return Dropped.EXCLUDED_BY_USER
    if len(chosen) >= inputs.policy.max_exclusions:
        return Dropped.TOO_MANY
    if inputs.partitions is None:
        return None if node in settled else Dropped.PARTITIONS_UNKNOWN
    excluded = {*attempt.excluded_nodes, *chosen, node}
    need = max(attempt.node_count, len(attempt.nodes), 1) + max(inputs.policy.min_spare_nodes, 0)
    if not any(
        spare(view, excluded) >= need for view in _own(inputs.partitions, attempt.partitions)
    ):
        return Dropped.NOT_SPARED
    return None


def spare(view: PartitionView, excluded: Iterable[str]) -> int:
    """How many usable nodes of a partition an attempt with these exclusions could get."""
    return len(set(view.usable) - set(excluded))


def _own(views: Sequence[PartitionView], names: Sequence[str]) -> tuple[PartitionView, ...]:
    return tuple(view for view in views if view.name in names)
