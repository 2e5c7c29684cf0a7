"""What must be true of the watchdog's rule whatever the journal, the look and the time say."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from middlewatch.model.action import ActionKind
from middlewatch.model.answer import Known
from middlewatch.model.journal import JournalEntry, JournalKind
from middlewatch.model.scheduler import JobDetail, JobFlag, JobState, JobView
from middlewatch.reconciliation.holds import Relation, relation, standing, worth_keeping
from middlewatch.reconciliation.outstanding import Standing, standing_of
from middlewatch.reconciliation.traces import LATE_HOLD_S
from middlewatch.reconciliation.watchdog import Plan, due, watchdog_actions
from tests.unit.reconciliation.owed import (
    CONFIG,
    FACTS,
    after,
    detail,
    held,
    impossible,
    look,
    running,
    snapshot,
    waiting,
)

JOBS = ("7", "9_1")
NODES = ("n1", "n2", "n3", "n4")
moments = st.integers(-50, 900).map(after)
node_lists = st.lists(st.sampled_from(NODES), unique=True, max_size=4).map(tuple)

# Mostly what belongs together, so that there is something to do; each sign is wrong now and then.
attempts = st.sampled_from([1] * 6 + [0, 2])
exclusion_lists = st.sampled_from([("n1",), ("n1", "n2"), ("n2", "n3"), ("n4",)]) | node_lists

entries = st.builds(
    JournalEntry,
    kind=st.sampled_from(
        [kind for kind in JournalKind if kind is not JournalKind.SETTLED] * 2
        + [JournalKind.SETTLED]
    ),
    at=st.integers(-50, 400).map(after),
    cluster_name=st.sampled_from(["alpha"] * 6 + ["beta"]),
    job_id=st.sampled_from(JOBS),
    submitted_at=st.sampled_from([after(0), after(0), after(50)]),
    restarts_expected=attempts,
    release_by=st.none() | st.integers(100, 900).map(after),
    user_exclusions=st.sampled_from([(), ("n1",), ("n2",)]),
    ours=exclusion_lists,
    owner_requeue=st.sampled_from([True, True, False, None]),
)
journals = st.lists(entries, max_size=12)

COMPLETING = frozenset({JobFlag.COMPLETING, JobFlag.SPECIAL_EXIT})


@st.composite
def views(draw: st.DrawFn, job_id: str) -> JobView:
    view = draw(
        st.sampled_from(
            [
                held(),
                held(reason="job requeued in held state"),
                held(submitted_at=after(880), eligible_at=after(1001)),
                impossible(),
                waiting(submitted_at=after(880), eligible_at=after(1001)),
                running(requeueable=False),
            ]
        )
    )
    odd = draw(
        st.sampled_from(
            [{}] * 6
            + [
                {"flags": frozenset()},
                {"flags": COMPLETING},
                {"priority": 0},
                {"priority": 7},
                {"state": JobState.COMPLETED},
                {"submitted_at": after(-10)},
                {"eligible_at": None},
                {"requeueable": None},
                {"array_pending": True},
                {"reason": "JobHeldUser"},
            ]
        )
    )
    return replace(view, job_id=job_id, restarts=draw(attempts), **odd)


looks = st.tuples(*(st.none() | views(job) for job in JOBS)).map(
    lambda found: tuple(view for view in found if view is not None)
)


@st.composite
def details_of(draw: st.DrawFn, seen: tuple[JobView, ...]) -> dict[str, Known[JobDetail]]:
    return {
        view.job_id: detail(
            view,
            excluded_nodes=draw(exclusion_lists),
            requeueable=draw(st.sampled_from([True, False, None])),
            held_by_operator=draw(st.sampled_from([False, False, True, None])),
        )
        for view in seen
    }


@st.composite
def worlds(
    draw: st.DrawFn,
) -> tuple[list[JournalEntry], tuple[JobView, ...], dict[str, Known[JobDetail]], Plan]:
    journal = draw(st.lists(entries, min_size=6, max_size=14))
    seen = tuple(draw(views(job)) for job in JOBS)
    details = draw(details_of(seen))
    now = draw(st.integers(300, 1000).map(after))
    found = due(standing(journal), look(*seen), FACTS, now, CONFIG)
    return journal, seen, details, watchdog_actions(found, details, FACTS, now, CONFIG)


World = tuple[list[JournalEntry], tuple[JobView, ...], dict[str, Known[JobDetail]], Plan]


@settings(max_examples=300)
@given(worlds())
def test_a_job_gets_at_most_one_action_for_one_look(world: World) -> None:
    *_, plan = world
    counted = Counter(step.action.job_id for step in plan.planned)
    assert all(count == 1 for count in counted.values())


@settings(max_examples=300)
@given(worlds())
def test_only_a_job_with_a_matching_entry_is_touched(world: World) -> None:
    journal, seen, _, plan = world
    rows = {view.job_id: view for view in seen}
    for step in plan.planned:
        view = rows[step.action.job_id]
        assert not view.array_pending
        assert not view.completing
        assert any(
            entry.cluster_name == "alpha"
            and relation(entry, view) in (Relation.CARRIER, Relation.LATER)
            for entry in journal
        )


@settings(max_examples=300)
@given(worlds())
def test_a_release_has_every_sign_of_our_hold(world: World) -> None:
    journal, seen, details, plan = world
    rows = {view.job_id: view for view in seen}
    for step in plan.planned:
        if step.action.kind is not ActionKind.RELEASE:
            continue
        view = rows[step.action.job_id]
        assert view.state is JobState.PENDING
        assert view.held
        assert JobFlag.SPECIAL_EXIT in view.flags
        assert details[view.job_id].value.held_by_operator is False
        assert any(
            entry.kind is JournalKind.HOLD
            and entry.job_id == view.job_id
            and (
                entry.restarts_expected == view.restarts
                # Ours came late: it hit the very next attempt, and before it was to be let go.
                or (
                    entry.restarts_expected == view.restarts - 1
                    and view.submitted_at
                    <= (entry.release_by or entry.at + timedelta(seconds=LATE_HOLD_S))
                )
            )
            for entry in journal
        )


@settings(max_examples=300)
@given(worlds())
def test_nothing_but_a_fence_is_touched_under_an_operators_hold(world: World) -> None:
    _, _, details, plan = world
    for step in plan.planned:
        if details[step.action.job_id].value.held_by_operator is True:
            assert step.action.requeueable is True
            assert not step.action.start_now
            assert step.action.exclusions is None


@settings(max_examples=300)
@given(worlds())
def test_exclusions_only_ever_lose_what_the_journal_calls_ours(world: World) -> None:
    journal, _, details, plan = world
    for step in plan.planned:
        if step.action.exclusions is None:
            continue
        before = set(details[step.action.job_id].value.excluded_nodes)
        left = set(step.action.exclusions)
        ours = {
            node
            for entry in journal
            if entry.kind is JournalKind.EXCLUDE and entry.job_id == step.action.job_id
            for node in entry.ours
        }
        assert left < before
        assert before - left <= ours


@settings(max_examples=300)
@given(worlds())
def test_the_watchdog_never_requeues_cancels_or_fences(world: World) -> None:
    *_, plan = world
    for step in plan.planned:
        assert step.action.kind in (ActionKind.UPDATE, ActionKind.RELEASE)
        assert step.action.requeueable is not False


@given(journals, st.none() | moments)
def test_tidying_changes_nothing_that_is_owed(
    journal: list[JournalEntry], since: datetime | None
) -> None:
    kept = worth_keeping(journal, since)
    assert standing(kept) == standing(journal)
    assert worth_keeping(kept, since) == kept
    if since is None:
        assert len(kept) <= len(journal)


@given(journals, entries)
def test_an_entry_that_is_no_settled_always_counts(
    journal: list[JournalEntry], last: JournalEntry
) -> None:
    if last.kind is JournalKind.SETTLED:
        last = replace(last, kind=JournalKind.HOLD)
    assert any(last in owed.parts for owed in standing([*journal, last]))


@given(journals, looks, st.integers(0, 2000).map(after))
def test_what_can_still_be_acted_on_is_never_over(
    journal: list[JournalEntry], seen: tuple[JobView, ...], now: datetime
) -> None:
    owed = standing(journal)
    for one in owed:
        if due([one], look(*seen), FACTS, now, CONFIG):
            judged = standing_of(one, snapshot(*seen), FACTS, now, CONFIG)
            assert judged in (Standing.STANDS, Standing.LURKS)
