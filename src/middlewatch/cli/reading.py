"""jobs, job, advice: what is known, as squeue would show it."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import click

from middlewatch.cli import asking, completing, show
from middlewatch.cli.failure import Exit, Failure
from middlewatch.cli.session import Session, with_session

STATE_CODES = {
    "PENDING": "PD", "RUNNING": "R", "SUSPENDED": "S", "COMPLETED": "CD", "CANCELLED": "CA",
    "FAILED": "F", "TIMEOUT": "TO", "NODE_FAIL": "NF", "PREEMPTED": "PR", "BOOT_FAIL": "BF",
    "DEADLINE": "DL", "OUT_OF_MEMORY": "OOM", "REQUEUED": "RQ", "STOPPED": "ST",
}  # fmt: skip
HEADERS = (
    "JOBID", "ATT", "USER", "NAME", "ST", "TIME", "NODES", "OPT-IN", "NODELIST", "PROGRESS", "SEEN",
    "NOTE",
)  # fmt: skip
Job = Mapping[str, Any]


@click.command()
@with_session()
@click.option("--all", "all_", is_flag=True, help="Ended ones too, however long ago.")
@click.option("--me", is_flag=True, help="Only my own.")
@click.option("-u", "--user", metavar="NAME", help="Only this user's.")
@click.option("-n", "--noheader", is_flag=True, help="Without the line of headers.")
@click.option("-t", "--state", metavar="STATE", help="Only attempts in this state (RUNNING, ...).")
@click.option("--limit", type=click.IntRange(1), help="At most so many attempts.")
def jobs(
    session: Session,
    *,
    all_: bool,
    me: bool,
    user: str | None,
    noheader: bool,
    state: str | None,
    limit: int | None,
) -> None:
    """List the attempts that are watched: the live ones, and those that ended in the last day.

    \b
    Examples:
      mw jobs
      mw jobs --me --all
      mw jobs --json | jq '.jobs[].state'
    """
    from middlewatch.wiring.moment import now

    gateway = asking.gateway(session)
    found = list(_jobs(gateway, all_, state, now()))
    wanted = _me() if me else user
    if wanted:
        found = [job for job in found if _extra(job).get("user") == wanted]
    found = found[-limit:] if limit else found
    if session.as_json:
        show.as_json({"jobs": found})
        return
    if not found:
        show.note("no attempts" + ("" if all_ else "; ended ones: mw jobs --all"))
        return
    show.table(
        HEADERS,
        [_row(job, now()) for job in found],
        right=("JOBID", "ATT", "TIME", "NODES"),
        header=not noheader,
    )


def _jobs(
    gateway: asking.Gateway, all_: bool, state: str | None, now: datetime
) -> Iterable[dict[str, Any]]:
    path, items, token = "/v1/jobs", "jobs", "pageToken"
    if state:
        yield from gateway.pages(path, items, {"jmState": state.upper()}, token)
    elif all_:
        yield from gateway.pages(path, items, {}, token)
    else:
        from datetime import timedelta

        since = (now - timedelta(days=1)).isoformat().replace("+00:00", "Z")
        ended = {"completedJobs": True, "endTimeFrom": since}
        both = [
            *gateway.pages(path, items, ended, token),
            *gateway.pages(path, items, {"completedJobs": False}, token),
        ]
        yield from sorted(both, key=lambda job: str(job.get("createTime") or ""))


def _me() -> str:
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())


def _extra(job: Job) -> Mapping[str, Any]:
    found: Mapping[str, Any] = job.get("additionalProperties") or {}
    return found


def _state(job: Job) -> str:
    return show.word(job.get("state"), "JOB_STATUS_") or "UNSPECIFIED"


def elapsed(job: Job, now: datetime) -> float | None:
    """Seconds from the attempt's start to its end, or until now."""
    start = show.moment(job.get("startTime"))
    if start is None:
        return None
    return ((show.moment(job.get("endTime")) or now) - start).total_seconds()


def _row(job: Job, now: datetime) -> tuple[object, ...]:
    extra = _extra(job)
    state = _state(job)
    code = STATE_CODES.get(state, state) + ("*" if extra.get("completing") else "")
    nodes = job.get("nodes") or []
    return (
        job.get("jobId") or "-",
        job.get("attemptIndex") or 0,
        extra.get("user") or "-",
        job.get("jobName") or "-",
        code,
        show.span(elapsed(job, now)),
        extra.get("nodeCount") or len(nodes) or "-",
        extra.get("optInMode") or "off",
        _where(job),
        _progress(job),
        seen(job, now),
        "; ".join(_notes(job)) or "-",
    )


def _where(job: Job) -> str:
    """Its nodes, or in brackets why it has none."""
    reason = _extra(job).get("reason")
    return show.folded(job.get("nodes") or []) or (f"({reason})" if reason else "-")


