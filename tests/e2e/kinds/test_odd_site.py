"""A site of another make: hundreds of nodes, JobRequeue=0, ended jobs that are forgotten within
seconds, and a prolog that fails once. One lab, on which everything is tried at once.

Most of its nodes have no slurmd. To slurmctld they are nodes all the same: they can be named,
counted and excluded, and jobs can wait for them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.adapters.slurm.command import Commands
from middlewatch.adapters.slurm.scheduler import SlurmScheduler
from middlewatch.lab.spec import LabSpec
from middlewatch.lab.start import up
from middlewatch.model.action import Action, ActionKind, Answered
from middlewatch.model.answer import Known
from middlewatch.model.attempt import EndedBy
from middlewatch.model.identity import ClusterId
from tests.e2e.kinds.parade import CRASH, RUNS, Parade
from tests.e2e.stage import Stage
from tests.labfixture import require_slurm

pytestmark = pytest.mark.slurm

CONVERGED = "CONVERGED DESIRED_STATE_OBSERVED"
RACKS = "rack[01-06]-n[001-060]"
RACK_NODES = tuple(f"rack{r:02}-n{n:03}" for r in range(1, 7) for n in range(1, 61))
SHUNNED = RACK_NODES[:300]
FAILING_ONCE = """#!/bin/sh
[ "$SLURM_JOB_PARTITION" = brittle ] || exit 0
mkdir '{folder}/failed' 2>/dev/null && exit 1
exit 0
"""


@pytest.fixture(scope="module")
def parade(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parade]:
    require_slurm()
    folder = tmp_path_factory.mktemp("site")
    prolog = folder / "prolog"
    prolog.write_text(FAILING_ONCE.format(folder=folder))
    prolog.chmod(0o755)
    lab = up(
        LabSpec(
            name=f"test-{os.getpid()}-odd",
            nodes=4,
            min_job_age=10,
            extra=(
                "JobRequeue=0",
                f"Prolog={prolog}",
                "PrologFlags=Alloc",
                (
                    f"NodeName={RACKS} NodeHostname=elsewhere NodeAddr=127.0.0.1 Port=9 CPUs=64 "
                    "Sockets=1 CoresPerSocket=64 ThreadsPerCore=1 RealMemory=64000 State=DOWN"
                ),
                f"PartitionName=wide Nodes={RACKS} State=UP",
                f"PartitionName=mixed Nodes=gpu-[001-003],{RACKS} State=UP",
                "PartitionName=brittle Nodes=gpu-004 State=UP",
            ),
        )
    )
    stage = Stage(lab, lab.folder / "odd", "odd")
    try:
        stage.begin()
        made = Parade(stage)
        submit_all(made, lab.home(lab.spec.job_users[0]))
        interfere(made, lab.home(lab.spec.job_users[0]))
        yield made
    finally:
        stage.close()
        lab.down()


def submit_all(parade: Parade, home: Path) -> None:
    def submit(kind: str, script: str, *words: str) -> None:
        parade.jobs[kind] = parade.lab.submit(script, None, parade.stage.opt_in(), words)

    # What ends within seconds is forgotten within seconds: so the watcher has to be there first.
    submit("of 300 nodes", RUNS, "-pwide", "-N300", "--requeue")
    submit("broken start", RUNS, "-pbrittle", "-N1", "--requeue", "--hold")
    for kind in parade.jobs:
        parade.until(kind, lambda job: parade.stage.attempt(job) is not None)
    parade.lab.run(
        ["scontrol", "release", parade.jobs["broken start"]], user=parade.lab.spec.job_users[0]
    )
    submit("shuns 300", RUNS, "-pmixed", "-N1", "--requeue", f"--exclude={','.join(SHUNNED)}")
    everywhere = ",".join((*RACK_NODES, "gpu-003"))
    submit("shuns nearly all", RUNS, "-pmixed", "-N1", "--requeue", f"--exclude={everywhere}")
    until_told = (
        f"#!/bin/bash\nuntil [ -e {home}/end ]; do sleep 0.2; done\necho '{CRASH}'\nexit 1\n"
    )
    submit("neither way", until_told, "-N1")
    submit("forgotten", until_told, "-N1", "--requeue")
    submit("with an interactive step", RUNS, "-N1", "--requeue")


def interfere(parade: Parade, home: Path) -> None:
    stage, job, lab = parade.stage, parade.jobs, parade.lab
    user = lab.spec.job_users[0]
    kind = "with an interactive step"
    parade.until(kind, lambda job: parade.state(job, "State") == ("RUNNING",))
    step = ["srun", f"--jobid={job[kind]}", "--overlap", "-n1", "sh", "-c", "exec sleep 3600"]

    def interactive() -> None:
        parade.said[kind] = str(lab.run(step, user=user, check=False).returncode)

    threading.Thread(target=interactive, daemon=True).start()
    steps = ("squeue", "-h", "-s", "-j", job[kind], "-o", "%i")
    parade.until(kind, lambda job: f"{job}.0" in parade.by_root(*steps))
    parade.advise(kind)
    parade.until("forgotten", lambda job: parade.state(job, "State") == ("RUNNING",))
    parade.by_operator("scontrol", "hold", job["forgotten"])
    parade.advise("forgotten")
    for name in ("neither way", "shuns 300", "shuns nearly all"):
        parade.until(name, lambda job: (a := stage.attempt(job)) is not None and bool(a.nodes))
    first = stage.attempt(job["shuns 300"])
    assert first is not None
    parade.advise("shuns 300", *first.nodes)
    parade.advise("shuns nearly all", "gpu-001", "gpu-002")
    parade.until("forgotten", lambda job: parade.outcome(job) == "PENDING OPERATOR_HOLD")
    (home / "end").touch()
    for name in (kind, "shuns 300", "shuns nearly all"):
        parade.until(name, lambda job: parade.outcome(job) == CONVERGED)
    parade.until("forgotten", lambda job: parade.outcome(job).startswith("ABANDONED"))
    parade.until("neither way", parade.refused)
    parade.until("broken start", parade.refused)
    parade.until("of 300 nodes", lambda job: stage.attempt(job) is not None)


def test_a_job_of_hundreds_of_nodes_is_listed_described_and_takes_a_long_list(
    parade: Parade,
) -> None:
    clock = SystemClock()
    commands = Commands(clock, environ=parade.lab.env(logged=False))
    port = SlurmScheduler(ClusterId("slurm", "odd"), commands, clock)
    job = parade.jobs["of 300 nodes"]
    mixed = "rack[01-03]-n[001-060],rack04-n[001-030,040-060],gpu-[001,003]"
    nodes = port.hostnames(mixed)
    assert len(nodes) == len(set(nodes)) == 180 + 51 + 2
    assert nodes[-1] == "gpu-003"
    done = port.perform(Action(ActionKind.UPDATE, job, "a test", exclusions=SHUNNED), 20.0)
    assert done.answered is Answered.DONE
    listing, detail = port.listing(), port.detail(job)
    assert isinstance(listing, Known)
    assert isinstance(detail, Known)
    view = listing.value.job(job)
    assert view is not None
    assert (view.node_count, view.partitions) == (300, ("wide",))
    assert set(detail.value.excluded_nodes) == set(SHUNNED)
    attempt = parade.stage.attempt(job)
    assert attempt is not None
    assert attempt.node_count == 300
    partitions = port.partitions()
    assert isinstance(partitions, Known)
    (wide,) = (p for p in partitions.value if p.name == "wide")
    assert set(wide.nodes) == set(RACK_NODES)
    assert wide.usable == ()


def test_hundreds_of_nodes_that_a_user_avoids_stay_beside_ours(parade: Parade) -> None:
    """(Under JobRequeue=0 with --requeue.)"""
    job = parade.jobs["shuns 300"]
    assert parade.verbs(job) == ["requeue", "update"]
    first = parade.stage.attempt(job)
    assert first is not None
    assert names(parade, parade.excluded(job)) == {*SHUNNED, *first.nodes}
    assert parade.state(job, "State", "RestartCnt") == ("RUNNING", "1")


def test_among_hundreds_only_our_exclusions_are_shortened_where_no_node_is_left(
    parade: Parade,
) -> None:
    job = parade.jobs["shuns nearly all"]
    verbs = parade.verbs(job)
    assert verbs[:2] == ["requeue", "update"]
    assert set(verbs[2:]) == {"update"}, verbs
    left = names(parade, parade.excluded(job))
    assert {*RACK_NODES, "gpu-003"} <= left
    assert left != {*RACK_NODES, "gpu-001", "gpu-002", "gpu-003"}
    assert parade.state(job, "State", "RestartCnt") == ("RUNNING", "1")


def test_where_the_site_requeues_nothing_by_default_a_job_must_ask_for_it(parade: Parade) -> None:
    job = parade.jobs["neither way"]
    assert parade.grounds(job)[-1] == "not_requeueable"
    assert parade.verbs(job) == []
    assert "submit it with `#SBATCH --requeue`" in parade.told("explain", job)


def test_a_job_that_slurm_forgets_while_an_operator_holds_it_is_given_up(parade: Parade) -> None:
    job = parade.jobs["forgotten"]
    assert parade.outcome(job) == "ABANDONED TARGET_GONE"
    assert parade.verbs(job) == []
    assert "the scheduler has forgotten the job" in parade.told("explain", job)


def test_an_interactive_step_ends_with_the_attempt_that_it_is_in(parade: Parade) -> None:
    kind = "with an interactive step"
    job = parade.jobs[kind]
    assert parade.verbs(job) == ["requeue", "update"]
    parade.until(kind, lambda _: kind in parade.said)
    assert parade.said[kind] != "0"
    assert parade.state(job, "State", "RestartCnt") == ("RUNNING", "1")


def test_a_job_that_slurm_holds_after_a_broken_start_waits_for_a_person(parade: Parade) -> None:
    kind = "broken start"
    job = parade.jobs[kind]
    first = parade.stage.attempt(job)
    assert first is not None
    assert first.end is not None
    assert first.end.by is EndedBy.LAUNCH
    assert parade.grounds(job)[-1] == "held_after_broken_start"
    assert parade.state(job, "Reason") == ("launch failed requeued held",)
    assert f"scontrol release {job}" in parade.told("explain", f"{job}-0")
    rows = parade.told("jobs", "--all").splitlines()
    (row,) = [row for row in rows if row.split()[:2] == [job, "1"]]
    assert "launch failed requeued held" in row
    parade.by_root("scontrol", "update", "nodename=gpu-004", "state=resume")
    parade.lab.run(["scontrol", "release", job], user=parade.lab.spec.job_users[0])
    parade.until(kind, lambda job: (a := parade.stage.attempt(job, 1)) is not None and not a.held)
    assert parade.verbs(job) == []


def names(parade: Parade, expression: str) -> set[str]:
    return set(parade.by_root("scontrol", "show", "hostnames", expression).split())
