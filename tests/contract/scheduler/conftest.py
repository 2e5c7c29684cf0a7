from __future__ import annotations

import pytest

from tests.contract.scheduler.worlds import Real, Simulated, World


@pytest.fixture(
    params=[
        pytest.param("22.05.8", id="simulated-22.05"),
        pytest.param("26.05.5", id="simulated-26.05"),
        pytest.param("slurm", id="slurm", marks=pytest.mark.slurm),
    ]
)
def world(request: pytest.FixtureRequest) -> World:
    """An idle cluster behind the scheduler port."""
    if request.param == "slurm":
        return Real(request.getfixturevalue("lab"))
    return Simulated(request.param)
