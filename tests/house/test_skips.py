"""With CI=true nothing is left out quietly, and locally what is left out says why."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.source import ROOT

CASES = {
    "skipped": "import pytest\ndef test_x():\n    pytest.skip('no such thing here')\n",
    "expected to fail": "import pytest\n@pytest.mark.xfail(reason='known', strict=True)\ndef test_x():\n    assert False\n",
    "module skips itself": "import pytest\npytest.skip('not on this machine', allow_module_level=True)\n",
    "marked as skipped": "import pytest\n@pytest.mark.skip(reason='later')\ndef test_x():\n    pass\n",
}


def run(where: Path, source: str, ci: str) -> tuple[int, str]:
    """Exit status and output of pytest over one file, under our conftest."""
    (where / "conftest.py").write_text((ROOT / "tests" / "conftest.py").read_text())
    (where / "test_planted.py").write_text(source)
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-ra",
            "-p",
            "no:cacheprovider",
            "-c",
            "/dev/null",
            "--rootdir",
            str(where),
            str(where),
        ],
        cwd=where,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "CI": ci, "HOME": str(where)},
    )
    return ran.returncode, ran.stdout + ran.stderr


@pytest.mark.parametrize("case", CASES)
def test_what_is_left_out_fails_in_ci_with_its_reason(tmp_path: Path, case: str) -> None:
    code, output = run(tmp_path, CASES[case], ci="true")
    assert code != 0, output
    assert "nothing may be left out" in output


@pytest.mark.parametrize("case", ["skipped", "marked as skipped"])
def test_what_is_left_out_locally_says_why(tmp_path: Path, case: str) -> None:
    code, output = run(tmp_path, CASES[case], ci="")
    assert code == 0, output
    assert "no such thing here" in output or "later" in output


def test_passing_test_passes_in_ci(tmp_path: Path) -> None:
    code, output = run(tmp_path, "def test_x():\n    assert True\n", ci="true")
    assert code == 0, output
