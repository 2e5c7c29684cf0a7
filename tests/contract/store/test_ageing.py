"""What ages, what never does, and in how small pieces."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from middlewatch.model.change import Change, Decision, WatchState
from middlewatch.model.retention import Aged, Cutoffs, Retention, cutoffs, together
from middlewatch.model.signal import Progress
from middlewatch.ports.errors import Unreadable
from middlewatch.ports.store import AuditFilter, Store
from middlewatch.services.keeper import Keeper
from tests.contract.store.backends import BACKENDS, Backend
from tests.contract.store.records import (
    PROD,
    TEST,
    advice,
    at,
    attempt,
    attempt_id,
    ended,
    event,
    issue,
    signal,
    status,
    verdict,
)

DAY = 86_400.0
EVERYTHING = Cutoffs(at(1000 * DAY), at(1000 * DAY))


def lived(n: int, end: float | None, **changed: object) -> Change:
    """All that the store may hold of one attempt that ended then, without advice."""
    one = attempt(n, **changed)  # type: ignore[arg-type]
    if end is not None:
        one = replace(one, end=ended(when=end), state=ended().state)
    return Change(
        attempts=(one,),
        watch=(WatchState(one.id, b"memory"),),
        progress=(Progress(one.id),),
        signals=(replace(signal(n, of=n), attempt_id=one.id),),
        issues=(replace(issue(n, of=n), attempt_id=one.id),),
        verdicts=(replace(verdict(n, of=n), attempt_id=one.id),),
        decisions=(decision(n),),
        audit=(replace(event(n), attempt_id=one.id),),
    )


def decision(n: int) -> Decision:
    return Decision(f"d{n}", attempt_id(n), at(n), "advise", "p1", "{}", "{}", 1)


def left_of(store: Store, n: int) -> set[str]:
    """Which kinds of records there still are of that attempt."""
    this = attempt_id(n)
    kinds = {
        "attempt": store.attempt(this),
        "watch": store.watch_state(this),
        "progress": store.progress(this),
        "signals": store.signals(this),
        "issues": store.issues(this, 0, 10),
        "verdicts": store.verdicts(this),
        "decisions": store.decisions(this),
        "advice": store.advice(this),
    }
    return {kind for kind, found in kinds.items() if found}


EVIDENCE = {"watch", "progress", "signals"}
BELIEFS = {"attempt", "issues", "verdicts", "decisions"}


def swept(store: Store, before: Cutoffs, limit: int = 100) -> Aged:
    so_far = store.age_out(before, limit)
    while so_far.more:
        so_far = together(so_far, store.age_out(before, limit))
    return so_far


def test_evidence_goes_first_and_the_attempt_later(store: Store) -> None:
    store.apply(lived(1, end=100))
    assert store.age_out(Cutoffs(at(101), at(50)), 10) == Aged(0, 1, 4)
    assert left_of(store, 1) == BELIEFS
    assert store.age_out(Cutoffs(at(101), at(101)), 10) == Aged(1, 0, 4)
    assert left_of(store, 1) == set()


def test_what_ended_at_the_cutoff_or_lives_stays_whole(store: Store) -> None:
    store.apply(lived(1, end=100))
    store.apply(lived(2, end=None))
    assert store.age_out(Cutoffs(at(100), at(100)), 10) == Aged()
    assert left_of(store, 1) == EVIDENCE | BELIEFS
    assert swept(store, EVERYTHING).attempts == 1
    assert left_of(store, 2) == EVIDENCE | BELIEFS


def test_nothing_of_a_job_ages_while_a_later_attempt_of_it_lives(store: Store) -> None:
    store.apply(lived(1, end=100, job_id="7"))
    store.apply(lived(2, end=None, job_id="7", attempt_index=1))
    store.apply(lived(3, end=100, job_id="7", cluster=TEST))
    assert swept(store, EVERYTHING).attempts == 1
    assert left_of(store, 1) == EVIDENCE | BELIEFS
    assert store.attempt(attempt_id(3)) is None


def test_a_job_counts_from_the_end_of_its_last_attempt(store: Store) -> None:
    store.apply(lived(1, end=100, job_id="7"))
    store.apply(lived(2, end=500, job_id="7", attempt_index=1))
    assert swept(store, Cutoffs(at(400), at(400))) == Aged()
    assert swept(store, Cutoffs(at(501), at(501))).attempts == 2


def test_an_attempt_that_vanished_counts_from_when_it_was_first_seen(store: Store) -> None:
    store.apply(lived(1, end=None, vanished=True))
    assert swept(store, Cutoffs(at(2), at(2))) == Aged()
    assert swept(store, Cutoffs(at(3), at(3))).attempts == 1
    assert left_of(store, 1) == set()


def test_what_was_advised_stays_explainable(store: Store) -> None:
    store.apply(lived(1, end=100))
    store.apply(Change(advice=(advice(1),)))
    settled = replace(advice(1), version=1, status=status())
    store.apply(Change(advice=(settled,)))
    assert swept(store, EVERYTHING) == Aged(0, 1, 4)
    assert left_of(store, 1) == BELIEFS | {"advice"}
    assert len(store.statuses(attempt_id(1))) == 1
    assert len(store.generations(attempt_id(1))) == 1


def test_evidence_stays_while_somebody_works_on_the_advice(store: Store) -> None:
    store.apply(lived(1, end=100))
    store.apply(Change(advice=(advice(1),)))
    assert swept(store, EVERYTHING) == Aged()
    assert left_of(store, 1) == EVIDENCE | BELIEFS | {"advice"}


def test_the_trail_stays(store: Store) -> None:
    for n in range(1, 6):
        store.apply(lived(n, end=100))
    before = store.audit(AuditFilter(), 0, 100)
    assert swept(store, EVERYTHING).attempts == 5
    assert store.audit(AuditFilter(), 0, 100) == before
    assert len(before) == 5


def test_a_round_takes_no_more_than_its_limit_and_says_that_there_is_more(store: Store) -> None:
    for n in range(1, 8):
        store.apply(lived(n, end=100 + n % 2))
    rounds = [store.age_out(Cutoffs(at(1000), at(0)), 3) for _ in range(4)]
    assert [one.evidence_of for one in rounds] == [3, 3, 1, 0]
    assert [one.more for one in rounds] == [True, True, False, False]
    rounds = [store.age_out(EVERYTHING, 3) for _ in range(4)]
    assert [one.attempts for one in rounds] == [3, 3, 1, 0]


def test_a_sweep_goes_on_where_another_process_left_it(backend: Backend) -> None:
    one, other = backend.open(), backend.open()
    for n in range(1, 5):
        one.apply(lived(n, end=100))
    assert one.age_out(Cutoffs(at(1000), at(0)), 2).evidence_of == 2
    assert other.age_out(Cutoffs(at(1000), at(0)), 10).evidence_of == 2
    assert all(left_of(one, n) == BELIEFS for n in range(1, 5))


def test_a_damaged_place_is_named_and_nothing_goes(store: Store) -> None:
    store.apply(lived(1, end=100))
    store.put_notes((("retention/evidence_swept", "yesterday"),))
    with pytest.raises(Unreadable, match="retention/evidence_swept"):
        store.age_out(EVERYTHING, 10)
    assert left_of(store, 1) == EVIDENCE | BELIEFS


def test_a_job_id_may_come_back_after_its_records_went(store: Store) -> None:
    store.apply(lived(1, end=100))
    swept(store, EVERYTHING)
    store.apply(Change(attempts=(attempt(1),)))
    assert store.attempts_of_job(PROD, "1001")[0].version == 1


def test_keeper_tells_of_a_sweep_once_and_of_an_idle_one_not_at_all(store: Store) -> None:
    for n in range(1, 6):
        store.apply(lived(n, end=100))
    keeper = Keeper(store, Retention(10, 20), at_once=2)
    reports = [keeper.tick(at(500)) for _ in range(3)]
    assert [one.again for one in reports] == [True, True, False]
    assert keeper.tick(at(501)).aged == Aged()
    told = store.audit(AuditFilter(type="records.aged_out"), 0, 10)
    assert len(told) == 1
    assert '"attempts": 5' in told[0].payload


def test_keeper_goes_on_with_its_moments_when_the_clock_is_set_back(store: Store) -> None:
    for n in range(1, 6):
        store.apply(lived(n, end=100))
    keeper = Keeper(store, Retention(10, 20), at_once=2)
    assert keeper.tick(at(500)).again
    assert keeper.tick(at(0)).aged.attempts == 2


def test_attempts_are_not_kept_shorter_than_their_evidence() -> None:
    with pytest.raises(ValueError, match="no longer than attempts"):
        Retention(20, 10)
    assert cutoffs(Retention(10, 20), at(100)) == Cutoffs(at(90), at(80))


@settings(max_examples=20)
@given(
    jobs=st.lists(
        st.lists(
            st.tuples(st.integers(0, 40), st.booleans(), st.sampled_from((None, True, False))),
            min_size=1,
            max_size=3,
        ),
        min_size=1,
        max_size=4,
    ),
    evidence=st.integers(0, 50),
    whole=st.integers(0, 50),
    limit=st.integers(1, 4),
)
def test_exactly_what_the_rule_names_goes(
    *,
    tmp_path_factory: pytest.TempPathFactory,
    empty: Path,
    kind: str,
    jobs: list[list[tuple[int, bool, bool | None]]],
    evidence: int,
    whole: int,
    limit: int,
) -> None:
    """``jobs``: for each attempt its end, whether it lives, and its advice (active or settled)."""
    backend = BACKENDS[kind](tmp_path_factory.mktemp("ageing"), empty)
    store = backend.open()
    whole, evidence = sorted((whole, evidence))
    expected: dict[int, set[str]] = {}
    n = 0
    for number, job in enumerate(jobs):
        since = [100 if lives else end for end, lives, _ in job]
        for end, lives, active in job:
            n += 1
            store.apply(lived(n, end=None if lives else end, job_id=str(number)))
            kinds = EVIDENCE | BELIEFS
            if active is not None:
                store.apply(Change(advice=(advice(n),)))
                kinds = kinds | {"advice"}
                if not active:
                    given_up = replace(advice(n), version=1, status=status())
                    store.apply(Change(advice=(given_up,)))
            if max(since) < evidence and active is not True:
                kinds = kinds - EVIDENCE
            if max(since) < whole and active is None:
                kinds = set()
            expected[n] = kinds
    swept(store, Cutoffs(at(evidence), at(whole)), limit)
    found = {n: left_of(store, n) for n in expected}
    backend.drop()
    assert found == expected
