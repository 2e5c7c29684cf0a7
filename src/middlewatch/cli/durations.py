"""Durations as they are given on the command line: ``90s``, ``2h``, ``1h30m``."""

from __future__ import annotations

import click


def seconds_of(text: str, what: str, most_s: float | None = None) -> float:
    """Seconds; ``what`` names the option or key in the error. Raises `click.UsageError`, also for
    more than ``most_s``."""
    from middlewatch.wiring.loading import duration

    try:
        seconds = duration(text)
    except ValueError as error:
        raise click.UsageError(f"{what}: {error}") from error
    if most_s is not None and seconds > most_s:
        raise click.UsageError(f"{what}: at most {most_s / 3600:g} h")
    return seconds
