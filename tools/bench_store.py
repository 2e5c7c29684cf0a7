"""How long the list of active advice takes among a thousand stored records, and among a million.

Work is found by listing what is active. That must cost what is active, not what was ever stored.
`measure` fills two databases, equal but for the number of settled rows, and lists the active ones of
each in turn through the store port, so that whatever else the machine does meets both alike.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from dataclasses import dataclass, replace
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

FEW = 1_000
MANY = 1_000_000
ACTIVE = 100
LISTINGS = 400
_OWNER = ClusterId("slurm", "bench")
_START = datetime(2026, 1, 1, tzinfo=UTC)
_MARK = "\x00id\x00"
_INSERT = (
    "INSERT INTO advice (number, attempt_id, scheduler, environment, job_id, submitted_us, active, "
    "generation, version, body) VALUES (?, ?, ?, ?, ?, ?, ?, 1, 1, ?)"
)


@dataclass(frozen=True, slots=True)
class ListingTimes:
    """Seconds per listing of all active advice, sorted."""

    few: tuple[float, ...]
    many: tuple[float, ...]
    fill_s: float

    @property
    def p95_few_ms(self) -> float:
        return 1000 * percentile(self.few, 0.95)

    @property
    def p95_many_ms(self) -> float:
        return 1000 * percentile(self.many, 0.95)

    @property
    def growth(self) -> float:
        return self.p95_many_ms / self.p95_few_ms


def percentile(ordered: tuple[float, ...], share: float) -> float:
    """The smallest value that at least ``share`` of the values do not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


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
    for start in range(1, total + 1, step):
        rows = [row(n) for n in range(start, min(start + step, total + 1))]
        with store.database.write() as connection:
            connection.exec_driver_sql(_INSERT, rows)
    with store.database.write() as connection:
        connection.exec_driver_sql("UPDATE counters SET value = ? WHERE name = 'advice'", (total,))
    # A log as long as a million rows would otherwise be measured instead of the table.
    store.database.checkpoint()


def listing_s(store: SqlStore, expected: int) -> float:
    """How long one listing of everything active takes."""
    started = time.perf_counter()
    found = store.advice_page(True, 0, 250, _OWNER)
    taken = time.perf_counter() - started
    if len(found) != expected:
        raise SystemExit(f"{len(found)} rows were listed, {expected} are active")
    return taken


def measure(
    folder: Path, many: int = MANY, active: int = ACTIVE, listings: int = LISTINGS
) -> ListingTimes:
    """Fill both databases below ``folder`` and time ``listings`` listings of each, alternately."""
    started = time.perf_counter()
    stores = []
    for total in (FEW, many):
        store = open_store(folder / f"{total}.db")
        fill_advice(store, total, active)
        stores.append(store)
    fill_s = time.perf_counter() - started
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(listings + 20):
        for store, taken in zip(stores, times, strict=True):
            seconds = listing_s(store, active)
            if turn >= 20:
                taken.append(seconds)
    for store in stores:
        store.close()
    return ListingTimes(tuple(sorted(times[0])), tuple(sorted(times[1])), fill_s)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--many", type=int, default=MANY, help="rows in the large database")
    parser.add_argument("--listings", type=int, default=LISTINGS)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-store-", dir="/var/tmp") as folder:
        found = measure(Path(folder), given.many, ACTIVE, given.listings)
    print(f"filled in {found.fill_s:.1f} s; {ACTIVE} active rows, {given.listings} listings each")
    print(f"p95 among {FEW:>9,}: {found.p95_few_ms:.3f} ms")
    print(f"p95 among {given.many:>9,}: {found.p95_many_ms:.3f} ms")
    print(f"growth: {found.growth:.3f}")


if __name__ == "__main__":
    main()
