"""One analysis against one label, by the rules of corpus/README.md.

Every question is answered with right, wrong, or not asked (the label does not say), so that the
figures can be added up and nothing is counted that nobody could know.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from middlewatch.wiring.scoring.labels import Label, Range

FIRST_AT_MOST = 3
"""Ranges of a first cause that are looked at: naming every line is no answer."""
SLACK = 1
ACTING = frozenset({"yes", "only-with-node-excluded"})
STOPPED = frozenset({"healthy", "completed", "preempted", "user_stop"})
_UNSURE = frozenset({"yes", "no", "unclear"})
_NOTHING = frozenset({"no", "not-applicable"})
_EPOCHS = re.compile(rb"'epoch': '?(\d+\.\d+)'?\}")
_COUNTED = re.compile(rb"\d+/\d+ \[|[Ss]tep[ =:]+\d|iteration +\d")


@dataclass(frozen=True, slots=True)
class Judged:
    """What came of one case. ``None`` among the answers is "not asked".

    ``missed`` says that an alarm that had to come did not; ``needs`` that one had to come.
    Delays run from the label's onset: ``delay_s`` seconds, ``delay_lines`` lines, to the first
    alarm of the case's kind; ``act_delay_s`` to the first that would act.
    """

    id: str
    seen: bool
    kind: str
    failure_class: str
    reported: int
    right: int
    labelled: int
    found: int
    answers: tuple[tuple[str, bool | None], ...]
    needs: bool
    missed: bool
    false_alarms: int
    acting_false_alarms: int
    delay_s: float | None
    delay_lines: int | None
    act_delay_s: float | None
    told: tuple[tuple[str, str], ...]
    """For people: what was said and what would have been right, where they differ."""
    interval_s: float | None = None
    """The usual time between two progress lines of this job before the onset."""

    def answer(self, name: str) -> bool | None:
        return dict(self.answers)[name]


ANSWERS = (
    "class",
    "kind",
    "first_line",
    "first_rank",
    "first_local_rank",
    "first_node",
    "last_step",
    "last_checkpoint",
    "restart",
    "nodes",
)


def judge(
    label: Label,
    said: Mapping[str, Any],
    *,
    data: bytes = b"",
    times: Sequence[float] = (),
    interval_s: float | None = None,
) -> Judged:
    """Judge ``said`` (an analysis as `analyze --json` prints it). ``data`` is the log, which tells
    whether steps are printed at all; ``times`` the seconds of its lines."""
    first = said.get("first_cause") or {}
    named = _pairs(first.get("lines"))
    reported = (*named, *_pairs(said.get("cascade_lines")))
    wanted = () if label.good else (*label.first, *label.cascade)
    right = [r for r in reported if _half(r, wanted, SLACK)]
    found = [w for w in wanted if any(_touches(r, w) for r in right)]
    answers: dict[str, bool | None] = {
        "class": str(said.get("class")) in label.classes,
        "kind": said.get("kind") == label.kind,
        "first_line": None
        if not label.first
        else any(_half(r, label.first, 0) for r in named[:FIRST_AT_MOST]),
        "first_rank": None if label.rank is None else first.get("rank") == label.rank,
        "first_local_rank": None
        if label.local_rank is None
        else first.get("local_rank") == label.local_rank,
        "first_node": None if label.node is None else first.get("node") == label.node,
        "last_step": _step(label.last_step, said.get("last_progress_step"), data),
        "last_checkpoint": label.checkpoint_step == said.get("last_checkpoint_step"),
        "restart": _advice(label, str((said.get("restart") or {}).get("advisable"))),
        "nodes": None
        if label.good
        else sorted(said.get("implicated_nodes") or ()) == sorted(label.nodes),
    }
    alarms = [a for a in said.get("alarms") or () if isinstance(a, Mapping)]
    needs, missed = _alarm(label, alarms)
    delay_s, delay_lines = _delay(label, [a for a in alarms if a.get("kind") == label.kind], times)
    act_delay_s, _ = _delay(label, [a for a in alarms if a.get("would_act")], times)
    return Judged(
        id=label.id,
        seen=label.seen,
        kind=label.kind,
        failure_class=label.classes[0],
        reported=len(reported),
        right=len(right),
        labelled=len(wanted),
        found=len(found),
        answers=tuple(answers.items()),
        needs=needs,
        missed=missed,
        false_alarms=len(alarms) if label.good else 0,
        acting_false_alarms=sum(bool(a.get("would_act")) for a in alarms)
        if label.kind in STOPPED
        else 0,
        delay_s=delay_s,
        delay_lines=delay_lines,
        act_delay_s=act_delay_s,
        told=tuple(
            _differences(
                label, said, answers, reported=reported, right=right, wanted=wanted, found=found
            )
        ),
        interval_s=interval_s,
    )


def _pairs(value: object) -> tuple[Range, ...]:
    items = value if isinstance(value, list | tuple) else ()
    return tuple(
        (int(item[0]), int(item[1]))
        for item in items
        if isinstance(item, list | tuple) and len(item) == 2
    )


def _half(one: Range, others: Iterable[Range], slack: int) -> bool:
    """Whether at least half of a range's lines lie in the others."""
    low, high = one
    if high < low:
        return False
    inside = _covered(low, high, [(a - slack, b + slack) for a, b in others])
    return 2 * inside >= high - low + 1


