"""The story of one log for people: what happened, what began it, what to do, what stays open."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from middlewatch.attribution import CaseKind
from middlewatch.wiring.analysis.account import Account

EXCERPT = 160
MOST = 12

_HAPPENED = {
    CaseKind.CRASH: "it crashed",
    CaseKind.HANG: "it stood still",
    CaseKind.SLOW: "it became slow and stayed so",
    CaseKind.DIVERGED: "it runs on with numbers that are none",
    CaseKind.PREEMPTED: "the scheduler ended it for reasons of its own",
    CaseKind.USER_STOP: "a person stopped it",
    CaseKind.COMPLETED: "it completed",
    CaseKind.HEALTHY: "it runs, and nothing is wrong with it",
}
_ADVICE = {
    "yes": "restart it",
    "no": "do not restart it",
    "only-with-node-excluded": "restart it elsewhere, without the node",
    "unclear": "a person has to judge",
    "not-applicable": "nothing to do",
}


def story_of(account: Account, lines: Sequence[bytes] = ()) -> Iterator[str]:
    """The story, line by line."""
    lines = lines or account.lines
    if account.attempts > 1:
        yield (
            f"The file holds {account.attempts} attempts; this is about the last one, "
            f"from line {account.first_line}."
        )
    named = account.failure_class != "none"
    what = f": {account.failure_class}, domain {account.domain}" if named else ""
    yield f"What happened   {_HAPPENED[account.kind]}{what}"
    if named:
        yield from _cause(account, lines)
    yield f"Progress        {_progress(account)}"
    yield f"Advice          {_ADVICE[account.opinion.advisable.value]}. {account.opinion.why}"
    if account.nodes:
        yield f"Nodes           {', '.join(account.nodes)}"
    yield from _alarms(account)
    for number, text in enumerate(account.unseen):
        yield f"{'Unseen' if number == 0 else '':<16}{text}"


def _cause(account: Account, lines: Sequence[bytes]) -> Iterator[str]:
    where = account.culprit
    place = [
        "" if where.rank is None else f"rank {where.rank}",
        "" if where.local_rank is None else f"local rank {where.local_rank}",
        "" if where.node is None else f"node {where.node}",
    ]
    said = ", ".join(part for part in place if part) or "where is not shown"
    yield f"First cause     {said}"
    if not account.first_ranges:
        after = "" if account.onset_line is None else f" after line {account.onset_line}"
        yield f"                no line says it: silence{after}"
    for low, high in account.first_ranges:
        for number in dict.fromkeys((low, high)):
            yield f"  {number:>12}  {_text(lines, number)}"
    if account.cascade:
        shown = ", ".join(_range(r) for r in account.cascade[:MOST])
        more = len(account.cascade) - MOST
        yield f"Followed by     lines {shown}{f' and {more} more pieces' if more > 0 else ''}"


def _text(lines: Sequence[bytes], number: int) -> str:
    if number > len(lines):
        return ""
    text = lines[number - 1][: EXCERPT * 4].decode("utf-8", "replace").rsplit("\r", 1)[-1].strip()
    return text if len(text) <= EXCERPT else text[: EXCERPT - 1] + "…"


def _range(pair: tuple[int, int]) -> str:
    return str(pair[0]) if pair[0] == pair[1] else f"{pair[0]}-{pair[1]}"


def _progress(account: Account) -> str:
    if account.last_step is None:
        return "no step was seen"
    progress = account.drive.progress
    total = "" if progress.total_steps is None else f" of {progress.total_steps}"
    saved = account.checkpoint_step
    kept = "no complete checkpoint was seen" if saved is None else f"checkpoint of step {saved}"
    pace = "" if progress.step_time_s is None else f", {progress.step_time_s:.3g} s a step"
    return f"step {account.last_step}{total}{pace}; {kept}"


def _alarms(account: Account) -> Iterator[str]:
    for number, alarm in enumerate(account.drive.alarms):
        head = "Alarms" if number == 0 else ""
        act = "would restart it" if alarm.would_act else "an alarm only"
        yield (
            f"{head:<16}at {account.seconds(alarm.at):g} s, line {alarm.line}: "
            f"{alarm.kind.value} {alarm.failure_class}, {act}"
        )
