"""What the import contracts cannot say about the pure rooms: the standard library alone, no await."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house.source import PACKAGE, PURE_ROOMS, TOOLS, copy_of_source

STDLIB_ONLY = ("model", *PURE_ROOMS, "ports", "services/watchdog")

PLANTS: tuple[tuple[str, str], ...] = (
    ("import datetime as dt", "dt.datetime.now(dt.UTC)"),
    ("from datetime import datetime, UTC", "datetime.now(UTC)"),
    ("from datetime import datetime", "datetime.utcnow()"),
    ("from datetime import date", "date.today()"),
    ("import time", "time.time()"),
    ("from time import monotonic", "monotonic()"),
    ("import time", "time.sleep(1)"),
    ("import random", "random.random()"),
    ("import uuid", "uuid.uuid4()"),
    ("from uuid import uuid1", "uuid1()"),
    ("import os", "os.urandom(8)"),
    ("import secrets", "secrets.token_hex()"),
)


def imported_by(path: Path) -> set[str]:
    """The top-level names that a module imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add((node.module or "").partition(".")[0])
    return found


@pytest.mark.parametrize("room", STDLIB_ONLY)
def test_room_imports_the_standard_library_and_us_alone(room: str) -> None:
    allowed = sys.stdlib_module_names | {"middlewatch"}
    modules = sorted((PACKAGE / room).rglob("*.py"))
    assert modules, f"no room {room}"
    foreign = {
        str(path.relative_to(PACKAGE)): sorted(imported_by(path) - allowed)
        for path in modules
        if imported_by(path) - allowed
    }
    assert foreign == {}


@pytest.mark.parametrize("room", ["model", *PURE_ROOMS, "ports"])
def test_pure_room_neither_awaits_nor_opens_nor_prints(room: str) -> None:
    asynchronous = (ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith)
    world = {"open", "print", "input", "exec", "eval", "breakpoint"}
    found = [
        f"{path.relative_to(PACKAGE)}:{node.lineno}"
        for path in sorted((PACKAGE / room).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(), str(path)))
        if isinstance(node, asynchronous)
        or (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in world
        )
    ]
    assert found == []


def banned(where: Path, path: str) -> list[str]:
    """The TID251 findings of ruff in one file of a copy."""
    ran = subprocess.run(
        [
            str(TOOLS / "ruff"),
            "check",
            "--no-cache",
            "--select",
            "TID251",
            "--output-format",
            "json",
            path,
        ],
        cwd=where,
        capture_output=True,
        text=True,
        check=False,
    )
    return [finding["code"] for finding in json.loads(ran.stdout)]


@pytest.mark.parametrize(("line", "use"), PLANTS)
@pytest.mark.parametrize(
    "room", ["reconciliation", "services/controller", "adapters/slurm", "wiring"]
)
def test_clock_and_chance_are_banned(tmp_path: Path, room: str, line: str, use: str) -> None:
    where = copy_of_source(tmp_path)
    path = f"src/middlewatch/{room}/planted.py"
    (where / path).write_text(f'"""Planted."""\n\n{line}\n\nVALUE = {use}\n')
    assert "TID251" in banned(where, path)


def test_clock_adapter_may_read_the_clock(tmp_path: Path) -> None:
    where = copy_of_source(tmp_path)
    path = "src/middlewatch/adapters/clock/planted.py"
    (where / path).write_text('"""Planted."""\n\nimport time\n\nVALUE = time.time()\n')
    assert banned(where, path) == []
