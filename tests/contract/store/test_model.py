"""Any sequence of writes leaves the store as a dictionary would be: advice, history, trail."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from middlewatch.model.advice import (
    Advice,
    Disposition,
    Intent,
    Reason,
    RefusedReport,
    Status,
    reported,
    revised,
)
from middlewatch.model.audit import AuditEvent
from middlewatch.model.change import Change
from middlewatch.model.identity import ClusterId
from middlewatch.ports.errors import Conflict
from middlewatch.ports.store import AuditFilter
from tests.contract.store.backends import BACKENDS
from tests.contract.store.records import PROD, TEST, advice, at, attempt_id, event, status

TARGETS = st.integers(1, 2)
NODES = st.sets(st.sampled_from(["n1", "n2", "n3"])).map(lambda nodes: tuple(sorted(nodes)))
OUTCOMES = st.sampled_from(
    [
        (Disposition.PENDING, Reason.IN_PROGRESS),
        (Disposition.CONVERGED, Reason.DESIRED_STATE_OBSERVED),
        (Disposition.ABANDONED, Reason.NOT_PERMITTED),
        (Disposition.ABANDONED, Reason.STALE_ATTEMPT),
    ]
)
KEYS = st.sampled_from(["", "", "a", "b", "c"])


class Against(RuleBasedStateMachine):
    """Drives a store and a dictionary side by side."""

    kind = "sqlite"
    empty = Path()
    folders = (Path() for _ in ())

    def __init__(self) -> None:
        super().__init__()
        self.backend = BACKENDS[self.kind](next(self.folders), self.empty)
        self.store = self.backend.open()
        self.now: dict[int, Advice] = {}
        self.left: dict[int, list[Advice]] = {}
        self.reports: dict[int, list[Status]] = {}
        self.order: list[int] = []
        self.trail: list[AuditEvent] = []

    def teardown(self) -> None:
        self.backend.drop()

    def _told(self, keys: list[str]) -> tuple[AuditEvent, ...]:
        return tuple(event(n, idempotency_key=key) for n, key in enumerate(keys))

    def _remember(self, events: tuple[AuditEvent, ...]) -> None:
        for told in events:
            known = {line.idempotency_key for line in self.trail} - {""}
            if told.idempotency_key not in known:
                self.trail.append(replace(told, number=len(self.trail) + 1))

    @rule(
        n=TARGETS, nodes=NODES, owner=st.sampled_from([PROD, TEST]), keys=st.lists(KEYS, max_size=3)
    )
    def decide(self, n: int, nodes: tuple[str, ...], owner: ClusterId, keys: list[str]) -> None:
        before = self.now.get(n)
        template = advice(n)
        if before is None:
            after = replace(template, exclusions=nodes)
            self.order.append(n)
        else:
            intent = Intent(
                before.desired,
                nodes,
                owner,
                before.basis,
                before.gates,
                "p2",
                True,
            )
            after = revised(before, intent, at(60))
        events = self._told(keys)
        self.store.apply(Change(advice=(after,), audit=events))
        stored = replace(after, version=after.version + 1)
        if before is not None and before.generation != after.generation:
            self.left.setdefault(n, []).append(before)
        self.now[n] = stored
        self._remember(events)

    @precondition(lambda self: self.now)
    @rule(n=TARGETS, outcome=OUTCOMES, keys=st.lists(KEYS, max_size=2))
    def report(self, n: int, outcome: tuple[Disposition, Reason], keys: list[str]) -> None:
        before = self.now.get(n)
        if before is None:
            return
        try:
            after = reported(before, status(before.generation, *outcome))
        except RefusedReport:
            return
        events = self._told(keys)
        self.store.apply(Change(advice=(after,), audit=events))
        if after.status is not None and after.status != before.status:
            self.reports.setdefault(n, []).append(after.status)
        self.now[n] = replace(after, version=after.version + 1)
        self._remember(events)

    @rule(n=TARGETS, behind=st.integers(1, 3), keys=st.lists(KEYS, min_size=1, max_size=3))
    def decide_on_what_has_moved(self, n: int, behind: int, keys: list[str]) -> None:
        before = self.now.get(n)
        if before is None:
            stale = replace(advice(n), version=behind)
        else:
            stale = replace(before, version=max(0, before.version - behind), exclusions=("n9",))
        with pytest.raises(Conflict):
            self.store.apply(Change(audit=self._told(keys), advice=(stale,)))

    @rule()
    def start_again(self) -> None:
        self.store.close()
        self.store = self.backend.open()

    @invariant()
    def advice_is_what_it_should_be(self) -> None:
        for n in (1, 2):
            assert self.store.advice(attempt_id(n)) == self.now.get(n)
            history = [*self.left.get(n, []), *([self.now[n]] if n in self.now else [])]
            assert list(self.store.generations(attempt_id(n))) == history
            assert list(self.store.statuses(attempt_id(n))) == self.reports.get(n, [])

    @invariant()
    def pages_show_the_same(self) -> None:
        everything = [self.now[n] for n in self.order]
        active = [a for a in everything if a.active]
        assert [a for _, a in self.store.advice_page(False, 0, 10)] == everything
        assert [a for _, a in self.store.advice_page(True, 0, 10)] == active
        of_test = [a for a in active if a.owner == TEST]
        assert [a for _, a in self.store.advice_page(True, 0, 10, TEST)] == of_test

    @invariant()
    def trail_is_what_it_should_be(self) -> None:
        assert list(self.store.audit(AuditFilter(), 0, 1000)) == self.trail
        assert self.store.last_audit_number() == len(self.trail)


def test_store_behaves_like_a_dictionary(kind: str, empty: Path, tmp_path: Path) -> None:
    class Here(Against):
        pass

    Here.kind, Here.empty = kind, empty
    Here.folders = (tmp_path / str(n) for n in itertools.count())
    run_state_machine_as_test(
        Here,
        settings=settings(
            max_examples=25,
            stateful_step_count=30,
            # Each example is a database: making a failure smaller would take minutes.
            phases=[Phase.explicit, Phase.reuse, Phase.generate],
        ),
    )
