"""A contract that nobody has seen broken may check nothing: each is broken here once, in a copy."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.house.source import ROOT, copy_of_source

RUN = "import sys; sys.path.insert(0, 'src'); from importlinter.cli import lint_imports_command; lint_imports_command()"

# One planted file and import for each way that a contract can be broken.
VIOLATIONS: tuple[tuple[str, str, str], ...] = (
    ("model-imports-nothing-of-ours", "model", "import middlewatch.ports"),
    ("model-imports-nothing-of-ours", "model", "import middlewatch.reconciliation"),
    ("pure-rooms-import-only-model", "detection", "import middlewatch.ports"),
    ("pure-rooms-import-only-model", "attribution", "import middlewatch.contract"),
    ("pure-rooms-import-only-model", "remediation", "import middlewatch.adapters.sql"),
    ("pure-rooms-import-only-model", "reconciliation", "import middlewatch.services.controller"),
    ("pure-rooms-do-not-know-each-other", "reconciliation", "import middlewatch.remediation"),
    ("pure-rooms-do-not-know-each-other", "attribution", "import middlewatch.detection"),
    ("ports-import-only-model", "ports", "import middlewatch.reconciliation"),
    ("ports-import-only-model", "ports", "import middlewatch.adapters.slurm"),
    ("pure-rooms-touch-no-world", "model", "import msgspec"),
    ("pure-rooms-touch-no-world", "model", "import random"),
    ("pure-rooms-touch-no-world", "detection", "import re2"),
    ("pure-rooms-touch-no-world", "detection", "from google.protobuf import message"),
    ("pure-rooms-touch-no-world", "attribution", "import logging"),
    ("pure-rooms-touch-no-world", "remediation", "from sqlalchemy import select"),
    ("pure-rooms-touch-no-world", "reconciliation", "from time import monotonic"),
    ("pure-rooms-touch-no-world", "reconciliation", "import subprocess"),
    ("pure-rooms-touch-no-world", "ports", "import asyncio"),
    ("contract-imports-only-model", "contract", "import middlewatch.ports"),
    ("adapters-import-only-ports-and-model", "adapters/slurm", "import middlewatch.reconciliation"),
    ("adapters-import-only-ports-and-model", "adapters/api", "import middlewatch.services.gateway"),
    ("adapters-import-only-ports-and-model", "adapters/logs", "import middlewatch.lab"),
    ("only-the-api-adapter-speaks-the-contract", "adapters/sql", "import middlewatch.contract"),
    ("adapters-do-not-know-each-other", "adapters/sql", "import middlewatch.adapters.clock"),
    ("services-import-no-outer-room", "services/watcher", "import middlewatch.adapters.logs"),
    ("services-import-no-outer-room", "services/manager", "import middlewatch.wiring"),
    ("services-do-not-know-each-other", "services/watcher", "import middlewatch.services.manager"),
    ("watchdog-needs-almost-nothing", "services/watchdog", "import structlog"),
    ("watchdog-needs-almost-nothing", "services/watchdog", "import middlewatch.remediation"),
    ("wiring-does-not-know-the-command-line", "wiring", "import middlewatch.cli"),
    ("cli-is-thin", "cli", "import middlewatch.adapters.sql"),
    ("cli-is-thin", "cli", "import middlewatch.services.gateway"),
    ("cli-is-thin", "cli", "import middlewatch.reconciliation"),
    ("lab-imports-ports-and-model", "lab", "import middlewatch.adapters.slurm"),
    ("lab-imports-ports-and-model", "lab", "import middlewatch.wiring"),
)

# Imports that the map allows and that a contract written too broadly would forbid.
LAWFUL: tuple[tuple[str, str], ...] = (
    ("detection", "import middlewatch.model"),
    ("ports", "import middlewatch.model"),
    ("adapters/api", "import middlewatch.contract"),
    ("adapters/api", "import middlewatch.ports"),
    ("services/watchdog", "import middlewatch.reconciliation"),
    ("services/watchdog", "import middlewatch.ports"),
    ("services/manager", "import middlewatch.remediation"),
    ("services/gateway", "import middlewatch.contract"),
    ("wiring", "import middlewatch.services.gateway"),
    ("wiring", "import middlewatch.adapters.sql"),
    ("wiring", "import middlewatch.lab"),
    ("cli", "import middlewatch.wiring"),
    ("cli", "import middlewatch.lab"),
    ("cli", "import middlewatch.adapters.api"),
    ("lab", "import middlewatch.ports"),
)


def contracts() -> dict[str, str]:
    """Id and name of every contract that we keep."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        kept = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    return {contract["id"]: contract["name"] for contract in kept}


def lint(where: Path, contract: str | None = None) -> tuple[int, str]:
    """Exit status and output of lint-imports over a copy, for one contract or for all."""
    chosen = ["--contract", contract] if contract else []
    ran = subprocess.run(
        [sys.executable, "-P", "-c", RUN, "--no-cache", *chosen],
        cwd=where,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin", "COLUMNS": "400", "HOME": str(where)},
    )
    return ran.returncode, ran.stdout + ran.stderr


def plant(where: Path, room: str, line: str) -> None:
    """Write a module with one import into a room of the copy."""
    (where / "src" / "middlewatch" / room / "planted.py").write_text(f'"""Planted."""\n\n{line}\n')


def test_untouched_source_keeps_every_contract(tmp_path: Path) -> None:
    code, output = lint(copy_of_source(tmp_path))
    assert code == 0, output
    assert f"{len(contracts())} kept, 0 broken" in output


@pytest.mark.parametrize(("contract", "room", "line"), VIOLATIONS)
def test_planted_violation_breaks_its_contract(
    tmp_path: Path, contract: str, room: str, line: str
) -> None:
    where = copy_of_source(tmp_path)
    plant(where, room, line)
    code, output = lint(where, contract)
    assert code != 0, output
    assert f"{contracts()[contract]} BROKEN" in output
    assert "planted" in output


def test_lawful_arrows_break_no_contract(tmp_path: Path) -> None:
    where = copy_of_source(tmp_path)
    for number, (room, line) in enumerate(LAWFUL):
        path = where / "src" / "middlewatch" / room / f"planted_{number}.py"
        path.write_text(f'"""Planted."""\n\n{line}\n')
    code, output = lint(where)
    assert code == 0, output


def test_every_contract_has_a_planted_violation() -> None:
    assert set(contracts()) == {contract for contract, _, _ in VIOLATIONS}
