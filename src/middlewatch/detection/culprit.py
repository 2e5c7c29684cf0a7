"""What makes a slow job slow: its input, its network, one rank, or everything alike.

A step that takes longer looks the same from outside whatever the reason. Some programs time the
parts of a step, and some every rank: where a part has grown by about as much as the step it is the
reason, where one rank stands out it is the place, and where all ranks grew alike no node is at
fault and another place would not help.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from middlewatch.detection.batch import Hit
from middlewatch.detection.series import TIMED, TIMERS, WINNERS, Parts, Timer, Winner
from middlewatch.model.copies import replace
from middlewatch.model.signal import Domain

STEP = "step"
"""The timer that holds the time of the whole step."""
DATA = "data"
SHARE = 0.5
"""A part that grew by at least this share of the step's growth is the reason for it."""
STANDS_OUT = 1.02
NETWORK_S = 900.0
"""How long a line about the network still explains a slowdown."""
_DATA_WORDS = ("batch-generator", "data", "batch_generator", "input")
_NETWORK_WORDS = (
    "all-reduce", "all_reduce", "allreduce", "all-gather", "all_gather", "reduce-scatter",
    "reduce_scatter", "grads-sync", "recv", "send", "comm", "nccl", "barrier", "all-to-all",
)  # fmt: skip
_ALONE = ("forward-compute", "backward-compute", "forward_compute", "backward_compute")
"""Timers of work that no rank waits for another in."""
_RANKS_KEPT = 8192
_LONGEST_MS = 1e9
"""A timer that tells of more is not believed."""


@dataclass(frozen=True, slots=True)
class Culprit:
    """``failure_class`` and its domain, the ranks that stand out, and a clause that says why."""

    failure_class: str
    domain: Domain
    ranks: tuple[int, ...]
    because: str


def with_network_line(parts: Parts, at_s: float) -> Parts:
    """A line about the network was seen: a failure, a retry, a link that went down."""
    return replace(parts, network_s=at_s)


def with_step_parts(parts: Parts, data_ms: float | None, cost_ms: float | None) -> Parts:
    """A step line tells its own time, and sometimes how much of it went into waiting for data."""
    if data_ms is not None:
        parts = _timed(parts, DATA, data_ms, data_ms)
    if cost_ms is not None:
        parts = _timed(parts, STEP, cost_ms, cost_ms)
    return parts


def with_timer_line(parts: Parts, hit: Hit, step: int | None, cost_ms: float | None) -> Parts:
    """A line of a table of timers: one part's fastest and slowest rank, or one rank's time."""
    name = (hit.group("timer") or "").strip(" .:").lower()[:48]
    high, low, rank = hit.real("max_ms"), hit.real("min_ms"), hit.number("rank")
    if not all(value is None or 0 <= value <= _LONGEST_MS for value in (high, low)):
        return parts
    if rank is not None and high is not None:
        return _ranked(parts, name, rank, high, step or 0)
    if name and high is None:
        return replace(_closed(parts), table=name, last_rank=-1)
    if not name or high is None:
        return parts
    if cost_ms is not None and not any(one.name == STEP for one in parts.timers):
        parts = _timed(parts, STEP, cost_ms, cost_ms)
    return _timed(parts, name, high, high if low is None else low)


def _timed(parts: Parts, name: str, high: float, low: float) -> Parts:
    if not 0 <= high <= _LONGEST_MS:
        return parts
    known = next((one for one in parts.timers if one.name == name), None)
    if known is None:
        if len(parts.timers) >= TIMERS:
            return parts
        known = Timer(name)
    timer = replace(
        known,
        highest=(*known.highest, round(high, 3))[-TIMED:],
        lowest=(*known.lowest, round(low, 3))[-TIMED:],
    )
    return replace(parts, timers=(*(t for t in parts.timers if t.name != name), timer))


def _ranked(parts: Parts, name: str, rank: int, ms: float, step: int) -> Parts:
    if rank > _RANKS_KEPT:
        return parts
    if rank <= parts.last_rank or (name and name != parts.table):
        parts = replace(_closed(parts), table=name or parts.table)
    top = ms > parts.top or parts.count == 0
    return replace(
        parts,
        table_step=step,
        count=parts.count + 1,
        total=parts.total + ms,
        top=ms if top else parts.top,
        top_rank=rank if top else parts.top_rank,
        last_rank=rank,
    )


def _closed(parts: Parts) -> Parts:
    """The table of ranks is complete: who was the slowest, and how far from the others."""
    winners = parts.winners
    if parts.count >= 2 and not _of(parts.table, _NETWORK_WORDS):
        others = (parts.total - parts.top) / (parts.count - 1)
        if others > 0:
            winner = Winner(parts.top_rank, round(parts.top / others, 4), parts.table_step)
            winners = (*winners, winner)[-WINNERS:]
    return replace(parts, count=0, total=0.0, top=0.0, top_rank=-1, last_rank=-1, winners=winners)


