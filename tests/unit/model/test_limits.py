"""Limits that change while jobs run."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from middlewatch.model.limits import (
    NAMES,
    Limits,
    alarms,
    as_text,
    changed,
    from_text,
    limit_of,
    with_limits,
)
from middlewatch.model.policy import Policy
from middlewatch.model.signal import Pause, Phase

T0 = datetime(2026, 5, 1, tzinfo=UTC)
SILENCE = Pause(T0, 100.0, Phase.TRAINING, limit_s=60.0, limit="silence_floor_s")


def test_limits_of_silence_can_be_changed_and_the_age_of_advice_cannot() -> None:
    assert {"silence_floor_s", "first_step_limit_s"} <= set(NAMES)
    assert "advice_age_limit_s" not in NAMES


def test_changed_limit_is_in_force_and_the_policy_says_so() -> None:
    limits = replace(changed(Limits(), {"silence_floor_s": 300.0}, ()), version=1)
    policy = with_limits(Policy(version="abc"), limits)
    assert (policy.silence_floor_s, policy.version) == (300.0, "abc+limits.1")


def test_limit_that_is_reset_is_the_settings_again() -> None:
    limits = changed(Limits(), {"silence_floor_s": 300.0, "grace_floor_s": 5.0}, ())
    limits = changed(limits, {}, ("silence_floor_s",))
    assert limits.values == (("grace_floor_s", 5.0),)
    assert with_limits(Policy(), Limits()) == Policy()


@pytest.mark.parametrize(
    ("values", "reset", "why"),
    [
        ({"silence": 5.0}, (), "is no limit"),
        ({"advice_age_limit_s": 5.0}, (), "is no limit"),
        ({}, ("nothing",), "is no limit"),
        ({"silence_floor_s": 0.0}, (), "give 1 s"),
        ({"silence_floor_s": -5.0}, (), "give 1 s"),
        ({"silence_floor_s": float("nan")}, (), "give 1 s"),
        ({"silence_floor_s": float("inf")}, (), "give 1 s"),
        ({"silence_floor_s": 1e9}, (), "30 days"),
    ],
)
def test_what_is_no_limit_is_refused(
    values: dict[str, float], reset: tuple[str, ...], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        changed(Limits(), values, reset)


def test_limits_survive_the_store() -> None:
    limits = Limits((("silence_floor_s", 300.0),), 4, T0, "alice", "long saves \u2013 new disks")
    assert from_text(as_text(limits)) == limits
    assert from_text(None) == Limits()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"values":5}', "\ud800"])
def test_damaged_limits_are_said_to_be_damaged(text: str) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        from_text(text)


def test_name_of_a_newer_version_changes_nothing() -> None:
    assert with_limits(Policy(), Limits((("of_tomorrow_limit_s", 5.0),), 1)) == Policy()


def test_longer_of_the_floor_and_the_habit_is_the_limit() -> None:
    policy = Policy(silence_floor_s=60.0)
    assert limit_of(SILENCE, policy) == 60.0
    assert limit_of(replace(SILENCE, times=5.0), policy) == 300.0
    assert limit_of(replace(SILENCE, learnt_s=90.0), policy) == 90.0
    assert alarms(SILENCE, policy)
    assert not alarms(SILENCE, Policy(silence_floor_s=120.0))
