"""What can go wrong with a lab, with what a person needs to mend it in the message."""

from __future__ import annotations

from pathlib import Path


class LabError(Exception):
    """A lab could not do what was asked."""


class NotReady(LabError):
    """A daemon did not become ready; the message ends with the last lines of its log."""


class NoLab(LabError):
    """There is no lab in that folder."""


def tail(path: Path, lines: int = 15) -> str:
    """The last lines of a log for an error message; says so where there are none."""
    try:
        with path.open("rb") as handle:
            handle.seek(0, 2)
            handle.seek(max(0, handle.tell() - 8192))
            text = handle.read().decode(errors="replace")
    except OSError as error:
        return f"({path}: {error.strerror})"
    kept = text.strip().splitlines()[-lines:]
    return "\n".join([f"--- last lines of {path}", *kept]) if kept else f"({path} is empty)"
