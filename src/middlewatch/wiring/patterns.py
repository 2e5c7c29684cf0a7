"""The patterns that the settings name, or what is wrong with them in the words of the settings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from middlewatch.wiring.loading import BadSettings, Problem
from middlewatch.wiring.settings import WatcherSettings

if TYPE_CHECKING:
    from middlewatch.adapters.scan.catalogue import Catalogue


def catalogue_of(given: WatcherSettings) -> Catalogue:
    """Ours, with the site's own. Raises `BadSettings`."""
    from middlewatch.adapters.scan.catalogue import BadPatternError, read_catalogue

    try:
        return read_catalogue(Path(given.patterns) if given.patterns else None)
    except BadPatternError as error:
        raise BadSettings([Problem("watcher.patterns", str(error))]) from error
