"""What a scheduler can show that it should not, and what must come of it."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from middlewatch.adapters.sql.store import SqlStore, open_store
from middlewatch.model.advice import Advice, DecisionBasis, DesiredState
from middlewatch.model.attempt import EndedBy
from middlewatch.model.change import Change
from middlewatch.model.gates import Gates
from middlewatch.model.identity import sequence_id
from middlewatch.model.milestone import MilestoneKind, MilestoneSource, Operation, Sequence
from middlewatch.model.optin import JobMode
from middlewatch.model.policy import Policy
from middlewatch.model.scheduler import AccountingRecord, JobFlag, JobState
from middlewatch.model.signal import SignalKind
from middlewatch.model.steps import Reached, StepCounter
from middlewatch.services.watcher import Watcher, WatcherReport, WatcherSettings
from tests.integration.watcher.scripted import ScriptedScheduler
from tests.integration.watcher.world import CLUSTER, COMMENT, made

FAILED = SignalKind.FAILURE_LINE
CRASH = b"srun: error: Node failure on n2\n"


@dataclass
class Here:
    folder: Path
    store: SqlStore
    scheduler: ScriptedScheduler
    watcher: Watcher

    @property
    def log(self) -> Path:
        return self.folder / "out.log"

    def tick(self, seconds: float = 1.0) -> WatcherReport:
        self.scheduler.now += timedelta(seconds=seconds)
        return self.watcher.tick(self.scheduler.now)

    def job(self, job_id: str = "7", comment: str = COMMENT, **view: object) -> None:
        fields = {"uid": os.geteuid(), "stdout": str(self.log), **view}
        self.scheduler.job(job_id, comment, str(fields.pop("stdout")), **fields)

    def attempts(self, job_id: str = "7"):
        return self.store.attempts_of_job(CLUSTER, job_id)

    def kinds(self, index: int = 0, job_id: str = "7") -> list[SignalKind]:
        attempt = self.attempts(job_id)[index]
        return [signal.kind for _, signal in self.store.signals(attempt.id)]

    def requeue(self, job_id: str = "7") -> None:
        """The next attempt waits."""
        view = self.scheduler.views[job_id]
        self.scheduler.change(
            job_id,
            state=JobState.PENDING,
            restarts=view.restarts + 1,
            submitted_at=self.scheduler.now.replace(microsecond=0),
            started_at=None,
            node_list="",
        )

    def start(self, job_id: str = "7", **view: object) -> None:
        fields = {"state": JobState.RUNNING, "started_at": self.scheduler.now, "node_list": "n1,n3"}
        self.scheduler.change(job_id, **{**fields, **view})

    def end(self, job_id: str = "7", state: JobState = JobState.FAILED) -> None:
        self.scheduler.change(job_id, state=state, ended_at=self.scheduler.now, exit_code=1)


@pytest.fixture
def here(tmp_path: Path) -> Here:
    # The files have real times: the story begins with them.
    now = datetime.fromtimestamp(int(tmp_path.stat().st_mtime), UTC)
    scheduler = ScriptedScheduler(CLUSTER, now)
    store = open_store(tmp_path / "state" / "middlewatch.db")
    watcher = made(store, scheduler, Policy(), WatcherSettings())
    return Here(tmp_path, store, scheduler, watcher)


def record(here: Here, state: JobState, **fields: object) -> AccountingRecord:
    attempt = here.attempts()[0]
    plain = AccountingRecord(
        job_id="7",
        submitted_at=attempt.submitted_at,
        state=state,
        requeued=False,
        exit_code=1,
        exit_signal=None,
        started_at=attempt.started_at,
        ended_at=here.scheduler.now,
        node_list="n1,n2",
        cancelled_by=None,
        batch_completed=False,
    )
    return replace(plain, **fields)  # type: ignore[arg-type]


def test_number_that_comes_back_is_another_job(here: Here) -> None:
    here.job()
    here.tick()
    here.job(submitted_at=here.scheduler.now + timedelta(seconds=500))
    here.tick()
    first, second = here.attempts()
    assert (first.attempt_index, second.attempt_index) == (0, 0)
    assert first.id != second.id


def test_job_whose_number_was_given_away_ends_as_accounting_says(here: Here) -> None:
    here.job()
    here.tick()
    here.scheduler.records = {"7": (record(here, JobState.TIMEOUT),)}
    here.job(submitted_at=here.scheduler.now + timedelta(seconds=500))
    here.tick()
    end = here.attempts()[0].end
    assert end is not None
    assert (end.by, end.final) == (EndedBy.TIME_LIMIT, True)


def test_half_done_requeue_makes_no_attempt(here: Here) -> None:
    here.job()
    here.tick()
    here.scheduler.change("7", restarts=1, flags=frozenset({JobFlag.COMPLETING}))
    here.tick()
    assert len(here.attempts()) == 1


def test_scheduler_from_an_older_state_makes_the_later_attempt_vanish(here: Here) -> None:
    here.job()
    here.tick()
    old = here.scheduler.views["7"]
    here.requeue()
    here.tick(60)
    here.start()
    here.tick()
    here.scheduler.views["7"] = old
    here.scheduler.details["7"] = replace(
        here.scheduler.details["7"], submitted_at=old.submitted_at
    )
    here.tick()
    first, second = here.attempts()
    assert (first.vanished, second.vanished) == (False, True)
    assert SignalKind.VANISHED in here.kinds(1)


def test_attempt_that_an_older_state_brought_back_is_watched_again(here: Here) -> None:
    here.job()
    here.tick()
    old, detail = here.scheduler.views["7"], here.scheduler.details["7"]
    here.requeue()
    here.tick(60)
    assert here.attempts()[0].end is not None
    here.scheduler.views["7"], here.scheduler.details["7"] = old, detail
    here.tick()
    here.tick()
    assert here.attempts()[0].live
    here.log.write_bytes(CRASH)
    here.tick()
    assert FAILED in here.kinds(0)
    here.scheduler.change("7", state=JobState.FAILED, exit_code=1)
    here.tick()
    end = here.attempts()[0].end
    assert end is not None
    assert end.by is EndedBy.FAILURE


def test_attempt_requeued_within_its_first_second_is_over(here: Here) -> None:
    here.job()
    here.tick()
    here.scheduler.change("7", restarts=1, state=JobState.PENDING, flags=frozenset())
    here.tick()
    (only,) = here.attempts()
    assert only.end is not None
    assert only.end.by is EndedBy.REQUEUE


def test_job_that_left_the_listing_ends_as_accounting_says(here: Here) -> None:
    here.job()
    here.tick()
    here.scheduler.records = {"7": (record(here, JobState.CANCELLED, cancelled_by="777"),)}
    here.scheduler.views.clear()
    here.tick()
    end = here.attempts()[0].end
    assert end is not None
    assert end.by is EndedBy.OPERATOR


def test_job_that_left_the_listing_is_not_over_while_accounting_lags(here: Here) -> None:
    here.job()
    here.tick()
    here.scheduler.views.clear()
    here.tick()
    here.tick(10)
    assert here.attempts()[0].end is None


def test_job_that_nobody_knows_any_more_ends_in_the_unknown(here: Here) -> None:
    here.job()
    here.tick()
    here.scheduler.views.clear()
    for _ in range(8):
        here.tick(20)
    end = here.attempts()[0].end
    assert end is not None
    assert (end.by, end.final) == (EndedBy.UNKNOWN, True)


def test_cluster_without_accounting_leaves_a_cancellation_to_somebody(here: Here) -> None:
    here.scheduler.records = None
    here.job()
    here.tick()
    here.end(state=JobState.CANCELLED)
    here.tick()
    end = here.attempts()[0].end
    assert end is not None
    assert (end.by, end.final) == (EndedBy.SOMEBODY, True)


def test_accounting_is_asked_at_growing_distances(here: Here) -> None:
    here.job()
    here.tick()
    here.end(state=JobState.CANCELLED)
    for _ in range(30):
        here.tick()
    assert here.scheduler.accounting_calls <= 6


def test_fault_of_one_job_does_not_touch_another(here: Here) -> None:
    here.job("7", node_list="broken[")
    here.job("8", stdout=str(here.folder / "other.log"))
    (here.folder / "other.log").write_bytes(CRASH)
    report = here.tick()
    assert any("broken[" in error for error in report.errors)
    assert here.kinds(job_id="8") == [FAILED]


def test_comment_that_changes_is_followed(here: Here) -> None:
    here.job()
    here.log.write_bytes(b"hello\n")
    here.tick()
    here.scheduler.details["7"] = replace(
        here.scheduler.details["7"], comment=COMMENT.replace("action", "off")
    )
    here.tick(20)
    assert here.attempts()[0].opt_in.mode is JobMode.OFF
    here.log.write_bytes(b"hello\n" + CRASH)
    here.tick()
    assert here.kinds() == []


def test_job_that_opts_in_later_is_found(here: Here) -> None:
    here.job(comment="")
    here.tick()
    assert here.attempts() == ()
    here.scheduler.details["7"] = replace(here.scheduler.details["7"], comment=COMMENT)
    here.tick(61)
    assert len(here.attempts()) == 1


def test_strangers_are_asked_rarely(here: Here) -> None:
    for number in range(100, 300):
        here.job(str(number), comment="")
    for _ in range(30):
        here.tick(0.5)
    assert here.scheduler.detail_calls == 200


def test_opted_in_job_among_many_strangers_is_found_in_time(here: Here) -> None:
    for number in range(100, 300):
        here.job(str(number), comment="", state=JobState.COMPLETED)
    here.job("7")
    here.tick()
    assert len(here.attempts()) == 1


def test_detail_of_another_attempt_than_the_listed_one_is_not_believed(here: Here) -> None:
    here.job()
    later = here.scheduler.now + timedelta(seconds=30)
    here.scheduler.details["7"] = replace(here.scheduler.details["7"], submitted_at=later)
    here.tick()
    assert here.attempts() == ()


def test_file_that_slurm_has_not_truncated_yet_is_not_the_successors(here: Here) -> None:
    here.job()
    here.log.write_bytes(b"banner\n" + CRASH)
    here.tick()
    here.end()
    here.tick()
    here.requeue()
    here.tick(5)
    here.start()
    here.tick()
    assert here.kinds(1) == []
    here.log.write_bytes(b"banner\nmiddlewatch: step=3\n")
    here.tick()
    assert here.kinds(1) == []
    progress = here.store.progress(here.attempts()[1].id)
    assert progress is not None
    assert progress.last_step == 3


def test_lines_of_an_orphan_behind_the_old_end_are_not_the_successors(here: Here) -> None:
    here.job()
    here.log.write_bytes(b"banner\n")
    here.tick()
    here.end(state=JobState.NODE_FAIL)
    here.tick()
    here.requeue()
    here.tick(5)
    here.start()
    with here.log.open("ab") as log:
        log.write(CRASH)
    here.tick()
    assert here.kinds(1) == []


def append_to(here: Here, text: bytes) -> None:
    """Written now, by the story's clock."""
    with here.log.open("ab") as log:
        log.write(text)
    os.utime(here.log, (here.scheduler.now.timestamp(),) * 2)


