"""What could be read over the API, so that it can be asked for again afterwards.

Whatever was readable once was acknowledged: after `kill -9` and a restart all of it must be there,
word for word, and the numbers of the trail must have no gap.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from middlewatch.adapters.api.client import ApiClient
from middlewatch.adapters.sql.store import SqlStore
from middlewatch.ports.errors import PortError
from middlewatch.ports.store import AuditFilter

AdviceKey = tuple[str, int]
"""Attempt id and generation."""


@dataclass
class Ledger:
    """``state`` is the state directory, which names the gateway; ``jobs`` the job numbers whose trail is
    read. ``on_outcome`` is called with each record whose outcome was seen for the first time."""

    state: Path
    jobs: list[str]
    on_outcome: Callable[[dict[str, Any]], None]
    advice: dict[AdviceKey, str] = field(default_factory=dict)
    outcomes: dict[AdviceKey, tuple[str, str]] = field(default_factory=dict)
    audit: dict[int, str] = field(default_factory=dict)
    records: dict[AdviceKey, dict[str, Any]] = field(default_factory=dict)
    """Each generation as it was last read."""
    lost_advice: set[str] = field(default_factory=set)
    lost_audit: set[str] = field(default_factory=set)
    reads: int = 0
    problem: str = ""
    _kept: ApiClient | None = None

    def read(self) -> bool:
        """Note what can be read now; False where nobody answers."""
        try:
            client = self._client()
            records = list(client.advice_records())
            events = self._trail(client)
        except (PortError, OSError) as error:
            self._no_answer(error)
            return False
        self.reads += 1
        for record in records:
            self._note(record)
        self.audit.update(_events(events))
        return True

    def _note(self, record: dict[str, Any]) -> None:
        key = _key(record)
        self.records[key] = record
        self.advice.setdefault(key, _intent(record))
        status = record.get("status") or {}
        if status.get("disposition") in {"CONVERGED", "ABANDONED"} and key not in self.outcomes:
            self.outcomes[key] = (str(status["disposition"]), str(status["reason"]))
            self.on_outcome(record)

    def compare(self) -> bool:
        """After a restart: what was readable and is not any more; False where nobody answers."""
        try:
            client = self._client()
            now: dict[AdviceKey, dict[str, Any]] = {}
            for attempt in {attempt for attempt, _ in self.advice}:
                for record in client.explanation(attempt).get("generations", []):
                    now[_key(record)] = record
            for record in client.advice_records():
                now[_key(record)] = record
            events = _events(self._trail(client))
        except (PortError, OSError) as error:
            self._no_answer(error)
            return False
        self.records |= now
        for key, intent in self.advice.items():
            if key not in now:
                self.lost_advice.add(f"{key} is gone")
            elif _intent(now[key]) != intent:
                self.lost_advice.add(f"{key} was {intent}, is {_intent(now[key])}")
        for key, outcome in self.outcomes.items():
            status = now.get(key, {}).get("status") or {}
            found = (str(status.get("disposition")), str(status.get("reason")))
            if found != outcome:
                self.lost_advice.add(f"{key} had ended as {outcome}, now {found}")
        for number, text in self.audit.items():
            if events.get(number) != text:
                self.lost_audit.add(f"event {number} was {text}, is {events.get(number)}")
        return True

    def gaps(self, store: SqlStore) -> None:
        """Note the numbers that the whole trail should have and has not."""
        # The last number first: what is written while we read is not missing.
        last = store.last_audit_number()
        numbers: set[int] = set()
        while page := store.audit(AuditFilter(), max(numbers, default=0), 1000):
            numbers.update(event.number for event in page)
        missing = set(range(1, max(numbers, default=last) + 1)) - numbers
        missing |= set(range(1, last + 1)) - numbers
        self.lost_audit.update(f"there is no event {number}" for number in missing)

    def _client(self) -> ApiClient:
        """Raises OSError where the files are not there yet."""
        if self._kept is None:
            url = (self.state / "url").read_text().strip()
            token = (self.state / "token").read_text().strip()
            self._kept = ApiClient(url=url, token=token, timeout_s=8.0)
        return self._kept

    def _no_answer(self, error: Exception) -> None:
        """Whoever comes after this one may serve elsewhere."""
        self.problem = str(error)
        self.close()

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None

    def _trail(self, client: ApiClient) -> list[dict[str, Any]]:
        return [event for job_id in self.jobs for event in client.audit(jobId=job_id)]


def _key(record: dict[str, Any]) -> AdviceKey:
    return str(record["attemptId"]), int(record["generation"])


def _intent(record: dict[str, Any]) -> str:
    names = ("desired", "exclusions", "basis", "createdAt", "desiredStateChangedAt", "explanation")
    return json.dumps([record.get(name) for name in names])


def _events(items: list[dict[str, Any]]) -> dict[int, str]:
    return {int(item["eventNumber"]): json.dumps(item, sort_keys=True) for item in items}
