"""The watcher: one listing per tick, attempts into the store, logs into signals."""

from middlewatch.services.watcher.evidence import Evidence
from middlewatch.services.watcher.memory import Codec, Watch
from middlewatch.services.watcher.report import WatcherReport
from middlewatch.services.watcher.settings import WatcherSettings
from middlewatch.services.watcher.watcher import Watcher

__all__ = ["Codec", "Evidence", "Watch", "Watcher", "WatcherReport", "WatcherSettings"]
