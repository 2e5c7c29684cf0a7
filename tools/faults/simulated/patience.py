"""Nothing of ours outstays its release-by: asked all the time, not only at the end.

Each hold, list and fence of ours has a moment by which it must be gone, and the watchdog goes round
every few seconds. `SLACK_S` is what may come on top while slurmctld answers and the watchdogs live:
a round, a command that has to be given up, the time in which it may still take effect, and the rest
that a refused command is given. While slurmctld is away, or a watchdog dead, nobody can do anything,
and that time does not count.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from middlewatch.lab.simulated import SimulatedCluster
from middlewatch.model.scheduler import ENDED
from tools.faults.simulated.witness import Witness

SLACK_S = 5.0 + 15.0 + 15.0 + 60.0


@dataclass
class Patience:
    """``over`` is for how long something of ours has outstayed its release-by, in seconds, by job
    and kind."""

    cluster: SimulatedCluster
    witness: Witness
    over: dict[tuple[int, str], float] = field(default_factory=dict)
    longest_s: float = 0.0
    told: set[tuple[int, str]] = field(default_factory=set)

    def look(self, passed_s: float, *, able: bool, clocks_off_s: float) -> None:
        """Ask again after ``passed_s``; ``able``: somebody could have let it go in that time."""
        stands = set()
        for job in self.cluster.jobs.values():
            why = "" if job.state in ENDED else self.witness.stands_on(job)
            if not why:
                continue
            key = (self.witness.lineage(job), why)
            stands.add(key)
            by = self.witness.release_by.get(key)
            if by is None or self.cluster.now <= by + timedelta(seconds=clocks_off_s) or not able:
                continue
            self.over[key] = self.over.get(key, 0.0) + passed_s
            self.longest_s = max(self.longest_s, self.over[key])
            if self.over[key] > SLACK_S and key not in self.told:
                self.told.add(key)
                text = f"job {job.job_id}: {why} {self.over[key]:.0f} s past its release-by"
                self.witness.note("held_forever", text)
        for key in [key for key in self.over if key not in stands]:
            del self.over[key]
