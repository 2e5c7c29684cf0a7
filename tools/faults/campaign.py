"""Many schedules side by side on labs of several releases, and what became of them."""

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
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from middlewatch.lab.cluster import Cluster
from middlewatch.lab.spec import LabSpec
from middlewatch.lab.start import up
from tools.faults.run import Interrupted, Run
from tools.faults.schedule import SHORT, STORMY, Schedule, drawn
from tools.faults.seen import Seen
from tools.faults.verdict import APART, COUNTS, Finding, apart, judged

Where = tuple[str, str]
"""A release and a lab of `schedule.LABS`."""


def spec(where: Where, name: str) -> LabSpec:
    """The lab for schedules of that release and kind."""
    release, lab = where
    short = release.replace(".", "")
    return LabSpec(
        name=f"{name}-{short}-{lab}",
        release=release,
        nodes=7,
        cred_expire=10 if lab == SHORT else 45,
        message_timeout=5,
        slurmd_timeout=10 if lab == STORMY else 30,
    )


@dataclass(frozen=True, slots=True)
class Played:
    """One schedule and its verdict. ``error``: the harness failed, which proves nothing."""

    schedule: Schedule
    version: str
    seen: Seen | None
    findings: tuple[Finding, ...] = ()
    beside: tuple[Finding, ...] = ()
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
            "beside": [asdict(finding) for finding in self.beside],
        }
        if self.error:
            line["error"] = self.error
        if seen is not None:
            line |= {
                "job_id": seen.job_id,
                "seconds": seen.seconds,
                "events": seen.events,
                "end": asdict(seen.row),
                "accounting": seen.accounting,
                "outcomes": [_outcome(record) for record in seen.records],
                "commands": [
                    [_at(c.started), c.exit_code, c.before.state, c.before.restarts, *c.argv]
                    for c in seen.commands
                ],
                "acts": [[_at(a.begun), a.what, a.done, a.until] for a in seen.acts],
                "notes": [[_at(n.at), n.word, n.attempt, n.text] for n in seen.notes],
                "lives": [[n.attempt, _at(n.first), _at(n.last)] for n in seen.lives],
                "api_reads": seen.ledger_reads,
                "stop_code": seen.stop_code,
            }
        return line


