"""The numeric sets as a table for people."""

from __future__ import annotations

from collections.abc import Iterator

from middlewatch.wiring.numeric.sets import HELD_OUT, Report, quantiles
from middlewatch.wiring.scoring.figures import Share


def numeric_lines(report: Report) -> Iterator[str]:
    """Line by line; what is simulated is called so."""
    h = report.healthy
    first = report.size.first
    seeds = f"held-out seeds from {first:,}" if first >= HELD_OUT else f"tuning seeds from {first}"
    yield f"NUMERIC SETS (simulated step streams through the real fold; {seeds})"
    yield ""
    yield f"  healthy        {h.jobs} jobs, {h.hours:,.0f} simulated job-hours, {h.steps:,} steps"
    yield (
        f"  false alarms   slowness {h.slow_alarms} ({h.false_per_run:.2f} per run), "
        f"silence {h.silence_alarms} ({', '.join(f'{count} in {at}' for at, count in h.silences)})"
    )
    yield (
        f"  false kills    {h.ended} by the default policy: at most "
        f"{h.ended_at_most_per_1000_hours:.2f} per 1,000 hours (95 %, rule of three); "
        f"{h.ended_boldly} if silence and slowness acted"
    )
    yield ""
    yield f"  {'slowdown':<28}{'slower':>7}  {'found':<24}{'in time':<24}{'iterations':>18}{'seconds':>20}"
    for s in report.slowed:
        yield (
            f"  {s.kind:<28}{s.share:>7.0%}  {_share(s.found):<24}{_share(s.in_time):<24}"
            f"{_spread(s.iterations):>18}{_spread(s.seconds):>20}"
        )
    yield ""
    yield (
        f"  {'hang in':<20}{'found':<24}{'in 60 s or 3 steps':<24}{'alarm, seconds':>20}"
        f"{'counts, seconds':>22}   {'healthy ones with an alarm':<28}"
    )
    for one in report.stuck:
        yield (
            f"  {one.phase:<20}{_share(one.found):<24}{_share(one.in_time):<24}"
            f"{_spread(one.seconds):>20}{_spread(one.counts_s):>22}   {_share(one.false_alarms, 3):<28}"
        )
    yield (
        f"  (healthy phases: {report.size.short} short jobs, {report.short_hours:,.0f} simulated "
        "job-hours)"
    )
    yield "  (iterations and seconds: median / 90 % / greatest)"
    yield ""
    for name, met in report.targets:
        yield f"  {'met   ' if met else 'MISSED'}  {name}"


def _share(share: Share | None, places: int = 2) -> str:
    if share is None or share.value is None or share.bounds is None:
        return "-"
    low, high = share.bounds
    return f"{share.value:.{places}f} [{low:.{places}f}, {high:.{places}f}] of {share.of}"


def _spread(values: tuple[float, ...] | tuple[int, ...]) -> str:
    spread = quantiles(values)
    if spread is None:
        return "-"
    return f"{spread['p50']:.0f} / {spread['p90']:.0f} / {spread['max']:.0f}"
