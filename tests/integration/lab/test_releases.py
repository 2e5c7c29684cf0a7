"""Labs of other releases run beside the machine's own, and their files are fetched once, whole."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from middlewatch.lab import releases
from middlewatch.lab.errors import LabError
from middlewatch.lab.jobs import TrainerOptions
from middlewatch.lab.mounts import mount, mounted_below, unmount_below
from middlewatch.lab.spec import LabSpec
from middlewatch.lab.sweep import processes_of
from tests.labfixture import FreshLab, ReleaseLab, require_slurm

OTHERS = ("24.11", releases.NEWEST)


@pytest.mark.slurm
@pytest.mark.parametrize("release", OTHERS)
def test_a_lab_of_another_release_runs_a_job_to_its_end(
    release_lab: ReleaseLab, release: str
) -> None:
    lab = release_lab(release)
    job_id = lab.submit(TrainerOptions(nodes=2, steps=3, step_seconds=0.05))
    assert lab.wait_state(job_id, ("COMPLETED", "FAILED")) == "COMPLETED"
    # The script, the log and the checkpoint have the same names inside and outside.
    assert "after training is done" in (lab.home("games") / f"slurm-{job_id}.out").read_text()
    assert [row["State"] for row in lab.accounting(job_id)] == ["COMPLETED"]
    # As anybody sees it who has these commands first in his path, recorded or not.
    for logged in (True, False):
        seen = subprocess.run(
            ["scontrol", "version"],
            env=lab.env(logged),
            user="news",
            extra_groups=[],
            capture_output=True,
            text=True,
            check=True,
        )
        assert seen.stdout.split()[-1] == lab.version
    wanted = releases.named(release).slurm
    assert lab.version.startswith(wanted)
    print(f"{release}: Slurm {lab.version}")


@pytest.mark.slurm
def test_a_lab_of_another_release_leaves_nothing_mounted(fresh_lab: FreshLab) -> None:
    lab = fresh_lab(nodes=1, release="24.11")
    inside = lab.run(["sh", "-c", 'echo "$PWD"; . /etc/os-release; echo $VERSION_CODENAME'])
    assert inside.stdout.split() == [str(lab.folder), "trixie"]
    job_id = lab.submit("#!/bin/sh\nsetsid sleep 600 &\nsleep 600\n")
    lab.wait_state(job_id, "RUNNING")
    assert len(mounted_below(lab.folder)) == 4
    lab.down()
    assert mounted_below(lab.folder) == ()
    assert processes_of(lab.folder) == ()
    assert not lab.folder.exists()


def test_an_unknown_release_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(LabError, match=r"no release '23.02'; a lab runs 22\.05, 24\.11, newest"):
        releases.named("23.02")
    assert LabSpec(release="24.11").release == "24.11"


@pytest.mark.root
def test_nothing_is_removed_with_something_mounted_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "a b"
    (folder / "in").mkdir(parents=True)
    mount("-t", "tmpfs", "none", str(folder / "in"))
    (folder / "in" / "side").mkdir()
    mount("-t", "tmpfs", "none", str(folder / "in" / "side"))
    assert mounted_below(folder) == (folder / "in" / "side", folder / "in")
    unmount_below(folder)
    assert mounted_below(folder) == ()
    with pytest.raises(LabError, match="mount "):
        mount("--bind", str(tmp_path / "nothing"), str(folder))


# In place of debootstrap: notes the call, and links the files of a tree that was fetched before.
STAND_IN = """#!/bin/sh
echo called >> {calls}
for root; do case "$root" in /*) break;; esac; done
mkdir -p "$root/usr"
[ -e {deadly} ] && {{ rm {deadly}; kill -9 $PPID; exit 1; }}
cp -al {tree}/usr {tree}/etc "$root/"
for name in bin sbin lib lib64; do ln -s usr/$name "$root/$name"; done
"""
ASK = "from middlewatch.lab import releases;print(releases.tree(releases.named('24.11')).version)"


@pytest.mark.slurm
def test_a_killed_build_is_not_taken_for_a_whole_one_and_two_builders_build_once(
    tmp_path: Path,
) -> None:
    require_slurm()
    state = releases.available()
    assert state.ok, state.reason
    tree = releases.tree(releases.named("24.11"))
    # Beside the real cache: links cannot lead to another file system.
    with tempfile.TemporaryDirectory(prefix="test-", dir=tree.folder.parent) as made:
        cache = Path(made)
        stand_in = tmp_path / "debootstrap"
        calls, deadly = tmp_path / "calls", tmp_path / "deadly"
        stand_in.write_text(STAND_IN.format(calls=calls, deadly=deadly, tree=tree.folder))
        stand_in.chmod(0o755)
        deadly.touch()
        environ = {
            **os.environ,
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "XDG_CACHE_HOME": str(cache),
        }

        def ask() -> subprocess.Popen[str]:
            return subprocess.Popen(
                [sys.executable, "-c", ASK], env=environ, stdout=subprocess.PIPE, text=True
            )

        killed = ask()
        killed.communicate(timeout=300)
        assert killed.returncode == -9
        there = cache / "middlewatch" / "slurm"
        assert [path.name for path in there.glob("*.building-*")] != []
        assert not (there / tree.folder.name).exists()
        asked = [ask(), ask()]
        assert [one.communicate(timeout=300)[0].strip() for one in asked] == [tree.version] * 2
        assert calls.read_text().count("called") == 2
        assert [path for path in there.iterdir() if "building" in path.name] == []
