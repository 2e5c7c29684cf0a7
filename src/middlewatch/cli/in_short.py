"""The first thing that somebody who was woken wants to read: what happened, what was decided, what
came of it, what is to do. Four lines from an attempt's explanation; the story below has the proof.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from middlewatch.cli import show

Record = Mapping[str, Any]

OPENED_BY = {
    "deployment_mode": 'deployment.mode = "action"',
    "acknowledge_scheduler_actions": "deployment.acknowledge_scheduler_actions = true",
    "job_opt_in": 'the job\'s comment with "mode":"action" (mw check-comment)',
    "partition_allowlist": "the job's partitions in deployment.partitions",
    "ownership": "deployment.cluster_name, if this really is our cluster",
    "class_opt_in": '"restartOnSlow":true in the job\'s comment',
    "job_owner": "Operator rights, or the job's owner (docs/single-user.md)",
    "dependencies": "nothing: it is decided anew from what the comment declares now",
}
"""By gate: the setting that opens it, for the next decision."""

BY_HAND = "restart it by hand, if that is wanted: scontrol requeue {job}"
LET_GO = "Let it go by hand, if that is wanted: scontrol release {job}"
TO_DO_AFTER_REFRAINING = {
    "waiting_for_witness": "nothing yet; it is decided again as soon as more is known",
    "waiting_for_end": "nothing yet; it is decided again as soon as more is known",
    "waiting_for_partitions": "nothing yet; it is decided again as soon as more is known",
    "waiting_for_scheduler": "nothing yet; it is decided again as soon as more is known",
    "end_unknown": "nothing yet; accounting is asked again",
    "silence_alone": "look whether it hangs; silence alone ends nothing. " + BY_HAND,
    "slow_without_node": "look at its input, its network and its program; moving it is no help",
    "slow_alone": "look at the node that is named; " + BY_HAND,
    "numbers_alone": "its owner chooses a checkpoint from before, then starts it again",
    "not_requeueable": "submit it again, with `#SBATCH --requeue` if it may be restarted",
    "application_failure": "its owner mends the program, then submits it again",
    "budget_spent": "find the cause first; then " + BY_HAND,
    "not_restartable_state": BY_HAND,
    "held_after_broken_start": "look why it could not start (sinfo -R; slurmd's log). " + LET_GO,
    "parents_not_done": "nothing; it is let go when they are done",
    "parent_unknown": "nothing yet; it is asked again. " + LET_GO,
    "parent_failed": "run its parent again, or cancel it. " + LET_GO,
    "wrong_parent": "its owner mends what it declares, or submits it again. " + LET_GO,
    "bad_declaration": "its owner mends its comment (mw check-comment --job {job}). " + LET_GO,
    "held_again": "look who holds it. " + LET_GO,
    "held_otherwise": "look why Slurm holds it: scontrol show job {job}",
}
TO_DO_AFTER_REPORT = {
    "ADVICE_EXPIRED": BY_HAND,
    "TARGET_GONE": "submit it again: Slurm has forgotten it",
    "TARGET_RUNNING": "nothing; running work is not ended for a constraint",
    "REVIVED_IN_ERROR": "look at it now: it was over when it was requeued (mw audit {job})",
    "OPERATOR_HOLD": "an operator holds it: scontrol release {job}",
    "UNKNOWN_STATE": "see that Slurm answers (mw doctor); nothing is done unseen",
    "IN_PROGRESS": "nothing; it is being worked on",
}


def in_short(body: Record) -> Iterable[str]:
    """Lines for the top of an explanation."""
    lines = [("happened", _happened(body)), ("decided", _decided(body))]
    lines += [("came of it", _came_of_it(body)), ("to do", _to_do(body))]
    yield ""
    yield "IN SHORT"
    for name, text in lines:
        if text:
            yield f"  {name:<11} {text}"


def _job_id(body: Record) -> str:
    return str((body.get("job") or {}).get("jobId") or "")


def _happened(body: Record) -> str:
    job = body.get("job") or {}
    extra = job.get("additionalProperties") or {}
    issues: Sequence[Record] = body.get("issues") or []
    if not issues:
        if (extra.get("optInMode") or "off") == "off":
            return "not known: the job has not opted in here, so its output is not read"
        ended = extra.get("endedBy")
        return f"ended by {ended}; nothing else was seen" if ended else "no trouble was seen"
    issue = issues[-1]
    verdicts = [v for v in body.get("verdicts") or [] if v.get("issueId") == issue.get("id")]
    believed = ""
    if verdicts:
        where = ",".join(verdicts[-1].get("nodes") or []) or "no node named"
        believed = f" ({verdicts[-1].get('domain')}, {where})"
    fault = _milestone(body, "fault")
    step = f" in step {fault['step']}" if fault and fault.get("step") is not None else ""
    ended = f"; attempt ended by {extra['endedBy']}" if extra.get("endedBy") else "; it still runs"
    if issue.get("state") == "recovered":
        ended = f"; it recovered by itself{ended if extra.get('endedBy') else ''}"
    more = f"; {len(issues) - 1} more issues before it" if len(issues) > 1 else ""
    return f"{issue.get('failureClass')}{believed}{step}{ended}{more}"


def _decided(body: Record) -> str:
    advice = body.get("advice")
    decisions: Sequence[Record] = body.get("decisions") or []
    if advice:
        without = ",".join(advice.get("exclusions") or [])
        wish = str(advice.get("desired")) + (f" without {without}" if without else "")
        return f"would have: {wish}" if _closed(body) else wish
    if decisions:
        outcome = show.json_object(decisions[-1].get("outcome"))
        said = outcome.get("explanation") or decisions[-1].get("result")
        return f"nothing is advised: {said}"
    return ""


def _came_of_it(body: Record) -> str:
    status = (body.get("advice") or {}).get("status") or {}
    if not status:
        return "not reported yet" if body.get("advice") else ""
    told = str(status.get("disposition"))
    if told != "CONVERGED":
        detail = f": {status['detail']}" if status.get("detail") else ""
        told += f" {status.get('reason')}{detail}"
    if told.startswith("PENDING"):
        # The report stands for as long as its reason does; what was done since says more.
        told += _last_action(body)
    successor = _successor(body) if not told.startswith("ABANDONED") else ""
    fault, resumed = _milestone(body, "fault"), _milestone(body, "resumed")
    recovered = _recovery(body)
    if recovered and not resumed:
        successor += f"; {recovered}"
    if fault and resumed:
        began, there = show.moment(fault.get("at")), show.moment(resumed.get("at"))
        took = f", {(there - began).total_seconds():.1f} s after it" if began and there else ""
        successor += f"; past the fault with step {resumed.get('step')}{took}"
    return told + successor


def _recovery(body: Record) -> str:
    """What became of the recovery that the attempt's fault began, where it is not simply going on."""
    this = (body.get("job") or {}).get("heimdallJobId")
    own = [r for r in body.get("recoveries") or [] if r.get("attemptId") == this]
    if not own or own[-1].get("state") not in {"restarted_not_recovered", "unverified"}:
        return ""
    word = str(own[-1]["state"]).replace("restarted_not_recovered", "restarted, not recovered")
    return f"{word} ({own[-1].get('why')})"


