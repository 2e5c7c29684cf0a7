from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from middlewatch.contract import choices, mapping, records
from middlewatch.contract.errors import ApiError
from middlewatch.contract.gen.heimdall.v1 import heimdall_pb2
from middlewatch.contract.http import to_json
from middlewatch.model.advice import DesiredState, Disposition, Reason, Status
from middlewatch.model.attempt import AttemptEnd, EndedBy
from middlewatch.model.audit import AuditEvent, AuditKind
from middlewatch.model.milestone import MilestoneKind, Operation, SchedulerAction
from middlewatch.model.scheduler import JobState
from middlewatch.model.signal import Phase, Progress
from tests.contract.api.samples import ADVICE, ATTEMPT, NOW

REPORT = heimdall_pb2.AdviceReconciliationStatus


def as_json(message: Any) -> dict[str, Any]:
    value = json.loads(to_json(message))
    assert isinstance(value, dict)
    return value


def test_documented_example_of_advice_is_written_as_documented() -> None:
    shown = as_json(mapping.advice_message(ADVICE))
    assert {name: shown[name] for name in shown if name != "issues"} == {
        "heimdallJobId": ADVICE.attempt_id,
        "jobId": "12345",
        "attemptIndex": 0,
        "schedulerMetadata": {"scheduler": "slurm", "environment": "customer-slurm"},
        "advice": {
            "state": "ADVICE_STATE_RESTARTED",
            "nodeConstraints": {"exclusions": ["gpu-001"]},
        },
        "generation": "1",
        "desiredStateChangedAt": "2026-09-23T14:00:00Z",
    }


@pytest.mark.parametrize("desired", DesiredState)
def test_each_desired_state_has_its_word(desired: DesiredState) -> None:
    shown = as_json(mapping.advice_message(replace(ADVICE, desired=desired)))
    expected = "UNSPECIFIED" if desired is DesiredState.CONSTRAINED else desired.value
    assert shown["advice"]["state"] == f"ADVICE_STATE_{expected}"


def test_status_appears_only_once_one_was_reported() -> None:
    assert "reconciliationStatus" not in as_json(mapping.advice_message(ADVICE))
    status = Status(1, Disposition.CONVERGED, Reason.DESIRED_STATE_OBSERVED, NOW)
    shown = as_json(mapping.advice_message(replace(ADVICE, status=status)))
    assert shown["reconciliationStatus"]["observedGeneration"] == "1"
    assert (
        shown["reconciliationStatus"]["disposition"]
        == "ADVICE_RECONCILIATION_DISPOSITION_CONVERGED"
    )


@pytest.mark.parametrize("disposition", Disposition)
@pytest.mark.parametrize("reason", set(Reason) - {Reason.OTHER})
def test_each_status_comes_back_as_it_went_out(disposition: Disposition, reason: Reason) -> None:
    status = Status(3, disposition, reason, NOW, "why", "somebody")
    assert mapping.status_of(mapping.status_message(status), NOW, "somebody") == status


@pytest.mark.parametrize(("disposition", "reason"), choices.REASON_WHERE_NONE_WAS_GIVEN.items())
def test_report_without_a_known_reason_still_counts(
    disposition: Disposition, reason: Reason
) -> None:
    message = REPORT(observed_generation=1)
    json_format.ParseDict(
        {
            "disposition": choices.DISPOSITION_ON_WIRE[disposition],
            "reason": "ADVICE_RECONCILIATION_REASON_OF_A_LATER_VERSION",
        },
        message,
        ignore_unknown_fields=True,
    )
    assert mapping.status_of(message, NOW, "x").reason is reason


def test_report_without_generation_or_disposition_is_refused() -> None:
    with pytest.raises(ApiError, match="observedGeneration"):
        mapping.status_of(REPORT(disposition="ADVICE_RECONCILIATION_DISPOSITION_PENDING"), NOW, "x")
    with pytest.raises(ApiError, match="disposition"):
        mapping.status_of(REPORT(observed_generation=1), NOW, "x")
    with pytest.raises(ApiError, match="disposition"):
        mapping.status_of(REPORT(observed_generation=1, disposition=99), NOW, "x")


@pytest.mark.parametrize("state", JobState)
def test_each_state_of_the_scheduler_has_a_word(state: JobState) -> None:
    shown = as_json(mapping.job_message(replace(ATTEMPT, state=state, end=None), None))
    assert shown["state"] == choices.STATUS_ON_WIRE[state]


