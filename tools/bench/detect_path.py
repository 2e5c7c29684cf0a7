"""One log through the whole path, once, on one core; what it took goes to standard output as JSON.

Read (by the adapter that the watcher reads with, in blocks of the size that it uses), split, search,
extract, attribute, timestamp, and fold into the state of one attempt: everything that happens to a
job's output before the store. A process of its own, so that nothing else runs on its core.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from middlewatch.adapters.logs import FileLogs
from middlewatch.adapters.scan.catalogue import Catalogue, read_catalogue
from middlewatch.adapters.scan.engine import Engine, scanner_for
from middlewatch.adapters.scan.finding import Candidate, pieces
from middlewatch.adapters.scan.reading import LineReader
from middlewatch.adapters.scan.scanner import LineScanner
from middlewatch.detection.batch import Batch, Hit
from middlewatch.detection.observe import observe
from middlewatch.detection.state import fresh
from middlewatch.model.attempt import Attempt
from middlewatch.model.identity import AttemptKey, ClusterId
from middlewatch.model.scheduler import JobState
from middlewatch.ports.scanner import Block, Cursor
from middlewatch.services.watcher.settings import WatcherSettings

BEGAN = datetime(2026, 11, 1, tzinfo=UTC)
"""Any moment: the fold is given its times."""


class PythonRe:
    """What one would write without an engine made for it: the standard library's, one alternation
    over each piece, then each pattern on the lines that it found."""

    def __init__(self, catalogue: Catalogue) -> None:
        regexes = [pattern.regex.encode("latin-1") for pattern in catalogue.patterns]
        # It allows no name twice, and only the ends of the matches are asked for.
        unnamed = [re.sub(rb"\(\?P<\w+>", b"(?:", regex) for regex in regexes]
        self._each = [re.compile(regex) for regex in unnamed]
        self._all = re.compile(b"|".join(_here(regex) for regex in unnamed), re.MULTILINE)

    def find(self, text: bytes) -> list[Candidate]:
        found: list[Candidate] = []
        for at, end in pieces(text):
            for match in self._all.finditer(text, at, end):
                begin = text.rfind(b"\n", 0, match.start()) + 1
                line_end = text.find(b"\n", match.start())
                line = text[begin : line_end if line_end >= 0 else len(text)]
                for number, regex in enumerate(self._each):
                    hit = regex.search(line)
                    if hit is not None:
                        found.append((begin + hit.end(), number))
        return found


def _here(regex: bytes) -> bytes:
    """A branch of an alternation: flags that stand at a pattern's head hold for it alone."""
    if regex.startswith(b"(?i)"):
        return b"(?i:" + regex[4:] + b")"
    return b"(?:" + regex + b")"


def run(engine: str, path: Path, most: int) -> dict[str, object]:
    """Search and fold the first ``most`` bytes."""
    catalogue = read_catalogue()
    if engine == "re":
        reader = LineReader([pattern.regex for pattern in catalogue.patterns])
        scanner = LineScanner(catalogue.patterns, PythonRe(catalogue), reader)
    else:
        scanner = scanner_for(catalogue, Engine(engine))
    patterns = catalogue.by_id()
    attempt = an_attempt()
    state = fresh(attempt.id)
    logs, settings = FileLogs(), WatcherSettings()
    cursor: Cursor | None = None
    read = hits = signals = lines = 0
    last = -1
    began, processor = time.perf_counter(), time.process_time()
    while read < most:
        block = logs.read(str(path), os.geteuid(), cursor, settings.block, final=True)
        if not isinstance(block, Block) or not block.data:
            break
        cursor = block.cursor
        read += len(block.data)
        now = BEGAN + timedelta(seconds=read // settings.block)
        found = tuple(
            [
                Hit(
                    patterns[raw.pattern_id], block.stream, raw.offset, raw.line, raw.groups, "/log"
                )
                for raw in scanner.scan(block.data, block.base_offset)
            ]
        )
        seen = observe(state, Batch(attempt, found, now, caught_up=block.at_end), now)
        state = seen.state
        hits += len(found)
        signals += len(seen.signals)
        for hit in found:
            lines += hit.offset != last
            last = hit.offset
    took = time.perf_counter() - began
    return {
        "seconds": took,
        "processor_s": time.process_time() - processor,
        "bytes": read,
        "hits": hits,
        "lines": lines,
        "signals": signals,
        "last_step": state.progress.last_step,
    }


def an_attempt() -> Attempt:
    cluster = ClusterId("slurm", "bench")
    return Attempt(
        id=AttemptKey(cluster, "7", BEGAN).attempt_id(),
        cluster=cluster,
        job_id="7",
        attempt_index=0,
        state=JobState.RUNNING,
        submitted_at=BEGAN,
        started_at=BEGAN,
        first_seen_at=BEGAN,
        last_seen_at=BEGAN,
    )


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.bench.detect_path", description=__doc__)
    parser.add_argument("engine", choices=["auto", "hyperscan", "re2", "re"])
    parser.add_argument("path", type=Path)
    parser.add_argument("--most", type=int, default=1 << 60, help="bytes to read at most")
    parser.add_argument("--core", type=int, default=-1, help="processor core to stay on")
    given = parser.parse_args(arguments)
    if given.core >= 0:
        os.sched_setaffinity(0, {given.core})
    print(json.dumps(run(given.engine, given.path, given.most)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