def _covered(low: int, high: int, others: Sequence[Range]) -> int:
    total, at = 0, low
    for first, last in sorted(others):
        start, end = max(at, first), min(high, last)
        if start <= end:
            total += end - start + 1
            at = end + 1
    return total


def _touches(one: Range, other: Range) -> bool:
    return one[0] <= other[1] and other[0] <= one[1]


def _step(label: int | None, said: object, data: bytes) -> bool:
    if label == said:
        return True
    if label is None or not isinstance(said, int):
        return False
    epochs = [float(m.group(1)) for m in _EPOCHS.finditer(data)]
    if len(epochs) < 3 or _COUNTED.search(data) is not None:
        return False
    # Only epochs are printed: the step follows from them to within one logging interval.
    gaps = sorted(b - a for a, b in pairwise(epochs) if b > a)
    if not gaps or not epochs[-1]:
        return False
    interval = gaps[len(gaps) // 2] / epochs[-1] * label
    return abs(label - said) <= interval + 1


def _advice(label: Label, said: str) -> bool:
    if label.good:
        return said in _NOTHING
    if label.advisable == "unclear":
        return said in _UNSURE
    return said == label.advisable


def _alarm(label: Label, alarms: Sequence[Mapping[str, Any]]) -> tuple[bool, bool]:
    """Whether an alarm had to come, and whether it did not."""
    if label.kind in {"hang", "slow"}:
        return True, not any(a.get("kind") == label.kind for a in alarms)
    ended = label.facts.ended is not None
    if label.kind == "crash" and label.advisable in ACTING and ended:
        return True, not any(a.get("would_act") for a in alarms)
    return False, False


def _delay(
    label: Label, alarms: Sequence[Mapping[str, Any]], times: Sequence[float]
) -> tuple[float | None, int | None]:
    if label.onset is None or label.good:
        return None, None
    after = [a for a in alarms if int(a.get("line") or 0) >= label.onset]
    if not after:
        return None, None
    first = min(after, key=lambda a: float(a.get("at_s") or 0.0))
    lines = int(first["line"]) - label.onset
    if label.onset > len(times):
        return None, lines
    return round(max(0.0, float(first["at_s"]) - times[label.onset - 1]), 3), lines


def _differences(
    label: Label,
    said: Mapping[str, Any],
    answers: Mapping[str, bool | None],
    *,
    reported: Sequence[Range],
    right: Sequence[Range],
    wanted: Sequence[Range],
    found: Sequence[Range],
) -> Iterable[tuple[str, str]]:
    first = said.get("first_cause") or {}
    pairs: dict[str, tuple[object, object]] = {
        "class": (said.get("class"), "|".join(label.classes)),
        "kind": (said.get("kind"), label.kind),
        "first_line": (first.get("lines"), [list(r) for r in label.first]),
        "first_rank": (first.get("rank"), label.rank),
        "first_local_rank": (first.get("local_rank"), label.local_rank),
        "first_node": (first.get("node"), label.node),
        "last_step": (said.get("last_progress_step"), label.last_step),
        "last_checkpoint": (said.get("last_checkpoint_step"), label.checkpoint_step),
        "restart": ((said.get("restart") or {}).get("advisable"), label.advisable),
        "nodes": (said.get("implicated_nodes"), list(label.nodes)),
    }
    for name, (was, should) in pairs.items():
        if answers[name] is False:
            yield name, f"said {was}, label {should}"
    wrong = [list(r) for r in reported if r not in right]
    if wrong:
        yield "lines", f"reported and not labelled: {wrong}"
    lost = [list(w) for w in wanted if w not in found]
    if lost:
        yield "lines", f"labelled and not reported: {lost}"
