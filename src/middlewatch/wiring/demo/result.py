"""The demo's record: every figure from what was stored and logged, and nothing without it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from middlewatch.model.milestone import MilestoneKind
from middlewatch.model.recovery import PartName, Recovery
from middlewatch.wiring.demo.story import Seen

MILESTONES = (
    MilestoneKind.FAULT,
    MilestoneKind.DETECTED,
    MilestoneKind.ADVISED,
    MilestoneKind.HELD,
    MilestoneKind.CONSTRAINED,
    MilestoneKind.RELEASED,
    MilestoneKind.RUNNING,
    MilestoneKind.RESUMED,
)


def rfc3339(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def record(
    seen: Seen,
    *,
    backend: str,
    version: str,
    job_id: str,
    commands: list[dict[str, Any]],
    accounting: list[dict[str, str]],
) -> dict[str, Any]:
    """What goes into ``build/demo.json``; null for what was not seen."""
    attempts = {a.attempt_index: a for a in seen.attempts}
    source, successor = attempts.get(0), attempts.get(1)
    before, after = seen.progress.get(0), seen.progress.get(1)
    last = before.last_step if before else None
    loaded = after.loaded_step if after else None
    resumed = seen.milestones.get(MilestoneKind.RESUMED)
    moments = {kind.value: seen.at(kind) for kind in MILESTONES}
    return {
        "backend": backend,
        "slurm_version": version,
        "job_id": job_id,
        "attempts": {
            "source": 0 if source else None,
            "successor": 1 if successor else None,
        },
        "milestones": {k: rfc3339(at) if at else None for k, at in moments.items()},
        "nodes": {
            "before": list(source.nodes) if source else [],
            "excluded": list(seen.advice.exclusions) if seen.advice else [],
            "after": list(successor.nodes) if successor else [],
        },
        "steps": {
            "last_before_fault": last,
            "checkpoint": loaded,
            "resumed": resumed.step if resumed else None,
            "lost": last - loaded if last is not None and loaded is not None else None,
        },
        "recovery": _recovery(seen.recovery),
        "commands": commands,
        "accounting": accounting,
    }


def _recovery(recovery: Recovery | None) -> dict[str, Any]:
    """State and parts, in seconds; null for what is not known."""
    return {
        "state": None if recovery is None else recovery.state.value,
        "total_s": None if recovery is None else round(recovery.total_s, 3),
        "parts_s": {name.value: _rounded(recovery, name) for name in PartName},
        "undivided_s": None if recovery is None else round(recovery.unsplit_s, 3),
        "clock_off_s": None if recovery is None else round(recovery.clock_off_s, 3),
    }


def _rounded(recovery: Recovery | None, name: PartName) -> float | None:
    seconds = None if recovery is None else recovery.seconds(name)
    return None if seconds is None else round(seconds, 3)


def missing(made: dict[str, Any]) -> list[str]:
    """What a whole recovery shows and this record does not, each as a sentence."""
    problems = [f"milestone {name} is missing" for name, at in made["milestones"].items() if not at]
    problems += [f"attempt {name} is missing" for name, n in made["attempts"].items() if n is None]
    problems += [f"steps.{name} is missing" for name, n in made["steps"].items() if n is None]
    recovery = made["recovery"]
    if recovery["state"] != "verified":
        problems.append(f"the recovery is {recovery['state']}, not verified")
    problems += [f"part {name} is missing" for name, s in recovery["parts_s"].items() if s is None]
    nodes = made["nodes"]
    problems += [f"nodes.{name} is empty" for name, names in nodes.items() if not names]
    if set(nodes["excluded"]) & set(nodes["after"]):
        problems.append("an excluded node was used again")
    if not set(nodes["excluded"]) <= set(nodes["before"]):
        problems.append("a node outside the first attempt's allocation was excluded")
    if not problems and made["steps"]["resumed"] <= made["steps"]["last_before_fault"]:
        problems.append("the successor did not pass the last step before the fault")
    if not made["commands"]:
        problems.append("no command was recorded")
    if len(made["accounting"]) < 2:
        problems.append(f"accounting has {len(made['accounting'])} records, not two or more")
    return problems


def summary(made: dict[str, Any]) -> str:
    """The one sentence that a person takes away. For a record in which nothing is missing."""

    def between(a: str, b: str) -> float:
        first, last = (datetime.fromisoformat(made["milestones"][name]) for name in (a, b))
        return (last - first).total_seconds()

    return (
        f"Training goes on: {between('fault', 'resumed'):.1f} s from the fault to a step beyond it "
        f"({between('fault', 'running'):.1f} s until it ran again); "
        f"{made['steps']['lost']} steps were trained twice."
    )


def parts_told(made: dict[str, Any]) -> Iterable[str]:
    """Where the time went, a line for each part. For a record in which nothing is missing."""
    recovery = made["recovery"]
    total = recovery["total_s"]
    yield "Where the time went:"
    for name, seconds in recovery["parts_s"].items():
        bar = "#" * round(40 * seconds / total if total else 0)
        yield f"  {name:<10} {seconds:6.1f} s  {bar}".rstrip()
    yield f"  {'total':<10} {total:6.1f} s"
