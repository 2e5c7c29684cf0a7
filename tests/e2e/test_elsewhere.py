"""A controller with a state directory of its own, which only calls: beside the gateway's processes
on a real Slurm, over a real port, the gateway killed in the middle of a recovery."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.model.advice import Disposition
from middlewatch.services.gateway.access import Scope
from middlewatch.services.gateway.tokens import make_token
from middlewatch.wiring.demo.harness import Up, lab_settings
from tests.e2e.stage import Stage
from tests.sshd import running

pytestmark = pytest.mark.slurm


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Roles:
    """Gateway, watcher and manager over one store, and a controller that has none."""

    def __init__(self, stage: Stage, slurm: dict[str, Any] | None = None) -> None:
        self.stage = stage
        self.port = free_port()
        settings = lab_settings(
            stage.folder / "state", stage.environment, {"gateway": {"port": self.port}}
        )
        self.processes = {
            name: self._process(name, stage.folder / name, settings, stage.folder / "state")
            for name in ("gateway", "watcher", "manager")
        }
        self.gateway = self.processes["gateway"]
        self.gateway.start()
        stage.up = self.gateway
        stage.store  # noqa: B018 - opened while its process is there
        clock = SystemClock()
        token = make_token(stage.store, clock, "elsewhere", (Scope.CONTROLLER,))
        token_file = stage.folder / "token"
        token_file.write_text(token)
        away = lab_settings(
            stage.folder / "away",
            stage.environment,
            {
                "controller": {
                    "gateway": f"http://127.0.0.1:{self.port}",
                    "token_file": str(token_file),
                },
                **({"slurm": slurm} if slurm else {}),
            },
        )
        self.controller = self._process(
            "controller", stage.folder / "controller", away, stage.folder / "away"
        )
        self.processes["controller"] = self.controller
        for name in ("watcher", "manager", "controller"):
            self.processes[name].start(wait=False)

    def _process(self, name: str, folder: Path, settings: Any, state: Path) -> Up:
        settings = {**settings, "state": {"directory": str(state)}}
        return Up(folder, self.stage.cluster.env(), settings, words=(name,))

    def words(self) -> str:
        return "\n".join(f"{name}:\n{one.last_words()}" for name, one in self.processes.items())

    def close(self) -> None:
        for name in ("controller", "manager", "watcher", "gateway"):
            self.processes[name].stop()
        for one in self.processes.values():
            one.kill_watchdog()


@pytest.fixture
def elsewhere(stage: Stage) -> Iterator[Roles]:
    roles = Roles(stage)
    yield roles
    roles.close()


def test_a_controller_elsewhere_restarts_a_job_though_its_gateway_is_killed_meanwhile(
    elsewhere: Roles,
) -> None:
    stage = elsewhere.stage
    job = stage.submit(nodes=2, steps=400, fault="crash-cuda", fault_at=15, fault_rank=1)
    stage.wait("a requeue", stage.changing, 120)
    elsewhere.gateway.kill()
    elsewhere.gateway.start()
    advice = stage.wait("an outcome", lambda: stage.outcome(job), 180)
    assert advice.status.disposition is Disposition.CONVERGED, elsewhere.words()
    assert advice.exclusions
    # What the requeue came to may have been lost with the gateway; then there is a fence, and its end.
    assert [argv[1] for argv in stage.changing()][:2] == ["requeue", "update"], elsewhere.words()
    assert [argv[1] for argv in stage.changing()].count("requeue") == 1
    assert not (stage.folder / "away" / "middlewatch.db").exists()
    assert stage.store.actions(advice.attempt_id)


def test_a_controller_elsewhere_reaches_its_slurm_by_ssh(stage: Stage) -> None:
    lab = stage.cluster
    with running("--conf", lab.env()["SLURM_CONF"], "--bin", str(lab.layout.bin)) as server:
        target = server.target
        slurm = {
            "transport": "ssh",
            "ssh_host": target.host,
            "ssh_port": target.port,
            "ssh_user": target.user,
            "ssh_key": target.key,
            "ssh_known_hosts": target.known_hosts,
        }
        roles = Roles(stage, slurm)
        try:
            job = stage.submit(nodes=2, steps=400, fault="crash-cuda", fault_at=15, fault_rank=1)
            advice = stage.wait("an outcome", lambda: stage.outcome(job), 180)
            assert advice.status.disposition is Disposition.CONVERGED, roles.words()
            assert [argv[1] for argv in stage.changing()] == ["requeue", "update"], roles.words()
            log = (server.folder / "log").read_text()
            # One connection for the controller, one for its watchdog.
            assert log.count("Accepted publickey") == 2, log
        finally:
            roles.close()
