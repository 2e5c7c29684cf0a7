"""build/faults.json: the schedules on a real Slurm and those of the simulation, side by side."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.faults.simulated.explore import Explored
from tools.faults.simulated.judge import APART, COUNTS


def together(real: Mapping[str, Any] | None, simulated: Explored | None) -> dict[str, Any]:
    """One object: whatever both count is added up, and each part is there by itself as well."""
    told = {} if simulated is None else simulated.summary()
    counted = {
        name: int((real or {}).get(name, 0)) + int(told.get(name, 0)) for name in (*COUNTS, *APART)
    }
    return {
        "simulated_schedules": 0 if simulated is None else simulated.played,
        "real_schedules": {},
        **(real or {}),
        **counted,
        "simulated": told,
        "real": {name: (real or {})[name] for name in counted if name in (real or {})},
    }


def write(out: Path, real: Mapping[str, Any] | None, simulated: Explored | None) -> None:
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(together(real, simulated), indent=2) + "\n")


def simulation_went_wrong(simulated: Explored) -> list[str]:
    """Why the simulation does not count as a good one; empty: it does."""
    problems = [
        f"simulated: {name} is {simulated.counts[name]}, not 0"
        for name in COUNTS
        if simulated.counts[name]
    ]
    problems += [f"simulated: it never came about that {kind}" for kind in simulated.never_happened]
    if simulated.errors:
        problems.append(f"{len(simulated.errors)} simulated schedules could not be played")
    return problems
