"""`/metrics` tells how the watchers are, also those of other processes, and its page in the docs
names all of it."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from middlewatch.model.health import BOUNDS_S, Present, Totals, WatcherHealth, as_text
from middlewatch.model.sharing import pool_of
from middlewatch.services.gateway.access import Scope
from tests.contract.api.conftest import Api
from tests.contract.api.samples import CLUSTER, NOW

DOCS = Path(__file__).parents[3] / "docs" / "metrics.md"


def told(seconds_ago: float) -> str:
    return as_text(
        WatcherHealth(
            started_at=NOW - timedelta(hours=3),
            at=NOW - timedelta(seconds=seconds_ago),
            totals=Totals(rounds=3, bytes_read=5000, lines_lost=2, signals_capped=4),
            present=Present(watched=7, behind=1, bytes_behind=9, oldest_unread_s=12.5),
            seconds=4.0,
            classes=(1, 0, 0, 0, 0, 1, 0, 0, 0, 1),
        )
    )


def scraped(api: Api) -> str:
    token = {"Authorization": f"Bearer {api.tokens[Scope.READ]}"}
    return api.client.get("/metrics", headers=token).text


def test_watchers_are_told_by_name_with_the_age_of_their_last_account(api: Api) -> None:
    api.store.put_notes(
        (
            ("health/watcher/one", told(3)),
            ("health/watcher/two", told(600)),
            ("health/watcher/gone", told(2 * 86_400)),
            ("health/watcher/odd", "no account at all"),
            ("health/watches", "something else"),
        )
    )
    text = scraped(api)
    one = 'watcher="one"'
    for line in (
        f"middlewatch_watcher_report_age_seconds{{{one}}} 3.0",
        'middlewatch_watcher_report_age_seconds{watcher="two"} 600.0',
        f"middlewatch_watcher_read_bytes_total{{{one}}} 5000.0",
        f"middlewatch_watcher_lost_lines_total{{{one}}} 2.0",
        f"middlewatch_watcher_capped_signals_total{{{one}}} 4.0",
        f"middlewatch_watcher_attempts{{{one}}} 7.0",
        f"middlewatch_watcher_behind{{{one}}} 1.0",
        f"middlewatch_watcher_behind_bytes{{{one}}} 9.0",
        f"middlewatch_watcher_oldest_unread_seconds{{{one}}} 12.5",
        f'middlewatch_watcher_round_seconds_bucket{{le="{BOUNDS_S[0]}",{one}}} 1.0',
        f'middlewatch_watcher_round_seconds_bucket{{le="2.5",{one}}} 2.0',
        f'middlewatch_watcher_round_seconds_bucket{{le="+Inf",{one}}} 3.0',
        f"middlewatch_watcher_round_seconds_sum{{{one}}} 4.0",
    ):
        assert line in text.splitlines(), line
    assert "gone" not in text
    assert "odd" not in text


def test_shares_are_told_by_watcher_and_what_nobody_watches(api: Api) -> None:
    pool, term_s = pool_of("watcher", CLUSTER), 86_400.0
    assert "\nmiddlewatch_unwatched_share " not in scraped(api)
    api.store.share_out(pool, "one", term_s, take=range(64))
    api.store.share_out(pool, "gone", 0.0, take=range(64, 192))
    text = scraped(api).splitlines()
    for line in (
        'middlewatch_watcher_share{watcher="one"} 0.25',
        'middlewatch_watcher_share{watcher="gone"} 0.5',
        "middlewatch_unwatched_share 0.75",
    ):
        assert line in text, line
    left = {
        line.partition("watcher=")[2].partition("}")[0]: float(line.rpartition(" ")[2])
        for line in text
        if line.startswith("middlewatch_watcher_lease_seconds{")
    }
    assert left['"one"'] > 0 >= left['"gone"']


def test_page_of_the_docs_names_every_metric_and_no_other(api: Api) -> None:
    api.ages["watcher"] = 1.0
    api.get("/v1/jobs")
    api.store.put_notes((("health/watcher/one", told(3)),))
    exported = {family.name for family in text_string_to_metric_families(scraped(api))}
    # Python's own client adds the time at which a counter was made to each of them.
    exported = {name for name in exported if not name.endswith("_created")}
    section = DOCS.read_text().partition("## What Middlewatch exports")[2]
    named = {
        name.removesuffix("_total")
        for name in re.findall(r"^\| `(middlewatch_\w+)", section, re.MULTILINE)
    }
    assert named == exported
