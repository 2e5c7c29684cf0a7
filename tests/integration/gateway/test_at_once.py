"""Several callers at the same moment come to the same record as one after the other."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from middlewatch.adapters.api.client import ApiClient
from middlewatch.adapters.sql.store import SqlStore
from middlewatch.model.change import Change
from middlewatch.ports.errors import Conflict
from middlewatch.ports.store import AuditFilter
from tests.contract.api.samples import ADVICE, ATTEMPT
from tests.integration.gateway.conftest import Start

CALLERS = 8
REPORT = f"/v1/advice/{ATTEMPT.id}/reconciliation-status"


def at_once(path: Path, call: Callable[[ApiClient, int], Any]) -> list[Any]:
    """The answers of as many callers, each over a connection of its own; conflicts as ``None``."""

    def one(number: int) -> Any:
        with ApiClient(socket=path, timeout_s=60) as client:
            try:
                return call(client, number)
            except Conflict:
                return None

    with ThreadPoolExecutor(CALLERS) as pool:
        return list(pool.map(one, range(CALLERS)))


def test_same_report_from_many_is_one_report(start: Start, place: Path, store: SqlStore) -> None:
    start()
    store.apply(Change(attempts=(ATTEMPT,), advice=(ADVICE,)))
    body = {
        "observedGeneration": "1",
        "disposition": "ADVICE_RECONCILIATION_DISPOSITION_CONVERGED",
        "reason": "ADVICE_RECONCILIATION_REASON_DESIRED_STATE_OBSERVED",
    }
    answers = at_once(place / "api.sock", lambda client, _: client.call("PUT", REPORT, body=body))
    assert all(answer == answers[0] for answer in answers)
    assert len(store.statuses(ATTEMPT.id)) == 1
    assert len(store.audit(AuditFilter(attempt_id=ATTEMPT.id), 0, 100)) == 1


def test_of_different_outcomes_exactly_one_stands(
    start: Start, place: Path, store: SqlStore
) -> None:
    start()
    store.apply(Change(attempts=(ATTEMPT,), advice=(ADVICE,)))
    reasons = ["STALE_ATTEMPT", "TARGET_GONE", "TARGET_ENDED", "NOT_PERMITTED"]

    def report(client: ApiClient, number: int) -> Any:
        body = {
            "observedGeneration": "1",
            "disposition": "ADVICE_RECONCILIATION_DISPOSITION_ABANDONED",
            "reason": f"ADVICE_RECONCILIATION_REASON_{reasons[number % len(reasons)]}",
        }
        return client.call("PUT", REPORT, body=body)

    answers = at_once(place / "api.sock", report)
    taken = [answer["reconciliationStatus"]["reason"] for answer in answers if answer]
    assert len(set(taken)) == 1
    assert len(taken) == CALLERS // len(reasons)
    assert len(store.statuses(ATTEMPT.id)) == 1


def test_same_attempt_told_by_many_is_one_attempt(
    start: Start, place: Path, store: SqlStore
) -> None:
    start()
    job = {"workflowId": "w", "jobId": "5", "state": "JOB_STATUS_RUNNING"}
    answers = at_once(place / "api.sock", lambda client, _: client.upsert_job(job))
    assert len({answer["heimdallJobId"] for answer in answers}) == 1
    assert store.last_audit_number() == 1


def test_same_signal_from_many_is_stored_once(start: Start, place: Path, store: SqlStore) -> None:
    start()
    store.apply(Change(attempts=(ATTEMPT,)))
    signal = {"attempt": "12345-0", "position": "1", "patternId": "p"}
    answers = at_once(place / "api.sock", lambda client, _: client.post_signals([signal]))
    assert sum(len(answer["stored"]) for answer in answers) == 1
    assert sum(answer["duplicates"] for answer in answers) == CALLERS - 1
