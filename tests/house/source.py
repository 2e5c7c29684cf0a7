"""Where the checkout lies and what is in it, for the tests of the house."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SRC = ROOT / "src"
PACKAGE = SRC / "middlewatch"
TOOLS = Path(sys.executable).parent

PURE_ROOMS = ("detection", "attribution", "remediation", "reconciliation")


def is_generated(path: Path) -> bool:
    """Whether protoc wrote the file."""
    return "_pb2" in path.name


def our_modules() -> list[Path]:
    """Every Python file of the package that a person wrote."""
    return sorted(path for path in PACKAGE.rglob("*.py") if not is_generated(path))


@cache
def tracked_files() -> tuple[Path, ...]:
    """Every file that git tracks, or everything but what was made, where there is no git."""
    git = shutil.which("git")
    if git is not None and (ROOT / ".git").exists():
        listed = subprocess.run(
            [git, "-c", f"safe.directory={ROOT}", "ls-files", "-z"],
            cwd=ROOT,
            check=True,
            capture_output=True,
        ).stdout
        names = [name for name in listed.decode().split("\0") if name]
        return tuple(path for path in (ROOT / name for name in names) if path.is_file())
    made = {".venv", ".uv", "build", "__pycache__", ".git"}
    return tuple(
        path
        for path in ROOT.rglob("*")
        if path.is_file()
        and not any(
            part in made or part.endswith("_cache") for part in path.relative_to(ROOT).parts
        )
    )


def copy_of_source(where: Path) -> Path:
    """A copy of src/ and pyproject.toml in which a test may plant what it likes."""
    shutil.copytree(SRC, where / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", where / "pyproject.toml")
    return where
