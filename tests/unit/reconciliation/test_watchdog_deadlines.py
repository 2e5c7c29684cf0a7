"""Deadlines that could protect nobody are refused before anything is held."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from middlewatch.reconciliation.deadlines import (
    WatchdogConfig,
    check_deadlines,
    in_flight_s,
    release_by,
)
from tests.unit.reconciliation.owed import FACTS, T0, after

SLOW = replace(FACTS, message_timeout_s=100.0)


def test_the_defaults_protect() -> None:
    assert check_deadlines(WatchdogConfig(), FACTS) == ()
    assert check_deadlines(WatchdogConfig(), None) == ()


@pytest.mark.parametrize(
    ("config", "named"),
    [
        (WatchdogConfig(max_hold_s=0), "max_hold_s"),
        (WatchdogConfig(max_hold_s=math.nan), "max_hold_s"),
        (WatchdogConfig(max_hold_s=math.inf), "max_hold_s"),
        (WatchdogConfig(max_hold_s=15, interval_s=1, heartbeat_stale_s=14), "max_hold_s"),
        (WatchdogConfig(max_hold_s=4000), "site_max_hold_s"),
        (WatchdogConfig(max_fence_s=15), "max_fence_s"),
        (WatchdogConfig(interval_s=900), "interval_s"),
        (WatchdogConfig(interval_s=-1), "interval_s"),
        (WatchdogConfig(command_deadline_s=10), "command_deadline_s"),
        (WatchdogConfig(heartbeat_stale_s=900), "heartbeat_stale_s"),
        (WatchdogConfig(heartbeat_stale_s=35), "heartbeat_stale_s"),
        (WatchdogConfig(per_tick=0), "per_tick"),
        (WatchdogConfig(spacing_s=-1), "spacing_s"),
    ],
)
def test_a_deadline_that_protects_nobody_is_named(config: WatchdogConfig, named: str) -> None:
    problems = check_deadlines(config, FACTS)
    assert any(named in problem for problem in problems)


def test_the_clusters_own_time_out_counts() -> None:
    config = WatchdogConfig(max_hold_s=100, heartbeat_stale_s=90, max_fence_s=60)
    assert check_deadlines(config, FACTS) == ()
    problems = "\n".join(check_deadlines(config, SLOW))
    assert "max_hold_s" in problems
    assert "max_fence_s" in problems
    assert "command_deadline_s" in problems


def test_a_command_is_in_flight_for_the_time_out_and_a_margin() -> None:
    assert in_flight_s(SLOW) == 105
    assert in_flight_s(None) == 15


def test_a_wanted_hold_is_cut_at_the_maximum() -> None:
    config = WatchdogConfig(max_hold_s=300)
    assert release_by(T0, 60, config) == after(60)
    assert release_by(T0, 9999, config) == after(300)
