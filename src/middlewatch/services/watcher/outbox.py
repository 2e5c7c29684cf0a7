"""What is new about many attempts, written in few transactions.

An attempt's state moves with every line of its log; to write each move would be most of a watcher's
work. So news that somebody waits for (a signal, a milestone, a new state of the job, a checkpoint,
another phase) is written soon, many attempts' together; a cursor that merely went on is written
when its turn comes, a bounded number in each tick, the one that has waited longest first. What is
lost with a process is then a stretch of reading, never a fact: state, cursor and signals of one
attempt are always in one transaction, so that whoever reads from the stored place finds the same
signals with the same keys.

A transaction that meets something that moved writes nothing; its attempts are then written one by
one, so that only the one at fault is lost for this tick and read again from the store. Where other
watchers share the work, each transaction names the shards that it writes for; those that have been
taken meanwhile are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from middlewatch.detection.observe import Observation
from middlewatch.model.attempt import Attempt
from middlewatch.model.change import Applied, Change, WatchState
from middlewatch.model.copies import replace
from middlewatch.model.identity import AttemptId
from middlewatch.model.milestone import Milestone
from middlewatch.model.signal import SILENT, Progress, Severity, SignalKind
from middlewatch.ports import errors
from middlewatch.ports.store import Store
from middlewatch.services.watcher.memory import Codec, Kept, Tail, Watch
from middlewatch.services.watcher.report import WatcherReport
from middlewatch.services.watcher.settings import WatcherSettings
from middlewatch.services.watcher.share import Share, Whole
from middlewatch.services.watcher.trail import audit_of, audit_of_signals

MOST_TOGETHER = 128
"""Attempts of one transaction."""
MOST_SIGNALS = 2000
_ALARMS = SILENT | {SignalKind.NO_PROGRESS_AFTER_FAILURE}


@dataclass(frozen=True, slots=True)
class Lost:
    """An attempt whose news could not be written: it has to be read again from the store."""

    kept: Kept
    error: Exception


class Outbox:
    """Takes each attempt's news and writes them. What is in here is in ``Kept`` already."""

    def __init__(
        self,
        store: Store,
        codec: Codec,
        settings: WatcherSettings,
        share: Share | None = None,
    ) -> None:
        self._share = share or Whole()
        self._store = store
        self._codec = codec
        self._settings = settings
        self._soon: dict[AttemptId, Kept] = {}
        self._later: dict[AttemptId, Kept] = {}
        """Longest waiting first."""
        self._signals = 0
        self.signal_cap = 0

    @property
    def full(self) -> bool:
        """Whether to write now, and not only at the end of the tick."""
        return len(self._soon) >= MOST_TOGETHER or self._signals >= MOST_SIGNALS

    @property
    def pressing(self) -> bool:
        """Whether somebody waits for what is in here."""
        return self._signals > 0

    def put(
        self,
        kept: Kept,
        watch: Watch,
        found: Observation,
        milestones: tuple[Milestone, ...],
        now: datetime,
    ) -> None:
        """What a turn brought; ``kept`` has it from here on."""
        before = kept.watch
        soon = kept.watch_version == 0 or bool(found.signals) or bool(milestones)
        if before is None or watch is not before:
            soon = soon or before is None or _turned(before, watch)
            kept.watch = watch
            kept.unwritten = True
        if found.signals:
            kept.signals += found.signals
            self._signals += len(found.signals)
        kept.milestones += milestones
        if soon or _changed(kept):
            self._put_soon(kept)
        elif kept.unwritten or self._seen_long_ago(kept, now):
            self._later.setdefault(kept.attempt.id, kept)

    def put_attempt(self, kept: Kept, now: datetime) -> None:
        """An attempt whose logs are not read."""
        if _changed(kept):
            self._put_soon(kept)
        elif self._seen_long_ago(kept, now):
            self._later.setdefault(kept.attempt.id, kept)

    def put_calm(self, kept: Kept, now: datetime) -> None:
        """An attempt that did no more than print."""
        if kept.chatter is not None or kept.unwritten or self._seen_long_ago(kept, now):
            self._later.setdefault(kept.attempt.id, kept)

    def _put_soon(self, kept: Kept) -> None:
        self._soon[kept.attempt.id] = kept
        self._later.pop(kept.attempt.id, None)

    def _seen_long_ago(self, kept: Kept, now: datetime) -> bool:
        stored = kept.stored
        if stored is None or not kept.attempt.live or kept.seen_at is None:
            return False
        return (kept.seen_at - stored.last_seen_at).total_seconds() >= self._settings.seen_every_s

    def drop(self, jobs: frozenset[str]) -> None:
        """Somebody else writes about these jobs: what we have of them counts no more."""
        for box in (self._soon, self._later):
            for key in [key for key, kept in box.items() if kept.attempt.job_id in jobs]:
                del box[key]

    def hand_over(self, jobs: frozenset[str], now: datetime, report: WatcherReport) -> list[Lost]:
        """Write all that is known of these jobs, before somebody else reads on."""
        for key in [key for key, kept in self._later.items() if kept.attempt.job_id in jobs]:
            self._soon[key] = self._later.pop(key)
        return self.flush(now, report)

    def flush(self, now: datetime, report: WatcherReport) -> list[Lost]:
        """Write all that somebody waits for."""
        soon, self._soon, self._signals = list(self._soon.values()), {}, 0
        lost: list[Lost] = []
        for start in range(0, len(soon), MOST_TOGETHER):
            self._share.keep()
            lost.extend(self._together(soon[start : start + MOST_TOGETHER], now, report))
        return lost

    def settle(self, now: datetime, report: WatcherReport) -> list[Lost]:
        """The end of a tick: write all that is waited for, and some of the rest."""
        for key in list(self._later)[: self._settings.states_per_tick]:
            self._soon[key] = self._later.pop(key)
        return self.flush(now, report)

    def finish(self, now: datetime, report: WatcherReport) -> list[Lost]:
        """Write everything: nobody comes after this."""
        self._soon.update(self._later)
        self._later = {}
        return self.flush(now, report)

    # -- one transaction -------------------------------------------------------------------------

    def _together(
        self, batch: Sequence[Kept], now: datetime, report: WatcherReport
    ) -> Iterable[Lost]:
        try:
            self._write(batch, now, report)
        except errors.Unreachable as error:
            # Perhaps written, perhaps not; the next ones would fare no better.
            return [Lost(kept, error) for kept in batch]
        except Exception as error:  # noqa: BLE001 - one job's text must not lose the others' news
            if isinstance(error, errors.Conflict):
                self._share.recheck()
            ours = [kept for kept in batch if self._share.owns(kept.attempt.job_id)]
            if len(ours) < len(batch):
                gone = [kept for kept in batch if not self._share.owns(kept.attempt.job_id)]
                lost = [Lost(kept, error) for kept in gone]
                return [*lost, *self._together(ours, now, report)] if ours else lost
            if len(batch) == 1:
                return [Lost(batch[0], error)]
            return self._one_by_one(batch, now, report)
        return ()

    def _one_by_one(
        self, batch: Sequence[Kept], now: datetime, report: WatcherReport
    ) -> list[Lost]:
        lost: list[Lost] = []
        for kept in batch:
            if any(kept.attempt.job_id == other.kept.attempt.job_id for other in lost):
                continue
            lost.extend(self._together((kept,), now, report))
        return lost

    def _write(self, batch: Sequence[Kept], now: datetime, report: WatcherReport) -> None:
        for kept in batch:
            kept.settle()
        changed = {kept.attempt.id: _as_seen(kept) for kept in batch if self._due(kept, now)}
        moved = [kept for kept in batch if kept.unwritten]
        applied = self._store.apply(self._change(batch, changed, moved, now))
        for kept in moved:
            kept.watch_version += 1
            kept.unwritten = False
        self._tell(batch, applied, report)
        report.attempts_written += len(changed)
        for kept in batch:
            kept.signals = ()
            kept.milestones = ()
            attempt = changed.get(kept.attempt.id)
            if attempt is not None:
                written = replace(attempt, version=attempt.version + 1)
                if kept.calm is not None and kept.calm.attempt is kept.attempt:
                    # Only when it was seen last may have moved since.
                    kept.calm.attempt = written
                kept.attempt = kept.stored = written

    def _due(self, kept: Kept, now: datetime) -> bool:
        return _changed(kept) or self._seen_long_ago(kept, now)

    def _change(
        self,
        batch: Sequence[Kept],
        changed: dict[AttemptId, Attempt],
        moved: Sequence[Kept],
        now: datetime,
    ) -> Change:
        return Change(
            shards=self._share.of(kept.attempt.job_id for kept in batch),
            attempts=tuple(changed.values()),
            watch=tuple(self._state(kept) for kept in moved),
            progress=tuple(_progress(kept) for kept in moved),
            signals=tuple(signal for kept in batch for signal in kept.signals),
            signal_cap=self.signal_cap,
            milestones=tuple(milestone for kept in batch for milestone in kept.milestones),
            audit=tuple(
                event
                for kept in batch
                if kept.attempt.id in changed
                for event in audit_of(kept.attempt, kept.stored, now)
            ),
            about_signals=tuple(
                told
                for kept in batch
                if kept.signals
                for told in audit_of_signals(kept.attempt, kept.signals)
            ),
        )

    def _state(self, kept: Kept) -> WatchState:
        if kept.watch is None:
            raise AssertionError("only a watch that was made can have moved")
        return WatchState(kept.attempt.id, self._codec.encode(kept.watch), kept.watch_version)

    def _tell(self, batch: Sequence[Kept], applied: Applied, report: WatcherReport) -> None:
        report.signals_stored += len(applied.new_signals)
        report.signals_capped += applied.capped_signals
        report.resumed += sum(len(kept.milestones) for kept in batch)
        if not applied.new_signals:
            return
        new = frozenset(applied.new_signals)
        report.alarms += sum(
            signal.kind in _ALARMS or signal.severity is Severity.FATAL
            for kept in batch
            for signal in kept.signals
            if signal.key in new
        )