def test_requeued_attempt_says_so_whatever_its_state_was() -> None:
    end = AttemptEnd(JobState.FAILED, EndedBy.REQUEUE, None, None, NOW, NOW)
    shown = as_json(mapping.job_message(replace(ATTEMPT, end=end), None))
    assert shown["state"] == "JOB_STATUS_REQUEUED"


def test_job_carries_the_wish_only_where_there_is_advice() -> None:
    assert "desiredState" not in as_json(mapping.job_message(ATTEMPT, None))
    shown = as_json(mapping.job_message(ATTEMPT, ADVICE))
    assert shown["desiredState"] == "ADVICE_STATE_RESTARTED"


@pytest.mark.parametrize("word", choices.STATE_AND_END_OF_STATUS)
def test_each_documented_status_can_be_told(word: str) -> None:
    told = mapping.job_status_of(heimdall_pb2.JobStatus.Value(word))
    assert told == choices.STATE_AND_END_OF_STATUS[word]


@pytest.mark.parametrize("operation", set(Operation) - {Operation.CONSTRAIN})
def test_each_operation_comes_back(operation: Operation) -> None:
    number = heimdall_pb2.RecoveryOperation.Value(choices.OPERATION_ON_WIRE[operation])
    assert mapping.operation_of(number) is operation


@pytest.mark.parametrize("action", SchedulerAction)
def test_each_scheduler_action_has_its_documented_word(action: SchedulerAction) -> None:
    word = f"RECOVERY_SCHEDULER_ACTION_{action.value}"
    assert mapping.action_of(heimdall_pb2.RecoverySchedulerAction.Value(word)) is action


@pytest.mark.parametrize("kind", MilestoneKind)
def test_each_milestone_has_a_word(kind: MilestoneKind) -> None:
    word = choices.MILESTONE_ON_WIRE[kind]
    assert mapping.milestone_kind_of(heimdall_pb2.RecoveryMilestoneKind.Value(word)) is kind


def test_unknown_numbers_of_enums_are_no_words() -> None:
    assert mapping.action_of(99) is None
    assert mapping.milestone_kind_of(99) is None
    assert mapping.job_status_of(99) is None
    with pytest.raises(ApiError, match="operation"):
        mapping.operation_of(99)


@pytest.mark.parametrize(
    "payload", ["", "{}", "[1]", "5", "no json", '{"x":NaN}', '{"a":{"b":[1,null]}}', "\ud800"]
)
def test_event_of_the_trail_can_be_shown_whatever_its_payload_is(payload: str) -> None:
    event = AuditEvent(AuditKind.SEEN, "t", "p", NOW, NOW, payload=payload)
    assert isinstance(as_json(mapping.audit_message(event))["payload"], dict)


@given(st.text(alphabet=st.characters(), max_size=40))
def test_text_of_a_job_can_be_shown_whatever_it_holds(text: str) -> None:
    shown = as_json(mapping.job_message(replace(ATTEMPT, job_name=text, user="\ud800"), None))
    assert shown["additionalProperties"]["user"] == "?"
    assert len(shown["jobName"]) == len(text)


def test_whole_advice_record_comes_back_as_it_went_out() -> None:
    status = Status(1, Disposition.PENDING, Reason.IN_PROGRESS, NOW, "waits", "controller")
    for advice in (ADVICE, replace(ADVICE, status=status, may_end_running=True, version=7)):
        assert records.advice_of(records.advice_message(advice)) == advice


def test_times_before_and_after_the_calendar_of_events_are_held_within_it() -> None:
    from middlewatch.contract.values import in_micros

    assert in_micros(-(2**63)) == datetime(1970, 1, 1, tzinfo=UTC)
    assert in_micros(2**63 - 1).year == 9999
    assert in_micros(1_500_000) == datetime(1970, 1, 1, 0, 0, 1, 500_000, tzinfo=UTC)


def test_job_shows_how_far_it_is_and_how_far_its_advice_came() -> None:
    plain = as_json(mapping.job_message(ATTEMPT, ADVICE))
    assert "progress" not in plain
    assert "reconciliationStatus" not in plain
    told = Progress(ATTEMPT.id, Phase.TRAINING, last_step=47, checkpoint_step=40)
    status = Status(1, Disposition.CONVERGED, Reason.DESIRED_STATE_OBSERVED, NOW, "", "c1")
    shown = as_json(mapping.job_message(ATTEMPT, replace(ADVICE, status=status), told))
    assert shown["progress"] == {
        "phase": "training",
        "lastStep": "47",
        "checkpointStep": "40",
        "unseen": [],
    }
    assert shown["reconciliationStatus"]["disposition"].endswith("_CONVERGED")
