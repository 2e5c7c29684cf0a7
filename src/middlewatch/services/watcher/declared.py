"""That a job's owner declares which other jobs must be done first: told once, as a signal.

The declaration stands in the job's comment. It is no trouble, and nobody acts on it alone; the
signal is what makes whoever decides look at a job that only waits.
"""

from __future__ import annotations

import hashlib
from datetime import datetime

from middlewatch.model.attempt import Attempt
from middlewatch.model.optin import JobMode, OptIn
from middlewatch.model.signal import (
    Domain,
    Severity,
    Signal,
    SignalKind,
    Source,
    SourceKind,
    signal_key,
)

PATTERN = "dependency.declared"


def declaration(opt_in: OptIn) -> str:
    """What is declared, as text; empty where nothing is."""
    return "; ".join((*(one.text for one in opt_in.depends_on), *opt_in.depends_on_wrong))


def declared_signal(before: OptIn, attempt: Attempt, now: datetime) -> Signal | None:
    """The signal about an attempt whose comment was read again, where it declares something else
    than ``before`` did."""
    cluster = attempt.cluster
    if attempt.opt_in.effective(cluster.environment) is JobMode.OFF:
        return None
    said = declaration(attempt.opt_in)
    if not said or said == declaration(before):
        return None
    position = hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    source = Source(SourceKind.SCHEDULER, f"{cluster.scheduler}/{cluster.environment}", position)
    return Signal(
        key=signal_key(attempt.id, source, PATTERN),
        attempt_id=attempt.id,
        kind=SignalKind.DEPENDENCY,
        source=source,
        happened_at=now,
        learned_at=now,
        pattern_id=PATTERN,
        domain=Domain.USER,
        severity=Severity.WARNING if attempt.opt_in.depends_on_wrong else Severity.INFO,
        detail=said[:400],
    )
