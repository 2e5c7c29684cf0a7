"""What must be on disk before a command that could leave a job held.

The watchdog works from this alone: it has neither the gateway nor the store.
"""

from __future__ import annotations

from typing import Protocol

from middlewatch.model.journal import JournalEntry, JournalKind

__all__ = ["Journal", "JournalEntry", "JournalKind"]


class Journal(Protocol):
    def append(self, entry: JournalEntry) -> None:
        """Durable (fsynced) when it returns. Raises `Unreachable` where it cannot be written:
        then the command must not be sent. Raises `Refused` for an entry that no journal takes
        (a time without a zone, a line beyond the bound)."""

    def entries(self) -> tuple[JournalEntry, ...]:
        """All entries that can be read, oldest first; a torn last line is skipped.

        Raises `Unreachable` where the journal cannot be read: then nothing is known of what
        stands. No journal at all is an empty one.
        """
