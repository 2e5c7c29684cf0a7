"""Checkpoints that survive whatever kills the job, and a reader that passes over broken ones."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from .world import complain


def write_atomically(path: Path, data: bytes) -> None:
    """A reader sees the old file or the new one, also after a crash of the machine."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("wb") as handle:
        handle.write(data)
        handle.flush()
        os.fsync(handle.fileno())
    temporary.replace(path)
    folder = os.open(str(path.parent), os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def latest_checkpoint(folder: Path) -> tuple[dict[str, Any], Path] | None:
    """The newest whole checkpoint, or None. A file that cannot be read is passed over."""
    for path in sorted(folder.glob("step-*.json"), reverse=True):
        try:
            state: dict[str, Any] = json.loads(path.read_text())
        except (OSError, ValueError):
            complain(f"checkpoint {path} cannot be read, trying the one before it")
            continue
        return state, path
    return None
