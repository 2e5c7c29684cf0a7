"""Three jobs that fail at once on a real Slurm: one gets past the lost step, one never does, and of
one nobody can tell."""

from __future__ import annotations

import pytest

from middlewatch.model.advice import Disposition
from middlewatch.model.attempt import EndedBy
from middlewatch.model.milestone import MilestoneKind, MilestoneSource
from middlewatch.model.recovery import Mark, PartName, Recovery, RecoveryState
from tests.e2e.stage import Stage

pytestmark = pytest.mark.slurm

PATIENCE_S = 240.0

NEVER_PAST = """#!/bin/bash
#SBATCH --nodes=1 --requeue --comment='{comment}'
first=1; last=40
if [ "${{SLURM_RESTART_COUNT:-0}}" != 0 ]; then first=31; last=35; fi
# Each attempt prints a little more: what is the same to the byte could be the attempt before's.
for mark in $(seq 0 "${{SLURM_RESTART_COUNT:-0}}"); do echo "start $mark"; done
for step in $(seq $first $last); do echo "middlewatch: step=$step total=400"; sleep 0.1; done
echo "[rank0]: RuntimeError: CUDA error: uncorrectable ECC error encountered"
exit 1
"""

WITHOUT_STEPS = """#!/bin/bash
#SBATCH --nodes=1 --requeue --comment='{comment}'
echo "reading the data"
if [ "${{SLURM_RESTART_COUNT:-0}}" = 0 ]; then
  sleep 2
  echo "[rank0]: RuntimeError: CUDA error: uncorrectable ECC error encountered"
  exit 1
fi
sleep 600
"""


def recovery(stage: Stage, job: str, state: RecoveryState) -> Recovery:
    """The recovery of the job's first fault, once it is in that state."""

    def look() -> Recovery | None:
        advice = stage.advice(job)
        found = None if advice is None else stage.store.recovery(advice.sequence_id)
        return found if found is not None and found.state is state else None

    found = stage.wait(f"job {job}: {state.value}", look, PATIENCE_S)
    assert isinstance(found, Recovery)
    return found


def test_training_that_goes_on_is_told_from_restarts_that_won_nothing(stage: Stage) -> None:
    stage.begin()
    good = stage.submit(nodes=1, steps=2000, fault="crash-cuda", fault_at=15, fault_rank=0)
    vain = stage.cluster.submit(NEVER_PAST.format(comment=stage.opt_in()))
    dumb = stage.cluster.submit(WITHOUT_STEPS.format(comment=stage.opt_in()))
    _verified(stage, recovery(stage, good, RecoveryState.VERIFIED))
    _unverified(stage, dumb, recovery(stage, dumb, RecoveryState.UNVERIFIED))
    _in_vain(stage, vain)


def _verified(stage: Stage, made: Recovery) -> None:
    """Every mark was seen, with its source; no part is missing, and they are the whole."""
    assert made.settled
    assert made.lost_step is not None
    assert made.resumed_step is not None
    assert made.resumed_step > made.lost_step
    assert {moment.mark for moment in made.moments} >= set(Mark) - {Mark.ENDED, Mark.CONSTRAINED}
    assert {part.name for part in made.parts} == set(PartName)
    assert made.unsplit_s == 0
    assert sum(part.seconds for part in made.parts) == pytest.approx(made.total_s)
    milestones = stage.store.milestones(made.id)
    assert {m.kind for m in milestones} >= set(MilestoneKind)
    told = {m.kind: m for m in milestones}
    assert all(m.source is not None for m in milestones)
    assert told[MilestoneKind.RUNNING].source is MilestoneSource.SCHEDULER
    assert told[MilestoneKind.RESUMED].source is MilestoneSource.LOG
    assert told[MilestoneKind.RESUMED].past_step == made.lost_step
    assert told[MilestoneKind.FAULT].learned_at == told[MilestoneKind.DETECTED].at


def _unverified(stage: Stage, job: str, made: Recovery) -> None:
    assert "prints no steps" in made.why
    assert (made.lost_step, made.resumed_step) == (None, None)
    advice = stage.outcome(job)
    assert advice is not None
    # The restart converged all the same: that is another question.
    assert advice.status is not None
    assert advice.status.disposition is Disposition.CONVERGED


def _in_vain(stage: Stage, job: str) -> None:
    """Two restarts end in the same failure before the lost step: there is no third one."""
    made = recovery(stage, job, RecoveryState.NOT_RECOVERED)
    last = stage.attempt(job, 2)
    assert last is not None
    assert last.end is not None
    assert last.end.by is EndedBy.FAILURE
    decision = stage.wait(
        "a decision about the last attempt",
        lambda: [d for d in stage.store.decisions(last.id) if d.result == "budget_spent"],
        PATIENCE_S,
    )[-1]
    assert "restarted, not recovered" in decision.outcome
    assert "restarts_without_progress" in decision.outcome
    assert stage.advice(job, 2) is None
    requeues = [argv for argv in stage.changing() if argv[1:] == ("requeue", job)]
    assert len(requeues) == 2
    made = recovery(stage, job, RecoveryState.NOT_RECOVERED)
    assert made.attempts == (1, 2)
    assert made.lost_step == 40
    assert made.resumed_step is None
