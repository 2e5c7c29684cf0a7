"""How large the store of a year grows, with what ages let go as the defaults say.

The watcher, the manager, the controller and the keeper are the product's, on a real store; Slurm is
the simulated one, and a year of it passes in minutes. Each day as many jobs run, one in twenty-five
of which fails once and is restarted. All rows belong to jobs, so a site with a thousand times as
many jobs has a thousand times as many rows: what stands for 10,000 jobs a day is that factor.
"""

from __future__ import annotations

import os
import tempfile
import time
from datetime import datetime, timedelta
from pathlib import Path

from middlewatch.adapters.journal.file import FileJournal
from middlewatch.adapters.logs import FileLogs, RecordCodec
from middlewatch.adapters.scan.catalogue import read_catalogue
from middlewatch.adapters.scan.engine import Engine, scanner_for
from middlewatch.adapters.sql.store import SqlStore, open_store
from middlewatch.lab.simulated import SimulatedCluster, SimulatedConfig, SimulatedScheduler
from middlewatch.lab.simulated.program import SimulatedTrainer
from middlewatch.model.gates import Deployment, Mode
from middlewatch.model.identity import ClusterId
from middlewatch.model.optin import directive
from middlewatch.model.policy import Policy
from middlewatch.model.retention import Retention
from middlewatch.services.controller.controller import Controller, ControllerConfig
from middlewatch.services.keeper import Keeper
from middlewatch.services.manager.manager import Manager
from middlewatch.services.watcher import Watch, Watcher
from middlewatch.wiring.settings import RetentionSettings
from tools.bench.figures import Measured
from tools.bench.site import Site, Trouble

DAYS = 365
JOBS = 4
SITE_JOBS = 10_000
ONE_FAILS_OF = 25
CLUSTER = ClusterId("slurm", "year")
COMMENT = directive("year", "action").removeprefix("#SBATCH --comment='").removesuffix("'")
LOOKS = (3.0, 20.0, 60.0, 100.0)
"""Seconds after a job's begin at which rounds are made; it ends between the last two."""
RECOVERY_ROUNDS = 60


class VirtualClock:
    """The simulated cluster's time as a clock."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    def now(self) -> datetime:
        return self._cluster.now

    def monotonic(self) -> float:
        return self._cluster.now.timestamp()

    def sleep(self, seconds: float) -> None:
        self._cluster.advance(self._cluster.now + timedelta(seconds=seconds))

    def token(self, size: int = 32) -> str:
        return os.urandom(size).hex()[:size]


class Year:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cluster = SimulatedCluster(SimulatedConfig(nodes=("gpu-001", "gpu-002", "gpu-003")))
        self.clock = VirtualClock(self.cluster)
        self.store: SqlStore = open_store(folder / "state" / "middlewatch.db")
        scheduler = SimulatedScheduler(self.cluster, CLUSTER)
        deployment = Deployment(CLUSTER, "simulated", Mode.ACTION, True, ("*",))
        catalogue, policy = read_catalogue(None), Policy()
        self.watcher = Watcher(
            store=self.store,
            scheduler=scheduler,
            logs=FileLogs(),
            scanner=scanner_for(catalogue, Engine.RE2),
            patterns=catalogue.by_id(),
            codec=RecordCodec(Watch),
            policy=policy,
        )
        self.manager = Manager(
            store=self.store, scheduler=scheduler, deployment=deployment, policy=policy
        )
        self.controller = Controller(
            store=self.store,
            scheduler=scheduler,
            journal=FileJournal(folder / "state"),
            clock=self.clock,
            deployment=deployment,
            policy=policy,
            holder="year",
            config=ControllerConfig(),
        )
        given = RetentionSettings()
        self.keeper = Keeper(self.store, Retention(given.evidence_s, given.attempts_s))

    def job(self, number: int) -> None:
        """One job from its submission to some time after its end."""
        fails = number % ONE_FAILS_OF == 0
        trainer = SimulatedTrainer(steps=120, step_s=0.5, fault="crash-cuda" if fails else None)
        log = self.folder / "job.log"
        log.unlink(missing_ok=True)
        self.cluster.submit(trainer, nodes=2, comment=COMMENT, stdout=log, uid=os.geteuid())
        passed = 0.0
        for look in LOOKS:
            self.clock.sleep(look - passed)
            passed = look
            self.round()
        for _ in range(RECOVERY_ROUNDS if fails else 0):
            self.clock.sleep(2.0)
            self.round()

    def round(self) -> None:
        self.watcher.tick(self.clock.now())
        self.manager.tick(self.clock.now())
        self.controller.tick(self.clock.now())

    def night(self) -> None:
        """The rest of the day, at whose end what has aged goes."""
        second = self.cluster.now.timestamp() % 86_400
        self.clock.sleep(86_400 - second)
        self.round()
        while self.keeper.tick(self.clock.now()).again:
            pass

    def megabytes(self) -> float:
        """The database as it lies on the disk, with its log written into it."""
        self.store.close()
        path = self.folder / "state" / "middlewatch.db"
        self.store = open_store(path)
        return path.stat().st_size / 1e6


def measure(site: Site) -> list[Measured]:
    found = Measured("year")
    with tempfile.TemporaryDirectory(prefix="mw-year-", dir="/var/tmp") as name:
        folder = Path(name)
        (folder / "state").mkdir(mode=0o700)
        year = Year(folder)
        began = time.monotonic()
        empty = year.megabytes()
        for day in range(DAYS):
            for number in range(JOBS):
                year.job(day * JOBS + number)
            year.night()
            if day + 1 in {30, 90, 180, DAYS}:
                grown = year.megabytes() - empty
                found.value("year_store_mb", grown, day=day + 1, jobs=(day + 1) * JOBS)
                site.say(f"  day {day + 1}: {grown:.1f} MB, {time.monotonic() - began:.0f} s")
        advised = len(year.store.advice_page(False, 0, 100_000))
        if advised < DAYS * JOBS // ONE_FAILS_OF // 2:
            raise Trouble(
                f"only {advised} jobs were advised on: the year was not what it should be"
            )
        year.store.close()
    factor = SITE_JOBS / JOBS
    at = {int(str(r["day"])): float(str(r["value"])) for r in found.raw}
    found.figure("year_store_gb", at[DAYS] * factor / 1000, DAYS * JOBS)
    found.figure("further_year_store_gb", (at[DAYS] - at[180]) * 2 * factor / 1000, DAYS * JOBS)
    return [found]
