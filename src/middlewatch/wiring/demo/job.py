"""The demo's job and the environment that it opts in to."""

from __future__ import annotations

from dataclasses import dataclass

ENVIRONMENT = "demo"


@dataclass(frozen=True, slots=True)
class Job:
    """The demo's job. Steps are counted from 1; the fault strikes rank 1 in attempt 0 alone."""

    nodes: int = 2
    steps: int = 90
    step_seconds: float = 0.2
    checkpoint_every: int = 10
    fault_at: int = 37
    fault: str = "crash-cuda"
    comment: str = ""
