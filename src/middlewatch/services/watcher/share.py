"""Which jobs are this watcher's to watch, where several watch one cluster.

The jobs are cut into shards, and a shard's row in the store says whose it is (`model.sharing`). Once
a tick the watcher looks who is there. What ought to be a live other's it writes out and gives back;
what ought to be its own it takes when it is free, or when its holder is gone. What another has taken
from it meanwhile it drops unwritten, because whoever has it now reads on from what the store has.

Being late is no error and needs no clock: nothing written under a token that has moved is taken by
the store. The term only bounds how long the jobs of one that was lost are watched by nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from middlewatch.model.change import Shard
from middlewatch.model.sharing import SHARDS, Sharing, preferred, shard_of
from middlewatch.ports.clock import Clock
from middlewatch.ports.errors import Conflict, PortError
from middlewatch.ports.store import Store

RENEW_AT = 1 / 3
"""Of a term: a member that is busy for two thirds of it is still one."""


@dataclass(frozen=True, slots=True)
class Look:
    """What one look at the others showed. ``lost`` was taken since the look before, ``going``
    ought to be another's and is still ours."""

    lost: frozenset[int] = frozenset()
    going: frozenset[int] = frozenset()


class Share(Protocol):
    """The watcher's view of it. ``look`` comes first in a tick, then ``settle``."""

    members: int
    rank: int
    """Of this one among them, from 0."""

    @property
    def held(self) -> float:
        """How much of the whole is ours, 0 to 1."""

    def look(self) -> Look:
        """Who is there? What is remembered of ``lost`` has to be dropped before `settle`, which
        may bring it back."""

    def settle(self) -> bool:
        """Give back what is ``going``, take what ought to be ours; whether anything came."""

    def keep(self) -> None:
        """Called now and then during long work: prolongs the membership where it is time."""

    def recheck(self) -> None:
        """A write was refused: find out what has been taken from us."""

    def leave(self) -> None: ...
    def number(self, job_id: str) -> int:
        """The shard of a job."""

    def owns(self, job_id: str) -> bool: ...
    def of(self, job_ids: Iterable[str]) -> tuple[Shard, ...]:
        """The shards under which is written about these jobs. Raises `Conflict` where one of
        them is not ours."""


class Whole:
    """Implements `Share` for a watcher that shares with nobody."""

    members = 1
    rank = 0
    held = 1.0

    def look(self) -> Look:
        return Look()

    def settle(self) -> bool:
        return False

    def keep(self) -> None: ...
    def recheck(self) -> None: ...
    def leave(self) -> None: ...
    def number(self, job_id: str) -> int:
        return 0

    def owns(self, job_id: str) -> bool:
        return True

    def of(self, job_ids: Iterable[str]) -> tuple[Shard, ...]:
        return ()


class Part:
    """Implements `Share` over the store. ``clock`` only measures when a renewal is due in the
    middle of a tick; what is over is judged by the store's own."""

    def __init__(
        self, store: Store, pool: str, holder: str, term_s: float, clock: Clock | None = None
    ) -> None:
        """``holder`` must be nobody else's name while this process lives."""
        self._store = store
        self._pool = pool
        self._holder = holder
        self._term_s = term_s
        self._clock = clock
        self._held: dict[int, Shard] = {}
        self._count = 0
        self._lost: set[int] = set()
        """Taken from us since the last look."""
        self._take: list[int] = []
        self._give: list[int] = []
        self._due = True
        self._renewed = 0.0
        self._among: frozenset[str] = frozenset()
        self._preferred: tuple[str, ...] = ()
        self.members = 1
        self.rank = 0

    @property
    def held(self) -> float:
        return len(self._held) / self._count if self._count else 0.0

    def look(self) -> Look:
        sharing = self._store.sharing(self._pool)
        self._drop_lost(sharing)
        lost, self._lost = frozenset(self._lost), set()
        # Whoever joins first makes the pool.
        rows = sharing.shards or tuple(Shard(self._pool, n, "", 0) for n in range(SHARDS))
        self._count = len(rows)
        live = sharing.live(self._term_s)
        self._due = self._holder not in live or self._is_due(sharing)
        wanted = self._wanted(live | {self._holder})
        going = frozenset(n for n in self._held if wanted[n] != self._holder)
        # Ours by name only: of the process before this one.
        left = [r.number for r in rows if r.holder == self._holder and r.number not in self._held]
        self._give = [*going, *(n for n in left if wanted[n] != self._holder)]
        others = live - {self._holder}
        self._take = [
            row.number
            for row in rows
            if wanted[row.number] == self._holder
            and row.number not in self._held
            and row.holder not in others
        ]
        return Look(lost, going)

    def settle(self) -> bool:
        if not (self._due or self._take or self._give):
            return False
        sharing = self._share_out(self._take, self._give)
        for number in self._give:
            self._held.pop(number, None)
        if len(sharing.shards) != self._count:
            # Somebody of another version made the pool just now: look again.
            return False
        came = {n: sharing.shards[n] for n in self._take}
        came = {n: shard for n, shard in came.items() if shard.holder == self._holder}
        self._held.update(came)
        return bool(came)

    def keep(self) -> None:
        if self._clock is None:
            return
        now = self._clock.monotonic()
        if now - self._renewed < self._term_s * RENEW_AT:
            return
        # A store that is away says so at the next look; until then it is not asked all the time.
        self._renewed = now
        with suppress(PortError):
            self._share_out((), ())

    def recheck(self) -> None:
        with suppress(PortError):
            self._drop_lost(self._store.sharing(self._pool))

    def leave(self) -> None:
        self._held.clear()
        self._store.leave(self._pool, self._holder)

    def number(self, job_id: str) -> int:
        return shard_of(job_id, self._count or SHARDS)

    def owns(self, job_id: str) -> bool:
        held = len(self._held)
        return held > 0 and (held == self._count or self.number(job_id) in self._held)

    def of(self, job_ids: Iterable[str]) -> tuple[Shard, ...]:
        numbers = {self.number(job_id) for job_id in job_ids}
        missing = sorted(numbers - self._held.keys())
        if missing:
            raise Conflict(f"shards {missing} of {self._pool!r} are not {self._holder!r}'s")
        return tuple(self._held[number] for number in sorted(numbers))

    # --------------------------------------------------------------------------------------------

    def _share_out(self, take: Iterable[int], give: Iterable[int]) -> Sharing:
        # Counted from before: a renewal that took long is over the sooner.
        began = 0.0 if self._clock is None else self._clock.monotonic()
        answer = self._store.share_out(
            self._pool, self._holder, self._term_s, tuple(take), tuple(give)
        )
        self._renewed, self._due = began, False
        return answer

    def _drop_lost(self, sharing: Sharing) -> None:
        stands = {shard.number: shard for shard in sharing.shards}
        lost = [n for n, shard in self._held.items() if stands.get(n) != shard]
        for number in lost:
            del self._held[number]
        self._lost.update(lost)

    def _is_due(self, sharing: Sharing) -> bool:
        """Whether a third of the term has passed, or the store's clock was set back."""
        ends = next(m.expires_at for m in sharing.members if m.holder == self._holder)
        left = ends - sharing.now
        term = timedelta(seconds=self._term_s)
        return not (1 - RENEW_AT) * term < left <= term

    def _wanted(self, members: frozenset[str]) -> tuple[str, ...]:
        if members != self._among or len(self._preferred) != self._count:
            self._among = members
            self._preferred = preferred(members, self._count)
            self.members = len(members)
            self.rank = sorted(members).index(self._holder)
        return self._preferred
