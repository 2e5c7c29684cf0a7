"""Scoring analyses of labelled logs: the figures that say whether detection can be believed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from middlewatch.wiring.analysis import Analyst, starts_of, times_from
from middlewatch.wiring.analysis.reading import read_log
from middlewatch.wiring.scoring.figures import Figures, Target, figures_of, targets_of
from middlewatch.wiring.scoring.labels import Label, labels_in
from middlewatch.wiring.scoring.rules import Judged, judge

__all__ = ["Card", "Judged", "Label", "judge", "labels_in", "score"]


@dataclass(frozen=True, slots=True)
class Card:
    """The figures of all cases given, and apart those that the authors could see and could not."""

    folders: tuple[str, ...]
    judged: tuple[Judged, ...]

    @property
    def seen(self) -> tuple[Judged, ...]:
        return tuple(j for j in self.judged if j.seen)

    @property
    def later(self) -> tuple[Judged, ...]:
        return tuple(j for j in self.judged if not j.seen)

    @property
    def figures(self) -> Figures:
        return figures_of(self.judged)

    @property
    def targets(self) -> tuple[Target, ...]:
        return targets_of(self.figures, self.judged)

    def by_class(self) -> dict[str, Figures]:
        """The figures of each labelled class."""
        names = sorted({j.failure_class for j in self.judged})
        return {n: figures_of([j for j in self.judged if j.failure_class == n]) for n in names}

    def as_json(self, *, cases: bool = False) -> dict[str, Any]:
        body: dict[str, Any] = {
            "folders": list(self.folders),
            "all": self.figures.as_json(),
            "seen_by_the_authors": figures_of(self.seen).as_json(),
            "added_later": figures_of(self.later).as_json(),
            "classes": {name: f.as_json() for name, f in self.by_class().items()},
            "targets": [target.as_json() for target in self.targets],
        }
        if cases:
            body["cases"] = [case_json(j) for j in self.judged]
        return body


def case_json(judged: Judged) -> dict[str, Any]:
    """One case, with what differs from its label."""
    return {
        "id": judged.id,
        "seen": judged.seen,
        "kind": judged.kind,
        "class": judged.failure_class,
        "ranges": {
            "reported": judged.reported,
            "right": judged.right,
            "labelled": judged.labelled,
            "found": judged.found,
        },
        "answers": dict(judged.answers),
        "alarm_missed": judged.missed,
        "false_alarms": judged.false_alarms,
        "would_act_wrongly": judged.acting_false_alarms,
        "delay_s": judged.delay_s,
        "delay_lines": judged.delay_lines,
        "act_delay_s": judged.act_delay_s,
        "differs": [f"{name}: {text}" for name, text in judged.told],
    }


def score(
    folders: Sequence[Path],
    analyst: Analyst | None = None,
    tell: Callable[[str], None] = lambda _line: None,
) -> Card:
    """Analyse and judge every case of the folders. Raises `BadInput`."""
    labels = [label for folder in folders for label in labels_in(folder)]
    ready = analyst or Analyst.ready()
    judged: list[Judged] = []
    for label in labels:
        tell(label.id)
        judged.append(score_one(label, ready))
    return Card(tuple(str(folder) for folder in folders), tuple(judged))


def score_one(label: Label, analyst: Analyst) -> Judged:
    """Analyse and judge one case. Raises `BadInput`."""
    data = read_log(label.log)
    lines = len(starts_of(data))
    times = None if label.times is None else times_from(label.times, lines)
    account = analyst.analyse(data, label.facts, times)
    return judge(
        label,
        account.as_json(),
        data=data,
        times=account.timeline.seconds,
        interval_s=account.drive.usual_interval_s,
    )