def _at(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%S.%f")[:-4]


def _outcome(record: Mapping[str, Any]) -> str:
    status = record.get("status") or {}
    return (
        f"attempt {record.get('attemptIndex', 0)} {record.get('desired')} "
        f"g{record.get('generation')} {status.get('disposition')} {status.get('reason')}: "
        f"{status.get('detail', '')}"
    )


@dataclass
class Campaign:
    """``labs`` by release and kind; ``raw`` gets a line as each schedule ends; ``failed`` is where
    evidence goes."""

    labs: Mapping[Where, Cluster]
    say: Callable[[str], None]
    raw: Path
    failed: Path
    _telling: threading.Lock = field(default_factory=threading.Lock)
    halt: threading.Event = field(default_factory=threading.Event)

    def play(self, schedules: Sequence[Schedule], side_by_side: int) -> list[Played]:
        """All of them; on an interruption those that had ended."""
        done: list[Played] = []
        pool = ThreadPoolExecutor(max_workers=side_by_side)
        # Whatever happens to a slurmctld happens to all its jobs: one schedule at a time there.
        alone = {
            where: ThreadPoolExecutor(max_workers=1) for where in self.labs if where[1] == STORMY
        }
        try:
            futures: list[Future[Played | None]] = [
                alone.get(_where(schedule), pool).submit(self._one, schedule)
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
            for one in (pool, *alone.values()):
                one.shutdown(wait=True, cancel_futures=True)
        return done

    def _one(self, schedule: Schedule) -> Played | None:
        if self.halt.is_set():
            return None
        cluster = self.labs[_where(schedule)]
        version = cluster.version
        run: Run | None = None
        try:
            run = Run(schedule, cluster, self.halt)
            seen = run.play()
            played = Played(schedule, version, seen, judged(seen), apart(seen))
        except Interrupted:
            played = None
        except Exception as error:  # noqa: BLE001 - one broken schedule must not hide the others
            text = "".join(traceback.format_exception(error))[-3000:]
            played = Played(schedule, version, run.seen if run else None, (), (), text)
        if run is not None:
            if played is not None and not played.ok:
                run.keep(self.failed / str(schedule.seed))
            run.site.unmount()
        if schedule.lab == STORMY and not self.halt.is_set():
            cluster.tidy()
        if played is not None:
            self._tell(played)
        return played

    def _tell(self, played: Played) -> None:
        seconds = f"{played.seen.seconds:.0f} s" if played.seen else "-"
        word = "right" if played.ok else "ERROR" if played.error else "WRONG"
        lines = [f"{word}  {played.schedule.seed:>4}  {seconds:>5}  {played.schedule}"]
        if played.ok and not _counts(played.record()):
            lines.append("       none of its events came: it is not counted")
        lines += [f"       {f.count} {f.number}: {f.text}" for f in played.findings]
        lines += [f"       (beside) {f.count} {f.number}: {f.text}" for f in played.beside]
        if played.error:
            lines.append("       " + played.error.strip().splitlines()[-1])
        if not played.ok:
            lines.append(f"       again: python -m tools.faults --seed {played.schedule.seed}")
        with self._telling:
            with self.raw.open("a") as out:
                out.write(json.dumps(played.record()) + "\n")
            self.say("\n".join(lines))


def _where(schedule: Schedule) -> Where:
    return schedule.release, schedule.lab


Line = dict[str, Any]
"""One line of faults-raw.jsonl: `Played.record`."""


def summary(lines: Sequence[Line], asked: int, seconds: float) -> dict[str, Any]:
    """The object of build/faults.json."""
    real = [line for line in lines if _counts(line)]
    schedules = [drawn(line["seed"]) for line in real]
    counts: Counter[str] = Counter()
    for line in lines:
        for finding in (*line["findings"], *line["beside"]):
            counts[finding["count"]] += finding["number"]
    events = [event for line in real for event in line["events"]]
    return {
        "real_schedules": dict(sorted(Counter(line["slurm_version"] for line in real).items())),
        **{name: counts[name] for name in (*COUNTS, *APART)},
        "schedules_asked": asked,
        "schedules_wrong": sum(bool(line["findings"]) for line in lines),
        "schedules_without_event": sum(_right(line) and not _counts(line) for line in lines),
        "unclean_stops": sum(bool(line["stop_code"]) for line in real),
        "harness_errors": sum("error" in line for line in lines),
        "events": len(events),
        "events_reached": sum(bool(event["reached"]) for event in events),
        "by_kind": dict(Counter(one.kind.value for one in schedules)),
        "by_deployment": dict(Counter(one.deployment for one in schedules)),
        "by_deed": dict(sorted(Counter(deed for one in schedules for deed in one.deeds()).items())),
        "seeds": [line["seed"] for line in lines],
        "seeds_not_right": [line["seed"] for line in lines if not _right(line)],
        "seconds": round(seconds, 1),
        "at": datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z"),
        "machine": f"{platform.system()} {platform.release()}, {os.cpu_count()} cores",
        "commit": _commit(),
    }


def _right(line: Line) -> bool:
    return bool(line["verdict"] == "right")


def _counts(line: Line) -> bool:
    """Whether it was played to its end and at least one of its events came."""
    return "error" not in line and any(event["reached"] for event in line["events"])


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
    played = sum(result["real_schedules"].values()) + result["schedules_without_event"]
    if played + result["harness_errors"] < result["schedules_asked"]:
        problems.append(f"only {played} of {result['schedules_asked']} schedules were played")
    return problems


def run(
    seeds: Sequence[int],
    *,
    side_by_side: int,
    out: Path,
    name: str,
    say: Callable[[str], None],
    release: str | None = None,
    again: bool = False,
) -> dict[str, Any]:
    """Labs up, schedules played, labs down; writes ``out`` and its raw lines beside it. ``release``:
    only the schedules of that one. ``again``: what the last run has in its raw lines as right stays,
    the rest is played; the result says which and of which commit the other was."""
    schedules = [one for one in map(drawn, seeds) if release in (None, one.release)]
    begun = time.monotonic()
    raw = out.with_name(f"{out.stem}-raw.jsonl")
    failed = out.with_name(f"{out.stem}-failed")
    out.parent.mkdir(parents=True, exist_ok=True)
    kept, before = (_right_ones(raw), _last(out)) if again else ([], {})
    known = {line["seed"] for line in kept}
    rest = [one for one in schedules if one.seed not in known]
    raw.write_text("".join(json.dumps(line) + "\n" for line in kept))
    shutil.rmtree(failed, ignore_errors=True)
    labs: dict[Where, Cluster] = {}
    try:
        _raise(labs, {_where(schedule) for schedule in rest}, name, say)
        played = Campaign(labs, say, raw, failed).play(rest, side_by_side)
    finally:
        for cluster in labs.values():
            cluster.down(remove=True)
    lines = [*kept, *(one.record() for one in played)]
    seconds = time.monotonic() - begun + float(before.get("seconds", 0.0))
    result = summary(lines, len(schedules), seconds)
    if again:
        result["played_again"] = [one.schedule.seed for one in played]
        result["commit_before"] = before.get("commit", "unknown")
    out.write_text(json.dumps(result, indent=2) + "\n")
    return result


def _right_ones(raw: Path) -> list[Line]:
    try:
        lines = [json.loads(line) for line in raw.read_text().splitlines()]
    except OSError:
        return []
    return [line for line in lines if _right(line)]


def _last(out: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(out.read_text()))
    except (OSError, ValueError):
        return {}


def _raise(
    labs: dict[Where, Cluster], wanted: Iterable[Where], name: str, say: Callable[[str], None]
) -> None:
    """Start the labs one after the other; those that run are in ``labs`` whatever happens."""
    for where in sorted(wanted):
        labs[where] = cluster = up(spec(where, name), lambda _line: None)
        if where[1] == STORMY:
            # One that was killed before it ever stopped or saved does not start any more: 26.05 wants
            # the file assoc_usage, and any slurmctld of a site has one.
            cluster.stop_daemon("slurmctld")
            cluster.start_daemon("slurmctld")
        say(f"lab of Slurm {cluster.version} ({' '.join(where)}) in {cluster.folder}")
