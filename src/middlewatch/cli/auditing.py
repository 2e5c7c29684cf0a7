"""audit: the trail of one job, or of all of them by number."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

import click

from middlewatch.cli import asking, completing, show
from middlewatch.cli.session import Session, with_session


@click.command()
@with_session()
@click.argument("job", required=False, shell_complete=completing.job_ids)
@click.option("--type", "type_", metavar="TYPE", help="Only events of this type.")
@click.option("--producer", metavar="NAME", help="Only events of this producer.")
@click.option("--level", metavar="LEVEL", help="info, warning or alarm.")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True)
@click.option("--oldest", is_flag=True, help="From the beginning; without it, the newest.")
def audit(
    session: Session,
    *,
    job: str | None,
    type_: str | None,
    producer: str | None,
    level: str | None,
    limit: int,
    oldest: bool,
) -> None:
    """Show the trail, oldest line first: of one JOB (4711, 4711-1, a UUID), or of all jobs."""
    gateway = asking.gateway(session)
    query: dict[str, object] = {
        "eventType": type_,
        "eventProducer": producer,
        "eventLevel": level,
    }
    if job is None:
        found = list(_trail(gateway, query, limit, oldest=oldest))
    else:
        order = "event_produced_at:asc" if oldest else "event_produced_at:desc"
        asked = query | _audit_target(job) | {"sortBy": order}
        found = list(_events(gateway, asked, limit))
    found.sort(key=lambda event: int(event.get("eventNumber") or 0))
    if session.as_json:
        show.as_json({"events": found})
        return
    show.table(
        ("NO", "TIME", "JOBID", "ATT", "KIND", "TYPE", "PRODUCER", "LEVEL", "PAYLOAD"),
        [_audit_row(event) for event in found],
        right=("NO", "JOBID", "ATT"),
    )


def _trail(
    gateway: asking.Gateway, query: dict[str, object], limit: int, *, oldest: bool
) -> Iterable[dict[str, Any]]:
    """Lines of all jobs by number: the first ones, or the newest ones, newest page first."""
    side, edge = ("after", -1) if oldest else ("before", 0)
    asked = dict(query) | ({"after": 0} if oldest else {})
    count = 0
    while count < limit:
        asked["limit"] = min(100, limit - count)
        items = gateway.get("/middlewatch/v1/audit", asked).get("items") or []
        yield from items
        count += len(items)
        if len(items) < int(str(asked["limit"])):
            return
        asked[side] = items[edge].get("eventNumber")


def _events(
    gateway: asking.Gateway, query: dict[str, object], limit: int
) -> Iterable[dict[str, Any]]:
    asked = dict(query)
    count = 0
    while count < limit:
        asked["limit"] = min(100, limit - count)
        answer = gateway.get("/v1/audit/events", asked)
        items = answer.get("items") or []
        yield from items
        count += len(items)
        follow = (answer.get("cursor") or {}).get("next")
        if not items or not follow:
            return
        asked["cursor"] = follow


def _whole(value: object) -> object:
    """Numbers as they were: the API's payloads know only floating point."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    return [_whole(item) for item in value] if isinstance(value, list) else value


def _audit_target(job: str) -> dict[str, object]:
    if job.count("-") == 4:
        return {"heimdallJobId": job}
    job_id, hyphen, index = job.rpartition("-")
    if hyphen and index.isdigit():
        return {"jobId": job_id, "attemptIndex": int(index)}
    return {"jobId": job}


def _audit_row(event: Mapping[str, Any]) -> tuple[object, ...]:
    micro = int(event.get("eventProducedAt") or 0)
    when = datetime.fromtimestamp(micro / 1e6, UTC).astimezone()
    return (
        event.get("eventNumber"),
        when.strftime("%Y-%m-%dT%H:%M:%S.") + f"{when.microsecond // 1000:03}",
        event.get("jobId") or "-",
        "-" if event.get("attemptIndex") is None else event["attemptIndex"],
        event.get("eventKind") or "-",
        event.get("eventType") or "-",
        event.get("eventProducer") or "-",
        show.word(event.get("eventLevel"), "EVENT_LEVEL_").lower() or "info",
        json.dumps(_whole(event.get("payload") or {}), ensure_ascii=False),
    )
