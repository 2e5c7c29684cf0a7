"""Several watchers in processes of their own: one joins, one is killed, one is frozen and returns."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from middlewatch.adapters.sql.store import SqlStore, open_store
from middlewatch.model.identity import AttemptKey
from middlewatch.model.sharing import SHARDS
from middlewatch.model.signal import SignalKind
from tests.integration.watcher.one_watcher import BEGUN, CLUSTER, POOL

ROOT = Path(__file__).resolve().parents[3]
JOBS = 24
TERM_S = 4.0
PATIENCE_S = 180.0
LINE = (
    "n2 kernel: NVRM: Xid (PCI:0000:3b:00): 48, pid=4242, name=python3, An uncorrectable double "
    "bit error (DBE) has been detected on GPU in the framebuffer at partition 0, subpartition 1.\n"
)


@dataclass
class Site:
    folder: Path
    store: SqlStore
    printed: dict[str, list[int]] = field(default_factory=dict)
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def log(self, job_id: str) -> Path:
        return self.folder / f"slurm-{job_id}.out"

    def start(self, name: str) -> None:
        words = ["-m", "tests.integration.watcher.one_watcher", str(self.folder), name, str(TERM_S)]
        self.running[name] = subprocess.Popen([sys.executable, *words], cwd=ROOT)

    def send(self, name: str, number: signal.Signals) -> None:
        self.running[name].send_signal(number)

    def freeze(self, name: str) -> None:
        """Stop it outside of its transactions: in one, it would keep SQLite's lock from everybody."""

        def frozen_without_lock() -> bool:
            self.send(name, signal.SIGSTOP)
            os.waitid(os.P_PID, self.running[name].pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            other = sqlite3.connect(self.folder / "state" / "middlewatch.db", timeout=0)
            try:
                other.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                self.send(name, signal.SIGCONT)
                return False
            finally:
                other.close()
            return True

        self.wait(frozen_without_lock, lambda: f"{name} is always in a transaction")

    def print(self) -> None:
        """Every job writes one more line that tells of a failure, and one that does not."""
        for job_id, places in self.printed.items():
            with self.log(job_id).open("a") as file:
                places.append(file.tell())
                file.write(LINE + "all is well\n")

    def shares(self) -> Counter[str]:
        return Counter(shard.holder for shard in self.store.sharing(POOL).shards)

    def seen(self, job_id: str) -> list[int]:
        attempt_id = AttemptKey(CLUSTER, job_id, BEGUN).attempt_id()
        return sorted(
            int(told.source.position)
            for _, told in self.store.signals(attempt_id)
            if told.kind is SignalKind.FAILURE_LINE
        )

    def await_shared_by(self, *names: str) -> None:
        def shared() -> bool:
            shares = self.shares()
            return set(shares) == set(names) and shares.total() == SHARDS

        self.wait(shared, lambda: f"not shared by {names}: {self.shares()}")

    def await_all_seen(self) -> None:
        self.wait(
            lambda: all(self.seen(job) == places for job, places in self.printed.items()),
            lambda: f"seen {[self.seen(job) for job in self.printed]} of {self.printed}",
        )

    def wait(self, what: Callable[[], bool], why: Callable[[], str]) -> None:
        until = time.monotonic() + PATIENCE_S
        while not what():
            assert time.monotonic() < until, why()
            time.sleep(0.05)


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    store = open_store(tmp_path / "state" / "middlewatch.db")
    made = Site(tmp_path, store, {str(number): [] for number in range(1, JOBS + 1)})
    for job_id in made.printed:
        made.log(job_id).touch()
    yield made
    for process in made.running.values():
        process.kill()
        process.wait()
    store.close()


def test_nothing_is_lost_or_repeated_by_a_join_a_kill_and_a_freeze(site: Site) -> None:
    site.start("a")
    site.await_shared_by("a")
    site.print()
    site.start("b")
    site.await_shared_by("a", "b")
    site.print()
    site.send("a", signal.SIGKILL)
    site.print()
    # What the dead one had is taken once its term is over.
    site.await_shared_by("b")
    site.await_all_seen()
    site.start("c")
    site.await_shared_by("b", "c")
    site.print()
    site.freeze("b")
    site.print()
    site.await_shared_by("c")
    site.await_all_seen()
    site.print()
    site.send("b", signal.SIGCONT)
    site.await_shared_by("b", "c")
    site.print()
    site.await_all_seen()
    for name in ("b", "c"):
        site.send(name, signal.SIGTERM)
        assert site.running[name].wait(PATIENCE_S) == 0
    # A dead one is remembered for a day, those that left in order are not.
    assert [lease.holder for lease in site.store.sharing(POOL).members] == ["a"]
    assert set(site.shares()) == {""}
    site.await_all_seen()
