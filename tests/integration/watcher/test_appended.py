"""Which attempt the lines of an appended file belong to, when the watcher's look is a slow one.

Between the listing and the reading of a tick a job can go on, and the next attempt can begin to
write behind the one before. A scheduler whose listing takes a while makes that happen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from middlewatch.lab.simulated import SimulatedTrainer
from middlewatch.model.action import Action, ActionKind
from middlewatch.model.answer import Answer
from middlewatch.model.scheduler import Snapshot
from middlewatch.model.signal import SignalKind
from middlewatch.services.watcher import WatcherSettings
from tests.integration.watcher.world import World, world


@dataclass
class SlowListing:
    """The simulated scheduler, whose answer to a listing is ``seconds`` old when it is read.
    ``meanwhile`` is done, once, as soon as the answer is out."""

    here: World
    seconds: float
    meanwhile: Callable[[], object] | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.here.scheduler, name)

    def listing(self) -> Answer[Snapshot]:
        answer = self.here.scheduler.listing()
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        self.here.cluster.advance(self.here.now + timedelta(seconds=self.seconds))
        return answer


def begin_again(here: World, job: str, seconds: float) -> None:
    """Requeue, and let go while a look that takes ``seconds`` is on its way."""
    here.scheduler.perform(Action(ActionKind.REQUEUE, job, "test"), 5)
    here.run(3)
    release = Action(ActionKind.UPDATE, job, "test", start_now=True)
    here.restart(SlowListing(here, seconds, lambda: here.scheduler.perform(release, 5)))


@pytest.mark.parametrize("seconds", [0.3, 1.1, 2.3, 3.7])
def test_lines_that_the_next_attempt_writes_during_a_slow_look_are_its_own(
    tmp_path: Path, seconds: float
) -> None:
    here = world(tmp_path)
    job = here.submit(SimulatedTrainer(fault_at=25, startup_s=0.2), append=True)
    here.run(20)
    begin_again(here, job, seconds)
    here.run(60)
    first, second = here.attempts(job)
    progress = here.store.progress(second.id)
    assert progress is not None
    assert (progress.loaded_step, progress.first_step, progress.last_step) == (20, 21, 60)
    before = here.store.progress(first.id)
    assert before is not None
    assert before.last_step == 25
    assert here.signals(second, SignalKind.FAILURE_LINE) == []


def test_late_lines_of_an_ended_attempt_are_its_own_while_no_other_begins(tmp_path: Path) -> None:
    here = world(tmp_path)
    job = here.submit(SimulatedTrainer(fault_at=25), append=True)
    here.run(20)
    with here.log.open("ab") as log:
        log.write(b"slurmstepd: error: Detected 1 oom_kill event in StepId=1.0.\n")
    here.run(2)
    (first,) = here.attempts(job)
    classes = {signal.failure_class for signal in here.signals(first, SignalKind.FAILURE_LINE)}
    assert "host_oom" in classes


@pytest.mark.parametrize("replaced", [False, True])
def test_backlog_of_an_ended_attempt_stops_where_the_next_one_began(
    tmp_path: Path, replaced: bool
) -> None:
    here = world(tmp_path, settings=WatcherSettings(bytes_per_tick=1 << 18, block=1 << 18))
    job = here.submit(SimulatedTrainer(fault_at=25), append=True)
    here.run(10)
    with here.log.open("ab") as log:
        log.write(b"nothing of interest\n" * 900_000)
    here.run(8)
    begin_again(here, job, 2.0)
    assert here.run(1).behind, "the next attempt has begun before the last lines were read"
    if replaced:
        here.restart()
    here.run(80)
    first, second = here.attempts(job)
    before, after = here.store.progress(first.id), here.store.progress(second.id)
    assert before is not None
    assert after is not None
    assert before.last_step == 25
    assert here.signals(first, SignalKind.FAILURE_LINE)
    assert (after.loaded_step, after.first_step, after.last_step) == (20, 21, 60)
    assert here.signals(second, SignalKind.FAILURE_LINE) == []
