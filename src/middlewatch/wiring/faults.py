"""The kinds of errors at ports, by name, for the command line, which does not import ports."""

from __future__ import annotations

from middlewatch.ports.errors import Conflict, NotFound, PortError, Refused, Unreachable, Unreadable
from middlewatch.wiring.places import AlreadyRunning

KINDS = (NotFound, Conflict, Refused, Unreachable, Unreadable)


def kind_of(error: Exception) -> str | None:
    """``NotFound``, ``Conflict``, ``Refused``, ``Unreachable`` or ``Unreadable``; None for an
    error that did not come from a port."""
    if isinstance(error, AlreadyRunning):
        return "Conflict"
    if not isinstance(error, PortError):
        return None
    return next((kind.__name__ for kind in KINDS if isinstance(error, kind)), "Unreadable")
