"""What the command line says about jobs of a real Slurm."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from middlewatch.lab.cluster import Cluster
from tests.integration.cli.conftest import wait_until

pytestmark = pytest.mark.slurm
GOOD = '{"middlewatch":{"environment":"prod","mode":"action"}}'
STRIPPED = "{middlewatch:{environment:prod,mode:action}}"
SCRIPT = "#!/bin/sh\nsleep 300\n"


def mw(lab: Cluster, tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command, *rest = words
    return subprocess.run(
        [sys.executable, "-m", "middlewatch", command, "--state-dir", str(tmp_path / "s"), *rest],
        env={**lab.env(), "HOME": str(tmp_path), "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def findings(lab: Cluster, tmp_path: Path) -> list[dict[str, Any]]:
    done = mw(lab, tmp_path, "doctor", "--json")
    assert done.returncode in {0, 6}, done.stderr + done.stdout
    found: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    return found


def test_doctor_reads_a_real_slurm_without_a_failure(lab: Cluster, tmp_path: Path) -> None:
    found = {f["check"]: f for f in findings(lab, tmp_path)}
    assert lab.version in found["slurmctld"]["text"]
    assert found["clock"]["level"] == "ok"
    assert found["accounting"]["level"] == "ok"
    assert found["rights"]["level"] == "ok"
    assert found["listing"]["level"] == "ok"


def test_doctor_names_what_is_wrong_with_jobs_and_how_to_mend_it(
    lab: Cluster, tmp_path: Path
) -> None:
    broken = lab.submit(SCRIPT, comment=STRIPPED)
    fixed = lab.submit(SCRIPT, comment=GOOD, extra=["--no-requeue"])
    # Held, because a job whose log cannot be made ends as soon as it starts.
    hidden = lab.submit(SCRIPT, comment=GOOD, extra=["--hold", "--output=/nowhere/at/all/out"])
    lab.wait_state(fixed, ("RUNNING", "PENDING"))
    found = findings(lab, tmp_path)
    texts = [f["text"] for f in found]
    assert any(f"job {broken}" in text and "double quotes" in text for text in texts)
    assert any(f"job {fixed} cannot be requeued" in text for text in texts)
    assert any(f"job {hidden}" in text and "/nowhere/at/all" in text for text in texts)
    mends = [f["mend"] for f in found if f["level"] == "warn"]
    assert all(mends)
    assert any("#SBATCH --comment='" in mend for mend in mends)
    assert any("Requeue=1" in mend for mend in mends)


def test_doctor_names_a_job_that_no_batch_script_started(lab: Cluster, tmp_path: Path) -> None:
    words = ["salloc", "-N1", "-n1", f"--comment={GOOD}", "sleep", "60"]
    with subprocess.Popen(words, env=lab.env(), stderr=subprocess.DEVNULL) as waiting:
        try:
            wait_until(lambda: lab.run(["squeue", "-h", "-n", "interactive"]).stdout, "no job")
            texts = [f["text"] for f in findings(lab, tmp_path)]
        finally:
            waiting.terminate()
    assert any("no batch script" in text for text in texts)


def test_the_comment_of_a_real_job_is_checked(lab: Cluster, tmp_path: Path) -> None:
    good = lab.submit(SCRIPT, comment=GOOD)
    broken = lab.submit(SCRIPT, comment=STRIPPED)
    done = mw(lab, tmp_path, "check-comment", "--job", good)
    assert done.returncode == 0, done.stderr
    assert "mode  action" in done.stdout
    done = mw(lab, tmp_path, "check-comment", "--job", broken)
    assert done.returncode == 6
    assert "right #SBATCH --comment='" in done.stdout
    assert mw(lab, tmp_path, "check-comment", "--job", "999999").returncode == 3
