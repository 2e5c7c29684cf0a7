"""The list of planted bugs keeps up with the code that they are planted in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.mutants import MUTANTS, ROOT, Mutant, planted


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_each_bug_can_be_planted_in_the_present_code(mutant: Mutant, tmp_path: Path) -> None:
    copy = tmp_path / "src" / "middlewatch" / mutant.file
    copy.parent.mkdir(parents=True)
    copy.write_text((ROOT / "src" / "middlewatch" / mutant.file).read_text())
    planted(mutant, tmp_path)
    compile(copy.read_text(), str(copy), "exec")
    assert mutant.becomes in copy.read_text()


def test_a_bug_whose_place_is_gone_is_told(tmp_path: Path) -> None:
    copy = tmp_path / "src" / "middlewatch" / "a.py"
    copy.parent.mkdir(parents=True)
    copy.write_text("x = 1\n")
    with pytest.raises(ValueError, match="0 times"):
        planted(Mutant("gone", "a.py", "y = 2", "y = 3"), tmp_path)