def _last_action(body: Record) -> str:
    actions: Sequence[Record] = body.get("actions") or []
    if not actions:
        return ""
    last = actions[-1]
    what = " ".join(last.get("argv") or []) or str(last.get("kind"))
    return (
        f"; last command {show.clock_time(last.get('startedAt'))} {what} -> {last.get('answered')}"
    )


def _successor(body: Record) -> str:
    index = int((body.get("job") or {}).get("attemptIndex") or 0)
    after = [s for s in body.get("siblings") or [] if int(s.get("attemptIndex") or 0) == index + 1]
    if not after:
        return ""
    state = show.word(after[-1].get("state"), "JOB_STATUS_")
    reason = (after[-1].get("additionalProperties") or {}).get("reason")
    nodes = after[-1].get("nodes") or []
    where = f" on {show.folded(nodes)}" if nodes else f" ({reason})" if reason else ""
    return f"; attempt {index + 1} {state}{where}"


def _to_do(body: Record) -> str:
    job_id = _job_id(body)
    status = (body.get("advice") or {}).get("status") or {}
    if status.get("disposition") == "CONVERGED":
        nodes = ",".join((body.get("advice") or {}).get("exclusions") or [])
        return f"look at {nodes}: nothing here drains or repairs a node" if nodes else "nothing"
    if status.get("reason") == "NOT_PERMITTED":
        opens = [
            OPENED_BY.get(str(gate.get("name")), str(gate.get("name"))) for gate in _closed(body)
        ]
        let = f"; to let it be done next time: {', '.join(opens)}" if opens else ""
        released = (body.get("advice") or {}).get("desired") == "RELEASED"
        return (LET_GO if released else BY_HAND).format(job=job_id) + let
    if status:
        return TO_DO_AFTER_REPORT.get(str(status.get("reason")), "nothing").format(job=job_id)
    decisions: Sequence[Record] = body.get("decisions") or []
    if body.get("advice") or not decisions:
        return ""
    result = str(decisions[-1].get("result"))
    return TO_DO_AFTER_REFRAINING.get(result, "nothing").format(job=job_id)


def _closed(body: Record) -> list[Record]:
    return [g for g in (body.get("advice") or {}).get("gates") or [] if not g.get("open")]


def _milestone(body: Record, kind: str) -> Record | None:
    found = [m for m in body.get("milestones") or [] if str(m.get("kind")).casefold() == kind]
    return found[-1] if found else None
