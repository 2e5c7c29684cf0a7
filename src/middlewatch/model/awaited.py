"""What a dependency expression of Slurm's waits for."""

from __future__ import annotations

import re

_TERM = re.compile(r"(after(?:any|notok|ok|corr|burstbuffer)?):([\d_+:()A-Za-z]+)")
_JOB = re.compile(r"(\d+(?:_\d+)?)(?:\+\d+)?(?:\([A-Za-z ]*\))?")


def awaited(dependency: str) -> tuple[tuple[str, str], ...]:
    """(job id, kind) of each job that a dependency expression names; of a whole array, its id."""
    found: list[tuple[str, str]] = []
    for term in re.split(r"[,?]", dependency):
        match = _TERM.match(term.strip())
        if match:
            found.extend((job, match.group(1)) for job in _JOB.findall(match.group(2)))
    return tuple(found)
