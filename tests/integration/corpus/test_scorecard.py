"""The labelled logs of the corpus, analysed and scored: what is promised is kept.

This is truth and not speed: the same bytes give the same answer on every machine.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from middlewatch.wiring.analysis import Analyst
from middlewatch.wiring.analysis.reading import read_log
from middlewatch.wiring.scoring import Card, labels_in, score

DEV = Path(__file__).parents[3] / "corpus" / "dev"


@pytest.fixture(scope="module")
def analyst() -> Analyst:
    return Analyst.ready()


@pytest.fixture(scope="module")
def card(analyst: Analyst) -> Card:
    return score([DEV], analyst)


def test_all_cases_are_scored_and_known_as_seen(card: Card) -> None:
    assert len(card.judged) == len(card.seen) == 50


def test_every_promised_figure_is_reached(card: Card) -> None:
    differs = [f"{j.id} {name}: {text}" for j in card.judged for name, text in j.told]
    missed = [f"{t.text}: {t.value} ({t.bound})" for t in card.targets if not t.met]
    assert missed == [], "\n".join(differs)


def test_no_good_log_raises_any_alarm(card: Card) -> None:
    loud = [j.id for j in card.judged if j.false_alarms or j.acting_false_alarms]
    assert loud == []


def test_analysing_again_says_the_same(analyst: Analyst, card: Card) -> None:
    again = score([DEV], analyst)
    assert again.judged == card.judged


def test_a_log_without_facts_and_times_can_be_analysed_at_any_length(analyst: Analyst) -> None:
    for label in labels_in(DEV):
        data = read_log(label.log)[:200_000]
        for part in (1, 2, 3):
            said = analyst.analyse(data[: len(data) * part // 3]).as_json()
            lines = data.count(b"\n") + 1
            ranges = [*(said["first_cause"] or {"lines": []})["lines"], *said["cascade_lines"]]
            assert all(1 <= low <= high <= lines for low, high in ranges)
