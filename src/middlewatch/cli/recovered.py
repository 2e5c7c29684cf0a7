"""recoveries: did training go on, how long did it take, and where did the time go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import click

from middlewatch.cli import asking, completing, show
from middlewatch.cli.session import Session, with_session
from middlewatch.model.recovery import RecoveryState

Record = Mapping[str, Any]
STATES = tuple(state.value for state in RecoveryState)
HEADERS = ("JOBID", "ATT", "BEGAN", "STATE", "TOTAL", "MOST", "LOST", "RESUMED", "CLASS", "WHY")
WORDS = {"restarted_not_recovered": "restarted, not recovered"}
FROM_TO = {
    "detect": "until it was known",
    "decide": "until there was advice",
    "hold": "until the successor was held",
    "release": "until it was let go",
    "queue": "until it ran",
    "start": "until it printed a step",
    "recompute": "until it was past the lost step",
}


@click.command()
@with_session()
@click.argument("job", required=False, shell_complete=completing.job_ids)
@click.option("-t", "--state", type=click.Choice(STATES), help="Only those in this state.")
@click.option("-n", "--noheader", is_flag=True, help="Without the line of headers.")
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="At most.")
def recoveries(
    session: Session, *, job: str | None, state: str | None, noheader: bool, limit: int
) -> None:
    """List recoveries, newest first: from a fault until training is past the step that was lost.

    JOB is a job id (4711, 4711_3). TOTAL is the time so far of those that are under way; MOST is the
    part that took longest.

    \b
    Examples:
      mw recoveries
      mw recoveries 4711
      mw recoveries -t restarted_not_recovered
    """
    gateway = asking.gateway(session)
    query = {"jobId": job, "state": state}
    found = list(gateway.pages("/middlewatch/v1/recoveries", "recoveries", query, "page", limit))
    if session.as_json:
        show.as_json({"recoveries": found})
        return
    if not found:
        show.note("no recoveries" + (f" of job {job}" if job else ""))
        return
    show.table(
        HEADERS,
        [_row(one) for one in found],
        right=("JOBID", "ATT", "TOTAL", "LOST", "RESUMED"),
        header=not noheader,
    )


def _row(recovery: Record) -> tuple[object, ...]:
    lost, resumed = recovery.get("lostStep"), recovery.get("resumedStep")
    return (
        recovery.get("jobId"),
        recovery.get("attemptIndex") or 0,
        show.clock_time(recovery.get("beganAt")),
        recovery.get("state"),
        seconds(recovery.get("totalSeconds")),
        most(recovery),
        "-" if lost is None else lost,
        "-" if resumed is None else resumed,
        recovery.get("failureClass") or "-",
        recovery.get("why") or "-",
    )


def state_word(recovery: Record) -> str:
    state = str(recovery.get("state") or "")
    return WORDS.get(state, state.replace("_", " "))


def most(recovery: Record) -> str:
    """The part that took longest and how long; a dash where that is not known."""
    name = recovery.get("largest")
    if not name:
        undivided = float(recovery.get("undividedSeconds") or 0.0)
        names = "+".join(recovery.get("undivided") or [])
        return f"{names} {seconds(undivided)}" if undivided and names else "-"
    parts: list[Record] = recovery.get("parts") or []
    part: Record = next((p for p in parts if p.get("name") == name), {})
    return f"{name} {seconds(part.get('seconds'))}"


def seconds(value: object) -> str:
    """Tenths up to two minutes, then as Slurm writes a time."""
    if value is None:
        return "-"
    number = float(str(value))
    return f"{number:.1f}s" if number < 120 else show.span(number)


def lines_of(recovery: Record) -> Iterable[str]:
    """One recovery for `mw explain`: what became of it, and where its time went."""
    attempts = ", ".join(str(index) for index in recovery.get("attempts") or [])
    yield ""
    yield (
        f"RECOVERY  of attempt {recovery.get('attemptIndex') or 0}: {state_word(recovery)}"
        + (f", by attempts {attempts}" if "," in attempts else "")
        + ("" if recovery.get("settled") else " (may still change)")
    )
    if recovery.get("why"):
        yield f"  {recovery['why']}"
    yield from _steps(recovery)
    total = float(recovery.get("totalSeconds") or 0.0)
    for part in recovery.get("parts") or []:
        name, took = str(part.get("name")), part.get("seconds")
        if took is None:
            if name not in (recovery.get("undivided") or []):
                continue
            yield f"  {name:<10} {'?':>9}        not known"
            continue
        share = f"{100 * float(took) / total:3.0f} %" if total else ""
        yield f"  {name:<10} {float(took):>7.1f} s  {share}  {FROM_TO.get(name, '')}".rstrip()
    undivided = float(recovery.get("undividedSeconds") or 0.0)
    if undivided:
        names = " and ".join(recovery.get("undivided") or [])
        yield f"  {'together':<10} {undivided:>7.1f} s         {names}: nobody saw where one ended"
    yield f"  {'total':<10} {total:>7.1f} s"
    off = float(recovery.get("clockOffSeconds") or 0.0)
    if off:
        yield f"  clocks differ: a time lay {off:.1f} s before what it followed, and was not used"


def _steps(recovery: Record) -> Iterable[str]:
    lost, resumed = recovery.get("lostStep"), recovery.get("resumedStep")
    saved, loaded = recovery.get("checkpointStep"), recovery.get("loadedStep")
    told = [
        f"lost at step {lost}" if lost is not None else "no step was seen before the fault",
        f"newest checkpoint {saved}" if saved is not None else "",
        f"went on from {loaded}" if loaded is not None else "",
        f"past it with step {resumed}" if resumed is not None else "",
    ]
    yield "  " + ", ".join(text for text in told if text)
