"""A real Slurm and a real `middlewatch up` on it, with patience that ends."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from middlewatch.adapters.sql.store import SqlStore
from middlewatch.lab import commandlog
from middlewatch.lab.cluster import Cluster
from middlewatch.lab.jobs import TrainerOptions
from middlewatch.model.advice import Advice
from middlewatch.model.attempt import Attempt
from middlewatch.model.identity import ClusterId
from middlewatch.wiring.demo.harness import Up, lab_settings
from tests.identities import effectively, runnable_by, warmed


@dataclass
class Stage:
    """``environment`` is the stage's own: jobs of earlier tests are still in slurmctld's memory
    and must not concern it."""

    cluster: Cluster
    folder: Path
    environment: str
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    up: Up | None = None
    opened: SqlStore | None = None
    user: str = ""
    """Who runs `up`; root where nobody is named."""

    def begin(self, changes: Mapping[str, Mapping[str, Any]] | None = None) -> None:
        self.settings = lab_settings(self.folder / "state", self.environment, changes)
        self.up = self._made()
        self.up.start()

    def _made(self) -> Up:
        if not self.user:
            return Up(self.folder, self.cluster.env(), self.settings)
        # As a person begins: no root, the state where the system keeps a user's state.
        self.settings["state"].pop("directory", None)
        self.folder.mkdir(exist_ok=True)
        shutil.chown(self.folder, self.user)
        runnable = runnable_by(self.user)
        home = self.cluster.home(self.user)
        warmed(home, self.user)
        env = {**self.cluster.env(), **runnable.env, "HOME": str(home)}
        env |= {"XDG_STATE_HOME": str(self.folder)}
        return Up(self.folder, env, self.settings, user=self.user, python=runnable.python)

    def end(self) -> int:
        if self.opened is not None:
            self.opened.close()
            self.opened = None
        return self.up.stop() if self.up is not None else 0

    def close(self) -> None:
        self.end()
        if self.up is not None:
            self.up.kill_watchdog()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def store(self) -> SqlStore:
        if self.opened is None:
            assert self.up is not None
            with effectively(self.user or "root"):
                self.opened = self.up.store()
        return self.opened

    def submit(self, **options: Any) -> str:
        options.setdefault("comment", self.opt_in())
        options.setdefault("step_seconds", 0.1)
        return self.cluster.submit(TrainerOptions(**options))

    def submit_as(self, user: str, **options: Any) -> str:
        """The same by another user of the lab."""
        options = {"comment": self.opt_in(), "step_seconds": 0.1, **options}
        return self.cluster.submit(TrainerOptions(**options), user=user)

    def opt_in(self, mode: str = "action") -> str:
        return json.dumps({"middlewatch": {"environment": self.environment, "mode": mode}})

    def attempt(self, job_id: str, index: int = 0) -> Attempt | None:
        found = self.store.attempts_of_job(ClusterId("slurm", self.environment), job_id)
        return next((a for a in found if a.attempt_index == index), None)

    def advice(self, job_id: str, index: int = 0) -> Advice | None:
        attempt = self.attempt(job_id, index)
        return self.store.advice(attempt.id) if attempt else None

    def outcome(self, job_id: str, index: int = 0) -> Advice | None:
        """The advice once its generation has ended."""
        advice = self.advice(job_id, index)
        return advice if advice is not None and not advice.active else None

    def changing(self) -> list[tuple[str, ...]]:
        """Every command issued by Middlewatch that could change something."""
        return [c.argv for c in commandlog.commands(self.cluster.folder) if c.changing]

    def wait(self, what: str, look: Callable[[], Any], limit_s: float = 60.0) -> Any:
        """What ``look`` gives once it is true. Fails with what `up` printed last."""
        until = time.monotonic() + limit_s
        while time.monotonic() < until:
            found = look()
            if found:
                return found
            time.sleep(0.1)
        words = self.up.last_words() if self.up else ""
        raise AssertionError(f"{what} did not come in {limit_s:.0f} s; `up` said:\n{words}")
