"""The settings that would mend what was found, as the part of a settings file that they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from middlewatch.wiring.ingestion.sample import Remedy
from middlewatch.wiring.loading import shown, value_of
from middlewatch.wiring.settings import Settings, contradictions, specs

SECTIONS = ("logs", "metrics")


class CannotPropose(ValueError):
    """The settings would contradict each other; the message says which and how to mend it."""


def proposed(settings: Settings, remedies: Iterable[Remedy]) -> Settings:
    """The settings with the remedies in them. Raises `CannotPropose`."""
    names = {(spec.section, spec.key): spec.attribute for spec in specs()}
    for remedy in remedies:
        section = getattr(settings, remedy.section)
        attribute = names[remedy.section, remedy.key]
        changed = replace(section, **{attribute: remedy.value})
        settings = replace(settings, **{remedy.section: changed})
    wrong = [
        f"{section}.{key}: {what}"
        for section, key, what in contradictions(settings)
        if section in SECTIONS
    ]
    if wrong:
        raise CannotPropose("; ".join(wrong))
    return settings


def settings_part(settings: Settings) -> str:
    """`[logs]` and `[metrics]` as TOML: what differs from the defaults."""
    lines: list[str] = []
    for section in SECTIONS:
        keys = [
            f"{spec.key} = {shown(spec, value_of(settings, spec))}"
            for spec in specs()
            if spec.section == section and value_of(settings, spec) != spec.default
        ]
        if keys:
            lines += ["", f"[{section}]", *keys]
    return "\n".join(["# Written by `middlewatch logs check`.", *lines]) + "\n"


def one_by_one(remedies: Sequence[Remedy]) -> tuple[str, ...]:
    """Each remedy as a line of the file, for a person."""
    names = {(spec.section, spec.key): spec for spec in specs()}
    return tuple(
        f"[{remedy.section}] {remedy.key} = {shown(names[remedy.section, remedy.key], remedy.value)}"
        for remedy in remedies
    )
