"""A real Slurm for tests: one for the whole session, started at its first use, and fresh ones.

`slurm_lab` is the lab of the session (six nodes) as it is; `lab` is the same, put in order before
the test (no jobs, all nodes idle, all daemons running, command log empty) and after it;
`fresh_lab` makes a lab of the test's own: `fresh_lab(nodes=2, cred_expire=15)`.
`release_lab("24.11")` is the session's lab of that release (`RELEASES` in `middlewatch.lab.releases`),
in order before and after the test; `release_labs("24.11")` is the same as it is.
Tests that use them carry `@pytest.mark.slurm`.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from middlewatch.lab import commandlog, packages, releases
from middlewatch.lab.cluster import Cluster
from middlewatch.lab.errors import NoLab
from middlewatch.lab.spec import FOLDERS, LabSpec
from middlewatch.lab.start import up

FreshLab = Callable[..., Cluster]
ReleaseLab = Callable[[str], Cluster]


@pytest.fixture(scope="session")
def slurm_lab() -> Iterator[Cluster]:
    """The session's lab: six nodes, `train` has five of them."""
    require_slurm()
    take_down_what_killed_sessions_left()
    cluster = up(LabSpec(name=f"test-{os.getpid()}", nodes=6))
    try:
        yield cluster
    finally:
        cluster.down()


@pytest.fixture
def lab(slurm_lab: Cluster) -> Iterator[Cluster]:
    """The session's lab in order: idle, with nothing in its command log and no fault injected."""
    slurm_lab.tidy()
    commandlog.clear(slurm_lab.folder)
    yield slurm_lab
    slurm_lab.tidy()


@pytest.fixture(scope="session")
def release_labs(request: pytest.FixtureRequest) -> Iterator[ReleaseLab]:
    """The session's labs by release, each started at its first use, with six nodes.

    The machine's own release is `slurm_lab`; the others run in root directories of their own and
    take tokens.
    """
    made: dict[str, Cluster] = {}

    def lab_of(release: str) -> Cluster:
        require_slurm()
        if release not in made:
            own: Cluster = request.getfixturevalue("slurm_lab")
            if releases.is_the_machines(releases.named(release), own.version):
                return own
            state = releases.available()
            if not state.ok:
                pytest.skip(state.reason)
            name = f"test-{os.getpid()}-{release.replace('.', '-')}"
            made[release] = up(LabSpec(name=name, nodes=6, release=release, jwt=True))
        return made[release]

    yield lab_of
    for cluster in made.values():
        cluster.down()


@pytest.fixture
def release_lab(release_labs: ReleaseLab) -> Iterator[ReleaseLab]:
    """The session's labs by release, each that the test asks for in order."""
    used: dict[str, Cluster] = {}

    def lab_of(release: str) -> Cluster:
        if release not in used:
            cluster = release_labs(release)
            cluster.tidy()
            commandlog.clear(cluster.folder)
            used[release] = cluster
        return used[release]

    yield lab_of
    for cluster in used.values():
        cluster.tidy()


@pytest.fixture
def fresh_lab() -> Iterator[FreshLab]:
    """Makes labs that belong to one test; arguments are the fields of `LabSpec`."""
    require_slurm()
    made: list[Cluster] = []
    numbers = itertools.count(1)

    def make(**fields: Any) -> Cluster:
        name = fields.pop("name", f"test-{os.getpid()}-{next(numbers)}")
        cluster = up(LabSpec(name=name, **{"nodes": 2, **fields}))
        made.append(cluster)
        return cluster

    yield make
    for cluster in made:
        with contextlib.suppress(NoLab):
            cluster.down()


def require_slurm() -> None:
    """Skip, with the reason, where no lab can run."""
    state = packages.available()
    if not state.ok:
        pytest.skip(state.reason)


def take_down_what_killed_sessions_left() -> None:
    """A test session that was killed cannot clean up; the next one does."""
    for folder in FOLDERS.glob("middlewatch-lab-test-*"):
        pid = folder.name.removeprefix("middlewatch-lab-test-").split("-")[0]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            # Another session that begins now may be at the same folder.
            with contextlib.suppress(NoLab, FileNotFoundError):
                Cluster(folder).down()
