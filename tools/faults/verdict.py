"""What went wrong in one schedule, counted. Each rule looks at the world, not at our own claims."""

from __future__ import annotations

from dataclasses import dataclass

from tools.faults.run import Seen
from tools.faults.schedule import RECOVERS, Kind
from tools.faults.world import ENDED

COUNTS = (
    "double_successors",
    "held_forever",
    "lost_advice",
    "lost_audit",
    "outcome_while_held",
    "revived_completed_left",
    "revived_cancelled_left",
    "wrong_kills",
    "unconverged",
    "exclusions_lost",
    "operator_hold_broken",
)
"""All of these must be 0; docs/faults.md says what each counts."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that went wrong: under which count, how many, and a sentence."""

    count: str
    number: int
    text: str


def judged(seen: Seen) -> tuple[Finding, ...]:
    """Everything that is wrong; empty: it ended right."""
    found = [*_successors(seen), *_holds(seen), *_memory(seen), *_revived(seen)]
    found += [*_healthy_work(seen), *_end(seen), *_exclusions(seen)]
    return tuple(found)


def _successors(seen: Seen) -> list[Finding]:
    found = []
    name = "double_successors"
    if seen.row.restarts > 1:
        text = f"one failure, and Slurm counts {seen.row.restarts} restarts"
        found.append(Finding(name, seen.row.restarts - 1, text))
    if seen.overlaps:
        text = f"two attempts trained side by side at {seen.overlaps} samples"
        found.append(Finding(name, 1, text))
    begun = [note.attempt for note in seen.notes if note.word == "begin"]
    twice = sorted({attempt for attempt in begun if begun.count(attempt) > 1})
    if twice:
        found.append(Finding(name, len(twice), f"attempts {twice} began more than once"))
    counted = sum(
        (record.get("status") or {}).get("disposition") == "CONVERGED"
        and record.get("desired") == "RESTARTED"
        for record in seen.records
    )
    if counted > max(seen.row.restarts, 0):
        text = f"{counted} restarts were counted as converged, Slurm made {seen.row.restarts}"
        found.append(Finding(name, counted - seen.row.restarts, text))
    return found


def _holds(seen: Seen) -> list[Finding]:
    found = [Finding("outcome_while_held", 1, text) for text in seen.ended_held]
    if seen.row.held:
        text = f"PENDING, priority 0, {seen.row.reason} at the end"
        found.append(Finding("held_forever", 1, text))
    if seen.stayed_held:
        text = "the watchdog alone did not let it go in time"
        found.append(Finding("held_forever", 1, text))
    if seen.operator_hold_broken:
        text = "an operator's hold was undone, not by the operator"
        found.append(Finding("operator_hold_broken", 1, text))
    return found


def _memory(seen: Seen) -> list[Finding]:
    found = [Finding("lost_advice", 1, text) for text in seen.lost_advice]
    found += [Finding("lost_audit", 1, text) for text in seen.lost_audit]
    return found


def _revived(seen: Seen) -> list[Finding]:
    if seen.schedule.kind not in (Kind.COMPLETE, Kind.CANCEL, Kind.CANCEL_LATER):
        return []
    completes = seen.schedule.kind is Kind.COMPLETE
    name = "revived_completed_left" if completes else "revived_cancelled_left"
    what = "had completed" if completes else "had been cancelled by its owner"
    if seen.row.known and seen.row.state not in ENDED:
        return [Finding(name, 1, f"the job {what} and is {seen.row.state} at the end")]
    # The owner of CANCEL_LATER may come when attempt 1 has just begun: that one is no revival.
    first = 2 if seen.schedule.kind is Kind.CANCEL_LATER else 1
    again = [note for note in seen.notes if note.word == "begin" and note.attempt >= first]
    if again:
        return [Finding(name, 1, f"the job {what} and attempt {again[0].attempt} trained")]
    return []


def _healthy_work(seen: Seen) -> list[Finding]:
    found = []
    begun = {note.attempt for note in seen.notes if note.word == "begin"}
    ended = {note.attempt for note in seen.notes if note.word in ("end", "completed")}
    recovers = seen.schedule.kind in RECOVERS
    if recovers and seen.row.state in ENDED and 1 in begun and 1 not in ended:
        text = f"attempt 1 trained and was ended ({seen.row.state})"
        found.append(Finding("wrong_kills", 1, text))
    cancels = [c for c in seen.issued if c.argv[0].rpartition("/")[2] == "scancel"]
    if recovers and cancels:
        found.append(Finding("wrong_kills", len(cancels), "we cancelled a job that is wanted"))
    if seen.bystander_id and (seen.bystander.restarts or seen.bystander.state != "COMPLETED"):
        text = f"the healthy job beside it is {seen.bystander.state}, restarts {seen.bystander.restarts}"
        found.append(Finding("wrong_kills", 1, text))
    return found


def _end(seen: Seen) -> list[Finding]:
    if not seen.arrived:
        active = [r for r in seen.records if r.get("active")]
        why = f"{seen.row.state} {seen.row.reason}, restarts {seen.row.restarts}"
        for record in active:
            why += f"; advice active: {(record.get('status') or {}).get('detail', 'no report')}"
        return [Finding("unconverged", 1, f"the end did not come: {why}")]
    if seen.schedule.kind in RECOVERS:
        code = next((n.text for n in seen.notes if (n.word, n.attempt) == ("end", 1)), "")
        if seen.row.state != "COMPLETED" or code != "0":
            return [Finding("unconverged", 1, f"attempt 1 is {seen.row.state}, exit {code}")]
    return []


def _exclusions(seen: Seen) -> list[Finding]:
    found = []
    lost = seen.user_exclusions - seen.excluded
    if seen.row.known and lost:
        text = f"the user's own {sorted(lost)} is not in {sorted(seen.excluded)}"
        found.append(Finding("exclusions_lost", 1, text))
    for record in seen.records:
        status = record.get("status") or {}
        wanted = frozenset(record.get("exclusions") or ())
        used = seen.attempt_nodes.get(int(record.get("attemptIndex", 0)) + 1, frozenset())
        if status.get("disposition") == "CONVERGED" and wanted & used:
            text = f"converged, and attempt 1 ran on the excluded {sorted(wanted & used)}"
            found.append(Finding("exclusions_lost", 1, text))
    return found
