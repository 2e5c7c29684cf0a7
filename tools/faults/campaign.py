"""Many schedules side by side on two labs, and what became of them in build/faults.json."""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from middlewatch.lab.cluster import Cluster
from middlewatch.lab.spec import LabSpec
from middlewatch.lab.start import up
from tools.faults.run import Interrupted, Run, Seen
from tools.faults.schedule import SHORT, STORMY, Schedule, drawn
from tools.faults.verdict import COUNTS, Finding, judged
from tools.faults.world import Watch

ONE_LENGTH = ("FirstJobId=1001",)
"""All job numbers have four digits: a fault is matched by the beginning of a command."""


def spec(lab: str, name: str) -> LabSpec:
    """The lab of that name in `schedule.LABS`."""
    return LabSpec(
        name=f"{name}-{lab}",
        nodes=7,
        cred_expire=10 if lab == SHORT else None,
        message_timeout=5,
        extra=ONE_LENGTH,
    )


@dataclass(frozen=True, slots=True)
class Played:
    """One schedule and its verdict. ``error``: the harness failed, which proves nothing."""

    schedule: Schedule
    version: str
    seen: Seen | None
    findings: tuple[Finding, ...] = ()
    error: str = ""

    @property
    def ok(self) -> bool:
        return not self.findings and not self.error

    def record(self) -> dict[str, Any]:
        """Its line of faults-raw.jsonl."""
        seen = self.seen
        line: dict[str, Any] = {
            "seed": self.schedule.seed,
            "schedule": str(self.schedule),
            "slurm_version": self.version,
            "verdict": "right" if self.ok else ("error" if self.error else "wrong"),
            "findings": [asdict(finding) for finding in self.findings],
        }
        if self.error:
            line["error"] = self.error
        if seen is not None:
            line |= {
                "job_id": seen.job_id,
                "seconds": seen.seconds,
                "kills": seen.kills,
                "end": asdict(seen.row),
                "outcomes": [_outcome(record) for record in seen.records],
                "commands": [[c.at, c.exit_code, *c.argv] for c in seen.issued],
                "notes": [[n.word, n.attempt, n.at, n.text] for n in seen.notes],
                "api_reads": seen.ledger_reads,
                "stop_code": seen.stop_code,
            }
        return line


def _outcome(record: Mapping[str, Any]) -> str:
    status = record.get("status") or {}
    return (
        f"attempt {record.get('attemptIndex', 0)} {record.get('desired')} "
        f"g{record.get('generation')} {status.get('disposition')} {status.get('reason')}: "
        f"{status.get('detail', '')}"
    )


@dataclass
class Campaign:
    """``labs`` by their names in `schedule.LABS`; ``raw`` gets a line as each schedule ends;
    ``failed`` is where evidence goes."""

    labs: Mapping[str, Cluster]
    say: Callable[[str], None]
    raw: Path
    failed: Path
    _telling: threading.Lock = field(default_factory=threading.Lock)
    halt: threading.Event = field(default_factory=threading.Event)

    def play(self, schedules: Sequence[Schedule], side_by_side: int) -> list[Played]:
        """All of them; on an interruption those that had ended."""
        watches = {lab: Watch(cluster) for lab, cluster in self.labs.items()}
        for watch in watches.values():
            watch.start()
        done: list[Played] = []
        pool = ThreadPoolExecutor(max_workers=side_by_side)
        # Whatever happens to slurmctld happens to all jobs: one schedule at a time there.
        alone = ThreadPoolExecutor(max_workers=1)
        try:
            futures = [
                (alone if schedule.lab == STORMY else pool).submit(
                    self._one, schedule, watches[schedule.lab]
                )
                for schedule in schedules
            ]
            for future in futures:
                played = future.result()
                if played is not None:
                    done.append(played)
        except BaseException:
            self.halt.set()
            raise
        finally:
            for one in (pool, alone):
                one.shutdown(wait=True, cancel_futures=True)
            for watch in watches.values():
                watch.stop()
        return done

    def _one(self, schedule: Schedule, watch: Watch) -> Played | None:
        if self.halt.is_set():
            return None
        cluster = self.labs[schedule.lab]
        run: Run | None = None
        try:
            run = Run(schedule, cluster, watch, self.halt)
            seen = run.play()
            played = Played(schedule, cluster.version, seen, judged(seen))
        except Interrupted:
            return None
        except Exception as error:  # noqa: BLE001 - one broken schedule must not hide the others
            text = "".join(traceback.format_exception(error))[-3000:]
            played = Played(schedule, cluster.version, run.seen if run else None, (), text)
        if not played.ok and run is not None:
            run.keep(self.failed / str(schedule.seed))
        self._tell(played)
        return played

    def _tell(self, played: Played) -> None:
        seconds = f"{played.seen.seconds:.0f} s" if played.seen else "-"
        word = "right" if played.ok else "ERROR" if played.error else "WRONG"
        lines = [f"{word}  {played.schedule.seed:>4}  {seconds:>5}  {played.schedule}"]
        lines += [f"       {f.count} {f.number}: {f.text}" for f in played.findings]
        if played.error:
            lines.append("       " + played.error.strip().splitlines()[-1])
        if not played.ok:
            lines.append(f"       again: python -m tools.faults --seed {played.schedule.seed}")
        with self._telling:
            with self.raw.open("a") as out:
                out.write(json.dumps(played.record()) + "\n")
            self.say("\n".join(lines))


