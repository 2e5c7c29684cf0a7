"""Run everything that must hold before a change is taken, and say in one line how it went.

Checks (ruff, mypy, import contracts) come before the tests, but a failing check does not hide what the
tests would have said: all of it runs, and the last line counts both. Runners' own closing lines differ
from version to version; the line printed here does not: `N passed, N failed`, and `, N skipped` where
there are any. Exit status 0 only if nothing failed and at least one test ran.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
REPORT = ROOT / "build" / "tests.xml"

WORKERS = len(os.sched_getaffinity(0)) + 1
"""Tests on a real Slurm wait for it most of their time. Each worker starts a lab of its own; what is
installed or built is there before them, since they cannot do that at the same time."""

INSTALL = (
    "from middlewatch.lab.packages import COLLECTOR, METRICS, REST, SLURM, SSH, install; "
    "bundles = (SLURM, METRICS, SSH, REST, COLLECTOR); "
    "[print(*install(print, bundle), sep='\\n') for bundle in bundles]"
)

BUILD = """
from middlewatch.lab import victorialogs
state = victorialogs.available()
print(victorialogs.program(lambda line: print(line, flush=True)) if state.ok else state.reason)
"""

CHECKS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("ruff check", ("ruff", "check")),
    ("ruff format", ("ruff", "format", "--check")),
    ("import contracts", ("lint-imports",)),
    ("mypy --strict", ("mypy",)),
)


@dataclass(frozen=True, slots=True)
class Tally:
    """How many of something passed, failed and were left out."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(
            self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped
        )

    def line(self) -> str:
        """The closing line that people and CI read."""
        text = f"{self.passed} passed, {self.failed} failed"
        return f"{text}, {self.skipped} skipped" if self.skipped else text


def install_system_packages() -> bool:
    """Bring what the tests on a real Slurm need; True unless that was tried and failed.

    Only root can, and only on a Debian; elsewhere those tests say themselves why they are left out.
    """
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return True
    return run((sys.executable, "-c", INSTALL), "system packages")


def build_servers() -> None:
    """Build what the tests start from source, while it can be seen that this is what takes long.

    Where it cannot be, those tests say themselves why they are left out.
    """
    run((sys.executable, "-c", BUILD), "servers from source")


def run(argv: tuple[str, ...], title: str) -> bool:
    """Run one command with its output shown; True if it exited with 0."""
    print(f"── {title}", flush=True)
    began = time.monotonic()
    code = subprocess.run(argv, cwd=ROOT, check=False).returncode
    print(
        f"── {title}: {'ok' if code == 0 else f'FAILED, exit {code}'}, {time.monotonic() - began:.1f} s",
        flush=True,
    )
    return code == 0


def run_checks() -> Tally:
    """Run every static check, also after one has failed."""
    tally = Tally()
    tools = Path(sys.executable).parent
    for title, (tool, *arguments) in CHECKS:
        good = run((str(tools / tool), *arguments), title)
        tally += Tally(passed=1) if good else Tally(failed=1)
    return tally


def run_tests(arguments: list[str]) -> Tally:
    """Run pytest; its report file is what is counted, its exit status what is believed."""
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.unlink(missing_ok=True)
    side_by_side = ("-n", str(WORKERS), "--dist", "loadfile")
    # Sets have another order in every process, and workers must name the tests in the same one: one
    # seed for all, another for each run, since what depends on an order is a fault worth finding.
    seed = os.environ.setdefault("PYTHONHASHSEED", str(random.randrange(1, 1 << 32)))
    print(f"PYTHONHASHSEED={seed}", flush=True)
    good = run(
        (sys.executable, "-m", "pytest", f"--junitxml={REPORT}", *side_by_side, *arguments),
        "tests",
    )
    tally = read_report(REPORT)
    if not good and tally.failed == 0:  # an interrupted or broken run fails even if no test did
        tally += Tally(failed=1)
    if tally.passed + tally.failed == 0:
        print("no test ran", flush=True)
        tally += Tally(failed=1)
    return tally


def read_report(path: Path) -> Tally:
    """Count a JUnit report as pytest writes it; all zeros if there is none."""
    if not path.exists():
        return Tally()
    total = failed = skipped = 0
    for suite in ET.parse(path).getroot().iter("testsuite"):
        total += int(suite.get("tests", 0))
        failed += int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        skipped += int(suite.get("skipped", 0))
    return Tally(max(0, total - failed - skipped), failed, skipped)


def main() -> int:
    """Parse the few words there are, run, print the closing line."""
    parser = argparse.ArgumentParser(prog="python -m tools.suite", description=__doc__)
    parser.add_argument("--only-checks", action="store_true", help="leave the tests out")
    chosen, pytest_arguments = parser.parse_known_args()
    tally = Tally()
    if not chosen.only_checks and not install_system_packages():
        tally += Tally(failed=1)
    if not chosen.only_checks:
        build_servers()
    tally += run_checks()
    if not chosen.only_checks:
        tally += run_tests(pytest_arguments)
    print(tally.line(), flush=True)
    return 0 if tally.failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
