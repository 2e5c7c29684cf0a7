from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from middlewatch.adapters.api.client import ApiClient
from middlewatch.adapters.api.remote import RemoteGateway
from middlewatch.adapters.sql.store import SqlStore
from middlewatch.model.advice import Disposition, Reason, Status
from middlewatch.model.audit import AuditEvent, AuditKind, AuditLevel
from middlewatch.model.change import Change
from middlewatch.model.identity import ClusterId
from middlewatch.model.milestone import (
    Milestone,
    MilestoneKind,
    MilestoneSource,
    Operation,
    SchedulerAction,
)
from middlewatch.ports.errors import NotFound
from middlewatch.ports.remote import AdviceSource, OutcomeSink
from middlewatch.ports.store import AuditFilter
from tests.contract.api.samples import ADVICE, ATTEMPT, CLUSTER, NOW, SEQUENCE, advice, attempt


@pytest.fixture
def remote(local: ApiClient) -> RemoteGateway:
    return RemoteGateway(local)


def test_remote_gateway_is_source_and_sink(remote: RemoteGateway) -> None:
    source: AdviceSource = remote
    sink: OutcomeSink = remote
    assert source.active_advice(CLUSTER).advice == ()
    assert sink.trail(()) == ()


def test_active_advice_arrives_whole_and_page_by_page(
    remote: RemoteGateway, store: SqlStore
) -> None:
    attempts = [attempt(str(number), minute=number) for number in range(3)]
    foreign = advice(attempt("9", minute=9), owner=ClusterId("slurm", "elsewhere"))
    store.apply(Change(advice=(*(advice(each) for each in attempts), foreign)))
    first = remote.active_advice(CLUSTER, limit=2)
    rest = remote.active_advice(CLUSTER, page=first.next_page, limit=2)
    assert rest.next_page == ""
    stored = [store.advice(each.id) for each in attempts]
    assert [*first.advice, *rest.advice] == stored


def test_report_closes_the_advice_and_can_be_repeated(
    remote: RemoteGateway, store: SqlStore
) -> None:
    store.apply(Change(attempts=(ATTEMPT,), advice=(ADVICE,)))
    status = Status(1, Disposition.CONVERGED, Reason.DESIRED_STATE_OBSERVED, NOW, "runs")
    remote.report(ATTEMPT.id, status)
    remote.report(ATTEMPT.id, status)
    assert remote.active_advice(CLUSTER).advice == ()
    (stored,) = store.statuses(ATTEMPT.id)
    assert replace(stored, reporter="") == status


def test_report_about_nothing_is_not_found(remote: RemoteGateway) -> None:
    with pytest.raises(NotFound):
        remote.report(ATTEMPT.id, Status(1, Disposition.CONVERGED, Reason.ALREADY_SATISFIED, NOW))


@pytest.mark.parametrize("operation", Operation)
def test_milestones_arrive_as_they_were(
    remote: RemoteGateway, store: SqlStore, operation: Operation
) -> None:
    store.apply(Change(sequences=(replace(SEQUENCE, operation=operation),)))
    milestone = Milestone(
        SEQUENCE.id,
        "m1",
        NOW + timedelta(microseconds=250),
        NOW,
        MilestoneKind.HELD,
        operation,
        SchedulerAction.SLURM_REQUEUE_HOLD,
        step=41,
        detail="begin time",
    )
    remote.record(milestone)
    (stored,) = store.milestones(SEQUENCE.id)
    assert replace(stored, learned_at=NOW, source=None) == milestone
    assert stored.source is MilestoneSource.API


def test_milestone_without_its_sequence_is_not_found(remote: RemoteGateway) -> None:
    with pytest.raises(NotFound):
        remote.record(Milestone(SEQUENCE.id, "m", NOW, NOW, MilestoneKind.HELD, Operation.RESTART))


def test_trail_takes_events_and_names_those_it_did_not_take(
    remote: RemoteGateway, store: SqlStore
) -> None:
    store.apply(Change(attempts=(ATTEMPT,)))
    event = AuditEvent(
        AuditKind.DONE,
        "requeued",
        "controller",
        NOW,
        NOW,
        AuditLevel.WARNING,
        ATTEMPT.id,
        "12345",
        0,
        '{"argv":["scontrol"]}',
        "k1",
    )
    wrong = replace(event, type="", idempotency_key="k2")
    assert [index for index, _ in remote.trail((event, wrong, event))] == [1]
    (stored,) = store.audit(AuditFilter(attempt_id=ATTEMPT.id), 0, 10)
    assert (stored.kind, stored.type, stored.level) == (event.kind, event.type, event.level)
    assert stored.payload == event.payload
