"""The three answers that a look at the world can give.

A scheduler that does not reply and a scheduler that no longer knows a job look alike to a
careless reader, and the difference is whether a training run is killed. Every port that looks
returns one of these, so that each caller has to say what it does with "I could not see".
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Known(Generic[T]):
    """The thing was seen, and looked like ``value`` at ``as_of``."""

    value: T
    as_of: datetime


@dataclass(frozen=True, slots=True)
class Absent:
    """Proven not to exist at ``as_of``: a complete listing of a source that would list it."""

    as_of: datetime


@dataclass(frozen=True, slots=True)
class Unknown:
    """Could not be seen; ``why`` is for people. May delay, alarm or hand over: never act."""

    why: str
    since: datetime


Answer = Known[T] | Absent | Unknown
