"""Changing the limits of detection while jobs run, and asking first what that would have meant."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from middlewatch.contract import choices, records
from middlewatch.contract.errors import ApiError, Code, invalid
from middlewatch.contract.gen.middlewatch.v1 import middlewatch_pb2 as wire
from middlewatch.contract.values import in_text, out_text, out_time
from middlewatch.model.attempt import Attempt
from middlewatch.model.audit import AuditEvent, AuditKind, AuditLevel
from middlewatch.model.change import Change, Noted
from middlewatch.model.limits import (
    NAMES,
    NOTE,
    Limits,
    alarms,
    as_text,
    changed,
    from_text,
    limit_of,
    with_limits,
)
from middlewatch.model.policy import Policy
from middlewatch.model.signal import Pause
from middlewatch.ports.errors import Unreadable
from middlewatch.ports.store import AttemptFilter
from middlewatch.services.gateway.access import Caller
from middlewatch.services.gateway.service import Context, Handler

PREVIEWED = 5_000
"""Attempts that one preview looks at."""
SHOWN = 200
"""Alarms listed in a preview, of those that come and of those that go each; all are counted."""
PAGE = 500
SINCE_S = 7 * 86_400.0
LONGEST_SINCE_S = 366 * 86_400.0


def handlers(context: Context) -> dict[str, Handler]:
    """By the full name of the RPC."""
    limits = _Limits(context)
    service = "middlewatch.v1.MiddlewatchService."
    return {
        service + "GetLimits": limits.shown,
        service + "SetLimits": limits.set,
        service + "PreviewLimits": limits.preview,
    }


class _Limits:
    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.store

    def shown(self, _: wire.GetLimitsRequest, __: Caller) -> wire.Limits:
        return _message(self._read()[1], self._context.policy)

    def set(self, request: wire.SetLimitsRequest, caller: Caller) -> wire.Limits:
        text, standing = self._read()
        reason = in_text(request.reason, "reason", choices.DETAIL_MAX, needed=True)
        if request.version != standing.version:
            raise ApiError(
                Code.FAILED_PRECONDITION,
                f"the limits are at version {standing.version}, not {request.version}: "
                "read them again",
            )
        after = _changed(standing, request.limits, request.reset)
        if after.values == standing.values:
            return _message(standing, self._context.policy)
        now = self._context.clock.now()
        after = replace(
            after,
            version=standing.version + 1,
            changed_at=now,
            changed_by=caller.name,
            reason=reason,
        )
        noted = Noted(NOTE, as_text(after), text)
        self._store.apply(Change(notes=(noted,), audit=(_event(standing, after, now),)))
        self._context.wake()
        return _message(after, self._context.policy)

    def preview(self, request: wire.PreviewLimitsRequest, _: Caller) -> wire.PreviewLimitsResponse:
        seconds = request.seconds if request.HasField("seconds") else SINCE_S
        if not 0 < seconds <= LONGEST_SINCE_S:
            raise invalid(f"seconds is {seconds}; give more than 0 and at most a year")
        standing = self._read()[1]
        then = _changed(standing, request.limits, request.reset)
        site = self._context.policy
        with_now, with_then = with_limits(site, standing), with_limits(site, then)
        since = self._context.clock.now() - timedelta(seconds=seconds)
        answer = wire.PreviewLimitsResponse()
        attempts, answer.cut = self._attempts(since)
        answer.attempts = len(attempts)
        for attempt, pause in self._pauses(attempts, since):
            now_alarms, then_alarms = alarms(pause, with_now), alarms(pause, with_then)
            answer.alarms_now += now_alarms
            answer.alarms_then += then_alarms
            if now_alarms == then_alarms:
                continue
            found = answer.come if then_alarms else answer.go
            if len(found) < SHOWN:
                found.append(
                    wire.PreviewedAlarm(
                        attempt_id=attempt.id,
                        job_id=out_text(attempt.job_id),
                        attempt_index=attempt.attempt_index,
                        pause=records.pause_message(pause),
                        would_be_limit_seconds=limit_of(pause, with_then),
                    )
                )
        return answer

    def _read(self) -> tuple[str | None, Limits]:
        text = self._store.note(NOTE)
        try:
            return text, from_text(text)
        except ValueError as error:
            raise Unreadable(str(error)) from error

    def _attempts(self, since: datetime) -> tuple[list[Attempt], bool]:
        """Those that live, and the newest of those that ended since then."""
        found = list(self._store.live_attempts(self._context.cluster))[:PREVIEWED]
        where = AttemptFilter(cluster=self._context.cluster, ended_from=since)
        ended: list[Attempt] = []
        while page := self._store.attempts(where, len(ended), PAGE):
            ended.extend(page)
        room = PREVIEWED - len(found)
        return found + (ended[-room:] if room else []), len(ended) > room

    def _pauses(self, attempts: list[Attempt], since: datetime) -> Iterator[tuple[Attempt, Pause]]:
        for first in range(0, len(attempts), PAGE):
            some = attempts[first : first + PAGE]
            progress = self._store.progress_of([attempt.id for attempt in some])
            for attempt in some:
                told = progress.get(attempt.id)
                for pause in told.pauses if told is not None else ():
                    if pause.since + timedelta(seconds=pause.length_s) >= since:
                        yield attempt, pause


def _changed(standing: Limits, values: Iterable[wire.LimitValue], reset: Iterable[str]) -> Limits:
    given: dict[str, float] = {}
    for value in values:
        if value.name in given:
            raise invalid(f"{value.name[:60]!r} is given twice")
        given[value.name] = value.seconds
    back = tuple(reset)
    both = sorted(set(given) & set(back))
    if both:
        raise invalid(f"{both[0][:60]!r} is both set and reset; give one of them")
    try:
        return changed(standing, given, back)
    except ValueError as error:
        raise invalid(str(error)) from None


def _message(limits: Limits, site: Policy) -> wire.Limits:
    inforce = with_limits(site, limits)
    own = dict(limits.values)
    message = wire.Limits(
        version=limits.version,
        changed_by=out_text(limits.changed_by),
        reason=out_text(limits.reason),
        limits=[
            wire.Limit(
                name=name,
                seconds=getattr(inforce, name),
                configured_seconds=getattr(site, name),
                changed=name in own,
            )
            for name in NAMES
        ],
    )
    out_time(message.changed_at, limits.changed_at)
    return message


def _event(before: Limits, after: Limits, now: datetime) -> AuditEvent:
    return AuditEvent(
        kind=AuditKind.DECIDED,
        type="limits.changed",
        producer="gateway",
        happened_at=now,
        learned_at=now,
        level=AuditLevel.WARNING,
        payload=json.dumps(
            {
                "before": dict(before.values),
                "after": dict(after.values),
                "by": after.changed_by,
                "reason": after.reason,
                "version": after.version,
            }
        ),
        idempotency_key=f"gateway/limits/{after.version}",
    )
