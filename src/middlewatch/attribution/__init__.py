"""Signals to beliefs: which signals are one failure, what caused it, whom it implicates."""

from middlewatch.attribution.culprit import Culprit, culprit_of
from middlewatch.attribution.issues import governing, issues_from, signals_of
from middlewatch.attribution.kind import CaseKind, kind_of
from middlewatch.attribution.places import Places
from middlewatch.attribution.verdict import same_belief, verdict_for

__all__ = [
    "CaseKind",
    "Culprit",
    "Places",
    "culprit_of",
    "governing",
    "issues_from",
    "kind_of",
    "same_belief",
    "signals_of",
    "verdict_for",
]
