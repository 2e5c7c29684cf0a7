"""What went wrong in one schedule, counted. Each rule looks at the world, not at our own claims."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from tools.faults.counts import BREACHES, NO_BREACHES
from tools.faults.seen import Act, Command, Seen
from tools.faults.world import ENDED, Life, Row

COUNTS = BREACHES
APART = (
    *NO_BREACHES,
    "attempts_that_slurmctld_forgot",
    "fences_that_outlived_a_job",
)
CROSSING_S = 1.5
"""A change so shortly before our command, or while it was on its way, is one that no look could have
shown: Slurm has no command with a condition."""
BEAT_S = 0.4
UNDO_HOLDS = ("release", "requeuehold")
"""Commands that Slurm lets undo somebody's hold (the latter one that was set while the job ran)."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that went wrong: under which count, how many, and a sentence."""

    count: str
    number: int
    text: str


def judged(seen: Seen) -> tuple[Finding, ...]:
    """Everything that is wrong; empty: it ended right."""
    return tuple(f for f in _everything(seen) if f.count in COUNTS)


def apart(seen: Seen) -> tuple[Finding, ...]:
    """What happened besides and is no breach."""
    return tuple(f for f in _everything(seen) if f.count in APART)


def _everything(seen: Seen) -> list[Finding]:
    found = [*_successors(seen), *_live(seen), *_holds(seen), *_targets(seen), *_revived(seen)]
    found += [*_peoples_holds(seen), *_exclusions(seen), *_outcomes(seen), *_memory(seen)]
    found += [*_healthy_work(seen), *_end(seen), *_frozen(seen)]
    return found


# ------------------------------------------------------------------------------------- successors


def _successors(seen: Seen) -> list[Finding]:
    found = []
    name = "double_successors"
    theirs = sum(act.done and "requeue" in act.what for act in seen.acts)
    deserved = max(1, seen.node_faults) + theirs
    if seen.row.restarts > deserved:
        text = f"{deserved} restarts were deserved, and Slurm counts {seen.row.restarts}"
        found.append(Finding(name, seen.row.restarts - deserved, text))
    requeued = [c for c in seen.commands if c.requeues and c.before.known]
    for one, again in itertools.pairwise(requeued):
        # (A slurmctld that was killed may have forgotten the first.)
        same = one.before.submitted == again.before.submitted
        if same and not seen.slurmctld_killed and one.before.restarts == again.before.restarts:
            text = f"attempt {one.before.restarts} was requeued twice by us"
            found.append(Finding(name, 1, text))
    for command in requeued:
        attempt = command.before.restarts
        if attempt >= 1 and seen.node_faults < 2 and _life(seen.lives, attempt) is not None:
            text = f"we requeued attempt {attempt}, which had not failed"
            found.append(Finding(name, 1, text))
    begun = [note.attempt for note in seen.notes if note.word == "begin"]
    twice = sorted({attempt for attempt in begun if begun.count(attempt) > 1})
    if twice:
        # A slurmctld that comes back without what it had not saved starts an attempt anew.
        count = "attempts_that_slurmctld_forgot" if seen.slurmctld_killed else name
        found.append(Finding(count, len(twice), f"attempts {twice} began more than once"))
    counted = {
        (record.get("attemptId"), record.get("generation"))
        for record in seen.records
        if (record.get("status") or {}).get("disposition") == "CONVERGED"
        and record.get("desired") == "RESTARTED"
    }
    if seen.row.known and len(counted) > seen.row.restarts and not seen.slurmctld_killed:
        text = f"{len(counted)} restarts counted as converged, Slurm made {seen.row.restarts}"
        found.append(Finding(name, len(counted) - seen.row.restarts, text))
    return found


def _live(seen: Seen) -> list[Finding]:
    """By the trainers' own signs of life: no two attempts lived at one time."""
    found = []
    for one in seen.lives:
        for other in seen.lives:
            if not one.attempt < other.attempt or one.last <= other.first + BEAT_S:
                continue
            text = (
                f"attempt {one.attempt} lived {one.last - other.first:.1f} s beside attempt "
                f"{other.attempt}"
            )
            ours = _let_go_before(seen.commands, other)
            count = "two_live_trainings" if ours else "orphans_beside_slurms_own_restart"
            found.append(Finding(count, 1, text))
    return found


