"""What every test may rely on: markers that say what a test needs, and skips that are never silent.

A test that needs root or a real Slurm carries `@pytest.mark.root` or `@pytest.mark.slurm`; without it
the test is skipped and the reason is shown. With CI=true a skipped or expected-to-fail test is a
failure: what is not run there would otherwise be believed.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# Locally Hypothesis searches anew at each run; in CI it repeats itself, so that a red run can be
# repeated. No deadline anywhere: a slow machine is not a wrong program.
settings.register_profile("local", deadline=None, print_blob=True)
settings.register_profile(
    "ci",
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "local")

# The rules on skips are tested on a copy of this file alone, without the lab's fixtures beside it.
if (Path(__file__).resolve().parent / "labfixture.py").exists():
    pytest_plugins = ["tests.labfixture"]


def in_ci() -> bool:
    """Whether skips count as failures."""
    return os.environ.get("CI") == "true"


def why_not(item: pytest.Item) -> str | None:
    """Why this machine cannot run the test, or None if it can."""
    needs_slurm = item.get_closest_marker("slurm") is not None
    needs_root = needs_slurm or item.get_closest_marker("root") is not None
    if needs_root and os.geteuid() != 0:
        return (
            "needs root (a real Slurm is installed and started by it)"
            if needs_slurm
            else "needs root"
        )
    if needs_slurm and sys.platform != "linux":
        return "needs Linux: Slurm runs nowhere else"
    if needs_slurm and shutil.which("apt-get") is None:
        return "needs a Debian: the lab installs Slurm with apt-get"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip, aloud, what this machine cannot run."""
    for item in items:
        reason = why_not(item)
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI a test that was skipped, or allowed to fail, has failed."""
    report = yield
    allowed = getattr(report, "wasxfail", None)
    if in_ci() and (report.skipped or allowed is not None):
        what = (
            f"expected failure ({allowed})"
            if allowed is not None
            else f"skipped ({reason_of(report)})"
        )
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid}: {what}; with CI=true nothing may be left out"
        if hasattr(report, "wasxfail"):
            del report.wasxfail
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """In CI a module that skips itself while it is imported has failed."""
    report = yield
    if in_ci() and report.outcome == "skipped":
        report.outcome = "failed"
        report.longrepr = f"{collector.nodeid}: skipped ({reason_of(report)}); with CI=true nothing may be left out"
    return report


def reason_of(report: pytest.TestReport | pytest.CollectReport) -> str:
    """The reason that a skip gave, as text."""
    if isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    return str(report.longrepr)
