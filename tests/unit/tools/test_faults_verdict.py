"""The judge of the fault schedules finds what it is there to find, and nothing in a good ending."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tools.faults.run import Seen
from tools.faults.schedule import COMMANDS, LABS, PATTERNS, Kind, Schedule, drawn
from tools.faults.verdict import COUNTS, judged
from tools.faults.world import Issued, Note, Row

CRASH = replace(drawn(1), kind=Kind.CRASH)
DONE = Row(known=True, state="COMPLETED", reason="None", priority=5, restarts=1, excluded="gpu-002")
NOTES = (
    Note("begin", 0, 1.0, "gpu-[001-002]"),
    Note("end", 0, 2.0, "143"),
    Note("begin", 1, 9.0, "gpu-[003-004]"),
    Note("end", 1, 15.0, "0"),
)
CONVERGED: dict[str, Any] = {
    "attemptId": "a",
    "attemptIndex": 0,
    "desired": "RESTARTED",
    "exclusions": ["gpu-002"],
    "status": {"disposition": "CONVERGED", "reason": "DESIRED_STATE_OBSERVED"},
}


def seen(schedule: Schedule = CRASH, **changes: Any) -> Seen:
    """A recovery that ended right, unless told otherwise."""
    values: dict[str, Any] = {
        "job_id": "1001",
        "row": DONE,
        "notes": NOTES,
        "issued": (Issued("2026", ("scontrol", "requeue", "1001"), 0),),
        "excluded": frozenset({"gpu-002"}),
        "attempt_nodes": {1: frozenset({"gpu-003", "gpu-004"})},
        "arrived": True,
        "records": (CONVERGED,),
        **changes,
    }
    return Seen(schedule, **values)


def counts(made: Seen) -> set[str]:
    return {finding.count for finding in judged(made)}


def kind(which: Kind) -> Schedule:
    return replace(CRASH, kind=which)


def row(**changes: Any) -> Row:
    return replace(DONE, **changes)


def test_a_good_ending_has_nothing_wrong() -> None:
    assert judged(seen()) == ()


BEGAN_TWICE = (*NOTES, Note("begin", 1, 20.0, "gpu-[003-004]"))
UNENDED = tuple(n for n in NOTES if (n.word, n.attempt) != ("end", 1))
RAN_AGAIN = (NOTES[0], Note("completed", 0, 2.0, "0"), *NOTES[2:])
REFUSED_END = ({**CONVERGED, "active": True, "status": {"detail": "waiting"}},)

WRONG: tuple[tuple[str, dict[str, Any]], ...] = (
    ("double_successors", {"row": row(restarts=2)}),
    ("double_successors", {"overlaps": 1}),
    ("double_successors", {"notes": BEGAN_TWICE}),
    ("double_successors", {"row": row(restarts=0)}),
    ("held_forever", {"row": row(state="PENDING", priority=0)}),
    ("held_forever", {"row": row(state="SPECIAL_EXIT", priority=0)}),
    ("held_forever", {"stayed_held": True}),
    ("operator_hold_broken", {"operator_hold_broken": True}),
    ("lost_advice", {"lost_advice": ("gone",)}),
    ("lost_audit", {"lost_audit": ("gone",)}),
    ("outcome_while_held", {"ended_held": ["CONVERGED while PENDING"]}),
    ("revived_completed_left", {"schedule": kind(Kind.COMPLETE), "notes": RAN_AGAIN}),
    ("revived_completed_left", {"schedule": kind(Kind.COMPLETE), "row": row(state="PENDING")}),
    ("revived_cancelled_left", {"schedule": kind(Kind.CANCEL)}),
    ("revived_cancelled_left", {"schedule": kind(Kind.CANCEL_LATER), "row": row(state="RUNNING")}),
    ("wrong_kills", {"notes": UNENDED, "row": row(state="CANCELLED")}),
    ("wrong_kills", {"issued": (Issued("2026", ("scancel", "1001"), 0),)}),
    ("wrong_kills", {"bystander_id": "1002", "bystander": row(restarts=1)}),
    ("wrong_kills", {"bystander_id": "1002", "bystander": row(restarts=0, state="CANCELLED")}),
    ("unconverged", {"arrived": False, "records": REFUSED_END}),
    ("unconverged", {"row": row(state="FAILED")}),
    ("exclusions_lost", {"user_exclusions": frozenset({"gpu-007"})}),
    ("exclusions_lost", {"attempt_nodes": {1: frozenset({"gpu-002"})}}),
)


@pytest.mark.parametrize(("count", "changes"), WRONG)
def test_what_went_wrong_is_counted(count: str, changes: dict[str, Any]) -> None:
    assert count in counts(seen(**changes))


def test_every_count_can_be_other_than_zero() -> None:
    assert {count for count, _ in WRONG} == set(COUNTS)


def test_an_owner_who_cancels_a_running_successor_leaves_nothing_revived() -> None:
    made = seen(kind(Kind.CANCEL_LATER), notes=UNENDED, row=row(state="CANCELLED"))
    assert judged(made) == ()


def test_a_seed_always_draws_the_same_schedule() -> None:
    assert [drawn(n) for n in range(1, 60)] == [drawn(n) for n in range(1, 60)]
    assert drawn(1) != drawn(1 + len(PATTERNS))


def test_one_round_of_seeds_meets_every_kind_every_lab_and_every_command() -> None:
    schedules = [drawn(n) for n in range(1, len(PATTERNS) + 1)]
    assert {s.kind for s in schedules} == set(Kind)
    assert {s.lab for s in schedules} == set(LABS)
    killed = {(m.how, m.command) for s in schedules for m in s.moments}
    assert {command for how, command in killed if how != "time"} == set(COMMANDS)
    assert {how for how, _ in killed} == {"time", "kill-before", "kill-instead", "kill-after"}
    assert any(s.watchdog_too for s in schedules)
    assert any(max(s.pauses_s) > 121 for s in schedules)