def _let_go_before(commands: Iterable[Command], life: Life) -> bool:
    """Whether that attempt was let go, or made, by a command of ours and not by Slurm alone."""
    return any(
        (command.lets_go and command.before.restarts == life.attempt)
        or (command.requeues and command.before.restarts == life.attempt - 1)
        for command in commands
        if command.started < life.first
    )


def _life(lives: Iterable[Life], attempt: int) -> Life | None:
    return next((life for life in lives if life.attempt == attempt), None)


# ------------------------------------------------------------------------------------------- holds


def _holds(seen: Seen) -> list[Finding]:
    found = [
        Finding("outcome_while_held", 1, _told(outcome.record) + f" while {outcome.row}")
        for outcome in seen.outcomes
        if _ours_stands(seen, outcome.row)
    ]
    if seen.row.held and not _in_force_at_the_end(seen):
        text = f"{seen.row.state}, priority 0, {seen.row.reason} at the end"
        found.append(Finding("held_forever", 1, text))
    if seen.stayed_held:
        text = "the watchdog alone did not let it go in time"
        found.append(Finding("held_forever", 1, text))
    forbidden = any(act.what == "owner forbids requeueing" for act in seen.acts)
    if seen.row.known and seen.row.requeue == 0 and not forbidden:
        # Slurm changes nothing of a job that is over; and nothing runs it again.
        count = "fences_that_outlived_a_job" if seen.row.state in ENDED else "fences_left"
        found.append(Finding(count, 1, f"Requeue=0 at the end, {seen.row.state}"))
    return found


def _ours_stands(seen: Seen, row: Row) -> bool:
    """Whether a hold or a begin time of ours kept the job back at that look."""
    if row.held:
        return not _somebody_holds(seen, row.at)
    made = any(
        c.requeues and c.before.known and c.before.restarts == row.restarts - 1
        for c in seen.commands
    )
    theirs = any(
        act.done and "requeue" in act.what and act.before.restarts == row.restarts - 1
        for act in seen.acts
    )
    return row.waits_for_begin and made and not theirs


def _in_force_at_the_end(seen: Seen) -> bool:
    return any(act.done and _holds_job(act) and not act.until for act in seen.acts)


def _holds_job(act: Act) -> bool:
    return act.what in ("operator holds", "owner holds", "operator requeueholds")


def _peoples_holds(seen: Seen) -> list[Finding]:
    """While somebody's hold was in force the job stayed at priority 0, until they let go."""
    found: list[Finding] = []
    for act in seen.acts:
        if not (_holds_job(act) and act.done and act.after.known and act.after.priority == 0):
            continue
        until = act.until or float("inf")
        undone = [
            row
            for row in seen.samples
            if row.known and act.ended < row.at < until and row.priority != 0
        ]
        cancelled = any("cancels" in other.what and other.done for other in seen.acts)
        undone = [row for row in undone if not (cancelled and row.state in ENDED)]
        if not undone:
            continue
        first = undone[0]
        text = f"{act.what}: {first.state}, priority {first.priority} before they let it go"
        if any(
            other.what in ("owner releases", "operator releases")
            and act.ended < other.ended < first.at
            for other in seen.acts
        ):
            continue
        ours = [c for c in seen.commands if c.effective and c.started < first.at]
        crossed = any(
            c.started <= act.ended + CROSSING_S and c.before.at >= act.begun - CROSSING_S
            for c in ours
            if c.verb in UNDO_HOLDS
        )
        count = "operator_holds_crossed" if crossed else "operator_holds_undone"
        found.append(Finding(count, 1, text))
    return found


# ------------------------------------------------------------------------------------------ targets


