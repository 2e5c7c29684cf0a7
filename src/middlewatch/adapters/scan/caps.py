"""What a pattern may cost that was not written by us.

A site's folder of patterns and a job's comment are written by people who need not know that
``(\\w{1,900}){40}`` takes gigabytes to compile. Such patterns run on RE2 alone, which takes linear
time for any of them, and within these limits.
"""

from __future__ import annotations

LONGEST_REGEX = 200
"""Characters of a regex as it is written (%BARE% and its like count as they stand)."""
MOST_PATTERNS = 100
"""Patterns of a site, over all its files."""
PATTERN_MEMORY = 2 << 20
"""Bytes that RE2 may take for one of them."""
KEPT = 256
"""Patterns out of jobs' comments that are kept compiled; the longest unused goes first."""


def too_long(regex: str) -> str:
    """What is wrong with the length of a regex, and what to do; empty where nothing is."""
    if len(regex) <= LONGEST_REGEX:
        return ""
    return (
        f"{len(regex)} characters, at most {LONGEST_REGEX} are allowed; "
        "name only what must be there, or make two patterns of it"
    )
