"""`up` as a process: started, asked, stopped, killed, started again."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat

import pytest

from middlewatch.wiring import presence
from tests.integration.cli.conftest import World, wait_until


def test_up_says_what_there_is_and_answers_over_its_socket(world: World) -> None:
    world.up()
    wait_until(lambda: "next      mw jobs" in world.out(), "no banner")
    banner = world.out()
    assert "MONITOR mode" in banner
    assert str(world.state) in banner
    assert "http://127.0.0.1:" in banner
    assert "token     mw_" in banner
    listed = world.run("jobs", "--json")
    assert listed.returncode == 0, listed.stderr
    assert json.loads(listed.stdout) == {"schema_version": 1, "jobs": []}


def test_the_first_token_is_shown_once_and_kept_for_its_owner(world: World) -> None:
    first = world.up()
    wait_until(lambda: "token     mw_" in world.out(), "no token")
    token = (world.state / "token").read_text().strip()
    assert token in world.out()
    assert stat.S_IMODE((world.state / "token").stat().st_mode) == 0o600
    first.send_signal(signal.SIGTERM)
    assert first.wait(60) == 0
    world.up()
    wait_until(lambda: world.out().count("next      mw jobs") == 2, "no second banner")
    assert world.out().count(token) == 1
    assert token not in world.err()


def test_the_token_opens_the_address_for_a_client_elsewhere(world: World) -> None:
    world.up()
    url = (world.state / "url").read_text().strip()
    elsewhere = ["--set", f"client.url={url}"]
    with_token = world.run(
        "jobs", *elsewhere, "--set", f"client.token_file={world.state / 'token'}"
    )
    assert with_token.returncode == 0, with_token.stderr
    wrong = world.folder / "wrong"
    wrong.write_text("mw_x_y")
    refused = world.run("jobs", *elsewhere, "--set", f"client.token_file={wrong}")
    assert refused.returncode == 4
    assert refused.stdout == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_is_clean_and_the_watchdog_leaves_after_it(world: World, number: int) -> None:
    process = world.up("--set", "watchdog.interval=0.2")
    watchdog = presence.read(world.state / presence.WATCHDOG_ALIVE)
    assert watchdog is not None
    assert presence.alive(watchdog)
    process.send_signal(number)
    assert process.wait(60) == 0
    assert (world.state / presence.CLEAN_STOP).exists()
    assert not (world.state / "api.sock").exists()
    assert not (world.state / "url").exists()
    wait_until(lambda: not presence.alive(watchdog), "the watchdog stays")


def test_a_second_up_on_the_same_state_is_refused_and_told_who_is_there(world: World) -> None:
    first = world.up()
    second = world.run("up", "--port", "0")
    assert second.returncode == 5
    assert f"process {first.pid}" in second.stderr
    assert world.run("controller").returncode == 5
    assert first.poll() is None


def test_killed_up_leaves_the_watchdog_and_can_be_started_again(world: World) -> None:
    first = world.up("--set", "watchdog.interval=0.2")
    watchdog = presence.read(world.state / presence.WATCHDOG_ALIVE)
    assert watchdog is not None
    first.send_signal(signal.SIGKILL)
    first.wait()
    wait_until(lambda: "it died" in (world.state / presence.WATCHDOG_LOG).read_text(), "unnoticed")
    assert presence.alive(watchdog)
    old = (world.state / "url").read_text()
    again_with = ("up", "--port", "0", "--log-format", "json", "--set", "watchdog.interval=0.2")
    second = world.start(*again_with)
    wait_until(lambda: not (world.state / "url").exists(), "the old address stays")
    world.await_ready(second)
    assert (world.state / "url").read_text() != old
    again = presence.read(world.state / presence.WATCHDOG_ALIVE)
    assert again is not None
    assert again.pid == watchdog.pid
    assert world.run("jobs").returncode == 0


def test_up_starts_a_new_watchdog_when_the_old_one_dies(world: World) -> None:
    world.up()
    watchdog = presence.read(world.state / presence.WATCHDOG_ALIVE)
    assert watchdog is not None
    os.kill(watchdog.pid, signal.SIGKILL)

    def another() -> bool:
        seen = presence.read(world.state / presence.WATCHDOG_ALIVE)
        return seen is not None and seen.pid != watchdog.pid and presence.alive(seen)

    wait_until(another, f"no new watchdog: {world.err()}")


def test_where_its_state_is_taken_away_everything_leaves_and_harms_no_successor(
    world: World,
) -> None:
    first = world.up("--set", "watchdog.interval=0.2")
    watchdog = presence.read(world.state / presence.WATCHDOG_ALIVE)
    assert watchdog is not None
    world.state.rename(world.folder / "elsewhere")
    second = world.start("up", "--port", "0", "--set", "watchdog.interval=0.2")
    world.await_ready(second)
    assert first.wait(60) == 1
    assert "state_directory_gone" in world.err()
    wait_until(lambda: not presence.alive(watchdog), "the old watchdog stays")
    assert second.poll() is None
    assert world.run("jobs").returncode == 0
    after = presence.read(world.state / presence.WATCHDOG_ALIVE)
    assert after is not None
    assert after.pid != watchdog.pid


def test_in_monitor_mode_no_command_that_changes_anything_is_issued(world: World) -> None:
    # With nothing to watch it would list ever more rarely.
    often = ("watcher.interval=0.1", "watcher.listing_shortest=0.1", "watcher.listing_longest=0.1")
    settings = [word for key in (*often, "controller.interval=0.1") for word in ("--set", key)]
    process = world.up(*settings)
    wait_until(lambda: (world.commands / "calls").read_text().count("squeue") > 5, "no listing")
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0
    calls = (world.commands / "calls").read_text().splitlines()
    words = {" ".join(call.split()[:3]).rpartition("/")[2] for call in calls}
    assert not {word for word in words if word.startswith(("scancel", "scontrol update"))}
    assert all(
        call.split()[1] == "show" for call in calls if call.split()[0].endswith("scontrol")
    ), words


def test_a_scheduler_that_does_not_answer_stops_nobody_from_starting(world: World) -> None:
    (world.commands / "scontrol").write_text("#!/bin/sh\necho down >&2; exit 1\n")
    process = world.up()
    assert world.run("jobs").returncode == 0
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0


def test_a_port_that_is_taken_is_said(world: World) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = world.run("up", "--port", str(taken.getsockname()[1]), "--no-watchdog")
    assert result.returncode == 75
    assert "cannot listen" in result.stderr


def test_a_start_that_fails_leaves_no_watchdog_behind(world: World) -> None:
    world.state.mkdir(mode=0o700, parents=True, exist_ok=True)
    (world.state / "middlewatch.db").write_bytes(b"no database " * 500)
    result = world.run("up", "--set", "watchdog.interval=0.2")
    assert result.returncode != 0
    assert "not a sound SQLite database" in result.stderr
    wait_until(lambda: (world.state / "watchdog.log").exists(), "the watchdog never began")
    wait_until(
        lambda: (
            (there := presence.read(world.state / presence.WATCHDOG_ALIVE)) is None
            or not presence.alive(there)
        ),
        "the watchdog stays",
    )


def test_insecure_is_refused_with_action_mode(world: World) -> None:
    result = world.run("up", "--insecure", "--mode", "action")
    assert result.returncode == 78


def test_insecure_says_so_loudly(world: World) -> None:
    world.up("--insecure", "--no-watchdog")
    wait_until(lambda: "next      mw jobs" in world.out(), "no banner")
    assert "ANYBODY ON THIS MACHINE" in world.out()


@pytest.mark.parametrize("role", ["gateway", "watcher", "manager", "controller"])
def test_a_role_alone_starts_and_stops(world: World, role: str) -> None:
    process = world.start(role, "--port", "0", "--log-format", "json")
    wait_until(lambda: process.poll() is not None or '"started"' in world.err(), "not started")
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0, world.err()
    assert '"stopped"' in world.err()


def test_a_watcher_with_a_name_shares_the_jobs_with_that_of_up(world: World) -> None:
    fast = ("--set", "watcher.interval=0.1")
    world.up("--no-watchdog", *fast)
    again = world.run("watcher")
    assert (again.returncode, "a name of its own (--name)" in again.stderr) == (5, True)
    further = world.start("watcher", "--name", "second", "--log-format", "json", *fast)

    def shares() -> list[tuple[int, str]]:
        told = [
            json.loads(line)
            for line in world.err().splitlines()
            if '"sharing"' in line and line.endswith("}")
        ]
        return [(one["watchers"], one["share"]) for one in told]

    wait_until(
        lambda: len([share for _, share in shares() if share not in {"0%", "100%"}]) >= 2,
        "they do not share",
    )
    same = world.run("watcher", "--name", "second")
    assert (same.returncode, "`watcher-second`" in same.stderr) == (5, True)
    further.send_signal(signal.SIGTERM)
    assert further.wait(60) == 0
    wait_until(lambda: shares()[-1] == (1, "100%"), "its jobs are nobody's")


def test_the_watchdog_alone_needs_no_database_and_no_gateway(world: World) -> None:
    process = world.start("watchdog", "--set", "watchdog.interval=0.2")
    wait_until(lambda: (world.state / presence.WATCHDOG_ALIVE).exists(), world.err())
    assert not (world.state / "middlewatch.db").exists()
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 0


def test_a_watchdog_deadline_that_protects_nobody_is_refused(world: World) -> None:
    result = world.run("up", "--set", "watchdog.max_hold=10s")
    assert result.returncode == 78
    assert "may still be under way" in result.stderr
