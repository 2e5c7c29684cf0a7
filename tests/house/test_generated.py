"""The generated wire code is committed, so it can fall behind its source; this notices."""

from __future__ import annotations

from pathlib import Path

from tools import proto


def contents(folder: Path) -> dict[str, str]:
    """Every generated file by its path in the folder."""
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*.py*")
        if path.suffix in {".py", ".pyi"}
    }


def test_committed_wire_code_is_what_proto_generates(tmp_path: Path) -> None:
    assert proto.generate(tmp_path) == 0
    assert contents(proto.TARGET) == contents(tmp_path), "run `make proto` and commit the result"
