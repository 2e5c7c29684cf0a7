"""What a log line says of itself where it is one JSON object, or logfmt: level, rank and host.

Such lines have no prefix that a launcher would put there. The same facts stand in fields, before or
behind the message.
"""

from __future__ import annotations

import re

from middlewatch.detection.batch import Hit
from middlewatch.model.copies import replace

_HEAD = 96
_FORM = re.compile(r"\{ ?\"|\b(?:time|ts|t|timestamp|level|lvl)=\S")
_RANK = re.compile(
    r"(?:\"(?:global_|world_)?rank\": ?\"?|\b(?:global_|world_)?rank=\"?)(\d{1,6})\b"
)
_HOST = re.compile(
    r"(?:\"(?:host|hostname|node|nodename|node_name)\": ?\"|\b(?:host|hostname|node|nodename)=\"?)"
    r"([A-Za-z0-9][\w.-]{0,253})"
)
_ERROR = re.compile(
    r"(?:\"(?:level|lvl|severity|levelname|loglevel|log\.level)\": ?\"?|\b(?:level|lvl|severity)=\"?)"
    r"(?:(?i:err|error|critical|crit|fatal|panic|alert|emerg)|[456]0)\b"
)
_LONGEST = 4096


def structured(line: str) -> bool:
    """Whether the line begins as one object, or as fields."""
    return _FORM.search(line, 0, _HEAD) is not None


def told_as_error(line: str) -> bool:
    """Whether a structured line says that it tells of an error."""
    return structured(line) and _ERROR.search(line, 0, _LONGEST) is not None


def with_fields(hit: Hit) -> Hit:
    """The hit with the rank and the host that stand in fields of its line, where its prefix names
    none."""
    if not structured(hit.line):
        return hit
    known = dict(hit.groups)
    more = [
        (name, found.group(1))
        for name, field in (("rank", _RANK), ("writer", _HOST))
        if not known.get(name) and (found := field.search(hit.line, 0, _LONGEST)) is not None
    ]
    return replace(hit, groups=(*hit.groups, *more)) if more else hit
