"""explain: from the first signal to the outcome, and whether the decision comes out the same again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from middlewatch.cli import asking, completing, show
from middlewatch.cli.failure import Exit
from middlewatch.cli.in_short import in_short
from middlewatch.cli.reading import advice_line, explanation, progress_line
from middlewatch.cli.recovered import lines_of
from middlewatch.cli.session import Session, with_session

Record = Mapping[str, Any]
SIGNALS_SHOWN = 12


@click.command()
@with_session()
@click.argument("job", shell_complete=completing.job_ids)
@click.option(
    "--replay", is_flag=True, help="Decide again from the frozen inputs; exit 6 if it differs."
)
@click.option("--inputs", is_flag=True, help="Show the frozen inputs of each decision as well.")
def explain(session: Session, *, job: str, replay: bool, inputs: bool) -> int:
    """Say why: what was seen, what is believed, what was decided on which ground, what came of it.

    JOB is a job id (its newest attempt), an attempt (4711-0), or an attempt's UUID.

    \b
    Examples:
      mw explain 4711
      mw explain 4711-0 --replay
    """
    gateway = asking.gateway(session)
    body = explanation(gateway, job)
    older = [] if _story(body) or _names_an_attempt(job) else _older(gateway, body)
    if older:
        # The newest attempt has no story of its own: the one that led to it has.
        body = older[-1]
    replays = [_replayed(d) for d in body.get("decisions") or []] if replay else []
    differs = any(not r["same"] for r in replays)
    if session.as_json:
        shown: dict[str, Any] = {"explanation": body}
        if replay:
            shown["replays"] = replays
        show.as_json(shown)
    else:
        for line in story(body, with_inputs=inputs):
            show.say(line)
        for line in _replay_lines(replays, asked=replay):
            show.say(line)
    return Exit.FINDINGS if differs else Exit.OK


def _story(body: Record) -> bool:
    return bool(body.get("issues") or body.get("decisions") or body.get("advice"))


def _names_an_attempt(reference: str) -> bool:
    return "-" in reference


def _older(gateway: asking.Gateway, body: Record) -> list[dict[str, Any]]:
    found = []
    for one in reversed(body.get("siblings") or []):
        told = explanation(gateway, str(one.get("heimdallJobId")))
        if _story(told):
            found.append(told)
            break
    return found


def story(body: Record, *, with_inputs: bool = False) -> Iterable[str]:
    """The whole explanation as lines."""
    job = body.get("job") or {}
    extra = job.get("additionalProperties") or {}
    nodes = ",".join(job.get("nodes") or []) or "no nodes yet"
    state = show.word(job.get("state"), "JOB_STATUS_") or "UNSPECIFIED"
    yield (
        f"attempt {job.get('jobId')}-{job.get('attemptIndex') or 0} "
        f"({job.get('jobName') or 'no name'}, {extra.get('user') or 'unknown user'}) "
        f"{state} on {nodes}"
    )
    if job.get("heimdallJobId"):
        yield f"  id          {job['heimdallJobId']}"
    yield f"  opt-in      {extra.get('optInMode') or 'off'}"
    for problem in extra.get("optInProblems") or []:
        yield f"              {problem}"
    if extra.get("optInSuggestion"):
        yield f"              right would be: {extra['optInSuggestion']}"
    if extra.get("dependsOn"):
        yield f"  depends on  {', '.join(extra['dependsOn'])}"
    if extra.get("endedBy"):
        yield f"  ended by    {extra['endedBy']} {show.clock_time(job.get('endTime'))}"
    if body.get("progress"):
        yield f"  progress    {progress_line(body['progress'])}"
    yield from in_short(body)
    yield from _signals(body)
    yield from _issues(body)
    for decision in body.get("decisions") or []:
        yield from _decision(decision, with_inputs=with_inputs)
    yield from _advice(body)
    yield from _actions(body)
    yield from _milestones(body)
    for recovery in body.get("recoveries") or []:
        yield from lines_of(recovery)
    if not _story(body):
        yield ""
        yield "Nothing was decided: no issue has come of what was seen."


def _signals(body: Record) -> Iterable[str]:
    signals: Sequence[Record] = body.get("signals") or []
    yield ""
    yield f"SEEN ({len(signals)} signals)"
    for signal in signals[:SIGNALS_SHOWN]:
        source = signal.get("source") or {}
        where = source.get("path") or source.get("identity") or ""
        named = [*(signal.get("nodes") or []), *(f"rank {r}" for r in signal.get("ranks") or [])]
        yield (
            f"  {show.clock_time(signal.get('happenedAt'))} {signal.get('kind')} "
            f"{signal.get('patternId') or signal.get('failureClass') or ''}"
            + (f" names {', '.join(named)}" if named else "")
        )
        text = signal.get("excerpt") or signal.get("detail")
        if text:
            yield f"      {str(text)[:200]}"
        if where:
            yield f"      from {source.get('kind')} {where} at {source.get('position') or '?'}"
    if len(signals) > SIGNALS_SHOWN:
        yield f"  and {len(signals) - SIGNALS_SHOWN} more (--json has all)"
    for capped in body.get("capped") or []:
        yield f"  {capped.get('patternId')}: {capped.get('count')} more, only counted"


def _issues(body: Record) -> Iterable[str]:
    verdicts: dict[str, list[Record]] = {}
    for verdict in body.get("verdicts") or []:
        verdicts.setdefault(str(verdict.get("issueId")), []).append(verdict)
    for issue in body.get("issues") or []:
        yield ""
        yield (
            f"BELIEVED  issue {str(issue.get('id'))[:12]}: {issue.get('failureClass')}, "
            f"{issue.get('state')}"
        )
        if issue.get("summary"):
            yield f"  {issue['summary']}"
        yield f"  first cause {str(issue.get('firstCause'))[:12]}, cascade of {len(issue.get('cascade') or [])}"
        for verdict in verdicts.get(str(issue.get("id")), [])[-1:]:
            where = ",".join(verdict.get("nodes") or []) or "no node"
            yield (
                f"  verdict     {verdict.get('domain')} ({verdict.get('confidence')} confidence, "
                f"basis {verdict.get('basis')}), {where}"
            )
            if verdict.get("explanation"):
                yield f"              {verdict['explanation']}"


def _decision(decision: Record, *, with_inputs: bool) -> Iterable[str]:
    outcome = show.json_object(decision.get("outcome"))
    inputs = show.json_object(decision.get("inputs"))
    yield ""
    yield (
        f"DECIDED  {show.clock_time(decision.get('at'))} {decision.get('result')} "
        f"(policy {decision.get('policyVersion')})"
    )
    intent = outcome.get("intent") or {}
    basis = intent.get("basis") or outcome.get("basis")
    if basis:
        yield f"  basis       {basis}"
    for text in (intent.get("explanation"), outcome.get("explanation")):
        if text:
            yield f"              {text}"
    if intent.get("desired"):
        without = ",".join(intent.get("exclusions") or [])
        yield f"  wants       {intent['desired']}" + (f" without {without}" if without else "")
    for parent in outcome.get("parents") or []:
        yield f"  parent      {parent.get('dependency')} {parent.get('standing')}: {parent.get('why')}"
    for dropped in (outcome.get("exclusions") or {}).get("dropped") or []:
        yield f"              {dropped.get('node')} is not excluded: {dropped.get('why')}"
    for budget in outcome.get("budgets") or []:
        verdict = "within" if budget.get("allowed") else "SPENT"
        if budget.get("applies") is False:
            verdict = "does not apply"
        yield (
            f"  budget      {budget.get('name')}: {budget.get('used')} of {budget.get('limit')} "
            f"used, {verdict}" + (f" ({budget['note']})" if budget.get("note") else "")
        )
    gates = (intent.get("gates") or inputs.get("gates") or {}).get("gates") or []
    for gate in gates:
        yield f"  gate        {'open  ' if gate.get('open') else 'CLOSED'} {gate.get('detail') or gate.get('name')}"
    if intent and any(not gate.get("open") for gate in gates):
        yield "              so this is what WOULD HAVE been done"
    if with_inputs and inputs:
        yield "  inputs"
        for line in json.dumps(inputs, indent=2, ensure_ascii=False).splitlines():
            yield f"    {line}"


def _advice(body: Record) -> Iterable[str]:
    record = body.get("advice")
    if not record:
        return
    yield ""
    yield f"ADVICE  {advice_line(record)}"
    for status in body.get("statuses") or []:
        yield (
            f"  {show.clock_time(status.get('observedAt'))} generation "
            f"{status.get('observedGeneration')}: {status.get('disposition')} "
            f"{status.get('reason')}" + (f", {status['detail']}" if status.get("detail") else "")
        )


def _actions(body: Record) -> Iterable[str]:
    actions = body.get("actions") or []
    if not actions:
        return
    yield ""
    yield "DONE"
    for action in actions:
        command = " ".join(action.get("argv") or []) or str(action.get("kind"))
        code = action.get("exitCode")
        yield (
            f"  {show.clock_time(action.get('startedAt'))} {command} -> {action.get('answered')}"
            + (f" (exit {code})" if code is not None else "")
        )
        if action.get("why"):
            yield f"      {action['why']}"
        if action.get("text"):
            yield f"      {str(action['text'])[:200]}"


def _milestones(body: Record) -> Iterable[str]:
    milestones = [m for m in body.get("milestones") or [] if m.get("kind")]
    if not milestones:
        return
    milestones.sort(key=lambda m: show.moment(m.get("at")) or show.LONG_AGO)
    first = show.moment(milestones[0].get("at"))
    yield ""
    yield "CONFIRMED"
    for milestone in milestones:
        at = show.moment(milestone.get("at"))
        after = f"+{(at - first).total_seconds():.1f} s" if at and first else ""
        step = milestone.get("step")
        yield (
            f"  {show.clock_time(milestone.get('at'))} {str(milestone.get('kind')).upper():<12} "
            f"{after:<10}"
            + (f" {milestone['source']:<10}" if milestone.get("source") else "")
            + _learnt(milestone)
            + (f" step {step}" if step is not None else "")
        ).rstrip()


def _learnt(milestone: Record) -> str:
    """How much later than it happened it was learnt, where that is worth a word."""
    at, learned = show.moment(milestone.get("at")), show.moment(milestone.get("learnedAt"))
    late = (learned - at).total_seconds() if at and learned else 0.0
    return f" learnt {late:.1f} s later" if late >= 0.1 else ""


def _replayed(decision: Record) -> dict[str, Any]:
    from middlewatch.wiring.replay import replay

    found = replay(decision)
    return {
        "decision": decision.get("id"),
        "same": found.same,
        "why": found.why,
        "outcome": show.json_object(found.outcome),
    }


def _replay_lines(replays: Sequence[Record], *, asked: bool) -> Iterable[str]:
    if not asked:
        return
    yield ""
    if not replays:
        yield "REPLAYED  no decision is stored for this attempt"
    for one in replays:
        yield (
            f"REPLAYED  decision {str(one.get('decision'))[:12]}: "
            + ("the same" if one["same"] else f"DIFFERS: {one['why']}")
        )