def _progress(job: Job) -> str:
    """The last step, of how many, and the newest checkpoint."""
    progress = job.get("progress") or {}
    if progress.get("lastStep") is None:
        return str(progress.get("phase") or "-")
    total = f"/{progress['totalSteps']}" if progress.get("totalSteps") is not None else ""
    saved = progress.get("checkpointStep")
    return f"{progress['lastStep']}{total}" + (f" saved {saved}" if saved is not None else "")


def seen(job: Job, now: datetime) -> str:
    """What the watcher sees of a live attempt, and how old it is: ``step``, ``output`` (it
    prints, but no progress is recognised), ``end only`` (nothing printed yet) or ``blind``."""
    extra = _extra(job)
    if (extra.get("optInMode") or "off") == "off" or extra.get("endedBy"):
        return "-"
    if _state(job) != "RUNNING":
        return "-"
    progress = job.get("progress") or {}
    unseen = progress.get("unseen") or []
    if "log" in unseen:
        return f"blind {_age(progress.get('unseenSince'), now)}"
    if progress.get("lastStepAt") and "progress" not in unseen:
        return f"step {_age(progress['lastStepAt'], now)}"
    if progress.get("lastOutputAt"):
        return f"output {_age(progress['lastOutputAt'], now)}"
    return "end only"


def _age(at: str | None, now: datetime) -> str:
    moment = show.moment(at)
    return show.span((now - moment).total_seconds() if moment else None)


SHORT_REASON = 90
"""Characters of a refusal in one line of a table; `mw explain` has the whole sentence."""

_GATE = re.compile(r"gate (\w+) (?:was closed|has closed): ")


def _advised(job: Job) -> str:
    """What is advised and how far it came; empty where nothing is."""
    desired = show.word(job.get("desiredState"), "ADVICE_STATE_")
    if not desired:
        return ""
    wish = "constraints" if desired == "UNSPECIFIED" else desired
    status = job.get("reconciliationStatus") or {}
    outcome = show.word(status.get("disposition"), "ADVICE_RECONCILIATION_DISPOSITION_")
    reason = show.word(status.get("reason"), "ADVICE_RECONCILIATION_REASON_")
    if reason == "NOT_PERMITTED":
        why = str(status.get("detail") or "")
        # Only a gate says "would have": it opens for the next decision, which a refusal does not.
        gate = _GATE.match(why)
        if gate is not None:
            return f"would have: {wish} ({gate.group(1)})"
        short = why.removeprefix("gate ")
        short = short if len(short) <= SHORT_REASON else short[: SHORT_REASON - 1] + "…"
        return f"refused: {wish}" + (f" ({short})" if short else "")
    return f"advice: {wish} {outcome or 'OPEN'}" + ("" if outcome == "CONVERGED" else f" {reason}")


def _notes(job: Job) -> Iterable[str]:
    extra = _extra(job)
    advised = _advised(job)
    if advised:
        yield advised.rstrip()
    if extra.get("vanished"):
        yield "lost by the scheduler"
    if extra.get("waitsFor"):
        yield str(extra["waitsFor"])
    elif extra.get("held") and not extra.get("endedBy"):
        yield "held"
    if "log" in ((job.get("progress") or {}).get("unseen") or []):
        yield f"its output cannot be seen (mw explain {job.get('jobId')})"
    problems = extra.get("optInProblems") or []
    if problems:
        yield f"comment: {problems[0]} (mw check-comment --job {job.get('jobId')})"


@click.command()
@with_session()
@click.argument("job", shell_complete=completing.job_ids)
def job(session: Session, job: str) -> None:
    """Show one job: all its attempts, how far each came, and what was advised.

    JOB is a job id (4711, 4711_3), one of its attempts (4711-1), or an attempt's UUID.
    """
    from middlewatch.wiring.moment import now

    gateway = asking.gateway(session)
    body = explanation(gateway, job)
    if session.as_json:
        show.as_json({"explanation": body})
        return
    this = body.get("job") or {}
    attempts = [*(body.get("siblings") or []), this]
    attempts.sort(key=lambda a: (str(a.get("submitTime") or ""), a.get("attemptIndex") or 0))
    extra = _extra(this)
    show.say(f"JobId={this.get('jobId')} JobName={this.get('jobName') or '(none)'}")
    show.say(
        f"   UserId={extra.get('user') or '-'} Partition={','.join(extra.get('partitions') or [])} "
        f"OptIn={extra.get('optInMode') or 'off'} Requeue={_flag(extra.get('requeueable'))}"
    )
    show.say(f"   StdOut={extra.get('stdoutPath') or '-'}")
    if extra.get("dependsOn"):
        show.say(f"   DependsOn={','.join(extra['dependsOn'])}")
    if extra.get("waitsFor"):
        show.say(f"   {extra['waitsFor']}")
    for problem in extra.get("optInProblems") or []:
        show.say(f"   Comment: {problem}")
    if extra.get("optInSuggestion"):
        show.say(f"   Right would be: {extra['optInSuggestion']}")
    show.say()
    show.table(
        ("ATT", "STATE", "ENDED-BY", "EXIT", "START", "TIME", "NODELIST"),
        [
            (
                one.get("attemptIndex") or 0,
                _state(one),
                _extra(one).get("endedBy") or "-",
                _exit(_extra(one)),
                show.clock_time(one.get("startTime")),
                show.span(elapsed(one, now())),
                _where(one),
            )
            for one in attempts
        ],
        right=("ATT", "TIME"),
    )
    progress = body.get("progress") or {}
    if progress:
        show.say()
        show.say(f"progress of attempt {this.get('attemptIndex') or 0}: {progress_line(progress)}")
    advice_record = body.get("advice")
    if advice_record:
        show.say()
        show.say(f"advice: {advice_line(advice_record)}")
    show.say()
    show.say(f"why: mw explain {this.get('jobRunId') or job}")


