"""Which engine is used, and whose compiled patterns it trusts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from middlewatch.adapters.scan import (
    Catalogue,
    Engine,
    Re2Scanner,
    read_catalogue,
    scanner_for,
)
from middlewatch.adapters.scan.cores import LEAST, cores, word_length
from middlewatch.adapters.scan.engine import (
    MOST_KEPT,
    HyperscanScanner,
    cache_folder,
    database_of,
    engine_of,
    refused_of,
)
from middlewatch.adapters.scan.syntax import tree
from middlewatch.model.pattern import Pattern, PatternKind

SMALL = Catalogue(tuple(p for p in read_catalogue().patterns if p.id.startswith("cuda."))[:5])
LINE = b"RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
SITE = """
[[pattern]]
id = "site.overheated"
kind = "failure"
class = "gpu_off_bus"
regex = '''^sitewatch: node (?P<node>[\\w.-]+) overheated'''
source = "our own watcher"
examples = ['sitewatch: node n17 overheated at 99 C']
near_misses = ['sitewatch: node n17 is warm']
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    pytest.importorskip("hyperscan", reason="no Hyperscan on this machine")
    return tmp_path / "cache"


WITHOUT = """
import sys
sys.modules["hyperscan"] = None  # as where there is no wheel: the import fails
from middlewatch.adapters.scan.catalogue import read_catalogue
from middlewatch.adapters.scan.engine import Engine, NoEngineError, engine_of, scanner_for
try:
    print(engine_of(scanner_for(read_catalogue(), Engine(sys.argv[1]))).value)
except NoEngineError as error:
    print(error)
"""


def without_hyperscan(engine: Engine) -> str:
    """What is chosen, or said, in a process that has no Hyperscan."""
    answer = subprocess.run(
        (sys.executable, "-c", WITHOUT, engine.value), capture_output=True, text=True, check=True
    )
    return answer.stdout


def kept(folder: Path) -> Path:
    (found,) = folder.glob("*.hsdb")
    return found


def found(scanner: object) -> list[str]:
    assert isinstance(scanner, HyperscanScanner)
    return [hit.pattern_id for hit in scanner.scan(LINE, 0)]


def test_fast_engine_is_used_where_there_is_one(folder: Path) -> None:
    assert engine_of(scanner_for(SMALL, folder=folder)) is Engine.HYPERSCAN


def test_re2_is_used_where_there_is_no_other() -> None:
    assert without_hyperscan(Engine.AUTO) == "re2\n"


def test_engine_that_was_asked_for_by_name_and_is_missing_is_an_error() -> None:
    assert "watcher.engine" in without_hyperscan(Engine.HYPERSCAN)


def test_re2_is_used_where_it_is_asked_for() -> None:
    assert engine_of(scanner_for(SMALL, Engine.RE2)) is Engine.RE2


