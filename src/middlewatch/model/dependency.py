"""What a held job waits for, as its owner declares it in the job's comment.

A job may be submitted held and name the jobs that must be done first. The words are Slurm's own,
so that nobody learns new ones; who writes them is a stranger. What cannot be understood is never
left out: a job that is let go on half of what its owner meant would be let go too early.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

DEPENDS_ON = "dependsOn"
MOST_PARENTS = 32
_SHOWN = 60
_ID = re.compile(r"[1-9][0-9]{0,9}(?:_[0-9]{1,7})?")
_MEANT = frozenset({"dependson", "dependon", "depends", "dependency", "dependencies", "afterok"})


class Condition(StrEnum):
    """How the other job must have ended, in Slurm's words."""

    AFTEROK = "afterok"
    """It completed."""
    AFTERANY = "afterany"
    """It ended, however."""
    AFTERNOTOK = "afternotok"
    """It ended, and did not complete."""


@dataclass(frozen=True, slots=True)
class Dependency:
    """One job (``7``, or ``7_2`` for a task of an array) and how it must have ended."""

    job_id: str
    condition: Condition = Condition.AFTEROK

    @property
    def text(self) -> str:
        """As its owner could have written it."""
        return f"{self.condition.value}:{self.job_id}"


def read_dependencies(
    key: str, member: Mapping[str, object]
) -> tuple[tuple[Dependency, ...], tuple[str, ...]]:
    """The dependencies that a comment's member declares, each once, and what is wrong with the
    declaration, in sentences for its owner. Where anything is wrong, nothing may be released."""
    wrong = [
        f"{key}.{name[:_SHOWN]} means nothing; write {DEPENDS_ON}, with a capital O"
        for name in member
        if name != DEPENDS_ON and name.casefold().replace("_", "").replace("-", "") in _MEANT
    ]
    given = member.get(DEPENDS_ON)
    if given is None:
        return (), tuple(wrong)
    where = f"{key}.{DEPENDS_ON}"
    if not isinstance(given, list):
        wrong.append(f'{where} must be a list such as ["123","afterany:124"], not {_short(given)}')
        return (), tuple(wrong)
    if not given:
        wrong.append(f"{where} is empty: name a job, or leave it out")
    if len(given) > MOST_PARENTS:
        wrong.append(f"{where} names {len(given)} jobs; at most {MOST_PARENTS} can be waited for")
        given = given[:MOST_PARENTS]
    found: dict[Dependency, None] = {}
    for item in given:
        read = _one(item)
        if isinstance(read, Dependency):
            found[read] = None
        else:
            wrong.append(f"{where}: {read}")
    return tuple(found), tuple(wrong)


def _one(item: object) -> Dependency | str:
    """The dependency, or what is wrong with it."""
    if isinstance(item, int) and not isinstance(item, bool):
        item = str(item)
    if not isinstance(item, str):
        return f'{_short(item)} is no job; write "123" or "afterany:123"'
    before, colon, job_id = item.strip().rpartition(":")
    word = before if colon else Condition.AFTEROK.value
    if word not in tuple(Condition):
        known = ", ".join(condition.value for condition in Condition)
        return (
            f"{_short(item)}: {_short(word)} is no condition; write one of {known} before one job"
        )
    if _ID.fullmatch(job_id) is None:
        return (
            f"{_short(item)}: {_short(job_id)} is no job number; write 123, or 123_4 for a task "
            "of an array"
        )
    return Dependency(job_id, Condition(word))


def _short(value: object) -> str:
    return json.dumps(value, default=str)[:_SHOWN]
