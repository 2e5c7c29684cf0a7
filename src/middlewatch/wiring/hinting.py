"""Where hints are left, and leaving one."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from middlewatch.adapters.hints.file import touch
from middlewatch.wiring import places
from middlewatch.wiring.settings import Settings


def hint_path(settings: Settings, state: Path) -> Path:
    """The file that is touched."""
    given = settings.watcher.hint_file
    return Path(given).expanduser().absolute() if given else state / "hint"


def give(settings: Settings, environ: Mapping[str, str]) -> str:
    """Leave a hint; what kept it from being left, or nothing."""
    path = hint_path(settings, places.found(settings, environ).state)
    try:
        touch(path)
    except OSError as error:
        return (
            f"no hint was left: {path}: {error.strerror or error}; set watcher.hint_file to a file "
            "that this user may touch"
        )
    return ""
