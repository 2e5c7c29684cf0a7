"""How long the list of active advice takes among a thousand stored records, and among a million.

Work is found by listing what is active. That must cost what is active, not what was ever stored. Two
databases, equal but for the number of settled rows, are served by a real gateway each; the list is
asked of both in turn, so that whatever else the machine does meets both alike.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from middlewatch.adapters.sql.store import SqlStore, open_store
from middlewatch.model.advice import (
    Advice,
    DecisionBasis,
    DesiredState,
    Disposition,
    Reason,
    Status,
)
from middlewatch.model.gates import Gate, GateName, Gates
from middlewatch.model.identity import AttemptKey, ClusterId, sequence_id
from middlewatch.model.policy import Policy
from middlewatch.wiring.demo.harness import lab_settings, toml
from tools.bench.figures import Measured, percentile
from tools.bench.site import ENVIRONMENT, Site, Trouble, free_port, wait

FEW = 1_000
MANY = 1_000_000
ACTIVE = 100
LISTINGS = 400
WARM = 20
_OWNER = ClusterId("slurm", ENVIRONMENT)
_START = datetime(2026, 1, 1, tzinfo=UTC)
_MARK = "\x00id\x00"
_INSERT = (
    "INSERT INTO advice (number, attempt_id, scheduler, environment, job_id, submitted_us, active, "
    "generation, version, body) VALUES (?, ?, ?, ?, ?, ?, ?, 1, 1, ?)"
)
_QUESTION = "/v1/advice?onlyActive=true&limit=250"


def measure(site: Site) -> list[Measured]:
    found = Measured("advice")
    names = {FEW: "active_advice_ms_1e3", MANY: "active_advice_ms_1e6"}
    with contextlib.ExitStack() as stack:
        root = Path(
            stack.enter_context(
                tempfile.TemporaryDirectory(prefix="middlewatch-bench-", dir="/var/tmp")
            )
        )
        began = time.perf_counter()
        asked: dict[int, Asked] = {}
        stores: dict[int, SqlStore] = {}
        for total in names:
            state = root / str(total)
            stores[total] = store = stack.enter_context(
                contextlib.closing(open_store(state / "middlewatch.db"))
            )
            fill_advice(store, total)
            asked[total] = stack.enter_context(gateway(state))
        site.say(f"  filled in {time.perf_counter() - began:.0f} s")
        for turn in range(LISTINGS + WARM):
            # Which of the two is asked first changes from turn to turn.
            for total in sorted(names, reverse=bool(turn % 2)):
                over_http = 1000 * asked[total].seconds()
                from_store = 1000 * listing_s(stores[total], ACTIVE)
                if turn >= WARM:
                    found.value(names[total], over_http)
                    found.value(names[total] + "_store", from_store)
    few, many = (percentile(found.values(name), 0.95) for name in names.values())
    found.figure("active_advice_ms_p95_1e3", few, LISTINGS)
    found.figure("active_advice_ms_p95_1e6", many, LISTINGS)
    found.figure("active_advice_ms_p95", many, LISTINGS)
    found.figure("active_advice_growth", many / few, LISTINGS)
    stored = [percentile(found.values(f"{name}_store"), 0.95) for name in names.values()]
    found.figure("active_advice_store_growth", stored[1] / stored[0], LISTINGS)
    return [found]


# ------------------------------------------------------------------------------------ the databases


def sample(n: int) -> Advice:
    """Advice about the n-th job, as the manager writes it, without an outcome."""
    key = AttemptKey(_OWNER, str(n), _START + timedelta(seconds=n))
    attempt = key.attempt_id()
    return Advice(
        attempt_id=attempt,
        job_id=key.job_id,
        attempt_index=0,
        submitted_at=key.submitted_at,
        owner=_OWNER,
        desired=DesiredState.RESTARTED,
        exclusions=("node-0017",),
        generation=1,
        desired_state_changed_at=key.submitted_at,
        created_at=key.submitted_at,
        basis=DecisionBasis.ATTEMPT_ENDED_IN_FAILURE,
        gates=Gates(tuple(Gate(name, True, f"{name.value} is open") for name in GateName)),
        policy_version=Policy().version,
        sequence_id=sequence_id(_OWNER, key.job_id, attempt, "RESTART"),
        failure_class="cuda_error",
        issue_ids=(f"issue-{n}",),
        explanation="the attempt ended in failure; node-0017 is named by an ECC error",
        version=1,
    )


def fill_advice(store: SqlStore, total: int, active: int = ACTIVE) -> None:
    """Store ``total`` rows of advice, of which ``active``, spread evenly, have no outcome.

    Rows are written as the store would have written them, but many at a time and behind its back.
    """
    every = total // active
    settled = Status(1, Disposition.CONVERGED, Reason.DESIRED_STATE_OBSERVED, _START)
    # One body is encoded and the words that differ are put in: a million encodings take minutes.
    model = replace(sample(0), status=settled)
    marked = replace(model, attempt_id=_MARK, job_id=_MARK + "job", issue_ids=())  # type: ignore[arg-type]
    template = msgspec.json.encode(marked).decode()
    id_mark, job_mark = (msgspec.json.encode(m).decode() for m in (_MARK, _MARK + "job"))

    def row(n: int) -> tuple[object, ...]:
        if n % every == 0:
            advice = sample(n)
            body, key = msgspec.json.encode(advice).decode(), str(advice.attempt_id)
        else:
            key = f"{n:032x}"
            body = template.replace(id_mark, f'"{key}"').replace(job_mark, f'"{n}"')
        open_work = n % every == 0
        return (n, key, _OWNER.scheduler, _OWNER.environment, str(n), n, open_work, body)

    step = 20_000
    for first in range(1, total + 1, step):
        rows = [row(n) for n in range(first, min(first + step, total + 1))]
        with store.database.write() as connection:
            connection.exec_driver_sql(_INSERT, rows)
    with store.database.write() as connection:
        connection.exec_driver_sql("UPDATE counters SET value = ? WHERE name = 'advice'", (total,))
    # A log as long as a million rows would otherwise be measured instead of the table.
    store.database.checkpoint()


def listing_s(store: SqlStore, expected: int) -> float:
    """How long one listing of everything active takes, read from the store itself."""
    began = time.perf_counter()
    found = store.advice_page(True, 0, 250, _OWNER)
    taken = time.perf_counter() - began
    if len(found) != expected:
        raise Trouble(f"{len(found)} rows were listed, {expected} are active")
    return taken


# ------------------------------------------------------------------------------------- the gateways


class Asked:
    """One gateway, asked over one connection that stays open."""

    def __init__(self, port: int, token: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        self._headers = {"Authorization": f"Bearer {token}"}

    def seconds(self) -> float:
        """From the question to the last byte of the answer, which lists everything active."""
        began = time.perf_counter()
        self._connection.request("GET", _QUESTION, headers=self._headers)
        answer = self._connection.getresponse()
        body = answer.read()
        taken = time.perf_counter() - began
        if answer.status != 200 or len(json.loads(body)["advice"]) != ACTIVE:
            raise Trouble(f"{_QUESTION}: {answer.status} {body[:300]!r}")
        return taken


@contextlib.contextmanager
def gateway(state: Path) -> Iterator[Asked]:
    """`middlewatch gateway` on that state directory."""
    port = free_port()
    settings = lab_settings(state, ENVIRONMENT, {"gateway": {"port": port}})
    config = state.with_suffix(".toml")
    config.write_text(toml(settings))
    with state.with_suffix(".log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "middlewatch", "--config", str(config), "gateway"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={"PATH": os.environ.get("PATH", ""), "HOME": os.environ.get("HOME", "/")},
        )
        try:
            wait("a gateway", (state / "url").exists, 30.0)
            yield Asked(port, (state / "token").read_text().strip())
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
