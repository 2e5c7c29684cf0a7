"""The sentences that a decision gives for itself."""

from __future__ import annotations

from middlewatch.model.attempt import AttemptEnd, EndedBy
from middlewatch.remediation.inputs import DecisionInputs
from middlewatch.remediation.outcome import Budget, Dropped, Exclusions


def explanation(
    inputs: DecisionInputs, ground: str, exclusions: Exclusions, budgets: tuple[Budget, ...]
) -> str:
    """Ground, belief, nodes, what was used up, and the gate that closed it, if one did."""
    if inputs.existing is not None and ground == inputs.existing.explanation:
        # The restart is under way and its ground stands; only what is new is added to it.
        new = sorted(set(exclusions.nodes) - set(inputs.existing.exclusions))
        return f"{ground} Late evidence adds {', '.join(new)}." if new else ground
    parts = [ground, inputs.verdict.explanation, about_nodes(exclusions)]
    repeated = next((b for b in budgets if b.applies and b.used and b.note), None)
    if repeated is not None:
        parts.append(
            f"{repeated.name.value}: {repeated.used} of {repeated.limit} used ({repeated.note})."
        )
    closed = inputs.gates.first_closed()
    if closed is not None or not inputs.gates.open:
        why = "no gate was read" if closed is None else f"{closed.name.value} ({closed.detail})"
        parts.append(f"Would have: not permitted by {why}.")
    return " ".join(part for part in parts if part)


def about_nodes(exclusions: Exclusions) -> str:
    """Which nodes are excluded, and which are not although evidence names them; may be empty."""
    parts: list[str] = []
    if exclusions.nodes:
        parts.append(f"Excludes {', '.join(exclusions.nodes)}.")
    told = [d for d in exclusions.dropped if d.why is not Dropped.EXCLUDED_BY_USER]
    if told:
        shown = ", ".join(f"{d.node} ({d.why.value})" for d in told[:8])
        parts.append(f"Not excluded all the same: {shown}.")
    if exclusions.note:
        parts.append(f"{exclusions.note[0].upper()}{exclusions.note[1:]}.")
    return " ".join(parts)


def how_it_ended(end: AttemptEnd) -> str:
    """The end with its exit code and signal, where they are known."""
    code = "" if end.exit_code is None else f", exit code {end.exit_code}"
    signal = "" if not end.exit_signal else f", signal {end.exit_signal}"
    return f"Ended {end.state.value}{code}{signal}."


def cancelled_by(by: EndedBy) -> str:
    """Whose decision a cancellation was."""
    who = {
        EndedBy.OWNER: "its owner",
        EndedBy.OPERATOR: "an operator",
    }.get(by, "somebody (accounting has not said who)")
    return f"Cancelled by {who}: a person's decision stands."
