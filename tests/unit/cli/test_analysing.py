"""analyze and score on the command line: what is printed, and what is said of bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from middlewatch.cli.app import app
from middlewatch.cli.failure import Exit

KEYS = [
    "kind",
    "class",
    "domain",
    "first_cause",
    "cascade_lines",
    "onset_line",
    "last_progress_step",
    "last_checkpoint_step",
    "implicated_nodes",
    "restart",
    "alarms",
    "unseen",
]
STEP = (
    " [2026-03-01 10:00:{0:02d}] iteration {0:8d}/   50000 | consumed samples: 512 | elapsed time per "
    "iteration (ms): 1000.0 | global batch size:   512 | lm loss: 4.0E+00 | grad norm: 0.312 |"
)
CRASH = """\
Traceback (most recent call last):
  File "train.py", line 9, in <module>
    main()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
srun: error: n1: task 3: Exited with exit code 1
"""


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(a) for a in arguments], prog_name="mw")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "job.log"
    path.write_text("".join(STEP.format(n) + "\n" for n in range(1, 40)) + CRASH)
    return path


@pytest.fixture
def facts(tmp_path: Path) -> Path:
    path = tmp_path / "facts.yaml"
    path.write_text("state: failed\nexit_code: 1:0\n")
    return path


def told(result: Result) -> Any:
    assert result.exit_code == Exit.OK, result.output
    return json.loads(result.stdout)


def test_json_has_exactly_the_documented_keys(log: Path, facts: Path) -> None:
    body = told(run("analyze", log, "--facts", facts, "--json"))
    assert list(body) == KEYS
    assert list(body["first_cause"]) == ["lines", "rank", "local_rank", "node"]
    assert list(body["restart"]) == ["advisable", "why"]
    assert all(
        list(alarm) == ["line", "at_s", "kind", "class", "would_act"] for alarm in body["alarms"]
    )
    assert (body["kind"], body["class"]) == ("crash", "gpu_oom")
    assert body["first_cause"]["lines"] == [[40, 43]]
    assert body["restart"]["advisable"] == "no"


def test_a_log_alone_is_enough(log: Path) -> None:
    body = told(run("analyze", log, "--json"))
    assert body["class"] == "gpu_oom"
    assert any("--facts" in text for text in body["unseen"])


def test_facts_may_be_json_and_times_a_clock(log: Path, tmp_path: Path) -> None:
    facts = tmp_path / "facts.json"
    facts.write_text('{"state": "RUNNING"}')
    times = tmp_path / "times"
    times.write_text("".join(f"{n * 10}\n" for n in range(44)))
    body = told(run("analyze", log, "--facts", facts, "--times", times, "--json"))
    assert body["alarms"] == [] or body["alarms"][0]["at_s"] >= 390


def test_the_story_names_cause_progress_and_advice(log: Path, facts: Path) -> None:
    result = run("analyze", log, "--facts", facts)
    assert result.exit_code == Exit.OK
    for words in ("it crashed: gpu_oom", "CUDA out of memory", "do not restart it", "Alarms"):
        assert words in result.output


def test_a_hostile_log_cannot_move_the_cursor(tmp_path: Path) -> None:
    path = tmp_path / "bad.log"
    path.write_bytes(
        b"\x00\xff\r\x1b[2J" * 100
        + b"\nTraceback (most recent call last):\nValueError: \x1b]0;x\x07\n"
    )
    result = run("analyze", path)
    assert result.exit_code == Exit.OK
    assert "\x1b" not in result.output
    assert "\x07" not in result.output


@pytest.mark.parametrize("data", [b"", b"\n", b"\r\r\r", b"\x00" * 5000, b"one line"])
def test_a_log_that_says_nothing_is_told_as_that(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "log"
    path.write_bytes(data)
    body = told(run("analyze", path, "--json"))
    assert (body["kind"], body["class"], body["first_cause"]) == ("healthy", "none", None)


def test_what_is_not_there_is_not_found(tmp_path: Path, log: Path) -> None:
    assert run("analyze", tmp_path / "none").exit_code == Exit.NOT_FOUND
    assert run("analyze", log, "--facts", tmp_path / "none").exit_code == Exit.NOT_FOUND
    assert run("score", tmp_path / "none").exit_code == Exit.NOT_FOUND


@pytest.mark.parametrize(
    ("option", "text", "said"),
    [
        ("--facts", "- FAILED", "must be a mapping"),
        ("--facts", "state: [", "neither JSON nor YAML"),
        ("--facts", "exit_code: one", "exit_code 'one'"),
        ("--facts", "x: !!python/object/apply:os.system [ls]", "neither JSON nor YAML"),
        ("--times", "1\n2\n", "2 times for 44 lines"),
        ("--times", "1\nsoon\n", "line 2: 'soon' is no number"),
        ("--times", "nan\n", "no usable time"),
    ],
)
def test_bad_input_is_named_with_its_file(
    log: Path, tmp_path: Path, option: str, text: str, said: str
) -> None:
    given = tmp_path / "given"
    given.write_text(text)
    result = run("analyze", log, option, given)
    assert result.exit_code == Exit.FAILED
    assert said in result.stderr
    assert "given" in result.stderr


def test_a_folder_is_no_log(tmp_path: Path) -> None:
    result = run("analyze", tmp_path)
    assert result.exit_code == Exit.FAILED
    assert "is a folder" in result.stderr


def test_of_several_attempts_the_last_one_is_told(tmp_path: Path, facts: Path) -> None:
    path = tmp_path / "log"
    first = "==== job 7 (x) on 1 nodes: n1 ====\n" + "".join(
        STEP.format(n) + "\n" for n in range(1, 20)
    )
    ended = "srun: error: Node failure on n9\nsrun: error: n1: task 0: Killed\n"
    again = "==== restart 1 of job 7 on nodes n1 ====\n" + "".join(
        STEP.format(n) + "\n" for n in range(10, 30)
    )
    path.write_text(first + ended + again + CRASH)
    body = told(run("analyze", path, "--facts", facts, "--json"))
    assert (body["class"], body["last_progress_step"]) == ("gpu_oom", 29)
    assert min(low for low, _ in body["first_cause"]["lines"]) > 22
    assert all(alarm["line"] > 22 for alarm in body["alarms"])
    assert "2 attempts" in run("analyze", path, "--facts", facts).output


# -- score ------------------------------------------------------------------------------------

LABEL = """\
id: x1
split: test
kind: crash
failure_class: {0}
first_cause: {{lines: [[40, 43]], rank: null, node: null}}
cascade_lines: [[44, 44]]
onset_line: 40
last_progress_step: 39
last_checkpoint_step: null
restart: {{advisable: no, why: it does not fit}}
implicated_nodes: []
scheduler_facts: {{state: FAILED, exit_code: 1:0}}
"""


def test_score_prints_figures_and_says_what_was_missed(log: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cases"
    folder.mkdir()
    (folder / "x1.log").write_bytes(log.read_bytes())
    label = folder / "x1.yaml"
    label.write_text(LABEL.format("gpu_oom"))
    right = run("score", folder, "--cases")
    assert right.exit_code == Exit.OK, right.output
    assert "0 were seen" in right.output
    assert "x1  crash gpu_oom" in right.output
    label.write_text(LABEL.format("data_error"))
    wrong = run("score", folder, "--json", "--cases")
    assert wrong.exit_code == Exit.FINDINGS
    body = json.loads(wrong.stdout)
    assert body["added_later"]["class_accuracy"]["value"] == 0.0
    assert body["cases"][0]["differs"] == ["class: said gpu_oom, label data_error"]
    assert [t["name"] for t in body["targets"] if not t["met"]] == ["class_accuracy"]


def test_a_folder_without_cases_is_nothing_to_score(tmp_path: Path) -> None:
    result = run("score", tmp_path)
    assert result.exit_code == Exit.NOT_FOUND
    assert "no labelled case" in result.stderr


def test_a_bad_label_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("kind: boom")
    (tmp_path / "x.log").write_text("")
    result = run("score", tmp_path)
    assert result.exit_code == Exit.FAILED
    assert "x.yaml" in result.stderr