def test_patterns_of_a_site_are_searched_by_re2(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text(SITE)
    catalogue = read_catalogue(tmp_path)
    scanner = HyperscanScanner(catalogue, folder)
    assert scanner.by_re2 == ("site.overheated",)
    block = b"sitewatch: node n17 overheated at 99 C\n" + LINE
    first, *rest = scanner.scan(block, 0)
    assert (first.pattern_id, first.groups) == ("site.overheated", (("node", "n17"),))
    assert [first, *rest] == Re2Scanner(catalogue).scan(block, 0)


WORDLESS = {
    "native.segfault_details",
    "native.check_failed",
    "program.interrupted",
    "python.exception",
    "stack.frame",
    "stack.native_frame",
    "torchrun.report_head",
}
"""Measured, and cheap enough: a rare byte stands where the word is missing."""


def test_patterns_of_ours_give_the_engine_a_word_to_look_for() -> None:
    # One that does not can make the whole catalogue four times slower.
    found = {
        pattern.id
        for pattern in read_catalogue().patterns
        for core in cores(tree(pattern.regex))
        if word_length(core) < LEAST
    }
    assert found <= WORDLESS, "measure it: make bench ONLY=detect"


def test_pattern_that_hyperscan_refuses_costs_the_others_nothing(folder: Path) -> None:
    assert refused_of([(0, "error"), (1, "a$b"), (2, "node")]) == [(1, "a$b")]
    odd = Pattern(id="odd.end", kind=PatternKind.HINT, regex=r"node(?: lost$|,) gone")
    catalogue = Catalogue((*SMALL.patterns, odd))
    scanner = HyperscanScanner(catalogue, folder)
    assert scanner.by_re2 == ("odd.end",)
    block = LINE + b"node, gone\n"
    assert scanner.scan(block, 0) == Re2Scanner(catalogue).scan(block, 0)


def test_what_was_compiled_is_kept_for_us_alone(folder: Path) -> None:
    HyperscanScanner(SMALL, folder)
    assert kept(folder).stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700


def test_what_was_kept_is_read_back_and_finds_the_same(folder: Path) -> None:
    first = found(HyperscanScanner(SMALL, folder))
    before = kept(folder).stat()
    assert found(HyperscanScanner(SMALL, folder)) == first
    after = kept(folder).stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_other_patterns_are_kept_under_another_name(folder: Path) -> None:
    HyperscanScanner(SMALL, folder)
    HyperscanScanner(Catalogue(SMALL.patterns[:3]), folder)
    assert len(list(folder.glob("*.hsdb"))) == 2


def test_old_ones_are_removed(folder: Path) -> None:
    for number in range(MOST_KEPT + 3):
        database_of([(0, f"line{number}")], folder)
    assert len(list(folder.iterdir())) == MOST_KEPT


@pytest.mark.parametrize(
    "spoilt", ["byte", "short", "empty", "digest", "writable", "link", "names"]
)
def test_kept_file_that_is_not_as_we_left_it_is_made_anew(folder: Path, spoilt: str) -> None:
    HyperscanScanner(SMALL, folder)
    path = kept(folder)
    data = path.read_bytes()
    match spoilt:
        case "byte":
            path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
        case "short":
            path.write_bytes(data[: len(data) // 2])
        case "empty":
            path.write_bytes(b"")
        case "digest":
            path.write_bytes(b"0" * 64 + data[64:])
        case "writable":
            path.chmod(0o666)
        case "link":
            path.rename(folder / "elsewhere")
            path.symlink_to(folder / "elsewhere")
        case "names":
            os.link(path, folder / "another")
    assert "cuda.ecc_uncorrectable" in found(HyperscanScanner(SMALL, folder))
    assert path.read_bytes() == data
    assert not path.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.stat().st_nlink == 1


@pytest.mark.root
def test_kept_file_of_somebody_else_is_not_read(folder: Path) -> None:
    HyperscanScanner(SMALL, folder)
    os.chown(kept(folder), 65534, 65534)
    HyperscanScanner(SMALL, folder)
    assert kept(folder).stat().st_uid == os.geteuid()


def test_folder_that_others_can_write_to_is_not_used(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o777)
    assert "cuda.ecc_uncorrectable" in found(HyperscanScanner(SMALL, folder))
    assert list(folder.iterdir()) == []


def test_folder_that_is_a_link_is_not_used(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "real")
    HyperscanScanner(SMALL, folder)
    assert list((tmp_path / "real").iterdir()) == []


def test_folder_that_cannot_be_made_is_done_without(folder: Path) -> None:
    folder.write_text("a file stands here")
    assert "cuda.ecc_uncorrectable" in found(HyperscanScanner(SMALL, folder / "below"))


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"XDG_CACHE_HOME": "/c", "HOME": "/h"}, Path("/c/middlewatch")),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/h"}, Path("/h/.cache/middlewatch")),
        ({"HOME": "/h"}, Path("/h/.cache/middlewatch")),
        ({}, None),
    ],
)
def test_folder_is_the_users_own(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], expected: Path | None
) -> None:
    for name in ("XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert cache_folder() == expected