def _targets(seen: Seen) -> list[Finding]:
    """Each command hit the attempt that some advice was about, and no other job."""
    found = [
        Finding("foreign_actions", 1, f"a command about another job: {' '.join(argv)}")
        for argv in seen.foreign
    ]
    advised = {
        int(record.get("attemptIndex", 0)) for record in seen.records if record.get("attemptId")
    }
    for command in seen.commands:
        if not command.effective or not command.before.known:
            continue
        attempt = command.before.restarts
        meant = {attempt} if command.requeues else {attempt, attempt - 1}
        if meant & advised:
            continue
        text = (
            f"`{' '.join(command.argv)}` at attempt {attempt}, and advice about {sorted(advised)}"
        )
        crossed = any(
            act.done and act.begun - CROSSING_S <= command.before.at and _near(act, command)
            for act in seen.acts
        )
        found.append(Finding("stale_actions_crossed" if crossed else "stale_actions", 1, text))
    return found


def _near(act: Act, command: Command) -> bool:
    """Whether it came shortly before the command was issued, or while that was on its way."""
    return command.started - CROSSING_S <= act.ended


# ------------------------------------------------------------------------------------------ revived


def _revived(seen: Seen) -> list[Finding]:
    """What had ended for good and was put back by our requeue: undone, and never let go."""
    found: list[Finding] = []
    for command in (c for c in seen.commands if c.requeues):
        attempt = command.before.restarts
        how = _ended_for_good(seen, attempt, command)
        if how:
            found += _fate(seen, attempt + 1, how)
    for act in seen.acts:
        if "cancels" not in act.what or not act.done:
            continue
        again = [n for n in seen.notes if n.word == "begin" and n.at > act.ended + 1.0]
        if again and not found:
            text = f"cancelled ({act.what}), and attempt {again[0].attempt} began after that"
            found.append(Finding("revived_cancelled_left", 1, text))
    if not found and seen.meant_to_end and seen.row.known and seen.row.state not in ENDED:
        name = "revived_completed_left" if seen.completed_at else "revived_cancelled_left"
        found.append(Finding(name, 1, f"it was over, and is {seen.row.state} at the end"))
    return found


def _ended_for_good(seen: Seen, attempt: int, command: Command) -> str:
    """``completed`` or ``cancelled`` where that attempt was over before the command took effect."""
    taken = command.after.at if command.after is not None else command.before.at
    if any(n.word == "completed" and n.attempt == attempt and n.at < taken for n in seen.notes):
        return "completed"
    cancelled = any(
        "cancels" in act.what
        and act.done
        and act.before.known
        and act.before.restarts == attempt
        and act.before.state not in ENDED
        and act.ended < taken
        for act in seen.acts
    )
    return "cancelled" if cancelled else ""


def _fate(seen: Seen, successor: int, how: str) -> list[Finding]:
    over = "it had completed" if how == "completed" else "it had been cancelled"
    begun = [n for n in seen.notes if n.word == "begin" and n.attempt >= successor]
    if not begun and (not seen.row.known or seen.row.state in ENDED):
        return [Finding("revived_then_undone", 1, f"{over}; revived, and undone unrun")]
    what = f"{over}, and " + (
        f"attempt {begun[0].attempt} trained" if begun else f"is {seen.row.state} at the end"
    )
    let_go = any(c.lets_go and c.before.restarts == successor for c in seen.commands)
    said = any(_reason(record) == "REVIVED_IN_ERROR" for record in seen.records)
    if begun and not let_go and said:
        # Nobody of us was there before Slurm's own begin time ended: said, and left alone.
        return [Finding("revived_and_started_by_slurm", 1, what)]
    return [Finding(f"revived_{how}_left", 1, what)]


# --------------------------------------------------------------------------- exclusions and outcomes


def _exclusions(seen: Seen) -> list[Finding]:
    lost = seen.user_exclusions - seen.excluded
    if not seen.row.known or not lost:
        return []
    text = f"the user's own {sorted(lost)} is not in {sorted(seen.excluded)}"
    crossed = any(
        "excludes" in act.what
        and act.done
        and c.started - CROSSING_S <= act.ended
        and act.begun <= c.before.at
        for act in seen.acts
        for c in seen.commands
        if c.verb == "update" and c.effective
    )
    return [Finding("user_exclusions_crossed" if crossed else "user_exclusions_lost", 1, text)]


