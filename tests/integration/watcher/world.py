"""A watcher over the simulated Slurm, real files and a real store, in virtual time."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from middlewatch.adapters.logs import FileLogs, RecordCodec
from middlewatch.adapters.scan import OwnPatterns, Re2Scanner, read_catalogue
from middlewatch.adapters.sql.store import SqlStore, open_store
from middlewatch.lab.simulated import (
    EPOCH,
    SimulatedCluster,
    SimulatedConfig,
    SimulatedScheduler,
)
from middlewatch.model.attempt import Attempt
from middlewatch.model.identity import ClusterId
from middlewatch.model.policy import Policy
from middlewatch.model.signal import Signal, SignalKind
from middlewatch.ports.clock import Clock
from middlewatch.ports.scanner import Scanner
from middlewatch.ports.scheduler import Scheduler
from middlewatch.services.watcher import (
    Evidence,
    Watch,
    Watcher,
    WatcherReport,
    WatcherSettings,
)

CLUSTER = ClusterId("slurm", "prod")
COMMENT = '{"middlewatch":{"environment":"prod","mode":"action"}}'
_CATALOGUE = read_catalogue()
_SCANNER = Re2Scanner(_CATALOGUE)


@dataclass
class World:
    folder: Path
    cluster: SimulatedCluster
    scheduler: SimulatedScheduler
    store: SqlStore
    watcher: Watcher
    settings: WatcherSettings
    policy: Policy
    evidence: Evidence | None = None

    @property
    def now(self) -> datetime:
        return self.cluster.now

    @property
    def log(self) -> Path:
        return self.folder / "out.log"

    def restart(self, scheduler: Scheduler | None = None) -> None:
        """Another process takes over: nothing is left but the store."""
        self.watcher = made(
            self.store,
            scheduler or self.scheduler,
            self.policy,
            self.settings,
            evidence=self.evidence,
        )

    def run(self, seconds: float, every: float = 0.5) -> WatcherReport:
        """Let time pass with a tick at each step; the last report."""
        report = WatcherReport()
        until = self.now + timedelta(seconds=seconds)
        while self.now < until:
            self.cluster.advance(min(until, self.now + timedelta(seconds=every)))
            report = self.watcher.tick(self.now)
        return report

    def pass_unwatched(self, seconds: float) -> None:
        self.cluster.advance(self.now + timedelta(seconds=seconds))

    def submit(self, program: Any, **fields: Any) -> str:
        fields = {"comment": COMMENT, "stdout": self.log, "uid": os.geteuid(), **fields}
        return self.cluster.submit(program, **fields)

    def attempts(self, job_id: str) -> tuple[Attempt, ...]:
        return self.store.attempts_of_job(CLUSTER, job_id)

    def signals(self, attempt: Attempt, *kinds: SignalKind) -> list[Signal]:
        found = [signal for _, signal in self.store.signals(attempt.id)]
        return [signal for signal in found if not kinds or signal.kind in kinds]


def made(
    store: SqlStore,
    scheduler: Scheduler,
    policy: Policy,
    settings: WatcherSettings,
    *,
    scanner: Scanner = _SCANNER,
    clock: Clock | None = None,
    evidence: Evidence | None = None,
    hinted: Callable[[], bool] = lambda: False,
) -> Watcher:
    return Watcher(
        store=store,
        scheduler=scheduler,
        logs=FileLogs(),
        scanner=scanner,
        clock=clock,
        patterns=_CATALOGUE.by_id(),
        codec=RecordCodec(Watch),
        policy=policy,
        settings=settings,
        own=OwnPatterns(),
        evidence=evidence,
        hinted=hinted,
    )


def world(
    folder: Path,
    policy: Policy | None = None,
    settings: WatcherSettings | None = None,
    evidence: Evidence | None = None,
    **config: Any,
) -> World:
    cluster = SimulatedCluster(SimulatedConfig(**config), now=EPOCH)
    scheduler = SimulatedScheduler(cluster, CLUSTER)
    store = open_store(folder / "state" / "middlewatch.db")
    policy = policy or Policy()
    settings = settings or WatcherSettings()
    return World(
        folder,
        cluster,
        scheduler,
        store,
        made(store, scheduler, policy, settings, evidence=evidence),
        settings,
        policy,
        evidence,
    )
