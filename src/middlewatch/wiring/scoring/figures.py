"""Many judged cases become figures with their uncertainty.

A share of few cases says little: each comes with its 95 % interval after Wilson. The bounds of F1
are those that the bounds of precision and recall give together, which is on the safe side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import median
from typing import Any

from middlewatch.wiring.scoring.rules import ANSWERS, Judged

Z95 = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Share:
    """``right`` of ``of``."""

    right: int
    of: int

    @property
    def value(self) -> float | None:
        return self.right / self.of if self.of else None

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Wilson's 95 % interval."""
        return wilson(self.right, self.of)

    def as_json(self) -> dict[str, Any]:
        bounds = self.bounds
        return {
            "value": None if self.value is None else round(self.value, 4),
            "right": self.right,
            "of": self.of,
            "interval95": None if bounds is None else [round(b, 4) for b in bounds],
        }


def wilson(right: int, of: int) -> tuple[float, float] | None:
    """Wilson's score interval at 95 %; None for no observation."""
    if of <= 0:
        return None
    p = right / of
    z2 = Z95 * Z95
    middle = (p + z2 / (2 * of)) / (1 + z2 / of)
    half = Z95 * sqrt(p * (1 - p) / of + z2 / (4 * of * of)) / (1 + z2 / of)
    low = 0.0 if right == 0 else max(0.0, middle - half)
    high = 1.0 if right == of else min(1.0, middle + half)
    return low, high


