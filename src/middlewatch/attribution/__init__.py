"""Signals to beliefs: which signals are one failure, what caused it, whom it implicates."""

from middlewatch.attribution.issues import governing, issues_from, signals_of
from middlewatch.attribution.verdict import same_belief, verdict_for

__all__ = ["governing", "issues_from", "same_belief", "signals_of", "verdict_for"]