def _outcomes(seen: Seen) -> list[Finding]:
    """Every converged restart was true at a fresh look, and in how the successor then ran."""
    found = []
    for outcome in seen.outcomes:
        record, row = outcome.record, outcome.row
        if (record.get("status") or {}).get("disposition") != "CONVERGED" or not row.known:
            continue
        if record.get("desired") != "RESTARTED" or seen.slurmctld_killed:
            continue
        successor = int(record.get("attemptIndex", 0)) + 1
        wanted = frozenset(record.get("exclusions") or ())
        problem = ""
        if row.restarts < successor:
            problem = f"there is no attempt {successor}: restarts {row.restarts}"
        elif row.restarts == successor and not wanted <= outcome.excluded:
            problem = f"{sorted(wanted - outcome.excluded)} is not excluded"
        elif row.restarts == successor and row.held and not _somebody_holds(seen, row.at):
            problem = f"it is held: {row.reason}"
        elif wanted & seen.attempt_nodes.get(successor, frozenset()):
            used = sorted(wanted & seen.attempt_nodes[successor])
            problem = f"attempt {successor} ran on the excluded {used}"
        if problem:
            found.append(Finding("false_converged", 1, f"{_told(record)}, and {problem}"))
    return found


def _somebody_holds(seen: Seen, at: float) -> bool:
    return any(
        _holds_job(act) and act.done and act.begun <= at and (not act.until or at <= act.until + 1)
        for act in seen.acts
    )


def _memory(seen: Seen) -> list[Finding]:
    found = [Finding("lost_advice", 1, text) for text in seen.lost_advice]
    found += [Finding("lost_audit", 1, text) for text in seen.lost_audit]
    return found


# ------------------------------------------------------------------------------------------ the end


def _healthy_work(seen: Seen) -> list[Finding]:
    found = []
    if not seen.meant_to_end:
        for command in seen.commands:
            if command.verb == "cancel" and command.effective:
                text = "we cancelled a job that is wanted"
                found.append(Finding("wrong_kills", 1, text))
    if seen.bystander_id and (seen.bystander.restarts or seen.bystander.state != "COMPLETED"):
        state = f"{seen.bystander.state}, restarts {seen.bystander.restarts}"
        if not seen.node_faults and not seen.slurmctld_killed:
            found.append(Finding("wrong_kills", 1, f"the healthy job beside it is {state}"))
    return found


def _end(seen: Seen) -> list[Finding]:
    if not seen.arrived:
        why = f"{seen.row.state} {seen.row.reason}, restarts {seen.row.restarts}"
        for record in seen.records:
            if record.get("active"):
                status = record.get("status") or {}
                why += f"; advice active: {status.get('detail', 'no report')}"
        return [Finding("unconverged", 1, f"the end did not come: {why}")]
    if seen.meant_to_end or seen.may_stay_ended:
        return []
    ends = [(n.attempt, n.text) for n in seen.notes if n.word == "end"]
    last = max(ends, default=(-1, ""))
    if seen.row.state != "COMPLETED" or last[0] < 1 or last[1] != "0":
        text = f"attempt {last[0]} is {seen.row.state}, exit {last[1]}"
        return [Finding("unconverged", 1, text)]
    return []


def _frozen(seen: Seen) -> list[Finding]:
    found = []
    for since, until in seen.frozen:
        late = [
            c for c in seen.commands if c.effective and c.started < since <= until <= c.before.at
        ]
        if late:
            text = f"{late[0].verb} took effect {until - since:.0f} s after its sender stood still"
            found.append(Finding("frozen_leader_actions", len(late), text))
    return found


def _told(record: dict[str, object]) -> str:
    status = record.get("status")
    words = status if isinstance(status, dict) else {}
    return f"{words.get('disposition')} {words.get('reason')}"


def _reason(record: dict[str, object]) -> str:
    status = record.get("status")
    return str(status.get("reason", "")) if isinstance(status, dict) else ""