def f1(precision: float | None, recall: float | None) -> float | None:
    """The harmonic mean; None where one of them is not defined."""
    if precision is None or recall is None:
        return None
    total = precision + recall
    return 2 * precision * recall / total if total else 0.0


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a set of cases."""

    cases: int
    precision: Share
    recall: Share
    answers: tuple[tuple[str, Share], ...]
    alarms: Share
    """Alarms that had to come and did."""
    good: int
    """Healthy and completed cases."""
    stopped: int
    """Cases on which acting would be a false alarm."""
    with_false_alarm: Share
    with_acting_false_alarm: Share
    delays: tuple[tuple[str, tuple[float, ...]], ...]

    def share(self, name: str) -> Share:
        return dict(self.answers)[name]

    @property
    def f1(self) -> float | None:
        return f1(self.precision.value, self.recall.value)

    def as_json(self) -> dict[str, Any]:
        p, r = self.precision.bounds, self.recall.bounds
        bounds = None if p is None or r is None else [f1(p[0], r[0]), f1(p[1], r[1])]
        return {
            "cases": self.cases,
            "failure_line_precision": self.precision.as_json(),
            "failure_line_recall": self.recall.as_json(),
            "failure_line_f1": {
                "value": None if self.f1 is None else round(self.f1, 4),
                "interval95": None if bounds is None else [round(b or 0.0, 4) for b in bounds],
            },
            **{f"{name}_accuracy": share.as_json() for name, share in self.answers},
            "alarm_recall": self.alarms.as_json(),
            "healthy_cases": self.good,
            "healthy_with_alarm": self.with_false_alarm.as_json(),
            "stopped_cases": self.stopped,
            "would_act_wrongly": self.with_acting_false_alarm.as_json(),
            **{name: _spread(values) for name, values in self.delays},
        }


def _spread(values: Sequence[float]) -> dict[str, Any]:
    if not values:
        return {"of": 0, "median": None, "max": None}
    return {"of": len(values), "median": round(median(values), 3), "max": round(max(values), 3)}


def figures_of(judged: Sequence[Judged]) -> Figures:
    """Add up."""
    good = [j for j in judged if j.kind in {"healthy", "completed"}]
    stopped = [j for j in judged if j.kind in {"healthy", "completed", "preempted", "user_stop"}]
    needed = [j for j in judged if j.needs]

    def delays(of: Callable[[Judged], float | None], kinds: frozenset[str]) -> tuple[float, ...]:
        return tuple(v for j in judged if j.kind in kinds and (v := of(j)) is not None)

    every = frozenset({"crash", "hang", "slow", "diverged"})
    return Figures(
        cases=len(judged),
        precision=Share(sum(j.right for j in judged), sum(j.reported for j in judged)),
        recall=Share(sum(j.found for j in judged), sum(j.labelled for j in judged)),
        answers=tuple((name, _share([j.answer(name) for j in judged])) for name in ANSWERS),
        alarms=Share(sum(not j.missed for j in needed), len(needed)),
        good=len(good),
        stopped=len(stopped),
        with_false_alarm=Share(sum(j.false_alarms > 0 for j in good), len(good)),
        with_acting_false_alarm=Share(
            sum(j.acting_false_alarms > 0 for j in stopped), len(stopped)
        ),
        delays=(
            ("delay_s", delays(lambda j: j.delay_s, every)),
            ("delay_lines", delays(lambda j: j.delay_lines, every)),
            ("hang_delay_s", delays(lambda j: j.delay_s, frozenset({"hang"}))),
            ("slow_delay_s", delays(lambda j: j.delay_s, frozenset({"slow"}))),
            ("crash_act_delay_s", delays(lambda j: j.act_delay_s, frozenset({"crash"}))),
        ),
    )


def _share(answers: Sequence[bool | None]) -> Share:
    asked = [a for a in answers if a is not None]
    return Share(sum(asked), len(asked))


@dataclass(frozen=True, slots=True)
class Target:
    """A figure that must be reached. ``least`` or ``most`` is the bound."""

    name: str
    text: str
    value: float | None
    least: float | None = None
    most: float | None = None

    @property
    def met(self) -> bool:
        """A figure that nothing was measured for misses nothing."""
        if self.value is None:
            return True
        if self.least is not None and self.value < self.least:
            return False
        return self.most is None or self.value <= self.most

    @property
    def bound(self) -> str:
        return f"≥ {self.least:g}" if self.least is not None else f"≤ {self.most:g}"

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "value": None if self.value is None else round(self.value, 4),
            "at_least": self.least,
            "at_most": self.most,
            "met": self.met,
        }


def targets_of(figures: Figures, judged: Sequence[Judged]) -> tuple[Target, ...]:
    """What the product promises of logs, and whether it was kept."""
    late = [
        j
        for j in judged
        if j.kind == "hang" and j.delay_s is not None and j.delay_s > hang_allowed_s(j)
    ]
    hangs = any(j.kind == "hang" for j in judged)
    return (
        Target("failure_line_f1", "failure lines, F1", figures.f1, least=0.95),
        Target("class_accuracy", "class", figures.share("class").value, least=0.92),
        Target("first_line_accuracy", "first cause, line", figures.share("first_line").value, 0.90),
        Target("first_rank_accuracy", "first cause, rank", figures.share("first_rank").value, 0.90),
        Target("first_node_accuracy", "first cause, node", figures.share("first_node").value, 0.90),
        Target("last_step_accuracy", "last step", figures.share("last_step").value, least=0.95),
        Target(
            "last_checkpoint_accuracy",
            "last checkpoint",
            figures.share("last_checkpoint").value,
            least=0.95,
        ),
        Target("restart_accuracy", "restart advice", figures.share("restart").value, least=0.90),
        Target(
            "would_act_wrongly",
            "would act wrongly",
            float(figures.with_acting_false_alarm.right),
            most=0.0,
        ),
        Target(
            "alarms_missed",
            "alarms missed",
            float(figures.alarms.of - figures.alarms.right),
            most=0.0,
        ),
        Target(
            "hang_alarms_late", "hang alarms late", float(len(late)) if hangs else None, most=0.0
        ),
    )


def hang_allowed_s(judged: Judged) -> float:
    """How long after its onset a hang may be noticed: a minute, or three times as long as this
    job usually takes from one progress line to the next. More often nobody can see it step."""
    return max(60.0, 3 * (judged.interval_s or 0.0))
