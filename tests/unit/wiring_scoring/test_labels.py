"""Labels are written by people: what can be read, and what is said of what cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from middlewatch.wiring.analysis import BadInput
from middlewatch.wiring.scoring.labels import label_from, labels_in

LABEL = """\
id: x1
split: test
kind: crash
failure_class: data_error
also_acceptable_classes: [storage_io_error]
first_cause:
  lines:
  - [3, 5]
  - 7
  rank: 0
  node: n-1
cascade_lines: []
onset_line: 3
last_progress_step: 10
last_checkpoint_step: null
restart: {advisable: yes, why: once}
scheduler_facts: {state: FAILED, exit_code: 1:0}
"""


def case(folder: Path, text: str = LABEL, name: str = "x1") -> Path:
    (folder / f"{name}.log").write_bytes(b"a\nb\n")
    path = folder / f"{name}.yaml"
    path.write_text(text)
    return path


def test_a_label_is_read_as_yaml_1_2(tmp_path: Path) -> None:
    label = label_from(case(tmp_path))
    assert (label.id, label.kind, label.seen) == ("x1", "crash", False)
    assert label.classes == ("data_error", "storage_io_error")
    assert label.first == ((3, 5), (7, 7))
    assert (label.rank, label.local_rank, label.node) == (0, None, "n-1")
    assert (label.advisable, label.checkpoint_step) == ("yes", None)
    assert (label.facts.exit_code, label.facts.exit_signal) == (1, 0)
    assert label.times is None


def test_the_split_says_what_the_authors_could_see(tmp_path: Path) -> None:
    assert label_from(case(tmp_path, LABEL.replace("split: test", "split: dev"))).seen


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("kind: crash", "kind: explosion", "kind is 'explosion'"),
        ("advisable: yes", "advisable: perhaps", "restart.advisable is 'perhaps'"),
        ("- [3, 5]", "- [3, 5, 6]", "no range of lines"),
        ("rank: 0", "rank: zero", "no whole number"),
        ("onset_line: 3", "onset_line: [", "neither JSON nor YAML"),
        ("state: FAILED, exit_code: 1:0", "exit_code: x", "exit_code 'x'"),
    ],
)
def test_what_is_wrong_is_named_with_its_file(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    with pytest.raises(BadInput, match=r"x1\.yaml") as caught:
        label_from(case(tmp_path, LABEL.replace(old, new)))
    assert said in str(caught.value)


def test_a_label_without_its_log_is_no_case(tmp_path: Path) -> None:
    path = case(tmp_path)
    path.with_suffix(".log").unlink()
    with pytest.raises(BadInput, match="missing") as caught:
        label_from(path)
    assert caught.value.missing


def test_a_folder_without_cases_is_empty_and_none_is_an_error(tmp_path: Path) -> None:
    assert labels_in(tmp_path) == ()
    with pytest.raises(BadInput, match="no such folder"):
        labels_in(tmp_path / "none")
