"""The five ways in which a port can fail. Adapters translate into these and keep the cause."""

from __future__ import annotations


class PortError(Exception):
    """Something outside did not go as asked; the message says what, where and how to mend it."""


class NotFound(PortError):
    """The thing is not there, and whoever was asked would know."""


class Conflict(PortError):
    """A version, lease or unique key moved meanwhile. Look again, decide again."""


class Refused(PortError):
    """Understood and declined: rights, limits, invalid input. Repeating will not help."""


class Unreachable(PortError):
    """No answer. After a write: it may have happened."""


class Unreadable(PortError):
    """An answer came that we do not understand."""
