"""How a command fails: one exit code, one sentence, one hint, for people or for programs."""

from __future__ import annotations

import json
import sys
from enum import IntEnum
from typing import IO, Any

import click

from middlewatch.wiring.plain import plain_lines

SCHEMA_VERSION = 1


class Exit(IntEnum):
    """The exit codes, documented in docs/cli.md."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    REFUSED = 4
    CONFLICT = 5
    FINDINGS = 6
    TRY_LATER = 75
    CONFIGURATION = 78


WORDS = {
    Exit.FAILED: "failed",
    Exit.USAGE: "usage",
    Exit.NOT_FOUND: "not_found",
    Exit.REFUSED: "refused",
    Exit.CONFLICT: "conflict",
    Exit.FINDINGS: "findings",
    Exit.TRY_LATER: "try_later",
    Exit.CONFIGURATION: "configuration",
}


class Failure(click.ClickException):
    """A command that cannot do what was asked. ``hint`` says how to mend it."""

    def __init__(self, code: Exit, message: str, hint: str = "", **details: Any) -> None:
        super().__init__(message)
        self.code = code
        self.hint = hint
        self.details = details

    def show(self, file: IO[Any] | None = None) -> None:
        report(self.code, self.message, self.hint, self.details, as_json=False, file=file)


def report(
    code: Exit,
    message: str,
    hint: str,
    details: dict[str, Any],
    *,
    as_json: bool,
    file: IO[Any] | None = None,
) -> None:
    """Write a failure to standard error: lines for people, one object for programs."""
    out = file or sys.stderr
    if as_json:
        error = {"code": WORDS[code], "exit_code": int(code), "message": message, "hint": hint}
        body = {"schema_version": SCHEMA_VERSION, "error": {**error, **details}}
        print(json.dumps(body), file=out)
        return
    print(f"error: {plain_lines(message)}", file=out)
    if hint:
        print(f"  {plain_lines(hint)}".replace("\n", "\n  "), file=out)


def at_a_port(error: Exception) -> Failure | None:
    """The failure for one of the five kinds of errors at ports; None for any other."""
    from middlewatch.wiring.faults import kind_of

    codes = {
        "NotFound": Exit.NOT_FOUND,
        "Conflict": Exit.CONFLICT,
        "Refused": Exit.REFUSED,
        "Unreachable": Exit.TRY_LATER,
        "Unreadable": Exit.FAILED,
    }
    kind = kind_of(error)
    return None if kind is None else Failure(codes[kind], str(error))
