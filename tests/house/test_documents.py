"""Rules about the documents: a link leads somewhere, and what a page names is there."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from middlewatch.cli.app import app
from middlewatch.wiring.settings import specs
from tests.house.source import PACKAGE, ROOT, tracked_files

PAGES = tuple(path for path in tracked_files() if path.suffix == ".md")
TEMPLATE = ROOT / "docs" / "adr" / "0000-template.md"
"""Its link stands for one that its user writes."""
FENCED = re.compile(r"^```.*?^```[^\S\n]*$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FILE = re.compile(
    r"(?<![\w./-])((?:tests|tools|src|proto|adapters|services|wiring|lab|model|cli)/[\w./-]*\w)"
)
COMMAND = re.compile(
    r"(?:`|^\$ |^# |bin/|&& |-- |^)(?:mw|middlewatch) ([a-z][a-z-]*(?![:\w-])[^`\n|;&#<>]*)",
    re.MULTILINE,
)
NOT_SETTINGS = {"md", "log", "alive", "pid", "lock", "py"}


def anchors_of(text: str) -> set[str]:
    """The anchors that GitHub makes of a page's headings."""
    found: dict[str, int] = {}
    anchors = set()
    for heading in re.findall(r"^#{1,6} +(.+)$", FENCED.sub("", text), re.MULTILINE):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", words).strip().replace(" ", "-")
        number = found[anchor] = found.get(anchor, -1) + 1
        anchors.add(f"{anchor}-{number}" if number else anchor)
    return anchors


def broken_links(page: Path) -> list[str]:
    found: list[str] = []
    for target in LINK.findall(CODE.sub("", FENCED.sub("", page.read_text()))):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        other = page.parent / name if name else page
        if not other.exists() or (anchor and anchor not in anchors_of(other.read_text())):
            found.append(f"{page.name}: {target}")
    return found


def unknown_words(line: str) -> list[str]:
    """Words of a command line of ours that name no command and no option of it."""
    found: list[str] = []
    command: click.Command = app
    context = click.Context(app, info_name="mw")
    options = {"--help"} | {name for one in app.params for name in one.opts}
    for word in line.split():
        if isinstance(command, click.Group) and re.fullmatch(r"[a-z][a-z-]*", word.rstrip(",")):
            inner = command.get_command(context, word.rstrip(","))
            if inner is None:
                return [*found, word]
            command = inner
            options |= {name for one in inner.params for name in (*one.opts, *one.secondary_opts)}
        elif re.match(r"--[a-z]", word):
            option = word.rstrip(",.").partition("=")[0]
            if option not in options:
                found.append(option)
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_and_anchor_leads_somewhere(page: Path) -> None:
    assert page == TEMPLATE or broken_links(page) == []


def test_the_readme_leads_to_every_page() -> None:
    linked = set(LINK.findall((ROOT / "README.md").read_text()))
    pages = {f"docs/{page.name}" for page in PAGES if page.parent == ROOT / "docs"}
    assert {page for page in pages if not any(one.startswith(page) for one in linked)} == set()


def test_a_link_that_leads_nowhere_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A `b`, c\n[x](#a-b-c) [y](#a-b) [z](other.md)\n```\n[q](gone.md)\n```\n")
    assert broken_links(page) == ["page.md: #a-b", "page.md: other.md"]


def test_files_that_a_page_names_are_there() -> None:
    missing = [
        f"{page.name}: {name}"
        for page in PAGES
        for code in CODE.findall(FENCED.sub("", page.read_text()))
        for name in FILE.findall(code)
        if not any((root / name).exists() for root in (ROOT, PACKAGE))
    ]
    assert missing == []


def test_commands_and_options_that_a_page_names_are_there() -> None:
    wrong = [
        f"{page.name}: mw {line.strip()}: {word}"
        for page in PAGES
        for line in COMMAND.findall(page.read_text())
        for word in unknown_words(line)
    ]
    assert wrong == []


def test_targets_of_make_that_a_page_names_are_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {
        name
        for page in PAGES
        for name in re.findall(
            r"(?:`|^|\$ |&& )make ([a-z][a-z-]*)", page.read_text(), re.MULTILINE
        )
    }
    assert "test" in named
    assert named - targets == set()


def test_a_command_that_is_none_is_noticed() -> None:
    assert unknown_words("jobs --me") == []
    assert unknown_words("job --everything") == ["--everything"]
    assert unknown_words("config mend") == ["mend"]


def test_settings_that_a_page_names_are_there() -> None:
    keys = {f"{spec.section}.{spec.key}" for spec in specs()}
    sections = "|".join(sorted({key.partition(".")[0] for key in keys}))
    named = re.compile(rf"`((?:{sections})\.([a-z_]+))`")
    wrong = [
        f"{page.name}: {key}"
        for page in PAGES
        for key, last in named.findall(page.read_text())
        if key not in keys and last not in NOT_SETTINGS
    ]
    assert wrong == []


def test_the_list_of_decisions_is_complete_and_true() -> None:
    folder = ROOT / "docs" / "adr"
    rows = re.findall(
        r"^\| \[(\d{4})\]\(([^)]+)\) \| .+ \| (.+) \|$",
        (folder / "README.md").read_text(),
        re.MULTILINE,
    )
    records = sorted(path for path in folder.glob("[0-9]*.md") if path != TEMPLATE)
    assert [name for _, name, _ in rows] == [path.name for path in records]
    for (number, name, status), path in zip(rows, records, strict=True):
        assert name.startswith(f"{number}-")
        stated = re.search(r"^Status: (\w+)", path.read_text(), re.MULTILINE)
        assert stated, f"{name} has no line `Status: …`"
        assert status.startswith(stated[1])
