"""A job of 300 nodes fails, and every one of its nodes says so: it is recovered like a small one,
and what is written about it grows with its nodes and not with their square."""

from __future__ import annotations

import os
import sqlite3
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from middlewatch.lab.simulated import Exit, Place, Program, SimulatedConfig, SimulatedTrainer
from middlewatch.model.advice import Disposition
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import JobState
from middlewatch.ports.store import AuditFilter
from middlewatch.services.manager.manager import Manager
from middlewatch.services.watcher import WatcherSettings
from tests.integration.controller.world import CLUSTER, World
from tests.integration.watcher.world import made

SPARE = 60
SHOWN = 64
"""Nodes that a line of the trail names at most."""


@dataclass
class EveryTaskIsNamed:
    """A trainer whose launcher reports each node's task when it fails."""

    inner: Program
    place: Place
    dies_after_s: float = 0.3

    def due(self) -> datetime | None:
        return self.inner.due()

    def go_on(self, now: datetime) -> Exit | None:
        ended = self.inner.go_on(now)
        if ended is not None and ended.code:
            for number, node in enumerate(self.place.nodes):
                self.place.write(f"srun: error: {node}: task {number}: Exited with exit code 1")
        return ended


def recovered(folder: Path, size: int) -> tuple[World, str]:
    """A world after the whole recovery of a job of that many nodes."""
    folder.mkdir()
    nodes = tuple(f"rack{n // 60:02}-n{n % 60:03}" for n in range(size + SPARE))
    shunned = nodes[:20]
    world = World(folder, SimulatedConfig(nodes=nodes))
    watcher = made(world.store, world.scheduler, Policy(), WatcherSettings(), clock=world.clock)
    problems: list[object] = []
    manager = Manager(
        store=world.store,
        scheduler=world.scheduler,
        deployment=world.deployment,
        policy=Policy(),
        on_advice=lambda: None,
        on_error=lambda what, error: problems.append((what, error)),
    )
    trainer = SimulatedTrainer(steps=400, fault="crash-cuda", fault_at=25)
    job = world.submit(
        lambda place: EveryTaskIsNamed(trainer(place), place),
        nodes=size,
        excluded=shunned,
        uid=os.geteuid(),
        stdout=folder / "slurm-%j.out",
    )
    until = world.cluster.now + timedelta(seconds=90)
    while world.cluster.now < until and not _runs_again(world, job):
        problems += watcher.tick(world.clock.now()).errors
        manager.tick(world.clock.now())
        world.turn()
    assert problems == []
    return world, job


def _runs_again(world: World, job: str) -> bool:
    attempts = world.store.attempts_of_job(CLUSTER, job)
    told = len(attempts) == 2 and bool(attempts[1].nodes)
    return told and not world.store.advice_page(True, 0, 1)


@pytest.fixture(scope="module")
def big(tmp_path_factory: pytest.TempPathFactory) -> tuple[World, str]:
    return recovered(tmp_path_factory.mktemp("hundreds") / "big", 300)


def test_a_job_of_300_nodes_is_recovered_around_the_one_that_failed(
    big: tuple[World, str],
) -> None:
    world, job = big
    first, second = world.store.attempts_of_job(CLUSTER, job)
    failed = first.nodes[-1]
    advice = world.store.advice(first.id)
    assert advice is not None
    assert advice.status is not None
    assert advice.status.disposition is Disposition.CONVERGED
    assert advice.exclusions == (failed,)
    assert set(world.excluded(job)) == {*world.cluster.config.nodes[:20], failed}
    assert [c.argv[1] for c in world.issued] == ["requeue", "update"]
    assert (len(first.nodes), len(second.nodes)) == (300, 300)
    assert failed not in second.nodes
    assert second.state is JobState.RUNNING


def test_what_is_written_grows_with_the_nodes_and_the_trail_names_no_more_than_it_shows(
    big: tuple[World, str], tmp_path: Path
) -> None:
    world, job = big
    small, _ = recovered(tmp_path / "small", 30)
    of_big, of_small = written(world), written(small)
    assert of_small > 0
    assert of_big < 10 * of_small, (of_big, of_small)
    trail = world.store.audit(AuditFilter(job_id=job), 0, 1000)
    placed = [event for event in trail if event.type == "attempt.placed"]
    assert len(placed) == 2
    for event in trail:
        named = sum(node in event.payload for node in world.cluster.config.nodes)
        assert named <= SHOWN, (event.type, named)


def written(world: World) -> int:
    """Bytes of everything that the store has of that world."""
    total = 0
    with sqlite3.connect(world.folder / "mw.db") as database:
        tables = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        for (table,) in tables.fetchall():
            columns = [row[1] for row in database.execute(f"PRAGMA table_info({table})")]
            sizes = " + ".join(f"coalesce(sum(length({column})), 0)" for column in columns)
            (size,) = database.execute(f"SELECT {sizes} FROM {table}").fetchone()
            total += size
    return total
