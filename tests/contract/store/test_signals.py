from __future__ import annotations

from dataclasses import replace

from middlewatch.model.change import Change
from middlewatch.model.signal import Signal, SignalKind, Source, SourceKind
from middlewatch.ports.store import AuditFilter, Store
from tests.contract.store.records import attempt_id, event, signal


def stored(store: Store, of: int = 1) -> list[Signal]:
    return [found for _, found in store.signals(attempt_id(of))]


def test_signals_come_back_in_the_order_in_which_they_were_stored(store: Store) -> None:
    written = tuple(signal(n) for n in (3, 1, 2))
    applied = store.apply(Change(signals=written))
    assert applied.new_signals == tuple(s.key for s in written)
    assert stored(store) == list(written)


def test_the_same_key_twice_is_one_signal(store: Store) -> None:
    store.apply(Change(signals=(signal(1), signal(1))))
    again = store.apply(Change(signals=(signal(1, detail="said anew"), signal(2))))
    assert again.new_signals == (signal(2).key,)
    assert stored(store) == [signal(1), signal(2)]


def test_signals_past_the_cap_are_counted_and_not_stored(store: Store) -> None:
    first = store.apply(Change(signals=tuple(signal(n) for n in range(5)), signal_cap=3))
    assert (len(first.new_signals), first.capped_signals) == (3, 2)
    second = store.apply(Change(signals=(signal(7), signal(8)), signal_cap=3))
    assert (second.new_signals, second.capped_signals) == ((), 2)
    assert stored(store) == [signal(n) for n in range(3)]
    assert store.capped_counts(attempt_id(1)) == {"cuda_error": 4}


def test_events_about_signals_are_written_for_those_that_are_stored(store: Store) -> None:
    def about(*numbers: int) -> Change:
        signals = tuple(signal(n) for n in numbers)
        told = tuple((each.key, event(1, type=each.key)) for each in signals)
        return Change(signals=signals, signal_cap=3, about_signals=told)

    store.apply(about(0, 1))
    store.apply(about(1, 2, 3, 4))
    written = [each.type for each in store.audit(AuditFilter(), 0, 10)]
    assert written == [signal(n).key for n in range(3)]


def test_cap_holds_for_each_attempt_and_pattern_apart(store: Store) -> None:
    signals = tuple(
        signal(n, of, pattern) for n in range(3) for of in (1, 2) for pattern in ("a", "b")
    )
    applied = store.apply(Change(signals=signals, signal_cap=2))
    assert (len(applied.new_signals), applied.capped_signals) == (8, 4)
    assert store.capped_counts(attempt_id(2)) == {"a": 1, "b": 1}


def test_stored_key_is_neither_new_nor_counted_once_the_cap_is_reached(store: Store) -> None:
    signals = tuple(signal(n) for n in range(3))
    store.apply(Change(signals=signals, signal_cap=3))
    again = store.apply(Change(signals=signals, signal_cap=3))
    assert (again.new_signals, again.capped_signals) == ((), 0)
    assert store.capped_counts(attempt_id(1)) == {}


def test_key_past_the_cap_counts_once_in_a_change(store: Store) -> None:
    applied = store.apply(Change(signals=(signal(1), signal(2), signal(2)), signal_cap=1))
    assert applied.capped_signals == 1


def test_what_clients_post_does_not_use_up_the_room_of_the_log(store: Store) -> None:
    posted = tuple(
        replace(signal(n), key=f"posted-{n}", source=Source(SourceKind.API, "client", str(n)))
        for n in range(5)
    )
    store.apply(Change(signals=posted, signal_cap=2))
    applied = store.apply(Change(signals=(signal(1),), signal_cap=2))
    assert applied.new_signals == (signal(1).key,)
    assert store.capped_counts(attempt_id(1)) == {"cuda_error": 3}


def test_signals_without_a_pattern_are_capped_by_their_kind(store: Store) -> None:
    ends = tuple(signal(n, pattern="", kind=SignalKind.SCHEDULER_END) for n in range(2))
    other = signal(9, pattern="", kind=SignalKind.VANISHED)
    applied = store.apply(Change(signals=(*ends, other), signal_cap=1))
    assert applied.new_signals == (ends[0].key, other.key)
    assert store.capped_counts(attempt_id(1)) == {"scheduler_end": 1}


def test_signals_are_continued_behind_a_row_number_over_all_attempts(store: Store) -> None:
    store.apply(Change(signals=(signal(1, 1), signal(1, 2), signal(2, 1))))
    page = store.signals_after(0, 2)
    assert [s for _, s in page] == [signal(1, 1), signal(1, 2)]
    rest = store.signals_after(page[-1][0])
    assert [s for _, s in rest] == [signal(2, 1)]
    assert store.signals(attempt_id(1), after=page[0][0]) == rest
    assert store.signals_after(rest[-1][0]) == ()
