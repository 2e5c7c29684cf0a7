"""A pattern file of somebody's own, and what is said about one that will not do."""

from __future__ import annotations

from pathlib import Path

import pytest

from middlewatch.adapters.scan import BadPatternError, Re2Scanner, read_catalogue

GOOD = """
[[pattern]]
id = "site.overheated"
kind = "failure"
class = "gpu_off_bus"
domain = "hardware"
scope = "node"
regex = '''%BARE%sitewatch: node (?P<node>[\\w.-]+) overheated'''
source = "our own watcher"
examples = ['sitewatch: node n17 overheated at 99 C']
near_misses = ['sitewatch: node n17 is warm']
"""


def with_file(folder: Path, text: str) -> Path:
    (folder / "site.toml").write_text(text)
    return folder


def test_pattern_of_a_site_needs_no_python(tmp_path: Path) -> None:
    catalogue = read_catalogue(with_file(tmp_path, GOOD))
    (hit,) = Re2Scanner(catalogue).scan(b"sitewatch: node n17 overheated at 99 C\n", 0)
    assert (hit.pattern_id, dict(hit.groups)) == ("site.overheated", {"node": "n17"})


def test_pattern_of_a_site_may_replace_one_of_ours(tmp_path: Path) -> None:
    text = GOOD.replace("site.overheated", "python.traceback")
    catalogue = read_catalogue(with_file(tmp_path, text))
    assert catalogue.by_id()["python.traceback"].failure_class == "gpu_off_bus"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("pattern = [", "not TOML"),
        ("[pattern]\nid = 'x'\n", "two brackets"),
        (GOOD.replace("regex", "regexp"), "unknown key 'regexp'"),
        (GOOD.replace('kind = "failure"', 'kind = "fault"'), "kind is one of"),
        (GOOD.replace('domain = "hardware"', 'domain = "gpu"'), "domain is one of"),
        (GOOD.replace('scope = "node"', 'scope = "rack"'), "scope is one of"),
        (GOOD.replace("(?P<node>", "(?P<place>"), "unknown group 'place'"),
        (GOOD.replace("overheated'''", "(?=x)'''"), "RE2 refuses"),
        (GOOD.replace("overheated'''", "█'''"), "Latin-1"),
        (
            GOOD.replace("near_misses = ['sitewatch: node n17 is warm']", ""),
            "near_misses is missing",
        ),
        (GOOD + GOOD, "this id is taken"),
        (GOOD.replace('scope = "node"', "priority = true"), "priority must be a whole number"),
        (GOOD.replace("['sitewatch: node n17 is warm']", "[1]"), "must be a list of lines"),
    ],
)
def test_bad_file_is_refused_with_its_name_and_what_to_mend(
    tmp_path: Path, text: str, complaint: str
) -> None:
    with pytest.raises(BadPatternError, match=complaint) as refused:
        read_catalogue(with_file(tmp_path, text))
    assert "site.toml" in str(refused.value)


def test_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(BadPatternError, match=r"site\.toml"):
        read_catalogue(tmp_path)


def test_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadPatternError, match="no folder"):
        read_catalogue(tmp_path / "nowhere")
