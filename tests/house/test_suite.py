"""The closing line is what CI believes, so its counting is tested with reports that pytest wrote."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools.suite import Tally, read_report

MIXED = """
import pytest
def test_good(): pass
def test_also_good(): pass
def test_bad(): assert False
@pytest.fixture
def broken(): raise RuntimeError("no")
def test_unready(broken): pass
def test_left_out(): pytest.skip("why")
"""


def report_of(where: Path, source: str) -> Path:
    """The JUnit report of pytest over one file."""
    (where / "test_planted.py").write_text(source)
    report = where / "report.xml"
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-c",
            "/dev/null",
            "--rootdir",
            str(where),
            f"--junitxml={report}",
            str(where),
        ],
        cwd=where,
        capture_output=True,
        check=False,
    )
    return report


def test_report_is_counted_as_pytest_saw_it(tmp_path: Path) -> None:
    assert read_report(report_of(tmp_path, MIXED)) == Tally(passed=2, failed=2, skipped=1)


def test_broken_module_counts_as_failed(tmp_path: Path) -> None:
    assert read_report(report_of(tmp_path, "import nothing_of_this_name\n")) == Tally(failed=1)


def test_missing_report_counts_nothing(tmp_path: Path) -> None:
    assert read_report(tmp_path / "none.xml") == Tally()


@pytest.mark.parametrize(
    ("tally", "line"),
    [
        (Tally(12, 0), "12 passed, 0 failed"),
        (Tally(3, 1, 2), "3 passed, 1 failed, 2 skipped"),
        (Tally(1) + Tally(2, 3), "3 passed, 3 failed"),
    ],
)
def test_closing_line_has_the_form_that_is_read(tally: Tally, line: str) -> None:
    assert tally.line() == line