def summary(played: Sequence[Played], asked: int, seconds: float) -> dict[str, Any]:
    """The object of build/faults.json."""
    real = [p for p in played if p.seen is not None and not p.error and p.seen.kills]
    counts: Counter[str] = Counter()
    for one in played:
        for finding in one.findings:
            counts[finding.count] += finding.number
    kills = [kill for one in real if one.seen for kill in one.seen.kills]
    return {
        "real_schedules": dict(Counter(one.version for one in real)),
        **{name: counts[name] for name in COUNTS},
        "schedules_asked": asked,
        "schedules_wrong": sum(bool(one.findings) for one in played),
        "unclean_stops": sum(bool(one.seen and one.seen.stop_code) for one in real),
        "harness_errors": sum(bool(one.error) for one in played),
        "kills": len(kills),
        "kills_at_their_moment": sum(bool(kill["reached"]) for kill in kills),
        "kills_with_watchdog": sum(
            len(one.seen.kills) for one in real if one.seen and one.schedule.watchdog_too
        ),
        "by_kind": dict(Counter(one.schedule.kind.value for one in real)),
        "seeds": [one.schedule.seed for one in played],
        "seeds_not_right": [one.schedule.seed for one in played if not one.ok],
        "seconds": round(seconds, 1),
        "at": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "machine": f"{platform.system()} {platform.release()}, {os.cpu_count()} cores",
        "commit": _commit(),
    }


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


def went_wrong(result: Mapping[str, Any]) -> list[str]:
    """Why a run does not count as a good one; empty: it does."""
    problems = [f"{name} is {result[name]}, not 0" for name in COUNTS if result[name]]
    if result["unclean_stops"]:
        problems.append(f"{result['unclean_stops']} times a clean stop at the end was none")
    if result["harness_errors"]:
        problems.append(f"{result['harness_errors']} schedules could not be played to their end")
    real = sum(result["real_schedules"].values())
    if real + result["harness_errors"] < result["schedules_asked"]:
        problems.append(f"only {real} of {result['schedules_asked']} schedules were played")
    return problems


def run(
    seeds: Sequence[int],
    *,
    side_by_side: int,
    out: Path,
    name: str,
    say: Callable[[str], None],
) -> dict[str, Any]:
    """Labs up, schedules played, labs down; writes ``out`` and its raw lines beside it."""
    schedules = [drawn(seed) for seed in seeds]
    begun = time.monotonic()
    raw = out.with_name(f"{out.stem}-raw.jsonl")
    failed = out.with_name(f"{out.stem}-failed")
    out.parent.mkdir(parents=True, exist_ok=True)
    raw.write_text("")
    shutil.rmtree(failed, ignore_errors=True)
    labs: dict[str, Cluster] = {}
    try:
        for lab in sorted({schedule.lab for schedule in schedules}):
            labs[lab] = up(spec(lab, name), say)
        campaign = Campaign(labs, say, raw, failed)
        played = campaign.play(schedules, side_by_side)
    finally:
        for cluster in labs.values():
            cluster.down(remove=True)
    result = summary(played, len(schedules), time.monotonic() - begun)
    out.write_text(json.dumps(result, indent=2) + "\n")
    return result
