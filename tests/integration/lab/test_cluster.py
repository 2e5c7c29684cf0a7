"""A lab starts, serves, is found again, and leaves nothing."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from middlewatch.lab import config, freeports, jobs
from middlewatch.lab.cluster import Cluster
from middlewatch.lab.config import Layout, Ports
from middlewatch.lab.errors import LabError, NoLab
from middlewatch.lab.patience import wait_for
from middlewatch.lab.spec import LabSpec
from middlewatch.lab.start import up
from middlewatch.lab.sweep import processes_of
from tests.labfixture import FreshLab

STUBBORN = "#!/bin/sh\ntrap '' TERM\nsetsid sleep 600 &\nsleep 600\nsleep 600\n"


def claimed(folder: Path) -> bool:
    """Whether a block of ports is claimed for that lab."""
    marks = Path("/run/lock/middlewatch-lab").glob("[0-9]*")
    return any(str(folder) in mark.read_text().splitlines() for mark in marks)


def listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.slurm
def test_two_labs_run_side_by_side_and_leave_nothing(fresh_lab: FreshLab) -> None:
    # At the same moment: neither takes the other's ports, nor its database's temporary files.
    with ThreadPoolExecutor() as pool:
        one, two = pool.map(lambda nodes: fresh_lab(nodes=nodes), (1, 2))
    ids = {lab.folder: lab.submit(STUBBORN, extra=["--export=NONE"]) for lab in (one, two)}
    for lab in (one, two):
        lab.wait_state(ids[lab.folder], "RUNNING")
    assert one.spec.cluster != two.spec.cluster
    assert one.run(["squeue", "-h", "-o", "%u"]).stdout == "games\n"
    # Both labs count their jobs from 1: the listings are each lab's own.
    assert ids[one.folder] == ids[two.folder] == "1"

    ports = two.record().ports
    assert listening(ports.slurmctld)
    assert listening(ports.mariadbd)
    one.down()
    assert processes_of(one.folder) == ()
    assert two.job("1")["JobState"] == "RUNNING"
    two.down()
    assert processes_of(two.folder) == ()
    assert not one.folder.exists()
    assert not two.folder.exists()
    assert not claimed(one.folder)
    assert not claimed(two.folder)
    assert not any(listening(port) for port in (ports.slurmctld, ports.slurmdbd, ports.mariadbd))
    # To its end: a lab of another release may have a name that goes on (-2, -24-11).
    of_two = re.compile(re.escape(str(two.folder)).encode() + rb"(?:[/\0]|$)")
    sleeping = [
        path
        for path in Path("/proc").glob("[0-9]*/environ")
        if os.access(path, os.R_OK) and of_two.search(read(path))
    ]
    assert sleeping == []


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.mark.slurm
def test_a_lab_that_stays_on_the_disk_can_be_read_and_started_anew(fresh_lab: FreshLab) -> None:
    lab = fresh_lab(nodes=1, name=f"test-{os.getpid()}-kept")
    lab.down(remove=False)
    assert processes_of(lab.folder) == ()
    assert "slurmctld version" in (lab.layout.log / "slurmctld.log").read_text()
    with pytest.raises(NoLab):
        Cluster.load(lab.folder)
    again = up(LabSpec(name=f"test-{os.getpid()}-kept", nodes=1))
    assert again.node_state("gpu-001") == "idle"


@pytest.mark.slurm
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_start_leaves_nothing(tmp_path: Path, signum: signal.Signals) -> None:
    name = f"test-{os.getpid()}-cut"
    folder = LabSpec(name=name).path
    # What a shell started in the background ignores SIGINT, and so would its children.
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
        "from middlewatch.lab.start import up; from middlewatch.lab.spec import LabSpec;"
        f"up(LabSpec(name={name!r}, nodes=2))"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL)
    state = folder / "lab.json"
    assert wait_for(
        lambda: state.exists() and "slurmdbd" in state.read_text().split('"daemons"')[1], 30
    )
    child.send_signal(signum)
    assert child.wait(timeout=30) != 0
    if signum == signal.SIGKILL:
        assert processes_of(folder) != ()
        Cluster(folder).down()
    assert processes_of(folder) == ()
    assert not folder.exists()
    assert not claimed(folder)


@pytest.mark.slurm
def test_a_start_that_fails_says_why_and_leaves_nothing(fresh_lab: FreshLab) -> None:
    name = f"test-{os.getpid()}-bad"
    with pytest.raises(LabError) as caught:
        fresh_lab(name=name, extra=("SelectType=select/nonsense",))
    assert "slurmctld ended" in str(caught.value)
    assert "select/nonsense" in str(caught.value)
    assert not LabSpec(name=name).path.exists()
    assert processes_of(LabSpec(name=name).path) == ()


@pytest.mark.slurm
def test_a_running_lab_is_not_started_over(lab: Cluster) -> None:
    with pytest.raises(LabError, match="a lab is running in"):
        up(lab.spec)
    assert lab.node_state("gpu-001") == "idle"


@pytest.mark.slurm
def test_a_folder_that_is_not_a_labs_is_never_touched(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(LabError, match="is not empty and is not a lab's folder"):
        up(LabSpec(folder=tmp_path))
    with pytest.raises(NoLab):
        Cluster(tmp_path).down()
    assert (tmp_path / "thesis.tex").read_text() == "mine"


@pytest.mark.slurm
def test_a_folder_that_other_users_cannot_enter_is_refused(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(LabError, match="cannot be entered by other users"):
        up(LabSpec(folder=closed / "lab"))
    assert list(closed.iterdir()) == []


@pytest.mark.slurm
def test_a_host_name_that_does_not_resolve_and_a_strict_umask_are_no_obstacle() -> None:
    name = f"test-{os.getpid()}-odd"
    code = (
        "import socket; from middlewatch.lab.start import up; from middlewatch.lab.spec import LabSpec;"
        f"lab = up(LabSpec(name={name!r}, nodes=2));"
        "job = lab.submit('#!/bin/sh\\nsrun hostname\\n', extra=['-N2', '--partition=urgent']);"
        "print(socket.gethostname(), lab.wait_state(job, ['COMPLETED', 'FAILED']));"
        "print((lab.home('games') / f'slurm-{job}.out').read_text()); lab.down()"
    )
    answer = subprocess.run(
        ["unshare", "--uts", "sh", "-c", 'hostname nowhere-7; umask 077; exec "$@"', "sh", sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
    )  # fmt: skip
    words = answer.stdout.split()
    assert words == ["nowhere-7", "COMPLETED", "nowhere-7", "nowhere-7"], answer.stderr


@pytest.mark.slurm
def test_jobs_need_no_python_of_the_machine(lab: Cluster) -> None:
    """The running interpreter may lie where only its owner can go, and Debian may have none."""
    folder = lab.folder / "copied"
    folder.mkdir()
    jobs.copy_interpreter(folder / "python", folder / "lab-python")
    trainer = ["-m", "trainer", "--steps=6", "--step-seconds=0", "--format=plain"]
    answer = lab.run(
        [str(folder / "lab-python"), *trainer, f"--checkpoint-dir={lab.home('games')}/copied"],
        user="games",
        env={"PYTHONPATH": str(lab.folder / "lib"), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    assert "middlewatch: step=6 total=6 " in answer.stdout
    where = lab.run(
        [
            str(folder / "lab-python"),
            "-c",
            "import sys, json; print(sys.executable, json.__file__)",
        ],
        user="games",
    )
    assert all(word.startswith(str(folder)) for word in where.stdout.split())


@pytest.mark.slurm
def test_another_process_finds_the_lab_and_its_daemons(lab: Cluster) -> None:
    found = Cluster.load(lab.folder)
    assert found.record() == lab.record()
    found.kill_node("gpu-006")
    assert not lab.running("slurmd@gpu-006")
    lab.start_node("gpu-006")
    assert found.running("slurmd@gpu-006")


@pytest.mark.slurm
def test_a_frozen_controller_answers_nothing_until_it_is_thawed(lab: Cluster) -> None:
    lab.freeze("slurmctld")
    assert lab.running("slurmctld")
    with pytest.raises(subprocess.TimeoutExpired):
        lab.run(["squeue"], timeout=1.5)
    lab.thaw("slurmctld")
    assert lab.run(["squeue", "-h"], timeout=30).stdout == ""


@pytest.mark.slurm
def test_a_controller_killed_and_started_again_still_knows_its_jobs(lab: Cluster) -> None:
    job_id = lab.submit("#!/bin/sh\nsleep 600\n", user="news")
    lab.wait_state(job_id, "RUNNING")
    lab.stop_daemon("slurmctld")
    assert lab.run(["scontrol", "ping"], check=False).returncode == 1
    lab.start_daemon("slurmctld")
    assert lab.job(job_id)["JobState"] == "RUNNING"


@pytest.mark.slurm
def test_accounting_can_be_away_for_a_while(lab: Cluster) -> None:
    lab.stop_daemon("slurmdbd", signal.SIGKILL)
    assert lab.run(["sacct", "-n"], check=False).returncode == 1
    job_id = lab.submit("#!/bin/sh\nsleep 600\n")
    assert lab.job(job_id)["JobState"] == "PENDING"
    lab.start_daemon("slurmdbd")
    assert wait_for(lambda: [r["JobIDRaw"] for r in lab.accounting(job_id)] == [job_id], 60)


@pytest.mark.slurm
def test_each_user_may_do_in_the_lab_what_they_may_do_on_a_cluster(lab: Cluster) -> None:
    job_id = lab.submit("#!/bin/sh\nsleep 600\n", user="games")
    lab.wait_state(job_id, "RUNNING")
    other = lab.run(["scontrol", "requeue", job_id], user="news", check=False)
    assert "Access/permission denied" in other.stderr
    lab.run(["scontrol", "requeue", job_id], user=lab.spec.operator)
    lab.wait_state(job_id, "PENDING")
    node = ["scontrol", "update", "nodename=gpu-001", "state=drain", "reason=x"]
    assert lab.run(node, user=lab.spec.operator, check=False).returncode == 1


def test_the_configuration_fits_each_release() -> None:
    assert config.cgroup_conf("22.05.8") == "CgroupPlugin=cgroup/v1\n"
    assert config.cgroup_conf("24.11.5") == "CgroupPlugin=disabled\n"
    assert config.cgroup_conf("26.05.5") == "CgroupPlugin=disabled\n"


def test_the_configuration_says_what_the_spec_says() -> None:
    spec = LabSpec(nodes=3, cred_expire=15, job_file_append=True, extra=("MaxJobId=99",))
    text = config.slurm_conf(spec, Layout(Path("/lab")), Ports(1, 2, 3, (4, 5, 6)), "h")
    lines = text.splitlines()
    assert "AuthInfo=socket=/lab/munge-socket/s,cred_expire=15" in lines
    assert "JobFileAppend=1" in lines
    assert "MaxJobId=99" in lines
    assert "SlurmctldHost=h(127.0.0.1)" in lines
    assert [line.split()[0] for line in lines if line.startswith("NodeName=")] == [
        "NodeName=gpu-001",
        "NodeName=gpu-002",
        "NodeName=gpu-003",
    ]
    assert any(line.startswith("PartitionName=train Nodes=gpu-001,gpu-002 ") for line in lines)


@pytest.mark.parametrize(
    "fields", [{"name": "../etc"}, {"name": ""}, {"nodes": 0}, {"extra": ("A=1\nB=2",)}]
)
def test_a_spec_that_cannot_be_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ValueError):
        LabSpec(**fields)  # type: ignore[arg-type]


@pytest.mark.slurm
def test_labs_that_start_together_get_different_ports(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in "abc"]
    try:
        blocks = [freeports.claim(folder, 9) for folder in folders]
        assert len({port for block in blocks for port in block}) == 27
    finally:
        for folder in folders:
            freeports.release(folder)
    assert not any(claimed(folder) for folder in folders)
