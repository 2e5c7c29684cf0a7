"""Reading the journal: what may still stand, and on which attempt."""

from __future__ import annotations

import pytest

from middlewatch.model.journal import JournalKind
from middlewatch.model.scheduler import JobView
from middlewatch.reconciliation.holds import (
    Relation,
    our_exclusions,
    relation,
    settled,
    standing,
    worth_keeping,
)
from tests.unit.reconciliation.owed import ACTED, PAST, T0, after, entry, exclusion, fence, held


def test_an_empty_journal_owes_nothing() -> None:
    assert standing([]) == ()


def test_one_attempt_gathers_all_that_we_owe_it() -> None:
    window = entry(JournalKind.WINDOW)
    (owed,) = standing([entry(), window, exclusion(), fence()])
    assert (owed.cluster_name, owed.job_id, owed.restarts) == ("alpha", "7", 1)
    assert owed.parts == (entry(), window, exclusion(), fence())


def test_a_later_entry_of_its_kind_replaces_the_earlier() -> None:
    later = exclusion(at=after(150), ours=("n9",))
    (owed,) = standing([exclusion(), later])
    assert owed.exclude == later


def test_attempts_and_clusters_are_owed_apart() -> None:
    owed = standing([entry(), entry(restarts_expected=2), entry(cluster_name="beta")])
    assert len(owed) == 3
    assert [(one.cluster_name, one.restarts) for one in owed] == [
        ("alpha", 1),
        ("alpha", 2),
        ("beta", 1),
    ]


def test_settled_clears_the_attempt_that_it_names() -> None:
    entries = [entry(), exclusion(), entry(restarts_expected=2)]
    closing = entry(JournalKind.SETTLED, at=after(500))
    assert [owed.restarts for owed in standing([*entries, closing])] == [2]


def test_what_was_written_after_the_look_survives_a_late_settled() -> None:
    (seen,) = standing([entry()])
    again = entry(at=after(600), release_by=after(900))
    (owed,) = standing([entry(), again, settled(seen)])
    assert owed.hold == again


def test_settled_closes_what_was_read() -> None:
    read = standing([entry(), exclusion(at=after(130))])
    assert standing([entry(), exclusion(at=after(130)), settled(read[0])]) == ()


def test_an_entry_after_settled_stands_even_if_the_clock_went_back() -> None:
    closing = entry(JournalKind.SETTLED, at=after(500))
    assert len(standing([entry(), closing, entry()])) == 1


def test_settled_alone_owes_nothing_and_is_not_kept() -> None:
    closing = entry(JournalKind.SETTLED, at=after(500))
    assert standing([closing]) == ()
    assert worth_keeping([entry(), closing]) == ()


def test_which_exclusions_are_ours_is_remembered_after_all_is_settled() -> None:
    closing = entry(JournalKind.SETTLED, at=after(500))
    later = exclusion(at=after(600), restarts_expected=2, user_exclusions=("n5",))
    other = exclusion(job_id="8", at=after(90))
    whole = [exclusion(), entry(), closing, other, entry(JournalKind.SETTLED, job_id="8", at=PAST)]
    kept = worth_keeping(whole, since=ACTED)
    assert standing(kept) == ()
    assert our_exclusions(kept, "alpha", "7", T0, 0) == ("n2", "n3")
    assert our_exclusions(kept, "alpha", "8", T0, 0) is None
    assert our_exclusions(kept, "beta", "7", T0, 0) is None
    assert len(kept) == 2
    assert worth_keeping([*kept, later], since=ACTED) == (later,)


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        (None, Relation.GONE),
        (held(), Relation.CARRIER),
        (held(submitted_at=T0), Relation.CARRIER),
        (held(restarts=0, submitted_at=T0), Relation.BEFORE),
        (held(restarts=0, submitted_at=after(-60)), Relation.BEFORE),
        (held(restarts=0, submitted_at=after(60)), Relation.OTHER),
        (held(restarts=2), Relation.LATER),
        (held(restarts=2, submitted_at=T0), Relation.OTHER),
        (held(submitted_at=after(-60)), Relation.OTHER),
        (held(job_id="8"), Relation.GONE),
    ],
)
def test_a_row_is_placed_by_restart_count_and_submit_time(
    view: JobView | None, expected: Relation
) -> None:
    assert relation(entry(), view) is expected


def test_submit_times_are_compared_in_whole_seconds() -> None:
    owed = entry(restarts_expected=0, submitted_at=T0.replace(microsecond=900_000))
    assert relation(owed, held(restarts=0, submitted_at=T0)) is Relation.CARRIER
    assert ACTED > T0