def begin_appending(here: Here) -> None:
    """The scheduler does not say that the job appends to its file."""
    here.job()
    here.log.write_bytes(b"middlewatch: step=9\n")
    here.tick()
    here.end()
    here.tick()
    here.requeue()
    here.tick(5)
    here.start()
    append_to(here, b"middlewatch: step=10\n" + CRASH)


def test_file_that_proves_to_be_appended_to_is_read_on(here: Here) -> None:
    begin_appending(here)
    here.tick()
    assert here.kinds(1) == []
    append_to(here, b"middlewatch: step=11\n")
    here.tick(6)
    assert here.kinds(1) == [FAILED]
    progress = here.store.progress(here.attempts()[1].id)
    assert progress is not None
    assert progress.first_step == 10


def test_short_attempt_that_appended_is_read_when_it_is_over(here: Here) -> None:
    begin_appending(here)
    here.tick()
    here.end()
    here.tick()
    assert FAILED in here.kinds(1)


def test_last_lines_that_the_successor_overwrote_are_lost_and_not_mixed_up(here: Here) -> None:
    here.job()
    here.log.write_bytes(b"middlewatch: step=9\n")
    here.tick()
    here.requeue()
    here.start()
    here.log.write_bytes(b"banner of the next\n" + CRASH)
    here.tick(60)
    here.tick()
    assert FAILED not in here.kinds(0)
    assert here.kinds(1) == [FAILED]


