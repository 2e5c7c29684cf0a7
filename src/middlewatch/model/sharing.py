"""How several processes share one piece of work without two of them doing the same part.

The work of a **pool** (the jobs of one cluster) is cut into a fixed number of shards, by job. A
shard belongs to one holder until it is given back or its holder's membership ends, and each time it
changes hands its token grows: whoever writes says which shards, with which tokens, he writes for.
Who *ought* to have a shard everybody works out alike from the names of the members. That answer may
differ for a moment between two who see different members; what a shard's row says decides.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from hashlib import blake2b

from middlewatch.model.change import Lease, Shard
from middlewatch.model.identity import ClusterId

SHARDS = 256
"""Of a new pool. One that exists keeps as many as it was made with."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """A pool as the store has it at ``now``, by the store's clock. ``members``, by holder, may be
    over; ``shards`` are all of them in their order, or none where nobody has ever joined."""

    pool: str
    now: datetime
    members: tuple[Lease, ...] = ()
    shards: tuple[Shard, ...] = ()

    def live(self, term_s: float) -> frozenset[str]:
        """The holders whose membership stands, where it lasts ``term_s`` seconds at a time."""
        return frozenset(
            lease.holder for lease in self.members if stands(lease.expires_at, self.now, term_s)
        )


def stands(expires_at: datetime, now: datetime, term_s: float) -> bool:
    """Whether a membership holds. One that ends much later than a term from now was given by a
    clock that has been set back since; nobody would miss a dead member for as long as that."""
    return now < expires_at <= now + timedelta(seconds=2 * term_s)


def pool_of(service: str, cluster: ClusterId) -> str:
    """The name under which a service's processes share a cluster."""
    return f"{service}/{cluster.scheduler}/{cluster.environment}"


def member_name(pool: str, holder: str) -> str:
    """The name of a member's lease."""
    return f"{pool}/{holder}"


@lru_cache(maxsize=1 << 16)
def shard_of(job_id: str, count: int) -> int:
    """The shard of a job, the same for all its attempts: they share their files."""
    return _weight(job_id) % count


def preferred(members: Iterable[str], count: int) -> tuple[str, ...]:
    """For each shard the member that ought to have it (rendezvous hashing: Thaler and
    Ravishankar, 1998). A member that joins or leaves moves only what becomes or was its own; raises
    ValueError where there is no member."""
    names = sorted(members)
    return tuple(
        max(names, key=lambda name: _weight(f"{number}/{name}")) for number in range(count)
    )


def _weight(text: str) -> int:
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big")
