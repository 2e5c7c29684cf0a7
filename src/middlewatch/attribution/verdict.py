"""What is believed about an issue: whose fault it is, and which nodes and ranks it implicates.

A job's output belongs to its owner, who may print any node's name. So a name counts only if it is
a node of that attempt's own allocation; every other one is dropped, and the verdict says so. A
rank is turned into a node only where the evidence itself ties the two together, or where there is
but one node: which rank sat where is otherwise not known, and a guess would condemn a good node.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from middlewatch.attribution.classes import NODE_FAILURE, Depth, class_of, depth_of, domain_of
from middlewatch.attribution.issues import signals_of
from middlewatch.model.attempt import Attempt
from middlewatch.model.issue import Confidence, Issue, Verdict, VerdictBasis
from middlewatch.model.signal import SILENT, Domain, Signal, SignalKind, SourceKind

_SPEAKING = frozenset({SignalKind.FAILURE_LINE, SignalKind.CASCADE_LINE, SignalKind.SCHEDULER_END})
_WITNESSES = frozenset({SignalKind.EXTERNAL, SignalKind.SECOND_WITNESS})


@dataclass(frozen=True, slots=True)
class _Implicated:
    nodes: tuple[str, ...]
    ranks: tuple[int, ...]
    by_name: bool
    foreign: tuple[str, ...]
    unmapped: tuple[int, ...]


def verdict_for(
    issue: Issue,
    signals: Sequence[Signal],
    attempt: Attempt,
    now: datetime,
    *,
    failed_nodes: Sequence[str] = (),
) -> Verdict:
    """The belief about ``issue``, from the signals that it names (others may be given too).

    ``failed_nodes`` are what the scheduler says has failed; heard where a node failure is the
    cause.
    """
    own = signals_of(issue, signals)
    cause = next((s for s in own if s.key == issue.first_cause), None)
    if cause is None:
        return Verdict(
            issue_id=issue.id,
            attempt_id=attempt.id,
            domain=domain_of(issue.failure_class),
            failure_class=issue.failure_class,
            nodes=(),
            ranks=(),
            basis=VerdictBasis.NOTHING,
            confidence=Confidence.LOW,
            explanation="The signal that named the cause cannot be read any more.",
            at=now,
        )
    domain = cause.domain if cause.domain is not Domain.UNKNOWN else domain_of(issue.failure_class)
    told = tuple(failed_nodes) if class_of(cause) == NODE_FAILURE else ()
    found = _implicated(cause, own, attempt, told)
    basis = _basis(cause, domain, found)
    return Verdict(
        issue_id=issue.id,
        attempt_id=attempt.id,
        domain=domain,
        failure_class=issue.failure_class,
        nodes=found.nodes,
        ranks=found.ranks,
        basis=basis,
        confidence=_confidence(basis, domain, issue.failure_class),
        explanation=_explanation(cause, domain, found, basis),
        at=now,
    )


def same_belief(one: Verdict, other: Verdict) -> bool:
    """Whether two verdicts say the same, whenever they were formed."""
    return (one.issue_id, one.domain, one.failure_class, one.nodes, one.ranks, one.basis) == (
        other.issue_id,
        other.domain,
        other.failure_class,
        other.nodes,
        other.ranks,
        other.basis,
    ) and (one.confidence, one.explanation) == (other.confidence, other.explanation)


def own_node(name: str, allocation: Sequence[str]) -> str | None:
    """The node of the allocation that ``name`` means, or None.

    Logs print ``n2`` where Slurm says ``n2.site`` and the other way round: a short name counts
    where exactly one node of the allocation has it.
    """
    if name in allocation:
        return name
    short = name.partition(".")[0].lower()
    if not short:
        return None
    alike = [node for node in allocation if node.partition(".")[0].lower() == short]
    both_long = "." in name and any("." in node for node in alike)
    return alike[0] if len(alike) == 1 and not both_long else None


def ranks_on_nodes(signals: Iterable[Signal], attempt: Attempt) -> dict[int, str]:
    """Which rank sat on which node, as far as single lines name both. Contradictions drop out."""
    said: dict[int, set[str]] = {}
    for signal in signals:
        nodes = {own_node(name, attempt.nodes) for name in signal.nodes}
        if len(nodes) != 1:
            continue
        (node,) = nodes
        if node is None:
            continue
        for rank in signal.ranks:
            said.setdefault(rank, set()).add(node)
    return {rank: next(iter(nodes)) for rank, nodes in said.items() if len(nodes) == 1}


def _implicated(
    cause: Signal, own: Sequence[Signal], attempt: Attempt, told: tuple[str, ...]
) -> _Implicated:
    """Nodes and ranks that the cause names, with whoever else names the same cause.

    Consequences name nodes too (a launcher lists every rank that it killed): they are not heard
    about who is to blame, only about which rank sat where.
    """
    speaking = [s for s in own if s.key == cause.key or _corroborates(s, cause)]
    nodes: list[str] = []
    foreign: list[str] = []
    for name in (*told, *(name for s in speaking for name in s.nodes)):
        node = own_node(name, attempt.nodes)
        if node is None:
            foreign.append(name)
        else:
            nodes.append(node)
    by_name = bool(nodes)
    ranks = tuple(sorted({rank for s in speaking for rank in s.ranks}))
    unmapped: list[int] = []
    if not nodes:
        mapped = ranks_on_nodes(own, attempt)
        for rank in ranks:
            if len(attempt.nodes) == 1 and attempt.node_count <= 1:
                nodes.append(attempt.nodes[0])
            elif rank in mapped:
                nodes.append(mapped[rank])
            else:
                unmapped.append(rank)
    return _Implicated(
        nodes=tuple(sorted(set(nodes))),
        ranks=ranks,
        by_name=by_name,
        foreign=tuple(dict.fromkeys(foreign)),
        unmapped=tuple(unmapped),
    )


def _corroborates(signal: Signal, cause: Signal) -> bool:
    if class_of(signal) == class_of(cause) and signal.kind in _SPEAKING:
        # A hundred ranks that see the same symptom are not a hundred culprits: only evidence
        # that proves something of its own place adds a place.
        return depth_of(class_of(cause)) is Depth.PROOF
    return signal.kind in _WITNESSES and bool(signal.nodes)


def _basis(cause: Signal, domain: Domain, found: _Implicated) -> VerdictBasis:
    if cause.kind is SignalKind.SCHEDULER_END or cause.source.kind is SourceKind.SCHEDULER:
        return VerdictBasis.SCHEDULER_FACT
    if cause.kind in SILENT:
        return VerdictBasis.SILENCE_ONLY
    if found.by_name:
        return VerdictBasis.LINE_NAMES_NODE
    if found.ranks:
        return VerdictBasis.LINE_NAMES_RANK
    return VerdictBasis.NOTHING if domain is Domain.UNKNOWN else VerdictBasis.PATTERN_DOMAIN


def _confidence(basis: VerdictBasis, domain: Domain, failure_class: str) -> Confidence:
    if basis is VerdictBasis.SCHEDULER_FACT:
        return Confidence.HIGH if domain is not Domain.UNKNOWN else Confidence.LOW
    if basis in {VerdictBasis.SILENCE_ONLY, VerdictBasis.NOTHING} or domain is Domain.UNKNOWN:
        return Confidence.LOW
    if depth_of(failure_class) is Depth.PROOF and basis is VerdictBasis.LINE_NAMES_NODE:
        return Confidence.HIGH
    return Confidence.MEDIUM


def _explanation(cause: Signal, domain: Domain, found: _Implicated, basis: VerdictBasis) -> str:
    parts = [f"{class_of(cause)}: domain {domain.value}, {_ground(cause, basis)}."]
    if found.nodes:
        parts.append(f"Implicates {', '.join(found.nodes)}{_how(found, basis)}.")
    else:
        parts.append("Implicates no node.")
    if found.foreign:
        shown = ", ".join(found.foreign[:5])
        parts.append(f"Not in this attempt's allocation, so not believed: {shown}.")
    if found.unmapped:
        shown = ", ".join(str(rank) for rank in found.unmapped[:8])
        parts.append(f"On which node rank {shown} ran is not known.")
    if class_of(cause) == NODE_FAILURE and not found.nodes and not found.foreign:
        parts.append("The scheduler did not say which node failed.")
    return " ".join(parts)


def _how(found: _Implicated, basis: VerdictBasis) -> str:
    if basis is VerdictBasis.SCHEDULER_FACT:
        return " (the scheduler's word)"
    if found.by_name:
        return " (named by the evidence)"
    shown = ", ".join(str(rank) for rank in found.ranks[:8])
    return f" (where rank {shown} ran)"


def _ground(cause: Signal, basis: VerdictBasis) -> str:
    match cause.kind:
        case SignalKind.SCHEDULER_END:
            return "as the scheduler says"
        case SignalKind.SILENCE | SignalKind.OVERDUE:
            return "from silence alone"
        case SignalKind.EXTERNAL | SignalKind.SECOND_WITNESS:
            return f"reported by {cause.source.identity or 'a collector'}"
        case _:
            named = f"pattern {cause.pattern_id}" if cause.pattern_id else cause.kind.value
            return (
                f"from {named}" if basis is not VerdictBasis.NOTHING else f"{named} tells no more"
            )