@pytest.mark.parametrize("lives", [True, False])
def test_attempt_that_prints_the_same_bytes_as_the_one_before_is_read(
    here: Here, *, lives: bool
) -> None:
    here.job()
    here.log.write_bytes(CRASH)
    here.tick()
    here.end()
    here.tick()
    here.requeue()
    here.tick(5)
    here.start()
    here.log.write_bytes(CRASH)
    append_to(here, b"")
    if not lives:
        here.end()
    here.tick(8)
    here.tick()
    assert FAILED in here.kinds(1)


def test_file_that_the_next_attempt_has_not_touched_is_not_read_as_its_own(here: Here) -> None:
    here.job()
    here.log.write_bytes(CRASH)
    append_to(here, b"")
    here.tick()
    here.end()
    here.tick()
    here.requeue()
    here.tick(5)
    here.start()
    here.tick(8)
    here.end()
    here.tick()
    assert FAILED not in here.kinds(1)


def test_late_line_of_an_ended_attempt_is_still_its_own(here: Here) -> None:
    here.job()
    here.log.write_bytes(b"hello\n")
    here.tick()
    here.end()
    here.tick()
    with here.log.open("ab") as log:
        log.write(CRASH)
    here.tick(5)
    here.tick()
    assert FAILED in here.kinds(), "a second listing still shows no other attempt"


