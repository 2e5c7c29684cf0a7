"""What can be done to a recovery: to our processes, to Slurm, to our disk, and by people."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tools.faults import world
from tools.faults.seen import Act
from tools.faults.world import Row

if TYPE_CHECKING:
    from tools.faults.run import Run

Step = Callable[["Run"], None]


@dataclass(frozen=True, slots=True)
class How:
    """``begin`` is done at the place; ``end`` when the deed's time has passed. ``waits``: the command
    that is met there waits until the time has passed. ``afterwards``: ``begin`` comes when that command
    has been carried out."""

    begin: Step
    end: Step | None = None
    waits: bool = False
    afterwards: bool = False


# ----------------------------------------------------------------------------------- our processes


def _kill(*names: str) -> How:
    def begin(run: Run) -> None:
        run.site.kill(*names)
        if not names and run.schedule.watchdog_too:
            run.site.kill_watchdog()

    def end(run: Run) -> None:
        if not names and run.schedule.absent:
            run.watchdog_alone()
        run.restart(*names)

    return How(begin, end)


def _freeze(run: Run) -> None:
    run.stood_still_from = time.time()
    run.site.signal_all(signal.SIGSTOP)


def _unfreeze(run: Run) -> None:
    run.seen.frozen.append((run.stood_still_from, time.time()))
    run.site.signal_all(signal.SIGCONT)


# ------------------------------------------------------------------------------------------- Slurm


def _daemon(name: str, sig: int) -> How:
    def begin(run: Run) -> None:
        if name == "slurmctld" and sig == signal.SIGKILL:
            run.seen.slurmctld_killed.append(time.time())
        run.cluster.stop_daemon(name, sig)

    return How(begin, lambda run: _start_daemon(run, name))


def _start_daemon(run: Run, name: str) -> None:
    # When it serves is part of what is played: another daemon that it needs may be away.
    run.cluster.start_daemon(name, wait=False)


def _hang(name: str) -> How:
    return How(lambda run: run.cluster.freeze(name), lambda run: run.cluster.thaw(name))


def _kill_node(run: Run) -> None:
    run.seen.node_faults += 1
    run.broken_node = run.a_node()
    run.cluster.kill_node(run.broken_node)


def _set_down(run: Run) -> None:
    run.seen.node_faults += 1
    run.broken_node = run.a_node()
    words = [f"nodename={run.broken_node}", "state=DOWN", "reason=set down"]
    run.cluster.run(["scontrol", "update", *words])


def _resume(run: Run) -> None:
    words = [f"nodename={run.broken_node}", "state=RESUME"]
    # It may have come back by itself.
    run.cluster.run(["scontrol", "update", *words], check=False)


# ----------------------------------------------------------------------------------------- our disk


def _lock_database(run: Run) -> None:
    lock = sqlite3.connect(
        run.site.database, timeout=20.0, isolation_level=None, check_same_thread=False
    )
    lock.execute("begin exclusive")
    run.database_lock = lock


def _unlock_database(run: Run) -> None:
    if run.database_lock is not None:
        run.database_lock.rollback()
        run.database_lock.close()
        run.database_lock = None


def _fill_disk(run: Run) -> None:
    folder = run.site.disk
    if folder is None:
        raise RuntimeError("the site has no small disk")
    handle = os.open(folder / "full", os.O_WRONLY | os.O_CREAT, 0o600)
    with contextlib.suppress(OSError):
        while True:
            os.write(handle, b"\0" * 4096)
    os.close(handle)


def _empty_disk(run: Run) -> None:
    if run.site.disk is not None:
        (run.site.disk / "full").unlink(missing_ok=True)
    run.revive()


def _move_state(run: Run) -> None:
    run.site.state.rename(run.site.state.with_name("moved"))


def _move_back(run: Run) -> None:
    moved = run.site.state.with_name("moved")
    if run.site.state.exists():
        # Whoever made a new one there must not be taken for us.
        run.site.state.rename(run.site.state.with_name(f"made-{time.time():.0f}"))
    moved.rename(run.site.state)
    run.revive()


# ------------------------------------------------------------------------------------------- people


def _operator(what: str, *words: str) -> Step:
    return _person(what, words, operator=True)


def _owner(what: str, *words: str) -> Step:
    return _person(what, words, operator=False)


def _person(what: str, words: tuple[str, ...], *, operator: bool) -> Step:
    def begin(run: Run) -> None:
        spec = run.cluster.spec
        user = spec.operator if operator else spec.job_users[0]
        job_id = run.seen.job_id
        argv = [word.format(job=job_id, node=run.another_node()) for word in words]
        before, begun = world.row(run.cluster, job_id), time.time()
        answer = run.cluster.run(argv, user=user, check=False)
        after = world.row(run.cluster, job_id)
        done = answer.returncode == 0
        if "cancels" in what:
            done = done and before.state not in world.ENDED
        run.seen.acts.append(Act(what, begun, time.time(), done, before, after))

    return begin


def _let_go(what: str) -> Step:
    """They release what they held."""

    def end(run: Run) -> None:
        operator = not what.startswith("owner")
        spec = run.cluster.spec
        user = spec.operator if operator else spec.job_users[0]
        for number, act in enumerate(run.seen.acts):
            if act.what == what and not act.until:
                run.seen.acts[number] = Act(
                    what, act.begun, act.ended, act.done, act.before, act.after, time.time()
                )
        job_id = run.seen.job_id
        run.cluster.run(["scontrol", "release", job_id], user=user, check=False)

    return end


def _exclude(what: str) -> Step:
    """They add a node to the job's list as they see it."""

    def begin(run: Run) -> None:
        node = run.another_node()
        shown = world.names(run.cluster, world.row(run.cluster, run.seen.job_id).excluded)
        nodes = ",".join(sorted({*shown, node}))
        words = ("scontrol", "update", "jobid={job}", f"ExcNodeList={nodes}")
        _person(what, words, operator=what.startswith("operator"))(run)
        if run.seen.acts[-1].done:
            run.seen.user_exclusions |= {node}

    return begin


