"""How the program's own log looks: one event per line, fixed keys, nothing that a user's text or
a secret could slip into.

For people on a terminal, JSON or logfmt elsewhere; always on standard error.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from typing import Any, TextIO

import structlog

from middlewatch.wiring.plain import plain, plain_lines
from middlewatch.wiring.settings import LogFormat, LogLevel, LogSettings

USER_TEXT_LIMIT = 200
_SECRET = ("token", "secret", "password", "authorization", "cookie", "credential")
_LEVELS = {
    LogLevel.DEBUG: logging.DEBUG,
    LogLevel.INFO: logging.INFO,
    LogLevel.WARNING: logging.WARNING,
    LogLevel.ERROR: logging.ERROR,
}
Event = MutableMapping[str, Any]


def configure(settings: LogSettings, stream: TextIO | None = None) -> None:
    """Set structlog up for this process. Called once, before the first event."""
    out = stream or sys.stderr
    shape = settings.format
    if shape is LogFormat.AUTO:
        shape = LogFormat.HUMAN if out.isatty() else LogFormat.JSON
    last: Any
    if shape is LogFormat.HUMAN:
        last = structlog.dev.ConsoleRenderer(
            colors=out.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    elif shape is LogFormat.JSON:
        last = structlog.processors.JSONRenderer(ensure_ascii=False)
    else:
        last = structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"])
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            harmless,
            last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[settings.level]),
        logger_factory=structlog.WriteLoggerFactory(file=out),
        cache_logger_on_first_use=True,
    )


def harmless(_logger: object, _method: str, event: Event) -> Event:
    """Strip and bound every text of an event, and leave out what is named like a secret."""
    for key, value in event.items():
        if any(word in key.lower() for word in _SECRET):
            event[key] = "(not logged)"
        elif key == "exception":
            # A traceback is ours, but its message may quote what a user wrote.
            event[key] = "\n".join(plain(line, 400) for line in plain_lines(value).split("\n"))
        elif isinstance(value, str):
            event[key] = plain(value, USER_TEXT_LIMIT)
        elif isinstance(value, list | tuple | set | frozenset):
            event[key] = [plain(item, USER_TEXT_LIMIT) for item in list(value)[:50]]
        elif not isinstance(value, int | float | bool | type(None)):
            event[key] = plain(value, USER_TEXT_LIMIT)
    return event
