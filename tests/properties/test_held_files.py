"""A file that is kept open between two looks gives what one that is opened each time gives."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from middlewatch.adapters.logs import FileLogs
from middlewatch.ports.scanner import Block, Cursor

UID = os.geteuid()
PIECES = st.one_of(
    st.binary(max_size=40),
    st.binary(max_size=40).map(lambda line: line + b"\n"),
    st.sampled_from((b"step 1\n", b"step 2\n" * 300, b"\r", b"\n", b"x" * 70_000)),
)
OPERATIONS = st.one_of(
    st.tuples(st.just("append"), PIECES),
    st.tuples(st.just("append"), PIECES),
    st.tuples(st.just("rewrite"), PIECES),
    st.tuples(st.just("shorten"), st.integers(0, 400)),
    st.tuples(st.just("rotate"), PIECES),
    st.tuples(st.just("remove"), st.none()),
    st.tuples(st.just("link"), st.none()),
    st.tuples(st.just("replace"), PIECES),
)


def change(log: Path, what: str, given: object) -> None:
    match what, given:
        case "append", bytes(data):
            with log.open("ab") as file:
                file.write(data)
        case "rewrite", bytes(data):
            log.write_bytes(data)
        case "shorten", int(size):
            if log.exists():
                os.truncate(log, min(size, log.stat().st_size))
        case "rotate", bytes(data):
            if log.exists():
                log.rename(log.with_name(f"{log.name}.1"))
            log.write_bytes(data)
        case "remove", _:
            log.unlink(missing_ok=True)
        case "link", _:
            # A second name: from now on the file is refused.
            if log.exists() and not log.with_name("second").exists():
                os.link(log, log.with_name("second"))
        case "replace", bytes(data):
            new = log.with_name("new")
            new.write_bytes(data)
            new.rename(log)
        case _:
            raise AssertionError(what)


# Whole files are generated here; that showing one would be long is no finding.
@pytest.mark.filterwarnings("ignore:Generating overly large repr")
@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(OPERATIONS, st.booleans()), max_size=25), st.sampled_from((0, 1, 8)))
def test_what_is_read_does_not_depend_on_what_is_kept_open(
    operations: list[tuple[tuple[str, object], bool]], hold: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "out.log"
        holding = FileLogs(hold=hold)
        cursor: Cursor | None = None
        for (what, given_to_it), looks in [(("append", b"begun\n"), True), *operations]:
            change(log, what, given_to_it)
            if not looks:
                continue
            held = holding.read(str(log), UID, cursor, 1 << 16)
            fresh = FileLogs().read(str(log), UID, cursor, 1 << 16)
            assert held == fresh
            if isinstance(held, Block):
                cursor = held.cursor
