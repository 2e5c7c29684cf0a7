"""By which labels a site's collector marks a job's lines, and how a value becomes part of a query.

A query is built from the job id as data. Nothing that a user wrote ever becomes part of its
language; the one free text in it, ``match``, is the site's own and must look like label matchers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from middlewatch.adapters.logstores.lines import Writer

LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,127}\Z")
LONGEST_LABEL = 300
_VALUE = r'"(?:[^"\\\x00-\x1f]|\\["\\])*"'
MATCH = re.compile(
    rf"[A-Za-z_][A-Za-z0-9_.]*\s*(?:=~|!~|!=|=)\s*{_VALUE}"
    rf"(?:\s*,\s*[A-Za-z_][A-Za-z0-9_.]*\s*(?:=~|!~|!=|=)\s*{_VALUE})*\Z"
)


@dataclass(frozen=True, slots=True)
class Labels:
    """``job``, ``node`` and ``file`` are names of labels. ``match`` is put between the braces of
    every stream selector as it is. ``job_in_stream``: the job label is one of the stream's."""

    job: str = "job_id"
    node: str = "node"
    file: str = "filename"
    match: str = ""
    job_in_stream: bool = True

    def __post_init__(self) -> None:
        for name in (self.job, self.node, self.file):
            if not LABEL.match(name):
                raise ValueError(f"{name[:80]!r} is no name of a label")
        if self.match and not MATCH.match(self.match):
            raise ValueError(
                f"{self.match[:80]!r} is no list of label matchers such as "
                'cluster="prod",env=~"train.*"'
            )


def quoted(text: str) -> str:
    """A text in double quotes, as LogsQL and LogQL read them: both use Go's rules."""
    made = ['"']
    for character in text:
        if character in '"\\':
            made.append("\\" + character)
        elif character.isprintable():
            made.append(character)
        else:
            code = ord(character)
            made.append(f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}")
    return "".join([*made, '"'])


@lru_cache(maxsize=8192)
def writer_of(node: str, file: str) -> Writer:
    """A writer by its labels, without what could not be put into a query again."""
    return Writer(_label(node), _label(file))


def _label(text: str) -> str:
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode("utf-8")
    return text[:LONGEST_LABEL]
