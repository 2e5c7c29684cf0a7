"""The stage: the session's lab in order, and a state directory of the test's own.

`up` runs as root, and in the tests of whole recoveries also as the jobs' owner (a state directory
below XDG_STATE_HOME, no right but the owner's) and as an Operator. Of these some are run by default;
``MIDDLEWATCH_TEST_TRANSPORTS=all`` runs all of them.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pytest

from middlewatch.lab.cluster import Cluster
from tests.e2e.stage import Stage

_numbers = itertools.count(1)

BY_ANYBODY = frozenset({"test_recovery.py", "test_gates.py"})
TELLING = frozenset(  # an owner's recovery is among the tests of single_user
    {
        "test_a_crashed_job_goes_on_beyond_the_fault_without_the_bad_node[operator]",
    }
)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out, as deselected, what other users need not repeat."""
    everything = os.environ.get("MIDDLEWATCH_TEST_TRANSPORTS") == "all"
    not_now = [item for item in items if _left_out(item, everything)]
    if not_now:
        config.hook.pytest_deselected(items=not_now)
        items[:] = [item for item in items if item not in not_now]


def _left_out(item: pytest.Item, everything: bool) -> bool:
    spec = getattr(item, "callspec", None)
    if spec is None or spec.params.get("stage", "root") == "root":
        return False
    if item.path.name not in BY_ANYBODY:
        return True
    return not everything and item.name not in TELLING


@pytest.fixture(params=["root", "owner", "operator"])
def stage(request: pytest.FixtureRequest, lab: Cluster) -> Iterator[Stage]:
    name = f"e2e-{next(_numbers)}"
    spec = lab.spec
    user = {"root": "", "owner": spec.job_users[0], "operator": spec.operator}[request.param]
    made = Stage(lab, lab.folder / name, name, user=user)
    yield made
    made.close()