def _progress(kept: Kept) -> Progress:
    if kept.watch is None:
        raise AssertionError("only a watch that was made can have moved")
    return kept.watch.detection.progress


def _changed(kept: Kept) -> bool:
    """Whether more than the time of the last sighting is new."""
    stored, attempt = kept.stored, kept.attempt
    if stored is None:
        return True
    if attempt is stored:
        return False
    if replace(attempt, last_seen_at=stored.last_seen_at) != stored:
        return True
    kept.attempt = stored
    return False


def _as_seen(kept: Kept) -> Attempt:
    attempt, seen_at = kept.attempt, kept.seen_at
    if seen_at is None or seen_at <= attempt.last_seen_at:
        return attempt
    return replace(attempt, last_seen_at=seen_at)


def _turned(before: Watch, after: Watch) -> bool:
    """Whether more is new than that a log went on: what decisions and readers wait for."""
    if before.closed != after.closed:
        return True
    if after.tails is not before.tails and _shape(before.tails) != _shape(after.tails):
        return True
    was, now = before.detection.progress, after.detection.progress
    return was is not now and _milepost(was) != _milepost(now)


def _shape(tails: Iterable[Tail]) -> tuple[object, ...]:
    return tuple(
        (tail.path, tail.cursor is None, tail.guard, tail.streams, tail.overwritten, tail.reach)
        for tail in tails
    )


def _milepost(progress: Progress) -> tuple[object, ...]:
    return (
        progress.phase,
        progress.first_step is None,
        progress.checkpoint_step,
        progress.loaded_step,
        progress.log_drained_at,
        progress.unseen,
    )