def _complete(run: Run) -> None:
    """Its work is done: the batch script ends in success; Slurm knows it or is about to."""
    world.finish(run.cluster, run.seen.job_id)

    def completed() -> bool:
        notes = world.notes(run.cluster, run.seen.job_id)
        return any(note.word == "completed" for note in notes)

    if run.wait_there(completed, 5.0):
        run.seen.completed_at = time.time()

        def over() -> bool:
            row: Row = world.row(run.cluster, run.seen.job_id)
            return row.state in world.ENDED

        run.wait_there(over, 3.0)


def _nothing(_run: Run) -> None:
    """Time passes."""


DEEDS: Mapping[str, How] = {
    "kill all": _kill(),
    "kill controller": _kill("controller"),
    "kill gateway": _kill("gateway"),
    "kill manager": _kill("manager"),
    "kill watcher": _kill("watcher"),
    "kill watchdog": How(lambda run: run.site.kill_watchdog()),
    "freeze us": How(_freeze, _unfreeze, waits=True),
    "late": How(_nothing, waits=True),
    "slurmctld hangs": _hang("slurmctld"),
    "slurmctld hangs briefly": _hang("slurmctld"),
    "slurmctld stopped": _daemon("slurmctld", signal.SIGTERM),
    "slurmctld killed": _daemon("slurmctld", signal.SIGKILL),
    "slurmctld killed right after": How(
        _daemon("slurmctld", signal.SIGKILL).begin,
        lambda run: _start_daemon(run, "slurmctld"),
        afterwards=True,
    ),
    "slurmdbd stopped": _daemon("slurmdbd", signal.SIGTERM),
    "slurmdbd killed": _daemon("slurmdbd", signal.SIGKILL),
    "slurmdbd hangs": _hang("slurmdbd"),
    "mariadbd stopped": _daemon("mariadbd", signal.SIGTERM),
    "munged stopped": _daemon("munged", signal.SIGTERM),
    "node killed": How(_kill_node, lambda run: run.cluster.start_node(run.broken_node, wait=False)),
    "node set down": How(_set_down, _resume),
    "database locked": How(_lock_database, _unlock_database),
    "disk full": How(_fill_disk, _empty_disk),
    "state moved": How(_move_state, _move_back),
    "operator holds": How(
        _operator("operator holds", "scontrol", "hold", "{job}"), _let_go("operator holds")
    ),
    "operator requeues": How(_operator("operator requeues", "scontrol", "requeue", "{job}")),
    "operator requeueholds": How(
        _operator("operator requeueholds", "scontrol", "requeuehold", "{job}"),
        _let_go("operator requeueholds"),
    ),
    "operator cancels": How(_operator("operator cancels", "scancel", "{job}")),
    "operator releases": How(_operator("operator releases", "scontrol", "release", "{job}")),
    "operator starts": How(
        _operator("operator starts", "scontrol", "update", "jobid={job}", "StartTime=now")
    ),
    "owner cancels": How(_owner("owner cancels", "scancel", "{job}")),
    "owner holds": How(_owner("owner holds", "scontrol", "hold", "{job}"), _let_go("owner holds")),
    "owner releases": How(_owner("owner releases", "scontrol", "release", "{job}")),
    "owner excludes": How(_exclude("owner excludes")),
    "operator excludes": How(_exclude("operator excludes")),
    "owner opts out": How(
        _owner("owner opts out", "scontrol", "update", "jobid={job}", "Comment=opted-out")
    ),
    "owner forbids requeueing": How(
        _owner("owner forbids requeueing", "scontrol", "update", "jobid={job}", "Requeue=0")
    ),
    "job completes": How(_complete),
}
"""Everything that a pattern may name."""

OURSELVES = frozenset({"disk full", "state moved"})
"""After these our processes may have left by themselves; a service manager starts them again."""
