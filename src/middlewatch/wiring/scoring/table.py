"""The score card for people: every figure with its interval, what it is measured on, its target."""

from __future__ import annotations

from collections.abc import Iterator

from middlewatch.wiring.scoring import Card
from middlewatch.wiring.scoring.figures import Figures, Share, figures_of
from middlewatch.wiring.scoring.rules import Judged

Row = tuple[str, ...]

_NAMES = {
    "class": "class",
    "kind": "kind",
    "first_line": "first cause: line",
    "first_rank": "first cause: rank",
    "first_local_rank": "first cause: local rank",
    "first_node": "first cause: node",
    "last_step": "last step",
    "last_checkpoint": "last checkpoint",
    "restart": "restart advice",
    "nodes": "implicated nodes",
}
HEADERS = ("FIGURE", "ALL", "95 %", "OF", "SEEN", "LATER")


def rows_of(card: Card) -> Iterator[Row]:
    """The main table: all cases with the interval, then those seen and those added later."""
    every, seen, later = card.figures, figures_of(card.seen), figures_of(card.later)
    yield _row("failure lines: precision", every.precision, seen.precision, later.precision)
    yield _row("failure lines: recall", every.recall, seen.recall, later.recall)
    yield ("failure lines: F1", _part(every.f1), "", "", _part(seen.f1), _part(later.f1))
    for name, text in _NAMES.items():
        yield _row(text, every.share(name), seen.share(name), later.share(name))
    yield _row("alarms that had to come", every.alarms, seen.alarms, later.alarms)
    yield _row("good logs with an alarm", every.with_false_alarm, seen.with_false_alarm,
               later.with_false_alarm)  # fmt: skip
    yield _row(
        "would act wrongly",
        every.with_acting_false_alarm,
        seen.with_acting_false_alarm,
        later.with_acting_false_alarm,
    )
    for (name, values), (_, of_seen), (_, of_later) in zip(
        every.delays, seen.delays, later.delays, strict=True
    ):
        yield (_delay_name(name), _middle(values), _longest(values), str(len(values)),
               _middle(of_seen), _middle(of_later))  # fmt: skip


def classes_of(card: Card) -> Iterator[Row]:
    """One row for each class: cases, class and first line right, restart advice, false alarms."""
    for name, figures in card.by_class().items():
        yield (
            name,
            str(figures.cases),
            _of(figures.share("class")),
            _interval(figures.share("class")),
            _part(figures.f1),
            _of(figures.share("first_line")),
            _of(figures.share("restart")),
            _of(figures.alarms),
        )


CLASS_HEADERS = ("CLASS", "CASES", "NAMED", "95 %", "F1", "LINE", "ADVICE", "ALARMS")


def lines_of(card: Card, *, cases: bool = False, promised: Card | None = None) -> Iterator[str]:
    """The whole card, line by line; held against what is promised for ``promised``, where that is
    another one."""
    yield (
        f"{totals(card.figures)}; {len(card.seen)} were seen by those who wrote the patterns, "
        f"{len(card.later)} were added later"
    )
    yield ""
    yield from _laid_out(HEADERS, list(rows_of(card)))
    yield ""
    yield from _laid_out(CLASS_HEADERS, list(classes_of(card)))
    if cases:
        yield ""
        for judged in card.judged:
            yield from case_lines(judged)
    yield ""
    for target in (promised or card).targets:
        value = "-" if target.value is None else f"{target.value:.3f}"
        yield f"{'met   ' if target.met else 'MISSED'}  {target.text}: {value} ({target.bound})"


def _laid_out(headers: Row, rows: list[Row]) -> Iterator[str]:
    widths = [max(len(row[index]) for row in [headers, *rows]) for index in range(len(headers))]
    for row in [headers, *rows]:
        first = row[0].ljust(widths[0])
        rest = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        yield " ".join((first, *rest)).rstrip()


def case_lines(judged: Judged) -> Iterator[str]:
    """One case: right or what differs."""
    delay = "" if judged.delay_s is None else f", noticed after {judged.delay_s:g} s"
    bad = judged.told or judged.missed or judged.false_alarms or judged.acting_false_alarms
    yield f"{judged.id}  {judged.kind} {judged.failure_class}{delay}{'' if bad else ': right'}"
    for name, text in judged.told:
        yield f"    {name}: {text}"
    if judged.missed:
        yield "    alarm: none that had to come"
    if judged.false_alarms:
        yield f"    alarm: {judged.false_alarms} on a good log"
    if judged.acting_false_alarms:
        yield f"    alarm: {judged.acting_false_alarms} would act and must not"


def _row(text: str, every: Share, seen: Share, later: Share) -> Row:
    return (text, _part(every.value), _interval(every), _of(every), _part(seen.value),
            _part(later.value))  # fmt: skip


def _part(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _interval(share: Share) -> str:
    bounds = share.bounds
    return "-" if bounds is None else f"{bounds[0]:.2f}-{bounds[1]:.2f}"


def _of(share: Share) -> str:
    return f"{share.right}/{share.of}" if share.of else "-"


def _delay_name(name: str) -> str:
    words = {
        "delay_s": "seconds from onset to the alarm (median, longest)",
        "delay_lines": "lines from onset to the alarm",
        "hang_delay_s": "  of hangs, seconds",
        "slow_delay_s": "  of slow jobs, seconds",
        "crash_act_delay_s": "  of crashes until it would act, seconds",
    }
    return words[name]


def _middle(values: tuple[float, ...]) -> str:
    if not values:
        return "-"
    ordered = sorted(values)
    return f"{ordered[len(ordered) // 2]:.1f}"


def _longest(values: tuple[float, ...]) -> str:
    return f"..{max(values):.0f}" if values else "-"


def totals(figures: Figures) -> str:
    """One sentence about what was measured."""
    return f"{figures.cases} cases, {figures.good} of them healthy or completed"
