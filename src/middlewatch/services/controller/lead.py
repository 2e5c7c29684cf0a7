"""Who acts for a cluster: one of its controllers at a time, by a lease in the store.

The lease guards what is written, not slurmctld. So a leader begins a command only where its lease
outlasts the deadline at which the command is killed, and one that took over from a leader who had
not given the lease back keeps still for a term and a deadline: whatever that one had begun, by
however wrong a clock, has ended by then. Then it looks.

Two clocks are asked, and the one that says less is believed: the time of day may be set, and the
other one stands still while a machine sleeps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from middlewatch.model.change import Lease
from middlewatch.ports.clock import Clock
from middlewatch.ports.remote import ControllerStore

KILL_MARGIN_S = 1.0
"""How much longer than to its deadline a command may live that has to be killed by somebody else,
because its leader is dead or stands still."""


@dataclass(frozen=True, slots=True)
class Term:
    """A lease as it was granted to us, and until when it holds by a clock that nobody sets.
    ``keeps_still_s``: how long we must not act yet."""

    lease: Lease
    until: float
    keeps_still_s: float


class Leadership:
    """One controller's part in it. ``say`` is told, in a sentence, when that changes."""

    def __init__(
        self,
        store: ControllerStore,
        clock: Clock,
        name: str,
        holder: str,
        *,
        term_s: float,
        deadline_s: float,
        say: Callable[[str], None] = lambda _text: None,
    ) -> None:
        if term_s <= deadline_s + KILL_MARGIN_S:
            raise ValueError("lease_s must outlast deadline_s: a leader kills its command first")
        self._store = store
        self._clock = clock
        self._name = name
        self._holder = holder
        self._term_s = term_s
        self._deadline_s = deadline_s
        self._say = say
        self._still: tuple[int, float] | None = None
        self._held: Lease | None = None
        self._said = ""

    def term(self, now: datetime) -> Term | None:
        """Take or renew the lease; None while somebody else leads."""
        asked = self._clock.monotonic()
        lease = self._store.acquire_lease(self._name, self._holder, self._term_s, now)
        self._held = lease
        if lease is None:
            self._still = None
            self._tell("another controller leads")
            return None
        keeps_still_s = self._keeps_still_s(lease, now)
        if keeps_still_s > 0:
            self._tell("took over from a leader who was not heard of: keeps still first")
        else:
            self._tell("leads")
        return Term(lease, asked + self._term_s, keeps_still_s)

    def outlasts_a_command(self, term: Term) -> bool:
        """Whether a command that begins now is over, killed if need be, before the lease can be
        anybody else's."""
        longest_s = self._deadline_s + KILL_MARGIN_S
        ends = self._clock.now() + timedelta(seconds=longest_s)
        return ends < term.lease.expires_at and self._clock.monotonic() + longest_s < term.until

    def resign(self) -> None:
        """Give the lease back, so that the next one need not wait. Only when no command of ours
        runs any more. Raises what the store raises."""
        if self._held is not None:
            self._store.release_lease(self._held)
            self._held = None
            self._tell("has given the lead back")

    def _keeps_still_s(self, lease: Lease, now: datetime) -> float:
        """Counted from the take-over, which the store remembers: to be started again does not
        shorten it, nor does a clock that is set meanwhile."""
        if lease.taken_over_at is None:
            return 0.0
        measured = self._clock.monotonic()
        if self._still is None or self._still[0] != lease.token:
            longest_s = self._term_s + self._deadline_s
            passed_s = max((now - lease.taken_over_at).total_seconds(), 0.0)
            self._still = (lease.token, measured + max(longest_s - passed_s, 0.0))
        return max(self._still[1] - measured, 0.0)

    def _tell(self, text: str) -> None:
        if text != self._said:
            self._said = text
            self._say(text)