def test_unfinished_last_line_is_read_at_the_end(here: Here) -> None:
    here.job()
    here.log.write_bytes(CRASH.rstrip())
    here.tick()
    assert here.kinds() == []
    here.end()
    here.tick()
    assert FAILED in here.kinds()


def test_file_truncated_by_the_job_itself_begins_anew(here: Here) -> None:
    here.job()
    here.log.write_bytes(b"x\n" * 100 + CRASH)
    here.tick()
    here.log.write_bytes(b"y\n" + CRASH)
    here.tick()
    here.tick()
    assert here.kinds() == [FAILED, FAILED]


def test_stdout_and_stderr_are_both_read(here: Here) -> None:
    here.job()
    errors = here.folder / "err.log"
    here.scheduler.details["7"] = replace(here.scheduler.details["7"], stderr=str(errors))
    here.log.write_bytes(CRASH)
    errors.write_bytes(CRASH)
    here.tick()
    attempt = here.attempts()[0]
    paths = {signal.source.path for _, signal in here.store.signals(attempt.id)}
    assert paths == {str(here.log), str(errors)}


def test_output_into_nowhere_is_no_fault(here: Here) -> None:
    here.job(stdout="/dev/null")
    here.tick()
    assert here.kinds() == []


def test_job_whose_output_nobody_can_see_is_not_called_silent(here: Here) -> None:
    here.job(stdout="/dev/null")
    for _ in range(5):
        here.tick(1000)
    assert here.kinds() == []


def test_job_that_has_printed_nothing_for_too_long_is(here: Here) -> None:
    here.job()
    here.log.write_bytes(b"")
    for _ in range(5):
        here.tick(1000)
    assert here.kinds() == [SignalKind.SILENCE]


def test_comments_of_many_jobs_are_read_again_a_few_at_a_time(here: Here) -> None:
    for number in range(100, 200):
        here.job(str(number), stdout=str(here.folder / f"{number}.log"))
    for _ in range(20):
        here.tick()
    before = here.scheduler.detail_calls
    here.tick(60)
    assert here.scheduler.detail_calls - before == 4
    last = here.scheduler.details["199"]
    here.scheduler.details["199"] = replace(last, comment=COMMENT.replace("action", "off"))
    for _ in range(30):
        here.tick()
    assert here.attempts("199")[0].opt_in.mode is JobMode.OFF


def advised(here: Here, index: int = 0) -> str:
    attempt = here.attempts()[index]
    name = sequence_id(CLUSTER, "7", attempt.id, "RESTART")
    sequence = Sequence(
        id=name,
        scheduler="slurm",
        environment="prod",
        job_id="7",
        source_attempt_index=index,
        source_attempt_id=attempt.id,
        operation=Operation.RESTART,
        traceparent="00-" + "1" * 32 + "-" + "2" * 16 + "-01",
        created_at=here.scheduler.now,
    )
    advice = Advice(
        attempt_id=attempt.id,
        job_id="7",
        attempt_index=index,
        submitted_at=attempt.submitted_at,
        owner=CLUSTER,
        desired=DesiredState.RESTARTED,
        exclusions=(),
        generation=1,
        desired_state_changed_at=here.scheduler.now,
        created_at=here.scheduler.now,
        basis=DecisionBasis.ATTEMPT_ENDED_IN_FAILURE,
        gates=Gates(()),
        policy_version="test",
        sequence_id=name,
    )
    here.store.apply(Change(sequences=(sequence,), advice=(advice,)))
    return name


def crash_and_restart(here: Here) -> None:
    here.job()
    here.log.write_bytes(b"middlewatch: step=24\nmiddlewatch: step=25\n" + CRASH)
    here.tick()
    here.end()
    here.tick()


