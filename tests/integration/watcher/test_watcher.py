"""The watcher over the simulated Slurm: whole lives of jobs in virtual time."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import pytest

from middlewatch.adapters.scan import Re2Scanner, read_catalogue
from middlewatch.lab.simulated import Exit, SimulatedTrainer, sleeper
from middlewatch.model.action import Action, ActionKind
from middlewatch.model.attempt import EndedBy
from middlewatch.model.change import Change
from middlewatch.model.optin import JobMode
from middlewatch.model.policy import Policy
from middlewatch.model.signal import Progress, SignalKind
from middlewatch.ports.scanner import RawHit, Scanner
from middlewatch.ports.store import AuditFilter
from middlewatch.services.watcher import WatcherSettings
from tests.integration.watcher.world import COMMENT, World, made, world

FAILED = SignalKind.FAILURE_LINE


@pytest.fixture
def here(tmp_path: Path) -> World:
    return world(tmp_path)


def requeue(here: World, job_id: str) -> None:
    here.scheduler.perform(Action(ActionKind.REQUEUE, job_id, "test"), 5)


def let_go(here: World, job_id: str) -> None:
    here.scheduler.perform(Action(ActionKind.UPDATE, job_id, "test", start_now=True), 5)


def test_opted_in_job_is_recorded_with_its_facts(here: World) -> None:
    job = here.submit(sleeper(), nodes=2, name="llm")
    here.run(5)
    (attempt,) = here.attempts(job)
    assert attempt.attempt_index == 0
    assert attempt.job_name == "llm"
    assert attempt.opt_in.mode is JobMode.ACTION
    assert attempt.stdout == str(here.log)
    assert len(attempt.nodes) == 2
    assert attempt.started_at is not None


def test_job_that_did_not_opt_in_leaves_no_trace(here: World) -> None:
    job = here.submit(SimulatedTrainer(), comment="")
    here.run(30)
    assert here.attempts(job) == ()
    assert here.store.audit(AuditFilter(), 0, 10) == ()


def test_job_that_opted_out_is_recorded_and_not_read(here: World) -> None:
    job = here.submit(SimulatedTrainer(), comment=COMMENT.replace("action", "off"))
    here.run(30)
    (attempt,) = here.attempts(job)
    assert here.signals(attempt) == []


def test_job_of_another_environment_is_not_read(here: World) -> None:
    job = here.submit(SimulatedTrainer(), comment=COMMENT.replace("prod", "test"))
    here.run(30)
    (attempt,) = here.attempts(job)
    assert here.signals(attempt) == []


def test_broken_comment_is_kept_with_its_problem(here: World) -> None:
    job = here.submit(sleeper(), comment="{middlewatch:{environment:prod,mode:action}}")
    here.run(5)
    (attempt,) = here.attempts(job)
    assert attempt.opt_in.mode is JobMode.OBSERVE
    assert attempt.opt_in.problems


def test_crash_is_a_signal_in_the_tick_after_its_line(here: World) -> None:
    job = here.submit(SimulatedTrainer(fault_at=25), nodes=2)
    here.run(30)
    (attempt,) = here.attempts(job)
    lines = here.signals(attempt, FAILED)
    assert {signal.failure_class for signal in lines} == {"gpu_ecc_uncorrectable"}
    assert lines[0].nodes == (attempt.nodes[-1],)
    assert all(signal.step == 25 for signal in lines)
    printed = next(when for when, _, line in here.cluster.printed if "Xid" in line)
    assert (lines[0].learned_at - printed).total_seconds() <= 0.5


def test_end_is_told_and_confirmed_by_accounting(here: World) -> None:
    job = here.submit(SimulatedTrainer(fault_at=25))
    here.run(60)
    (attempt,) = here.attempts(job)
    assert attempt.end is not None
    assert (attempt.end.by, attempt.end.final) == (EndedBy.FAILURE, True)
    assert len(here.signals(attempt, SignalKind.SCHEDULER_END)) == 1


def test_progress_and_checkpoints_are_followed(here: World) -> None:
    job = here.submit(SimulatedTrainer(fault_at=25))
    here.run(60)
    progress = here.store.progress(here.attempts(job)[0].id)
    assert progress is not None
    assert (progress.first_step, progress.last_step, progress.total_steps) == (1, 25, 60)
    assert progress.checkpoint_step == 20
    assert progress.log_drained_at is not None


def test_process_that_is_replaced_after_every_tick_loses_and_repeats_nothing(
    tmp_path: Path,
) -> None:
    told = []
    for name, replaced in (("whole", False), ("replaced", True)):
        (tmp_path / name).mkdir()
        here = world(tmp_path / name)
        job = here.submit(SimulatedTrainer(fault_at=25), nodes=2)
        for _ in range(60):
            here.run(0.5)
            if replaced:
                here.restart()
        (attempt,) = here.attempts(job)
        signals = here.signals(attempt)
        keys = {signal.key for signal in signals}
        assert len(keys) == len(signals)
        told.append([(s.kind, s.pattern_id, s.source.position, s.step) for s in signals])
    assert told[0] == told[1]


def test_what_was_written_while_nobody_watched_is_read_afterwards(here: World) -> None:
    job = here.submit(SimulatedTrainer(fault_at=25))
    here.pass_unwatched(30)
    here.run(1)
    (attempt,) = here.attempts(job)
    assert here.signals(attempt, FAILED)
    assert attempt.end is not None


def test_successor_is_an_attempt_of_its_own_and_begins_at_nothing(here: World) -> None:
    job = here.submit(SimulatedTrainer(fault_at=25))
    here.run(20)
    requeue(here, job)
    here.run(3)
    let_go(here, job)
    here.run(60)
    first, second = here.attempts(job)
    assert (first.attempt_index, second.attempt_index) == (0, 1)
    assert here.signals(second, FAILED) == []
    progress = here.store.progress(second.id)
    assert progress is not None
    assert (progress.loaded_step, progress.first_step, progress.last_step) == (20, 21, 60)


def test_end_of_the_first_attempt_stands_after_its_requeue(here: World) -> None:
    job = here.submit(SimulatedTrainer(fault_at=25))
    here.run(20)
    requeue(here, job)
    here.run(5)
    first = here.attempts(job)[0]
    assert first.end is not None
    assert first.end.by is EndedBy.FAILURE


def test_running_attempt_that_was_requeued_ends_as_requeued(here: World) -> None:
    job = here.submit(SimulatedTrainer(fault=None, steps=500))
    here.run(20)
    requeue(here, job)
    here.run(10)
    first = here.attempts(job)[0]
    assert first.end is not None
    assert first.end.by is EndedBy.REQUEUE


def test_appended_output_of_the_successor_is_not_read_as_the_first_ones(here: World) -> None:
    job = here.submit(SimulatedTrainer(fault_at=25), append=True)
    here.run(20)
    requeue(here, job)
    here.run(3)
    let_go(here, job)
    here.run(60)
    first, second = here.attempts(job)
    assert here.signals(first, FAILED)
    assert here.signals(second, FAILED) == []
    progress = here.store.progress(second.id)
    assert progress is not None
    assert progress.first_step == 21


def test_first_attempts_lines_are_not_read_again_when_a_file_is_appended_to_after_a_restart_of_ours(
    here: World,
) -> None:
    job = here.submit(SimulatedTrainer(fault_at=25), append=True)
    here.run(20)
    requeue(here, job)
    here.run(3)
    here.restart()
    let_go(here, job)
    here.pass_unwatched(10)
    here.run(60)
    second = here.attempts(job)[1]
    assert here.signals(second, FAILED) == []


def test_scheduler_that_does_not_answer_changes_nothing(here: World) -> None:
    job = here.submit(SimulatedTrainer(fault=None, steps=5000))
    here.run(20)
    before = here.attempts(job)
    here.scheduler.faults.unreachable = True
    report = here.run(300)
    assert report.listing_unknown
    assert here.attempts(job)[0].end == before[0].end
    assert here.signals(before[0]) == []


def test_files_are_read_on_while_the_scheduler_does_not_answer(here: World) -> None:
    job = here.submit(SimulatedTrainer(fault_at=60, fault="crash-python", steps=100))
    here.run(20)
    here.scheduler.faults.unreachable = True
    here.run(60)
    assert here.signals(here.attempts(job)[0], FAILED)


def test_silence_while_the_scheduler_does_not_answer_is_no_alarm(here: World) -> None:
    job = here.submit(SimulatedTrainer(fault="hang", fault_at=30))
    here.run(20)
    here.scheduler.faults.unreachable = True
    here.run(900, every=10)
    assert here.signals(here.attempts(job)[0], SignalKind.SILENCE) == []


def test_hang_is_an_alarm_and_no_more(here: World) -> None:
    job = here.submit(SimulatedTrainer(fault="hang", fault_at=30))
    here.run(200)
    kinds = [signal.kind for signal in here.signals(here.attempts(job)[0])]
    assert kinds == [SignalKind.SILENCE]


def test_owner_who_cancels_is_told_from_an_operator(here: World) -> None:
    ours = here.submit(sleeper())
    theirs = here.submit(sleeper(), stdout=here.folder / "other.log")
    here.run(5)
    here.cluster.cancel(ours, by=str(os.geteuid()))
    here.cluster.cancel(theirs, by="777")
    here.run(30)
    ends = [here.attempts(job)[0].end for job in (ours, theirs)]
    assert [end.by if end else None for end in ends] == [EndedBy.OWNER, EndedBy.OPERATOR]


def test_those_who_wait_are_noted_while_the_awaited_job_runs(here: World) -> None:
    job = here.submit(SimulatedTrainer(fault_at=25))
    after = here.submit(
        sleeper(), dependency=[("afterany", job)], comment="", stdout=here.folder / "b.log"
    )
    here.run(60)
    (attempt,) = here.attempts(job)
    assert attempt.end is not None
    assert [(d.job_id, d.kind) for d in attempt.dependents] == [(after, "afterany")]


def test_singleton_waits_for_the_running_job_of_its_name_and_user(here: World) -> None:
    job = here.submit(sleeper(), name="chain")
    here.run(3)
    after = here.submit(
        sleeper(),
        name="chain",
        dependency=[("singleton", "")],
        comment="",
        stdout=here.folder / "b.log",
    )
    here.run(5)
    (attempt,) = here.attempts(job)
    assert [(d.job_id, d.kind) for d in attempt.dependents] == [(after, "singleton")]


def test_fifo_as_output_is_told_once_and_never_waited_for(here: World) -> None:
    fifo = here.folder / "fifo"
    job = here.submit(sleeper(), stdout=None)
    os.mkfifo(fifo)
    here.run(2)
    here.cluster.jobs[job].stdout = str(fifo)
    here.run(60)
    told = here.signals(here.attempts(job)[0], SignalKind.CANNOT_READ)
    assert len(told) == 1
    assert "FIFO" in told[0].detail


def test_large_log_of_one_job_does_not_keep_another_waiting(tmp_path: Path) -> None:
    here = world(tmp_path, settings=WatcherSettings(bytes_per_tick=1 << 20))
    big, small = here.folder / "big.log", here.folder / "small.log"
    here.submit(sleeper(), stdout=big)
    other = here.submit(sleeper(), stdout=small)
    here.pass_unwatched(5)
    big.write_bytes(b"nothing of interest\n" * 1_000_000)
    small.write_bytes(b"srun: error: Node failure on gpu-001\n")
    reports = [here.run(0.5) for _ in range(4)]
    assert here.signals(here.attempts(other)[0], FAILED)
    assert reports[-1].behind == 1
    assert all(report.bytes_read <= 3 << 20 for report in reports)


def test_backlog_is_caught_up_in_later_ticks(tmp_path: Path) -> None:
    here = world(tmp_path, settings=WatcherSettings(bytes_per_tick=1 << 20))
    job = here.submit(sleeper())
    here.pass_unwatched(5)
    noise = b"nothing of interest\n" * 300_000
    here.log.write_bytes(noise + b"srun: error: Node failure on gpu-001\n")
    here.run(20)
    assert len(here.signals(here.attempts(job)[0], FAILED)) == 1


def test_attempt_that_somebody_else_changed_is_read_again(here: World) -> None:
    job = here.submit(SimulatedTrainer(fault_at=25))
    here.run(5)
    (attempt,) = here.attempts(job)
    here.store.apply(Change(attempts=(attempt,)))
    here.run(60)
    (after,) = here.attempts(job)
    assert after.end is not None
    assert here.signals(after, FAILED)


def test_lines_of_one_pattern_are_capped(tmp_path: Path) -> None:
    here = world(tmp_path, policy=Policy(signal_cap=5))
    job = here.submit(sleeper())
    here.run(3)
    here.log.write_bytes(b"srun: error: Node failure on gpu-001\n" * 50)
    here.run(3)
    (attempt,) = here.attempts(job)
    assert len(here.signals(attempt, FAILED)) == 5
    assert here.store.capped_counts(attempt.id)["slurm.node_failure"] == 45


def test_flood_fills_the_trail_no_further_than_the_store(tmp_path: Path) -> None:
    here = world(tmp_path, policy=Policy(signal_cap=5))
    job = here.submit(sleeper())
    here.run(3)
    for _ in range(10):
        with here.log.open("ab") as file:
            file.write(b"srun: error: Node failure on gpu-001\n" * 50)
        here.run(1)
    (attempt,) = here.attempts(job)
    told = here.store.audit(AuditFilter(type="signal.failure_line"), 0, 1000)
    stored = {signal.key for signal in here.signals(attempt, FAILED)}
    assert {json.loads(event.payload)["signal"] for event in told} == stored
    assert len(told) == 5


def test_file_full_of_matching_lines_does_not_keep_the_others_waiting(tmp_path: Path) -> None:
    here = world(tmp_path)
    loud, quiet = here.folder / "loud.log", here.folder / "quiet.log"
    here.submit(sleeper(), stdout=loud)
    other = here.submit(sleeper(), stdout=quiet)
    here.pass_unwatched(5)
    loud.write_bytes(b"MemoryError\n" * 1_000_000)
    quiet.write_bytes(b"srun: error: Node failure on gpu-001\n")
    reports = [here.run(0.5) for _ in range(4)]
    assert here.signals(here.attempts(other)[0], FAILED)
    assert all(report.hits < 60_000 for report in reports)
    assert reports[-1].behind == 1


@dataclass
class Laborious:
    """A scanner that takes a second for each block of some files, by the clock beside it."""

    inner: Scanner
    seconds: float = 0.0
    blocks: list[int] = field(default_factory=list)

    def scan(self, block: bytes, base_offset: int) -> Sequence[RawHit]:
        if block.startswith(b"heavy"):
            self.seconds += 1.0
            self.blocks.append(len(block))
        return self.inner.scan(block, base_offset)

    def now(self) -> datetime:
        raise AssertionError("the watcher is told the time")

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        raise AssertionError("the watcher waits for nobody")

    def token(self, size: int = 32) -> str:
        raise AssertionError("the watcher needs no chance")


def test_text_that_is_slow_to_search_keeps_nobody_waiting_for_long(tmp_path: Path) -> None:
    here = world(tmp_path)
    work = Laborious(Re2Scanner(read_catalogue()))
    here.watcher = made(
        here.store, here.scheduler, here.policy, here.settings, scanner=work, clock=work
    )
    heavy = [here.folder / f"heavy{n}.log" for n in range(6)]
    for log in heavy:
        here.submit(sleeper(), stdout=log)
    other = here.submit(sleeper())
    here.pass_unwatched(5)
    for log in heavy:
        log.write_bytes(b"heavy work\n" * 200_000)
    here.log.write_bytes(b"srun: error: Node failure on gpu-001\n")
    spent = []
    for _ in range(5):
        before = work.seconds
        here.run(0.5)
        spent.append(work.seconds - before)
    assert max(spent) <= here.settings.seconds_per_tick
    assert here.signals(here.attempts(other)[0], FAILED), "everybody has had a turn"
    assert min(work.blocks) < here.settings.first_block // 2


def test_trail_tells_the_life_of_the_attempt(here: World) -> None:
    here.submit(SimulatedTrainer(fault_at=25))
    here.run(60)
    types = [event.type for event in here.store.audit(AuditFilter(), 0, 100)]
    assert types[0] == "attempt.seen"
    assert "attempt.placed" in types
    assert "attempt.ended" in types
    assert "signal.failure_line" in types


def test_quiet_tick_writes_nothing(here: World) -> None:
    here.submit(sleeper())
    here.run(10)
    number = here.store.last_audit_number()
    report = here.run(1)
    assert (report.attempts_written, report.signals_stored) == (0, 0)
    assert here.store.last_audit_number() == number


def test_job_that_crashes_inside_and_goes_on_is_a_recovery(here: World) -> None:
    job = here.submit(sleeper(), stdout=here.log)
    here.run(3)
    with here.log.open("ab") as log:
        for step in range(1, 31):
            log.write(f"middlewatch: step={step} total=100\n".encode())
            log.flush()
            here.run(1)
        log.write(b"Traceback (most recent call last):\nValueError: no\n")
        log.flush()
        here.run(5)
        for step in range(21, 40):
            log.write(f"middlewatch: step={step} total=100\n".encode())
            log.flush()
            here.run(1)
    kinds = [signal.kind for signal in here.signals(here.attempts(job)[0])]
    assert kinds == [FAILED, SignalKind.RECOVERED]


def test_exit_code_of_a_job_without_a_log_is_told(here: World) -> None:
    job = here.submit(sleeper(5, ends=Exit(code=3)), stdout=None)
    here.run(30)
    (attempt,) = here.attempts(job)
    (told,) = here.signals(attempt, SignalKind.SCHEDULER_END)
    assert "exit code 3" in told.detail
    progress = here.store.progress(attempt.id)
    assert progress is not None
    assert progress.log_drained_at is not None


def test_output_that_is_taken_away_is_blindness_and_not_silence(tmp_path: Path) -> None:
    here = world(tmp_path)
    job = here.submit(SimulatedTrainer(fault=None, steps=5000))
    here.run(60)
    (attempt,) = here.attempts(job)
    assert (here.store.progress(attempt.id) or Progress(attempt.id)).last_step
    # The program writes on through a link, which nobody follows.
    here.log.rename(tmp_path / "elsewhere")
    here.log.symlink_to(tmp_path / "elsewhere")
    here.run(600, every=5)
    kinds = {signal.kind for signal in here.signals(attempt)}
    assert SignalKind.BLIND in kinds
    assert SignalKind.SILENCE not in kinds


def test_report_tells_what_was_read_and_how_long_the_rest_has_waited(tmp_path: Path) -> None:
    piece = 1 << 16
    slow = WatcherSettings(block=piece, first_block=piece, bytes_per_tick=piece)
    here = world(tmp_path, settings=slow)
    here.submit(sleeper(1000))
    here.log.write_bytes(b"")
    report = here.run(2)
    assert (report.jobs_listed, report.watched, report.behind) == (1, 1, 0)
    assert (report.oldest_unread_s, report.bytes_behind) == (0.0, 0)
    before = here.log.stat().st_size
    with here.log.open("ab") as file:
        file.write(b"a line of forty bytes, no more of them.\n" * 10_000)
    lines = read = 0
    for _ in range(3):
        report = here.run(1, every=1)
        lines, read = lines + report.lines_read, read + report.bytes_read
    assert (report.watched, report.behind) == (1, 1)
    assert report.bytes_behind == 400_000 - read
    assert report.oldest_unread_s == 3.0
    assert lines == read // 40
    report = here.run(6, every=1)
    assert (report.oldest_unread_s, report.bytes_behind) == (0.0, 0)
    assert here.log.stat().st_size == before + 400_000
