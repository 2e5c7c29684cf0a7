"""Two real `mw controller` on a real Slurm, each with a state directory of its own, behind one gateway:
who leads when one is stopped in order, stands still, comes back, and is killed."""

from __future__ import annotations

import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.adapters.sql.store import SqlStore, open_store
from middlewatch.lab.cluster import Cluster
from middlewatch.model.change import Lease
from middlewatch.services.gateway.access import Scope
from middlewatch.services.gateway.tokens import make_token
from middlewatch.wiring.demo.harness import Up, lab_settings

pytestmark = pytest.mark.slurm
LIMIT_S = 180.0
DEADLINES = {
    "slurm": {"command_deadline": "10.5s"},
    "controller": {"lease": "12s", "interval": "0.2s"},
    "watchdog": {"enabled": False},
}


class Hosts:
    """A gateway over a store, and two controllers that only call it."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            port = int(one.getsockname()[1])
        settings = lab_settings(folder / "state", "pair", {"gateway": {"port": port}})
        self.gateway = Up(folder / "gateway", env, settings, words=("gateway",))
        self.gateway.start()
        self.store: SqlStore = open_store(folder / "state" / "middlewatch.db")
        token = folder / "token"
        token.write_text(make_token(self.store, SystemClock(), "pair", (Scope.CONTROLLER,)))
        self.controllers: dict[str, Up] = {}
        for name in ("one", "two"):
            away: dict[str, Any] = {section: dict(keys) for section, keys in DEADLINES.items()}
            away["controller"] |= {
                "gateway": f"http://127.0.0.1:{port}",
                "token_file": str(token),
            }
            made = lab_settings(folder / name, "pair", away)
            self.controllers[name] = Up(folder / f"{name}-log", env, made, words=("controller",))

    def start(self, name: str) -> None:
        self.controllers[name].start(wait=False)

    def lease(self) -> Lease | None:
        leases = [one for one in self.store.leases() if one.name == "controller/pair"]
        return leases[0] if leases else None

    def leads(self, name: str) -> bool:
        holder = self.controllers[name].state / "holder"
        lease = self.lease()
        return lease is not None and holder.exists() and holder.read_text().strip() == lease.holder

    def until(self, what: Callable[[], bool]) -> None:
        until = time.monotonic() + LIMIT_S
        while not what():
            assert time.monotonic() < until, self.words()
            time.sleep(0.1)

    def said(self, name: str, text: str) -> int:
        return self.controllers[name].log.read_text(errors="replace").count(text)

    def words(self) -> str:
        return "\n".join(f"{n}:\n{c.last_words()}" for n, c in self.controllers.items())

    def close(self) -> None:
        for controller in self.controllers.values():
            if controller.process is not None:
                controller.process.send_signal(signal.SIGCONT)
            controller.kill()
        self.gateway.kill()
        self.store.close()


@pytest.fixture
def hosts(tmp_path: Path, slurm_lab: Cluster) -> Iterator[Hosts]:
    made = Hosts(tmp_path, slurm_lab.env(logged=False))
    yield made
    made.close()


def test_the_lead_is_handed_over_in_order_and_taken_from_who_is_not_heard_of(hosts: Hosts) -> None:
    hosts.start("one")
    hosts.until(lambda: hosts.leads("one"))
    hosts.start("two")
    hosts.until(lambda: hosts.said("two", "another controller leads") == 1)

    # Stopped in order: the other leads at once, and acts at once.
    assert hosts.controllers["one"].stop() == 0
    hosts.until(lambda: hosts.leads("two"))
    lease = hosts.lease()
    assert lease is not None
    assert lease.taken_over_at is None
    hosts.until(lambda: hosts.said("two", '"leads"') == 1)

    # It stands still: the other takes over and keeps still; when it goes on it follows.
    hosts.start("one")
    hosts.until(lambda: hosts.said("one", "another controller leads") == 1)
    two = hosts.controllers["two"].process
    assert two is not None
    two.send_signal(signal.SIGSTOP)
    hosts.until(lambda: hosts.leads("one"))
    taken = hosts.lease()
    assert taken is not None
    assert taken.taken_over_at is not None
    hosts.until(lambda: hosts.said("one", "keeps still first") == 1)
    two.send_signal(signal.SIGCONT)
    hosts.until(lambda: hosts.said("two", "another controller leads") == 2)
    assert hosts.leads("one")

    # Killed while it keeps still and started again, it still keeps still: the store remembers.
    hosts.controllers["one"].kill()
    hosts.start("one")
    hosts.until(lambda: hosts.said("one", "keeps still first") == 2)
    again = hosts.lease()
    assert again is not None
    assert (again.token, again.taken_over_at) == (taken.token, taken.taken_over_at)

    # Killed for good: the other takes over.
    hosts.controllers["one"].kill()
    hosts.until(lambda: hosts.leads("two"))
    last = hosts.lease()
    assert last is not None
    assert last.token > taken.token
    assert last.taken_over_at is not None
    assert last.taken_over_at > taken.taken_over_at
