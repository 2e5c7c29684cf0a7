"""The two parts of build/faults.json add up, and each can be told from the other."""

from __future__ import annotations

from tools.faults.simulated.explore import ENOUGH, EXPECTED, Explored, Line
from tools.faults.simulated.judge import COUNTS
from tools.faults.together import simulation_went_wrong, together


def explored() -> Explored:
    found = Explored(first=7)
    found.add(Line(7, kills=2, apart=(("frozen_leader_actions", 1),)))
    found.add(Line(8, findings=(("held_forever", "job 1"), ("held_forever", "job 2"))))
    found.add(Line(9, error="KeyError: 'x'"))
    return found


def test_what_both_parts_count_is_added_up_and_each_is_there_by_itself() -> None:
    real = {"real_schedules": {"22.05.8": 44}, "held_forever": 1, "kills": 50, "seeds": [1, 2]}
    whole = together(real, explored())
    assert whole["simulated_schedules"] == 2
    assert whole["real_schedules"] == {"22.05.8": 44}
    assert whole["held_forever"] == 3
    assert whole["frozen_leader_actions"] == 1
    assert (whole["real"]["held_forever"], whole["simulated"]["held_forever"]) == (1, 2)
    assert whole["simulated"]["seeds"] == {"first": 7, "count": 3}
    assert whole["simulated"]["seeds_not_right"] == [8]
    assert whole["seeds"] == [1, 2]


def test_every_count_is_there_also_where_only_one_part_was_played() -> None:
    for whole in (together(None, explored()), together({"real_schedules": {}}, None)):
        assert set(COUNTS) <= set(whole)
        assert "revived_then_undone" in whole


def test_a_breach_and_a_schedule_that_could_not_be_played_both_fail_the_run() -> None:
    problems = simulation_went_wrong(explored())
    assert any("held_forever is 2" in problem for problem in problems)
    assert any("could not be played" in problem for problem in problems)
    assert simulation_went_wrong(Explored(first=1)) == []


def test_a_kind_of_trouble_that_never_came_about_fails_a_long_run() -> None:
    missing = EXPECTED[-1]
    every = tuple((kind, 1) for kind in EXPECTED if kind != missing)
    found = Explored(first=1)
    for seed in range(1, ENOUGH):
        found.add(Line(seed, happened=every))
    assert simulation_went_wrong(found) == []
    found.add(Line(ENOUGH, happened=every))
    assert simulation_went_wrong(found) == [f"simulated: it never came about that {missing}"]
    found.add(Line(ENOUGH + 1, happened=((missing, 1),)))
    assert simulation_went_wrong(found) == []
    assert together(None, found)["simulated"]["happened"][missing] == 1
