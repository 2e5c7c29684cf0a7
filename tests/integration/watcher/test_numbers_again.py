"""A job's number that comes back, after a reset or a wrap: what the watcher makes of the new job."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from middlewatch.model.answer import Answer, Unknown
from middlewatch.model.attempt import EndedBy
from middlewatch.model.change import Change
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import AccountingRecord, JobState
from middlewatch.model.signal import SignalKind
from middlewatch.remediation import earlier_attempts
from middlewatch.services.watcher import WatcherSettings
from middlewatch.services.watcher.roster import Roster
from tests.integration.watcher.scripted import ScriptedScheduler
from tests.integration.watcher.test_odd_schedulers import Here, here
from tests.integration.watcher.world import made

__all__ = ["here"]

CRASH = b"srun: error: Node failure on n2\n"


class LateAccounting(ScriptedScheduler):
    """Its accounting does not answer while ``down``."""

    down = True

    def accounting(self, job_id: str) -> Answer[tuple[AccountingRecord, ...]]:
        if self.down:
            self.accounting_calls += 1
            return Unknown("slurmdbd is down", self.now)
        return super().accounting(job_id)


def again(here: Here, **view: Any) -> None:
    """Another job gets the number 7, an hour later."""
    here.scheduler.now += timedelta(hours=1)
    here.job(submitted_at=here.scheduler.now.replace(microsecond=0), **view)


def crash(here: Here) -> None:
    """The new job writes its last words into the file that both have named."""
    here.log.write_bytes(CRASH)
    moment = here.scheduler.now.timestamp()
    os.utime(here.log, (moment, moment))


def record_of_the_first(here: Here) -> AccountingRecord:
    first = here.attempts()[0]
    return AccountingRecord(
        job_id="7",
        submitted_at=first.submitted_at,
        state=JobState.FAILED,
        requeued=False,
        exit_code=1,
        exit_signal=None,
        started_at=first.started_at,
        ended_at=first.submitted_at + timedelta(minutes=5),
        node_list="n1,n2",
        cancelled_by=None,
        batch_completed=False,
    )


def test_what_became_of_the_first_job_is_asked_until_accounting_tells(here: Here) -> None:
    here.scheduler.__class__ = LateAccounting
    assert isinstance(here.scheduler, LateAccounting)
    here.job()
    here.tick()
    again(here)
    for _ in range(5):
        here.tick(10)
    first, second = here.attempts()
    assert first.end is None, "nobody has said how it ended"
    assert second.live
    here.scheduler.down = False
    here.scheduler.records = {"7": (record_of_the_first(here),)}
    for _ in range(8):
        here.tick(10)
    first, second = here.attempts()
    assert first.end is not None
    assert first.end.by is EndedBy.FAILURE
    assert second.live


def test_a_job_without_an_opt_in_inherits_none_with_its_number(here: Here) -> None:
    here.job()
    here.tick()
    again(here, comment="")
    crash(here)
    for _ in range(5):
        here.tick()
    (only,) = here.attempts()
    assert SignalKind.FAILURE_LINE not in here.kinds()
    assert only.submitted_at < here.scheduler.views["7"].submitted_at


@pytest.mark.parametrize("restarts", [0, 1, 3])
def test_the_log_of_the_new_job_is_its_own(here: Here, restarts: int) -> None:
    here.job(uid=2001, stdout="/nonexistent/out.log")
    here.tick()
    again(here, restarts=restarts)
    here.tick()
    crash(here)
    here.tick()
    here.tick()
    assert len(here.attempts()) == 2
    assert SignalKind.FAILURE_LINE not in here.kinds(0)
    assert SignalKind.FAILURE_LINE in here.kinds(1)
    first, second = here.attempts()
    assert first.end is None or first.end.by is not EndedBy.REQUEUE, "it was never requeued"
    assert second.attempt_index == restarts


@pytest.mark.parametrize("told", [True, False])
def test_a_restarted_job_that_got_the_number_while_nobody_watched_is_told_by_accounting(
    here: Here, told: bool
) -> None:
    here.job()
    here.tick()
    here.watcher = made(here.store, here.scheduler, Policy(), WatcherSettings())
    again(here, restarts=1)
    first = record_of_the_first(here)
    between = replace(first, submitted_at=first.submitted_at + timedelta(minutes=40))
    here.scheduler.records = {"7": (first, between) if told else (first,)}
    for _ in range(3):
        here.tick(10)
    earlier, later = here.attempts()
    assert later.numbered_again is told
    assert earlier.end is not None
    assert earlier_attempts((earlier, later), later) == (() if told else (earlier,))


@pytest.mark.parametrize("uid", [None, 2001])
def test_the_log_of_the_job_before_tells_nothing_of_the_steps_of_the_new_one(
    here: Here, uid: int | None
) -> None:
    here.job()
    here.tick()
    again(here, restarts=1, **({} if uid is None else {"uid": uid}))
    here.scheduler.records = {"7": (record_of_the_first(here),)}
    for _ in range(3):
        here.tick(10)
    # As it is read back: the first job's record stands beside the other's.
    if uid is None:
        _, later = here.attempts()
        told = replace(later, numbered_again=True)
        here.store.apply(Change(attempts=(told,)))
    roster = Roster(here.store, here.scheduler, WatcherSettings())
    roster.load(here.scheduler.now)
    first, second = roster.by_job()["7"]
    assert second.attempt.attempt_index > first.attempt.attempt_index
    assert roster.before(second) is None
    assert roster.after(first) is second