def train_again(here: Here) -> None:
    here.requeue()
    here.tick(5)
    here.start()
    here.log.write_bytes(b"middlewatch: step=24\n")
    here.tick()
    with here.log.open("ab") as log:
        log.write(b"middlewatch: step=25\nmiddlewatch: step=26\nmiddlewatch: step=27\n")
    here.tick()
    here.tick()


def test_first_step_beyond_the_fault_is_a_milestone_of_our_restart(here: Here) -> None:
    crash_and_restart(here)
    name = advised(here)
    train_again(here)
    (milestone,) = here.store.milestones(name)
    assert (milestone.kind, milestone.step) == (MilestoneKind.RESUMED, 26)


def test_first_step_beyond_a_fault_that_nobody_advised_on_is_no_milestone(here: Here) -> None:
    crash_and_restart(here)
    name = sequence_id(CLUSTER, "7", here.attempts()[0].id, "RESTART")
    train_again(here)
    assert here.store.milestones(name) == ()


def test_step_beyond_the_first_fault_is_told_to_each_restart_that_had_not_come_so_far(
    here: Here,
) -> None:
    crash_and_restart(here)
    first = advised(here)
    here.requeue()
    here.tick(5)
    here.start()
    here.log.write_bytes(b"middlewatch: step=23\nmiddlewatch: step=24\n" + CRASH)
    here.tick()
    here.end()
    here.tick()
    second = advised(here, 1)
    here.requeue()
    here.tick(5)
    here.start()
    here.log.write_bytes(b"middlewatch: step=24\nmiddlewatch: step=25\n")
    here.tick()
    # Past the second fault, not past the first: what was lost there is lost still.
    assert (*here.store.milestones(first), *here.store.milestones(second)) == ()
    with here.log.open("ab") as log:
        log.write(b"middlewatch: step=26\n")
    here.tick()
    for name in (first, second):
        (milestone,) = here.store.milestones(name)
        told = (milestone.kind, milestone.step, milestone.past_step, milestone.source)
        assert told == (MilestoneKind.RESUMED, 26, 25, MilestoneSource.LOG)


def test_step_of_another_counter_is_not_beyond_the_fault(here: Here) -> None:
    """The successor prints a count of something else first, as explicitly as its steps."""
    here.job()
    here.log.write_bytes(b"step 0024/8000 loss 2.1\nstep 0025/8000 loss 2.1\n" + CRASH)
    here.tick()
    here.end()
    here.tick()
    name = advised(here)
    here.requeue()
    here.tick(5)
    here.start()
    line = "INFO fairseq2 - Train Metrics (step {}) - Cross Entropy Loss: 3.2 | Elapsed Time: 10s\n"
    here.log.write_text("".join(line.format(step) for step in (1000, 2000)))
    here.tick()
    here.tick()
    reached = here.store.progress(here.attempts()[1].id)
    assert reached is not None
    assert reached.reached == Reached(2000, StepCounter("fairseq2.step", 1))
    assert here.store.milestones(name) == ()
    append_to(here, b"step 0025/8000 loss 2.1\nstep 0026/8000 loss 2.1\n")
    here.tick()
    (milestone,) = here.store.milestones(name)
    assert (milestone.kind, milestone.step, milestone.past_step) == (MilestoneKind.RESUMED, 26, 25)


def epoch_line(epoch: int, step: int) -> bytes:
    return (
        f"2022-01-01 10:00:00,000 - mmdet - INFO - Epoch [{epoch}][{step}/100]\tlr: 1.000e-02, "
        "eta: 1:00:00, time: 0.500, data_time: 0.010, memory: 4000, loss: 0.5000\n"
    ).encode()


def test_epochs_are_counted_from_where_the_attempt_before_began_them(here: Here) -> None:
    here.job()
    lines = [epoch_line(epoch, step) for epoch in range(1, 6) for step in (50, 100)]
    here.log.write_bytes(b"".join(lines[:-1]) + CRASH)
    here.tick()
    here.end()
    here.tick()
    name = advised(here)
    lost = here.store.progress(here.attempts()[0].id)
    assert lost is not None
    assert lost.last_step == 450
    here.requeue()
    here.tick(5)
    here.start()
    here.log.write_bytes(epoch_line(5, 10) + epoch_line(5, 50))
    here.tick()
    here.tick()
    assert here.store.milestones(name) == ()
    with here.log.open("ab") as log:
        log.write(epoch_line(5, 60))
    here.tick()
    (milestone,) = here.store.milestones(name)
    assert (milestone.step, milestone.past_step) == (460, 450)