def explanation(gateway: asking.Gateway, reference: str) -> dict[str, Any]:
    """All that is known of one attempt. Raises Failure where it is not known."""
    try:
        return gateway.get(f"/middlewatch/v1/attempts/{asking.quoted(reference)}/explanation")
    except Failure as failure:
        if failure.code is Exit.NOT_FOUND:
            raise Failure(
                Exit.NOT_FOUND,
                f"no attempt is known as {reference}",
                "mw jobs --all lists what is known; a job that has not opted in is not watched "
                "(mw check-comment --job JOB)",
            ) from failure
        raise


def progress_line(progress: Mapping[str, Any]) -> str:
    """Step, checkpoint and pace in one line."""
    parts = [str(progress.get("phase") or "starting")]
    last, total = progress.get("lastStep"), progress.get("totalSteps")
    if last is not None:
        parts.append(f"step {last}" + (f"/{total}" if total is not None else ""))
    if progress.get("checkpointStep") is not None:
        parts.append(f"checkpoint {progress['checkpointStep']}")
    if progress.get("loadedStep") is not None:
        parts.append(f"resumed from {progress['loadedStep']}")
    if progress.get("stepTimeSeconds"):
        parts.append(f"{float(progress['stepTimeSeconds']):.3g} s/step")
    return ", ".join(parts)


def advice_line(record: Mapping[str, Any]) -> str:
    """Desired state, exclusions, generation and what came of it."""
    without = record.get("exclusions") or []
    status = record.get("status") or {}
    outcome = (
        f"{status.get('disposition')} {status.get('reason')}"
        + (f" ({status['detail']})" if status.get("detail") else "")
        if status
        else "not reported yet"
    )
    return (
        f"{record.get('desired')}"
        + (f" without {','.join(without)}" if without else "")
        + f", generation {record.get('generation') or 0}: {outcome}"
    )


def _flag(value: object) -> str:
    return "-" if value is None else ("1" if value else "0")


def _exit(extra: Mapping[str, Any]) -> str:
    if extra.get("exitCode") is None and extra.get("exitSignal") is None:
        return "-"
    return f"{extra.get('exitCode') or 0}:{extra.get('exitSignal') or 0}"


@click.command()
@with_session()
@click.argument("job", required=False, shell_complete=completing.job_ids)
@click.option("--active", is_flag=True, help="Only what still needs work.")
@click.option("--limit", type=click.IntRange(1), help="At most so many.")
def advice(session: Session, job: str | None, active: bool, limit: int | None) -> None:
    """List what was decided for each attempt, and what came of it; of one JOB if it is named."""
    gateway = asking.gateway(session)
    query = {"onlyActive": active}
    found = [
        record
        for record in gateway.pages("/middlewatch/v1/advice", "advice", query, "page", limit)
        if job is None or job in _names(record)
    ]
    if session.as_json:
        show.as_json({"advice": found})
        return
    if not found:
        show.note("no advice" + (f" for {job}" if job else ""))
        return
    show.table(
        ("JOBID", "ATT", "GEN", "DESIRED", "EXCLUDE", "CLASS", "BASIS", "SINCE", "OUTCOME", "WHY"),
        [_advice_row(record) for record in found],
        right=("JOBID", "ATT", "GEN"),
    )


def _names(record: Mapping[str, Any]) -> tuple[str, ...]:
    job_id = str(record.get("jobId"))
    return (
        job_id,
        f"{job_id}-{record.get('attemptIndex') or 0}",
        str(record.get("attemptId")),
    )


def _advice_row(record: Mapping[str, Any]) -> tuple[object, ...]:
    status = record.get("status") or {}
    closed = next((g for g in record.get("gates") or [] if not g.get("open")), None)
    outcome = status.get("disposition") or "OPEN"
    why = str(status.get("reason") or "")
    if closed:
        why = f"would have; {closed.get('detail') or closed.get('name')}"
    elif status.get("detail"):
        why = f"{why}: {status['detail']}"
    return (
        record.get("jobId"),
        record.get("attemptIndex") or 0,
        record.get("generation") or 0,
        record.get("desired"),
        ",".join(record.get("exclusions") or []) or "-",
        record.get("failureClass") or "-",
        record.get("basis") or "-",
        show.clock_time(record.get("desiredStateChangedAt")),
        outcome,
        why or "-",
    )
