"""What one tick did, for the log and for the metrics."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class WatcherReport:
    """Counts of one tick. ``listing_unknown`` says why the scheduler could not be seen: then
    nothing was concluded about any job. ``errors`` are sentences, one per job that had one;
    ``behind`` counts attempts whose files were not read to their end, ``bytes_behind`` what was left
    of those files; ``oldest_unread_s`` is how long ago the one of them (or of those whose log could
    not be asked for) that waits longest had been read to its end."""

    watchers: int = 1
    """Live ones that share the cluster."""
    share: float = 1.0
    """How much of it is this one's, 0 to 1."""
    listing_unknown: str | None = None
    jobs_listed: int = 0
    attempts_new: int = 0
    attempts_written: int = 0
    attempts_ended: int = 0
    watched: int = 0
    behind: int = 0
    bytes_behind: int = 0
    oldest_unread_s: float = 0.0
    bytes_read: int = 0
    lines_read: int = 0
    lines_lost: int = 0
    """Lines that a log store has and that came too late to be told from those that were read."""
    read_errors: int = 0
    hits: int = 0
    signals_stored: int = 0
    signals_capped: int = 0
    details_read: int = 0
    accounting_read: int = 0
    conflicts: int = 0
    resumed: int = 0
    alarms: int = 0
    errors: list[str] = field(default_factory=list)

    @property
    def something_new(self) -> bool:
        """Whether somebody who waits for signals should be woken."""
        return bool(self.signals_stored or self.attempts_new or self.attempts_ended)
