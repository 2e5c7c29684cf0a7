"""A round in which a job only prints is told as if it had been weighed like any other."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from middlewatch.adapters.logs import RecordCodec
from middlewatch.detection.state import DetectionState
from middlewatch.lab.simulated import sleeper
from middlewatch.model.identity import AttemptId
from middlewatch.model.signal import Progress
from middlewatch.services.watcher import Watch
from tests.integration.watcher.world import World, world

FAILURE = "RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
NOISE = "shard 12 was read, the next one is queued\n"


def steps(*numbers: int) -> str:
    return "".join(f"middlewatch: step={number} total=1000 loss=2.3\n" for number in numbers)


LIVES: dict[str, list[str]] = {
    "it steps": [steps(n) if n % 7 == 0 or n < 12 else NOISE for n in range(60)],
    "it never steps": [NOISE] * 40,
    "it fails and goes on": [
        *(steps(n) for n in range(12)),
        *[NOISE] * 5,
        FAILURE,
        *[NOISE] * 5,
        *(steps(n) for n in range(12, 20)),
        *[NOISE] * 5,
    ],
    "it fails and does not go on": [*(steps(n) for n in range(12)), FAILURE, *[NOISE] * 80],
    "it steps no more": [*(steps(n) for n in range(12)), *[NOISE] * 90],
    "it falls silent": [*(steps(n) for n in range(12)), *[NOISE] * 5, *[""] * 90],
    "its lines come in pieces": [steps(n)[:20] + "\0" if n % 3 else NOISE for n in range(31)],
}


def play(here: World, log: Path, rounds: list[str], *, weighing: bool) -> None:
    """One round after the other; ``weighing``: by a watcher that begins anew, so that it glances at
    nothing."""
    for text in rounds:
        with log.open("a") as file:
            file.write(text)
        if weighing:
            here.watcher.finish(here.now)
            here.restart()
        here.run(1, every=1)


Account = tuple[list[tuple[str, str, datetime]], Progress | None, DetectionState, int]


def account(here: World, attempt: AttemptId) -> Account:
    """All that the store has of an attempt."""
    kept = here.store.watch_state(attempt)
    assert kept is not None
    signals = [
        (signal.key, signal.detail, signal.learned_at) for _, signal in here.store.signals(attempt)
    ]
    watch: Watch = RecordCodec(Watch).decode(kept.state)
    (tail,) = watch.tails
    assert tail.cursor is not None
    return signals, here.store.progress(attempt), watch.detection, tail.cursor.offset


@pytest.mark.parametrize("life", sorted(LIVES))
def test_life_is_told_alike_whether_or_not_each_round_is_weighed(tmp_path: Path, life: str) -> None:
    accounts = []
    for weighing in (False, True):
        # One file for both, emptied in between: keys have its number in them.
        log = tmp_path / "out.log"
        log.write_text("")
        here = world(tmp_path / str(weighing))
        job = here.submit(sleeper(), stdout=log)
        here.run(5)
        play(here, log, LIVES[life], weighing=weighing)
        here.watcher.finish(here.now)
        (attempt,) = here.attempts(job)
        accounts.append(account(here, attempt.id))
        here.store.close()
    assert accounts[0] == accounts[1]
    assert accounts[0][3] == sum(map(len, LIVES[life]))


def test_chatter_that_was_not_written_is_read_again_and_nothing_told_twice(tmp_path: Path) -> None:
    here = world(tmp_path)
    job = here.submit(sleeper())
    here.run(5)
    rounds = [*(steps(n) for n in range(12)), *[NOISE] * 3, NOISE + FAILURE, *[NOISE] * 3]
    play(here, here.log, rounds, weighing=False)
    (attempt,) = here.attempts(job)
    before = [signal.key for _, signal in here.store.signals(attempt.id)]
    assert len(before) == 1
    here.restart()
    here.run(3)
    assert [signal.key for _, signal in here.store.signals(attempt.id)] == before
