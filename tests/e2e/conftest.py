"""The stage: the session's lab in order, and a state directory of the test's own."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from middlewatch.lab.cluster import Cluster
from tests.e2e.stage import Stage

_numbers = itertools.count(1)


@pytest.fixture
def stage(lab: Cluster) -> Iterator[Stage]:
    name = f"e2e-{next(_numbers)}"
    made = Stage(lab, lab.folder / name, name)
    yield made
    made.close()
