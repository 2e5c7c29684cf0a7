"""Rules about the tree as a whole: sizes, patching, and words that belong to somebody's machine."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

from tests.house.source import PACKAGE, ROOT, our_modules, tracked_files

PURE_TESTS = (ROOT / "tests" / "unit", ROOT / "tests" / "properties")
PATCHING = re.compile(
    r"\bmock\b|\bMagicMock\b|\bmonkeypatch\.(setattr|setitem|delattr)\b|\bmocker\b|\bpatch\s*\(|\bpatch\.(object|dict)\b"
)
BINARY = {".gz", ".xz", ".zst", ".png", ".jpg", ".ico", ".woff2", ".pyc", ".db"}

# Joined here, so that this file does not find itself. The first two: paths at the root of the file
# system alone, a user's /scratch/work/ is nobody's secret.
PRIVATE = re.compile(
    "|".join(
        "".join(parts)
        for parts in (
            (r"(?<![\w.$}-])/wo", "rk/"),
            (r"(?<![\w.$}-])/ro", r"ot/\."),
            (r"\.lib", "rary/"),
            (r"\.\./sha", "red"),
            ("/opt/", "wheels"),
            ("arti", "factory"),
        )
    )
)


def pure_tests() -> list[Path]:
    """The files that test the pure rooms."""
    return sorted(path for folder in PURE_TESTS for path in folder.rglob("*.py"))


def test_no_source_file_is_longer_than_600_lines() -> None:
    lengths = {
        str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in our_modules()
    }
    assert {path: lines for path, lines in lengths.items() if lines > 600} == {}


def test_no_room_is_a_grab_bag() -> None:
    bags = {"utils", "util", "helpers", "helper", "base", "common", "misc"}
    assert [
        str(path) for path in our_modules() if path.stem in bags or path.parent.name in bags
    ] == []


def test_tests_of_the_pure_rooms_patch_nothing() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in pure_tests()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if PATCHING.search(line)
    ]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "from unittest import mock",
        "with patch('x.y'):",
        "@patch.object(Thing, 'name')",
        "monkeypatch.setattr(module, 'name', value)",
    ],
)
def test_patching_is_recognised(line: str) -> None:
    assert PATCHING.search(line)


CORPUS = ROOT / "corpus"
"""Logs of invented jobs, in whose invented paths any folder may stand."""


def test_pure_rooms_have_at_least_a_hundred_tests() -> None:
    functions = [
        node.name
        for path in pure_tests()
        for node in ast.walk(ast.parse(path.read_text(), str(path)))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    assert len(functions) >= 100


def test_tree_names_nobodys_machine() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match.group()}"
        for path in tracked_files()
        if path.suffix not in BINARY and CORPUS not in path.parents
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        for match in PRIVATE.finditer(line)
    ]
    assert found == []


@pytest.mark.parametrize(
    "line", ["cd /wo" + "rk/main", "PATH=/ro" + "ot/.local/bin", "see ../sha" + "red/x"]
)
def test_paths_of_a_machine_are_recognised(line: str) -> None:
    assert PRIVATE.search(line)


def test_lock_file_names_the_public_index_alone() -> None:
    hosts = set(re.findall(r"https?://([^/\"\s]+)", (ROOT / "uv.lock").read_text()))
    assert hosts == {"pypi.org", "files.pythonhosted.org"}
    lock = tomllib.loads((ROOT / "uv.lock").read_text())
    sources = [package["source"] for package in lock["package"] if package["name"] != "middlewatch"]
    assert {tuple(source.items()) for source in sources} == {
        (("registry", "https://pypi.org/simple"),)
    }


def test_every_direct_dependency_gives_its_reason() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)
    wanted = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
    names = {re.split(r"[\s\[<>=!~;]", requirement, maxsplit=1)[0] for requirement in wanted}
    text = (ROOT / "docs" / "dependencies.md").read_text()
    assert sorted(name for name in names if f"`{name}`" not in text) == []


def test_every_folder_of_source_is_a_package() -> None:
    folders = {path.parent for path in our_modules()}
    assert (
        sorted(
            str(folder.relative_to(PACKAGE))
            for folder in folders
            if not (folder / "__init__.py").exists()
        )
        == []
    )