def _of(name: str, words: tuple[str, ...]) -> bool:
    return any(word in name for word in words)


def culprit(
    parts: Parts,
    excess: float,
    since: int,
    lines: int,
    now_s: float,
    *,
    maybe_planned: bool = False,
) -> Culprit:
    """Who is to blame for a slowdown by ``excess`` that began at step ``since``, ``lines`` lines
    ago. What nothing explains is put down to a node that nobody has named, or to the job itself
    where the steps may have become larger by plan, for all that is printed (``maybe_planned``)."""
    parts = _closed(parts)
    step = _growth(parts, lambda timer: timer.name == STEP, lines)
    data = _growth(parts, lambda timer: _of(timer.name, _DATA_WORDS), lines)
    if step and data and data[1] - data[0] >= SHARE * (step[1] - step[0]) > 0:
        because = f"waiting for data grew from {data[0]:.1f} to {data[1]:.1f} ms"
        return Culprit("slow_input", Domain.STORAGE, (), because)
    network = _growth(parts, lambda timer: _of(timer.name, _NETWORK_WORDS), lines)
    outlier = _outlier(parts, excess, since)
    if outlier is not None:
        because = f"rank {outlier.rank} takes {outlier.times:.2f} times as long as the others"
        return Culprit("slow_node", Domain.HARDWARE, (outlier.rank,), because)
    if step and network and network[1] - network[0] >= SHARE * (step[1] - step[0]) > 0:
        because = f"communication grew from {network[0]:.1f} to {network[1]:.1f} ms"
        return Culprit("slow_fabric", Domain.NETWORK, (), because)
    if parts.network_s is not None and now_s - parts.network_s <= NETWORK_S:
        because = "the log tells of trouble with the network"
        return Culprit("slow_fabric", Domain.NETWORK, (), because)
    if _all_alike(parts, excess, since, lines):
        because = "all ranks became slower alike, so no node is at fault"
        return Culprit("slow_job", Domain.UNKNOWN, (), because)
    if maybe_planned:
        because = (
            "the work of a step is not printed, and longer sequences or another stage of the data "
            "would look the same: no node is seen to be at fault"
        )
        return Culprit("slow_job", Domain.UNKNOWN, (), because)
    unchanged = f", waiting for data did not ({data[1]:.1f} ms)" if data else ""
    return Culprit("slow_node", Domain.HARDWARE, (), f"no part of the step explains it{unchanged}")


def _growth(
    parts: Parts, wanted: Callable[[Timer], bool], lines: int
) -> tuple[float, float] | None:
    """Before and after, milliseconds: the sum over the timers that are wanted."""
    before = after = 0.0
    found = False
    for timer in parts.timers:
        if not wanted(timer):
            continue
        pair = _split(timer.highest, lines)
        if pair is not None:
            found = True
            before, after = before + pair[0], after + pair[1]
    return (before, after) if found else None


def _split(values: tuple[float, ...], lines: int) -> tuple[float, float] | None:
    # Timers are printed behind the step line: those of the newest line are still to come.
    recent = max(1, min(lines - 1, len(values) - 3))
    if len(values) - recent < 3:
        return None
    return median(values[:-recent]), median(values[-recent:])


def _outlier(parts: Parts, excess: float, since: int) -> Winner | None:
    """The rank that is the slowest in most intervals since then and was not so far off before."""
    now = [w for w in parts.winners if w.step >= since]
    if not now:
        return None
    rank = max({w.rank for w in now}, key=lambda r: sum(w.rank == r for w in now))
    own = [w for w in now if w.rank == rank]
    usual = median([w.times for w in parts.winners if w.step < since] or [1.0])
    times = median(w.times for w in own)
    if 3 * len(own) < 2 * len(now) or times < max(STANDS_OUT, usual + excess / 3):
        return None
    return replace(own[-1], times=times)


def _all_alike(parts: Parts, excess: float, since: int, lines: int) -> bool:
    now = [w.times for w in parts.winners if w.step >= since]
    if now and median(now) < 1.0 + min(0.02, excess / 3):
        return True
    for timer in parts.timers:
        if not _of(timer.name, _ALONE):
            continue
        high, low = _split(timer.highest, lines), _split(timer.lowest, lines)
        if high and low and high[1] - high[0] > 0 and low[0] > 0:
            grew = low[1] - low[0]
            if grew >= 0.7 * (high[1] - high[0]) and grew / low[0] >= excess / 2:
                return True
    return False
