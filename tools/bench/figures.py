"""From raw values to ``build/bench.json``: one flat object, each figure beside its count.

Pure: how values become figures can be tested, and repeated from the raw values by anybody.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

Number = int | float


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest of the values that at least ``share`` of them do not exceed; no interpolation.

    Raises `ValueError` where there are none.
    """
    if not values:
        raise ValueError("no value was measured")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two in the middle."""
    if not values:
        raise ValueError("no value was measured")
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


@dataclass(slots=True)
class Measured:
    """What one group measured. ``raw`` holds one object per value, in the order of measuring."""

    group: str
    figures: dict[str, float] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    raw: list[dict[str, object]] = field(default_factory=list)

    def value(self, name: str, value: float, **about: object) -> None:
        """Keep one raw value of the quantity ``name``."""
        self.raw.append({"group": self.group, "name": name, "value": value, **about})

    def values(self, name: str) -> list[float]:
        """The raw values of that quantity."""
        return [float(str(r["value"])) for r in self.raw if r["name"] == name]

    def figure(self, name: str, value: float, count: int) -> None:
        """Set a figure and how many measurements it rests on."""
        self.figures[name] = value
        self.counts[name] = count

    def summarise(self, name: str, **shares: float) -> None:
        """Figures ``<name>_<word>`` from the raw values: ``p50=0.5, max=1.0``."""
        values = self.values(name)
        for word, share in shares.items():
            value = median(values) if share == 0.5 else percentile(values, share)
            self.figure(f"{name}_{word}", value, len(values))


def rounded(value: float) -> Number:
    """Four significant digits: more would be noise."""
    if value == 0 or not math.isfinite(value):
        return value
    found = round(value, max(0, 3 - math.floor(math.log10(abs(value)))))
    return int(found) if found == int(found) else found


def flat(parts: Iterable[Measured]) -> dict[str, Number]:
    """The object of ``bench.json``: every figure, and its count under the same name with ``_n``."""
    made: dict[str, Number] = {}
    for part in parts:
        for name, value in part.figures.items():
            made[name] = rounded(value)
            made[f"{name}_n"] = part.counts[name]
    return made


def merged(before: Mapping[str, Number], now: Mapping[str, Number]) -> dict[str, Number]:
    """``now`` over ``before``: a run of one group leaves the figures of the others as they were."""
    return dict(sorted({**before, **now}.items()))


def kept_lines(lines: Iterable[str], replaced: frozenset[str]) -> list[str]:
    """The raw lines of groups that were not measured again. What is no such line is dropped."""
    kept = []
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and record.get("group") not in {None, *replaced}:
            kept.append(line.rstrip("\n"))
    return kept


AIMS: Mapping[str, float] = {
    "crash_to_signal_s_p50": 1.0,
    "crash_to_signal_s_p99": 3.0,
    "signal_to_action_s_p50": 2.0,
    "crash_to_running_s_p50": 10.0,
    "idle_rss_mb": 150.0,
    "start_to_ready_s": 2.0,
    "cli_start_s": 0.3,
    "active_advice_growth": 1.5,
    "live_lag_s_p99": 2.0,
    "state_per_job_kb": 20.0,
    "victorialogs_crash_to_signal_s_p50": 2.0,
    "victorialogs_crash_to_signal_s_p99": 5.0,
    "detect_lines_differ": 0.0,
    "advice_to_action_s_p50": 1.0,
    "advice_to_converged_s_p50": 5.0,
    "snapshot_5000_jobs_s": 1.0,
    "snapshot_5000_jobs_rss_mb": 200.0,
    "storm_unconverged": 0.0,
    "storm_vs_slurm_ratio": 1.5,
}
"""No more than this; figures that are not named are shown without an aim."""

AT_LEAST: Mapping[str, float] = {
    "detect_vs_ripgrep": 1.0,
    "detect_vs_ripgrep_quiet": 0.05,
    "backlog_mb_s": 50.0,
}
"""No less than this."""

FEWEST: Mapping[str, int] = {
    "crash_to_signal_s_p50": 500,
    "crash_to_running_s_p50": 20,
    "storm_500_last_converged_s": 500,
}
"""Figures that mean nothing from fewer measurements."""


def remarks(made: Mapping[str, Number]) -> list[str]:
    """What misses its aim or rests on too little, as sentences."""
    said = [
        f"{name} is {made[name]}, the aim is at most {aim:g}"
        for name, aim in AIMS.items()
        if name in made and made[name] > aim
    ]
    said += [
        f"{name} is {made[name]}, the aim is at least {aim:g}"
        for name, aim in AT_LEAST.items()
        if name in made and made[name] < aim
    ]
    said += [
        f"{name} rests on {made[f'{name}_n']} measurements, at least {least} are needed"
        for name, least in FEWEST.items()
        if name in made and made[f"{name}_n"] < least
    ]
    return said
