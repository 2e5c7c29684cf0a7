"""What cannot be seen of a live job is said, once, and never acted on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from middlewatch.attribution.issues import governing, issues_from
from middlewatch.detection.batch import Batch, Unreadable
from middlewatch.detection.coverage import ENOUGH, Others, mute, spans
from middlewatch.detection.observe import observe
from middlewatch.detection.state import DetectionState, fresh
from middlewatch.model.issue import IssueState
from middlewatch.model.policy import Policy
from middlewatch.model.signal import Signal, SignalKind
from tests.unit.detection.given import STEP, at, attempt, ended, hit

JOB = attempt()
LINK = Unreadable("/out", "symlink", "/out is a symbolic link")


def look(
    state: DetectionState, when: float, batch: Batch, policy: Policy | None = None
) -> tuple[DetectionState, list[Signal]]:
    found = observe(state, batch, at(when), policy or Policy())
    kinds = {SignalKind.BLIND, SignalKind.SEEN_AGAIN}
    return found.state, [signal for signal in found.signals if signal.kind in kinds]


UNREADABLE = Batch(JOB, readable=False, unreadable=(LINK,))


def test_output_that_stays_unreadable_is_told_once_with_its_reason() -> None:
    state, said = look(fresh(JOB.id), 10, UNREADABLE)
    assert said == []
    state, said = look(state, 121, UNREADABLE)
    (signal,) = said
    assert signal.kind is SignalKind.BLIND
    assert "symbolic link" in signal.detail
    (unseen,) = state.progress.unseen
    assert (unseen.what, unseen.since) == ("log", at(0))
    state, said = look(state, 500, UNREADABLE)
    assert said == []


def test_store_that_is_away_for_long_is_told_as_blindness_alone() -> None:
    away = Unreadable(
        "victorialogs://job/1", "store_away", "no answer from VictoriaLogs", away=True
    )
    batch = Batch(JOB, readable=False, unreadable=(away,))
    state, _ = look(fresh(JOB.id), 10, batch)
    found = observe(state, batch, at(130), Policy())
    (signal,) = found.signals
    assert signal.kind is SignalKind.BLIND
    assert "no answer from VictoriaLogs" in signal.detail


def test_file_that_is_not_there_yet_is_told_as_missing() -> None:
    state, _ = look(fresh(JOB.id), 1, Batch(JOB, readable=False))
    _, (signal,) = look(state, 200, Batch(JOB, readable=False))
    assert "none of its output files" in signal.detail


def test_output_that_can_be_read_again_is_told() -> None:
    state, _ = look(fresh(JOB.id), 1, UNREADABLE)
    state, _ = look(state, 200, UNREADABLE)
    state, (signal,) = look(state, 300, Batch(JOB, output_at=at(299)))
    assert signal.kind is SignalKind.SEEN_AGAIN
    assert state.progress.unseen == ()
    state, _ = look(state, 301, UNREADABLE)
    state, said = look(state, 420, UNREADABLE)
    assert said == []
    state, (again,) = look(state, 500, UNREADABLE)
    assert (again.kind, again.pattern_id) == (SignalKind.BLIND, "coverage.log")
    assert again.happened_at == at(301)
    _, (over,) = look(state, 600, Batch(JOB, output_at=at(599)))
    assert over.kind is SignalKind.SEEN_AGAIN


def test_issue_of_blindness_does_not_outlive_the_attempt() -> None:
    state, _ = look(fresh(JOB.id), 1, UNREADABLE)
    _, blind = look(state, 200, UNREADABLE)
    (issue,) = issues_from(blind, (), JOB)
    (over,) = issues_from(blind, (issue,), ended())
    assert over.state is IssueState.CLOSED


def test_watcher_that_did_not_look_says_nothing_about_the_job() -> None:
    state, _ = look(fresh(JOB.id), 1, replace(UNREADABLE, caught_up=False))
    _, said = look(state, 5000, replace(UNREADABLE, caught_up=False))
    assert said == []


def test_output_without_any_known_progress_is_told() -> None:
    state, said = look(fresh(JOB.id), 100, Batch(JOB, output_at=at(99)))
    state, said = look(state, 1801, Batch(JOB, output_at=at(1800)))
    (signal,) = said
    assert signal.pattern_id == "coverage.progress"
    step = hit(STEP, step=1)
    state, (again,) = look(state, 1900, Batch(JOB, (step,), output_at=at(1899)))
    assert again.kind is SignalKind.SEEN_AGAIN


def test_ended_attempt_is_not_blind() -> None:
    state, _ = look(fresh(JOB.id), 1, UNREADABLE)
    state, _ = look(state, 200, UNREADABLE)
    state, said = look(state, 300, Batch(ended(), readable=False))
    assert (said, state.progress.unseen) == ([], ())


def test_blindness_is_an_issue_of_its_own_that_governs_nothing() -> None:
    state, _ = look(fresh(JOB.id), 1, UNREADABLE)
    state, blind = look(state, 200, UNREADABLE)
    (issue,) = issues_from(blind, (), JOB)
    assert (issue.failure_class, issue.state) == ("not_visible", IssueState.OPEN)
    assert governing([issue]) is None
    _, seen = look(state, 300, Batch(JOB, output_at=at(299)))
    (over,) = issues_from([*blind, *seen], (issue,), JOB)
    assert (over.id, over.state) == (issue.id, IssueState.RECOVERED)


@pytest.mark.parametrize(("measured", "told"), [(True, []), (False, ["metrics"]), (None, [])])
def test_nodes_that_nobody_measures_are_told_without_an_issue(
    measured: bool | None, told: list[str]
) -> None:
    one = attempt(nodes=("n1",))
    state = fresh(one.id)
    signals: list[Signal] = []
    for seconds in (60, 200, 320):
        batch = Batch(one, output_at=at(seconds - 1), measured=measured)
        found = observe(state, batch, at(seconds))
        state = found.state
        signals += found.signals
    assert [unseen.what for unseen in state.progress.unseen] == told
    assert signals == []
    # Where nobody looked in a round, what was known stands.
    state = observe(state, Batch(one, output_at=at(330)), at(331)).state
    assert [unseen.what for unseen in state.progress.unseen] == told


def test_lines_that_nobody_will_read_are_told_once_and_stay_untold_of() -> None:
    state, (signal,) = look(fresh(JOB.id), 60, Batch(JOB, output_at=at(59), lost=3))
    assert (signal.kind, signal.pattern_id) == (SignalKind.BLIND, "coverage.lines")
    assert "3 lines" in signal.detail
    # Also where the rest of the log was not read yet.
    state, said = look(state, 61, Batch(JOB, output_at=at(60), lost=2, caught_up=False))
    assert said == []
    state, said = look(state, 600, Batch(JOB, output_at=at(599)))
    assert said == []
    assert [unseen.what for unseen in state.progress.unseen] == ["lines"]
    other, (signal,) = look(fresh(JOB.id), 60, Batch(JOB, lost=1, caught_up=False))
    assert signal.pattern_id == "coverage.lines"
    assert [unseen.what for unseen in other.progress.unseen] == ["lines"]


SPEAKING, SILENT_TOO, NEVER_THERE = Others(0, 3), Others(ENOUGH, 0), Others(ENOUGH - 1, 0)


@pytest.mark.parametrize(
    ("near", "anywhere", "word"),
    [
        (SPEAKING, SPEAKING, ""),
        (SILENT_TOO, SPEAKING, "collector"),
        (SILENT_TOO, SILENT_TOO, "anybody"),
        (NEVER_THERE, SILENT_TOO, "anybody"),
        # A node of which nothing but the job was ever heard tells nothing, and so does a store.
        (NEVER_THERE, SPEAKING, ""),
        (NEVER_THERE, NEVER_THERE, ""),
    ],
)
def test_silence_is_no_evidence_where_others_fell_silent_with_the_job(
    near: Others, anywhere: Others, word: str
) -> None:
    said = mute(near, anywhere)
    assert word in said
    assert bool(said) == bool(word)


def test_others_are_listened_to_in_the_last_half_of_the_silence_and_three_times_that_before() -> (
    None
):
    assert spans(at(900), at(1000)) == (at(800), at(950), at(1000))
    day = 86_400
    assert spans(at(0), at(day)) == (at(day - 3600), at(day - 900), at(day))
