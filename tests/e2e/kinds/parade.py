"""Jobs of every kind at once on one real Slurm, and one `middlewatch up` that watches them all.

Each kind alone would take as long as all of them together, for what they take is Slurm's own
waiting. So they are submitted together, what people do to some of them is done meanwhile, and the
tests look at what has become of each.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.lab.cluster import Cluster
from middlewatch.model.action import ActionRecord, Answered
from middlewatch.model.advice import Advice, DecisionBasis, DesiredState
from middlewatch.model.attempt import Attempt
from middlewatch.model.change import Change, Decision
from middlewatch.model.gates import Deployment, Mode, gates_for
from middlewatch.model.identity import ClusterId, sequence_id
from middlewatch.model.milestone import Operation
from middlewatch.model.milestone import Sequence as RecoverySequence
from tests.e2e.stage import Stage

CRASH = "[rank0]: RuntimeError: CUDA error: uncorrectable ECC error encountered"
"""A line that blames the node it is written on."""
AGAIN = 'if [ "${SLURM_RESTART_COUNT:-0}" -gt 0 ]; then exec sleep 3600; fi'
STEPS = 'for i in $(seq 1 20); do echo "step $i/1000 loss 2.5"; sleep 0.2; done'
FAILS = f"#!/bin/bash\n{AGAIN}\n{STEPS}\necho '{CRASH}' >&2\nexit 1\n"
RUNS = f"#!/bin/bash\n{AGAIN}\nexec sleep 3600\n"
KEPT = "gpu-005,gpu-006"
KEPT_SHORT = "gpu-[005-006]"


@dataclass
class Parade:
    """What was submitted, by the name of its kind, and everything that can be asked about it."""

    stage: Stage
    jobs: dict[str, str] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)

    @property
    def lab(self) -> Cluster:
        return self.stage.cluster

    def submit(self, kind: str, script: str, *words: str, user: str | None = None) -> str:
        # Two nodes are kept free for those that are to be pre-empted.
        away = () if any(word.startswith("-w") for word in words) else (f"--exclude={KEPT}",)
        job = self.lab.submit(script, user, self.stage.opt_in(), ("-N1", *away, *words))
        self.jobs[kind] = job
        return job

    def until(self, name: str, holds: Callable[[str], bool]) -> None:
        """Wait until it holds for the job of that kind (``array_2``: for that task of it)."""
        kind, _, task = name.rpartition("_")
        job = f"{self.jobs[kind]}_{task}" if kind else self.jobs[name]
        self.stage.wait(name, lambda: holds(job), 120)

    def by_root(self, *argv: str) -> str:
        return self.lab.run(argv).stdout

    def by_operator(self, *argv: str) -> str:
        return self.lab.run(argv, user=self.lab.spec.operator).stdout

    def advise(self, kind: str, *exclusions: str) -> None:
        """A person's advice to restart an attempt that runs, as soon as it is recorded."""
        job = self.jobs[kind]
        attempt = self.stage.wait(
            f"{kind} seen", lambda: (a := self.stage.attempt(job)) and a.nodes and a
        )
        name, cluster = self.lab.spec.cluster, attempt.cluster
        deployment = Deployment(cluster, name, Mode.ACTION, True, ("*",))
        now = SystemClock().now()
        sequence = sequence_id(cluster, job, attempt.id, Operation.RESTART.value)
        advice = Advice(
            attempt_id=attempt.id,
            job_id=job,
            attempt_index=attempt.attempt_index,
            submitted_at=attempt.submitted_at,
            owner=cluster,
            desired=DesiredState.RESTARTED,
            exclusions=exclusions,
            generation=1,
            desired_state_changed_at=now,
            created_at=now,
            basis=DecisionBasis.PERSON,
            gates=gates_for(deployment, attempt, name),
            policy_version="by hand",
            sequence_id=sequence,
            may_end_running=True,
        )
        row = RecoverySequence(
            sequence, cluster.scheduler, cluster.environment, job, attempt.attempt_index,
            attempt.id, Operation.RESTART, "00-0-0-01", now,
        )  # fmt: skip
        self.stage.store.apply(Change(advice=(advice,), sequences=(row,)))

    # -- what has become of it

    def attempts(self, job: str) -> tuple[Attempt, ...]:
        return self.stage.store.attempts_of_job(ClusterId("slurm", self.stage.environment), job)

    def actions(self, job: str) -> tuple[ActionRecord, ...]:
        return tuple(a for t in self.attempts(job) for a in self.stage.store.actions(t.id))

    def verbs(self, job: str) -> list[str]:
        """The changing commands that Slurm carried out for the job, in their order. (On a busy
        machine some are written down and not sent, because the look before had grown old.)"""
        done = (a for a in self.actions(job) if a.answered is Answered.DONE)
        return [a.action.kind.value for a in done]

    def decisions(self, job: str, index: int = 0) -> tuple[Decision, ...]:
        attempt = self.stage.attempt(job, index)
        return self.stage.store.decisions(attempt.id) if attempt else ()

    def grounds(self, job: str, index: int = 0) -> list[str]:
        """What each decision about the attempt came to, one word each."""
        return [d.result for d in self.decisions(job, index)]

    def refused(self, job: str) -> bool:
        """Whether the newest decision about it is to leave it for good."""
        last = self.grounds(job)[-1:]
        return bool(last) and not last[0].startswith("waiting") and last != ["advise"]

    def outcome(self, job: str, index: int = 0) -> str:
        """``CONVERGED DESIRED_STATE_OBSERVED``, say; ``-`` where there is no report yet."""
        advice = self.stage.advice(job, index)
        status = advice.status if advice is not None else None
        return "-" if status is None else f"{status.disposition.value} {status.reason.value}"

    def status(self, job: str, index: int = 0) -> str:
        """What is said of the advice in its last report."""
        advice = self.stage.advice(job, index)
        return "" if advice is None or advice.status is None else advice.status.detail

    def state(self, job: str, *fields: str) -> tuple[str, ...]:
        """Fields of squeue about one job (or one task), now."""
        wanted = ",".join(f"{name}:|" for name in fields)
        out = self.by_root("squeue", "-a", "--states=all", "-h", "-j", job, "-O", wanted)
        return tuple(cell.strip() for cell in out.strip().split("|")[:-1])

    def restarts(self, job: str) -> int:
        return int(self.state(job, "RestartCnt")[0])

    def excluded(self, job: str) -> str:
        return self.by_root("squeue", "-a", "--states=all", "-h", "-j", job, "-o", "%x").strip()

    @staticmethod
    def around(node: str) -> str:
        """squeue's list of a job that avoids that node beside those that its user avoids."""
        return f"gpu-[{node.removeprefix('gpu-')},005-006]"

    def told(self, *words: str) -> str:
        """What `middlewatch WORDS` prints to somebody who asks."""
        up = self.stage.up
        assert up is not None
        argv: Sequence[str] = (sys.executable, "-m", "middlewatch", "--config", str(up.config))
        done = subprocess.run(
            [*argv, *words], env=dict(up.env), capture_output=True, text=True, check=False
        )
        return done.stdout + done.stderr

    def clear(self) -> None:
        """Leave nothing: a reservation cannot be deleted while a job of it is there."""
        for user in (*self.lab.spec.job_users, "root"):
            self.lab.run(["scancel", f"--user={user}"])
        gone = ["scontrol", "delete", "reservationname=kinds"]
        self.stage.wait(
            "the end of the reservation", lambda: not self.lab.run(gone, check=False).returncode
        )

    def told_as_json(self, *words: str) -> Any:
        return json.loads(self.told(*words))
