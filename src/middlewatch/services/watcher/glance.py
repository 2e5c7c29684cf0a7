"""A look at the files of an attempt of which nothing is to be decided.

Of ten thousand jobs nine thousand print, in any second, lines that mean nothing. Their files are
read and searched like all others; but where nothing is found, and the state says that until a later
moment nothing can come of time alone (`detection.chatter`), there is nothing to weigh and nothing to
write. When its output came last, and how far its files were read, is kept beside the watch until
somebody needs to know: the next turn that has something to weigh, or a write.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple

from middlewatch.detection.chatter import calm_until
from middlewatch.detection.progress import any_loop
from middlewatch.model.policy import Policy
from middlewatch.ports.scanner import Block, LogSource
from middlewatch.services.watcher.evidence import Evidence
from middlewatch.services.watcher.memory import Calm, Chatter, Kept, Tail, Watch
from middlewatch.services.watcher.reading import FRESH, Got, Reader, written_at_last
from middlewatch.services.watcher.report import WatcherReport
from middlewatch.services.watcher.tails import kept_by_store


class Glance(NamedTuple):
    """``over``: nothing was found, and the turn is over. If it is not, ``read`` has what was read
    by path, for a whole turn to go on with. ``bytes`` were read."""

    over: bool
    bytes: int = 0
    read: Mapping[str, Got] = {}


class Glances:
    """Takes the turns in which nothing is to be decided."""

    def __init__(self, logs: LogSource, reader: Reader, evidence: Evidence) -> None:
        self._logs = logs
        self._reader = reader
        self._evidence = evidence

    def prepare(self, kept: Kept, watch: Watch, policy: Policy) -> None:
        """After a whole turn: may the next ones be glances, and until when?"""
        kept.calm = None
        attempt, state = kept.attempt, watch.detection
        if watch.closed or not watch.tails or not self._reader.has_its_own(kept, watch):
            return
        for tail in watch.tails:
            if (
                tail.cursor is None
                or tail.guard is not None
                or not tail.at_end
                or kept_by_store(tail.path)
            ):
                return
        until = calm_until(state, attempt, policy)
        if until is not None:
            kept.calm = Calm(until, attempt, policy, any_loop(state))

    def glance(self, kept: Kept, now: datetime, policy: Policy, report: WatcherReport) -> Glance:
        """Read on, if that is all that there is to do. ``kept`` has what it brought."""
        calm, watch = kept.calm, kept.watch
        if (
            calm is None
            or watch is None
            or now >= calm.until
            or calm.attempt is not kept.attempt
            or calm.policy is not policy
            or kept.followed
            or kept.looked_at is None
            or not kept.looked_at <= now < kept.looked_at + FRESH
            or self._reader.has_others(kept)
            or self._evidence.says_of(kept.attempt, watch.detection)
        ):
            return Glance(False)
        uid, size = calm.attempt.uid, kept.block
        read: dict[str, Got] = {}
        for tail in kept.tails:
            read[tail.path] = self._logs.read(tail.path, uid, tail.cursor, size)
        if not all(_goes_on(got) for got in read.values()):
            return Glance(False, 0, read)
        blocks = [got for got in read.values() if isinstance(got, Block)]
        for block in blocks:
            if block.data and self._reader.finds(block, kept.attempt, loops=calm.loops):
                return Glance(False, 0, read)
        return Glance(True, self._note(kept, blocks, now, report))

    def _note(
        self,
        kept: Kept,
        blocks: list[Block],
        now: datetime,
        report: WatcherReport,
    ) -> int:
        """Keep what blocks without hits say; how many bytes they have."""
        size = sum(len(block.data) for block in blocks)
        if size and kept.calm is not None:
            seen = written_at_last(blocks, kept.looked_at, now) or now
            tails = tuple(map(_moved, kept.tails, blocks))
            kept.chatter = Chatter(tails, min(seen, now), now, kept.calm.policy)
            report.bytes_read += size
            report.lines_read += sum(block.data.count(b"\n") for block in blocks)
        for block in blocks:
            if block.size:
                kept.sizes[block.cursor.path] = (now, block.size)
        kept.looked_at = now
        return size


def _goes_on(got: Got) -> bool:
    """Whether a file was read to its end, and is the one that it was."""
    return (
        isinstance(got, Block)
        and got.at_end
        and not (got.restarted or got.skipped_bytes or got.lost)
    )


def _moved(tail: Tail, block: Block) -> Tail:
    return Tail(
        path=tail.path,
        cursor=block.cursor,
        streams=tail.streams,
        at_end=True,
        overwritten=tail.overwritten,
    )
