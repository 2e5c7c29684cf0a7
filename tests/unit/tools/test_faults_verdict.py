"""The judge of the fault schedules finds what it is there to find, and nothing in a good ending."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tools.faults.deeds import DEEDS
from tools.faults.patterns import PATTERNS
from tools.faults.places import COMMANDS, SEEN, SINCE, WRITTEN, Places, place
from tools.faults.schedule import DEPLOYMENTS, LABS, RELEASES, Kind, drawn
from tools.faults.seen import Act, Command, Outcome, Seen
from tools.faults.verdict import APART, COUNTS, apart, judged
from tools.faults.world import Life, Note, Row, lives_in, read_row

CRASH = replace(drawn(1), kind=Kind.CRASH)
FAILED = Row(True, "FAILED", "NonZeroExitCode", 5, 0, 0.0, 100.0, 1, "", 104.0)
WAITS = Row(True, "PENDING", "BeginTime", 5, 1, 151.0, 105.0, 1, "", 105.2)
FREE = replace(WAITS, reason="None", eligible=107.0, excluded="gpu-002", at=107.2)
DONE = Row(True, "COMPLETED", "None", 5, 1, 107.0, 105.0, 1, "gpu-002", 130.0)
HELD = replace(WAITS, state="PENDING", reason="JobHeldAdmin", priority=0)
REQUEUE = Command(("scontrol", "requeue", "7"), 103.9, 0, FAILED, WAITS)
UPDATE = Command(
    ("scontrol", "update", "jobid=7", "ExcNodeList=gpu-002", "StartTime=now"),
    106.9,
    0,
    replace(WAITS, at=107.0),
    FREE,
)
NOTES = (
    Note("begin", 0, 90.0, "gpu-[001-002]"),
    Note("end", 0, 103.0, "143"),
    Note("begin", 1, 109.0, "gpu-[003-004]"),
    Note("end", 1, 125.0, "0"),
)
LIVES = (Life(0, 91.0, 102.9), Life(1, 110.0, 124.9))
CONVERGED: dict[str, Any] = {
    "attemptId": "a",
    "attemptIndex": 0,
    "generation": 1,
    "desired": "RESTARTED",
    "exclusions": ["gpu-002"],
    "status": {"disposition": "CONVERGED", "reason": "DESIRED_STATE_OBSERVED"},
}
REVIVED = {**CONVERGED, "status": {"disposition": "ABANDONED", "reason": "REVIVED_IN_ERROR"}}
RUNS = replace(DONE, state="RUNNING", at=111.0)


def seen(**changes: Any) -> Seen:
    """A recovery that ended right, unless told otherwise."""
    values: dict[str, Any] = {
        "job_id": "7",
        "row": DONE,
        "notes": NOTES,
        "lives": LIVES,
        "commands": (REQUEUE, UPDATE),
        "excluded": frozenset({"gpu-002"}),
        "attempt_nodes": {1: frozenset({"gpu-003", "gpu-004"})},
        "outcomes": [Outcome(CONVERGED, RUNS, frozenset({"gpu-002"}))],
        "arrived": True,
        "records": (CONVERGED,),
        **changes,
    }
    return Seen(values.pop("schedule", CRASH), **values)


def counts(made: Seen) -> set[str]:
    return {finding.count for finding in judged(made)}


def beside(made: Seen) -> set[str]:
    return {finding.count for finding in apart(made)}


def row(**changes: Any) -> Row:
    return replace(DONE, **changes)


def act(what: str, begun: float, until: float = 0.0, **changes: Any) -> Act:
    values: dict[str, Any] = {"done": True, "before": WAITS, "after": HELD, **changes}
    return Act(what, begun, begun + 0.1, until=until, **values)


def outcome(at: Row, excluded: frozenset[str] = frozenset({"gpu-002"})) -> list[Outcome]:
    return [Outcome(CONVERGED, at, excluded)]


def test_a_good_ending_has_nothing_wrong_and_nothing_beside() -> None:
    assert judged(seen()) == ()
    assert apart(seen()) == ()


BEGAN_TWICE = (*NOTES, Note("begin", 1, 126.0, "gpu-[003-004]"))
COMPLETED = (NOTES[0], Note("completed", 0, 103.0, "0"), *NOTES[2:])
UNDONE = COMPLETED[:2]
CANCEL = Command(("scancel", "7"), 107.0, 0, WAITS, row(state="CANCELLED"))
SECOND = replace(REQUEUE, started=112.0, before=replace(RUNS, at=112.1))
CANCELLED = act("owner cancels", 104.0, before=replace(FAILED, state="RUNNING", at=103.9))
OPERATOR = act("operator holds", 105.5, until=115.0)
RELEASE = Command(("scontrol", "release", "7"), 107.5, 0, replace(HELD, at=107.6), FREE)
RELEASED = (REQUEUE, UPDATE, RELEASE)
UNHELD = replace(WAITS, at=108.0, priority=5)

WRONG: tuple[tuple[str, dict[str, Any]], ...] = (
    ("double_successors", {"row": row(restarts=2)}),
    ("double_successors", {"row": row(restarts=0)}),
    ("double_successors", {"notes": BEGAN_TWICE}),
    ("double_successors", {"commands": (REQUEUE, UPDATE, SECOND)}),
    ("double_successors", {"commands": (REQUEUE, replace(REQUEUE, started=104.5), UPDATE)}),
    ("two_live_trainings", {"lives": (Life(0, 91.0, 112.0), Life(1, 110.0, 124.9))}),
    ("held_forever", {"row": row(state="PENDING", priority=0)}),
    ("held_forever", {"row": row(state="SPECIAL_EXIT", priority=0)}),
    ("held_forever", {"stayed_held": True}),
    ("outcome_while_held", {"outcomes": outcome(replace(WAITS, at=106.0))}),
    ("outcome_while_held", {"outcomes": outcome(replace(HELD, state="SPECIAL_EXIT"))}),
    ("stale_actions", {"records": ({**CONVERGED, "attemptIndex": 3},)}),
    ("stale_actions", {"records": ()}),
    ("stale_actions", {"commands": (REQUEUE, replace(UPDATE, before=replace(WAITS, restarts=2)))}),
    ("foreign_actions", {"foreign": (("scontrol", "requeue", "8"),)}),
    ("revived_completed_left", {"notes": COMPLETED, "completed_at": 103.0}),
    (
        "revived_completed_left",
        {"notes": UNDONE, "completed_at": 103.0, "row": row(state="PENDING")},
    ),
    ("revived_cancelled_left", {"acts": [CANCELLED]}),
    ("revived_cancelled_left", {"acts": [act("operator cancels", 106.0)]}),
    (
        "revived_cancelled_left",
        {"acts": [act("owner cancels", 112.0)], "row": row(state="RUNNING")},
    ),
    (
        "operator_holds_undone",
        {"acts": [OPERATOR], "samples": [replace(UNHELD, at=110.0)], "commands": RELEASED},
    ),
    (
        "operator_holds_undone",
        {"acts": [act("owner holds", 105.3, 115.0)], "samples": [replace(RUNS, at=110.0)]},
    ),
    ("user_exclusions_lost", {"user_exclusions": frozenset({"gpu-007"})}),
    ("false_converged", {"outcomes": outcome(replace(FAILED, at=111.0))}),
    ("false_converged", {"outcomes": outcome(RUNS, frozenset())}),
    ("false_converged", {"outcomes": outcome(replace(HELD, at=111.0))}),
    ("false_converged", {"attempt_nodes": {1: frozenset({"gpu-002"})}}),
    ("lost_advice", {"lost_advice": ("gone",)}),
    ("lost_audit", {"lost_audit": ("gone",)}),
    ("wrong_kills", {"commands": (REQUEUE, UPDATE, CANCEL)}),
    ("wrong_kills", {"bystander_id": "8", "bystander": row(restarts=1)}),
    ("wrong_kills", {"bystander_id": "8", "bystander": row(restarts=0, state="CANCELLED")}),
    ("fences_left", {"row": row(requeue=0, state="RUNNING")}),
    ("fences_left", {"row": row(requeue=0, state="PENDING")}),
    ("unconverged", {"arrived": False, "records": ({**CONVERGED, "active": True},)}),
    ("unconverged", {"row": row(state="FAILED")}),
    ("unconverged", {"notes": NOTES[:3]}),
)


@pytest.mark.parametrize(("count", "changes"), WRONG)
def test_what_went_wrong_is_counted(count: str, changes: dict[str, Any]) -> None:
    assert count in counts(seen(**changes))


def test_every_count_can_be_other_than_zero() -> None:
    assert {count for count, _ in WRONG} == set(COUNTS)


LATE = replace(REQUEUE, started=100.0, before=replace(FAILED, at=136.0))
AT_ONCE = act("operator holds", 106.5, until=115.0)
BESIDE: tuple[tuple[str, str, dict[str, Any]], ...] = (
    # what is counted apart, the breach that it would be otherwise, how it came
    (
        "revived_then_undone",
        "revived_completed_left",
        {"notes": UNDONE, "completed_at": 103.0, "row": row(state="CANCELLED")},
    ),
    (
        "revived_and_started_by_slurm",
        "revived_completed_left",
        {
            "notes": COMPLETED,
            "completed_at": 103.0,
            "commands": (REQUEUE,),
            "records": (REVIVED,),
            "outcomes": [],
        },
    ),
    ("frozen_leader_actions", "", {"commands": (LATE, UPDATE), "frozen": [(100.5, 135.0)]}),
    (
        "operator_holds_crossed",
        "operator_holds_undone",
        {"acts": [AT_ONCE], "samples": [replace(RUNS, at=110.0)], "commands": RELEASED},
    ),
    (
        "user_exclusions_crossed",
        "user_exclusions_lost",
        {
            "user_exclusions": frozenset({"gpu-007"}),
            "acts": [act("owner excludes", 106.8, after=WAITS)],
        },
    ),
    (
        "stale_actions_crossed",
        "stale_actions",
        {
            "records": ({**CONVERGED, "attemptIndex": 3},),
            "commands": (REQUEUE,),
            "acts": [act("operator requeues", 103.5)],
            "outcomes": [],
        },
    ),
    (
        "orphans_beside_slurms_own_restart",
        "two_live_trainings",
        {"lives": (Life(0, 91.0, 112.0), Life(1, 110.0, 124.9)), "commands": ()},
    ),
    ("fences_that_outlived_a_job", "fences_left", {"row": row(requeue=0)}),
    (
        "attempts_that_slurmctld_forgot",
        "double_successors",
        {"notes": BEGAN_TWICE, "slurmctld_killed": [111.0]},
    ),
)


@pytest.mark.parametrize(("count", "breach", "changes"), BESIDE)
def test_what_is_no_breach_is_counted_apart(
    count: str, breach: str, changes: dict[str, Any]
) -> None:
    made = seen(**changes)
    assert count in beside(made)
    assert breach not in counts(made)


def test_everything_that_is_counted_apart_can_be_other_than_zero() -> None:
    assert {count for count, _, _ in BESIDE} == set(APART)


def test_a_hold_that_nobody_undid_and_that_its_owner_let_go_is_no_finding() -> None:
    made = seen(acts=[OPERATOR], samples=[replace(HELD, at=110.0), replace(RUNS, at=116.0)])
    assert "operator_holds_undone" not in counts(made)


def test_a_job_that_was_cancelled_in_the_window_and_stays_so_is_no_finding() -> None:
    made = seen(
        acts=[act("owner cancels", 106.0)], notes=NOTES[:2], row=row(state="CANCELLED"), outcomes=[]
    )
    assert judged(made) == ()


@pytest.mark.parametrize(
    ("argv", "before", "after", "effective"),
    [
        # Refused, as the job shows: it was on its way already.
        ("scontrol requeue 7", replace(WAITS, state="COMPLETING"), WAITS, False),
        ("scontrol requeue 7", FAILED, WAITS, True),
        ("scontrol requeuehold 7", FAILED, FAILED, False),
        ("scontrol update jobid=7", WAITS, FREE, True),
        ("scontrol update jobid=7", replace(WAITS, submitted=90.0), FREE, False),
        ("scontrol release 7", HELD, WAITS, True),
        ("scontrol release 7", WAITS, WAITS, False),
        ("scancel 7", WAITS, replace(WAITS, state="CANCELLED"), True),
        ("scancel 7", DONE, DONE, False),
    ],
)
def test_a_command_without_a_good_answer_is_judged_by_what_only_it_changes(
    argv: str, before: Row, after: Row, effective: bool
) -> None:
    made = Command(tuple(argv.split()), 103.0, 1, before, after)
    assert made.effective is effective
    assert replace(made, exit_code=0).effective
    assert not replace(made, before=Row(known=False)).effective


def test_a_begin_time_that_somebody_elses_requeue_set_is_not_ours() -> None:
    theirs = act("operator requeues", 103.0, before=FAILED, after=WAITS)
    made = seen(acts=[theirs], commands=(UPDATE,), outcomes=outcome(replace(WAITS, at=106.0)))
    assert "outcome_while_held" not in counts(made)


def test_signs_of_life_and_a_job_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "beats"
    path.write_text(
        "0 0 gpu-001 10.250\n0 1 gpu-002 10.100\n1 0 gpu-003 20.000\n0 1 gpu-002 11.5\n1 "
    )
    assert lives_in(path) == (Life(0, 10.1, 11.5), Life(1, 20.0, 20.0))
    text = (
        "JobId=7 JobName=x UserId=games(5) Priority=0 JobState=SPECIAL_EXIT Reason=job_requeued Requeue=0 "
        'Restarts=2 SubmitTime=100 EligibleTime=Unknown ExcNodeList=gpu-[001-002] Comment={"a": 1}'
    )
    found = read_row(text, 9.0)
    assert (found.known, found.held, found.restarts, found.requeue) == (True, True, 2, 0)
    assert (found.excluded, found.submitted, found.at) == ("gpu-[001-002]", 100.0, 9.0)
    assert not read_row("slurm_load_jobs error: Invalid job id specified", 9.0).known


# -------------------------------------------------------------------------------- the schedules


def test_a_seed_always_draws_the_same_schedule() -> None:
    assert [drawn(n) for n in range(1, 60)] == [drawn(n) for n in range(1, 60)]
    assert drawn(1) != drawn(1 + len(PATTERNS) * len(RELEASES))


def test_one_round_of_seeds_meets_everything_on_each_release() -> None:
    schedules = [drawn(n) for n in range(1, len(PATTERNS) * len(RELEASES) + 1)]
    for release in RELEASES:
        here = [one for one in schedules if one.release == release]
        assert len(here) == len(PATTERNS) >= 70
        assert {one.kind for one in here} == set(Kind)
        assert {one.lab for one in here} == set(LABS)
        assert {one.deployment for one in here} == set(DEPLOYMENTS)
        places = [event.place for one in here for event in one.events]
        assert {one.how for one in places} == set(Places)
        assert {one.what for one in places} == {*COMMANDS, *WRITTEN, *SEEN, *SINCE}
        # Patterns need not use every deed, but none that there is may go untried for ever.
        assert set().union(*(one.deeds() for one in here)) >= set(DEEDS) - {"slurmdbd stopped"}


def test_a_place_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(ValueError, match="requeuehold"):
        place("before breakfast")
    assert str(place("after look 3")) == "after look 3"
