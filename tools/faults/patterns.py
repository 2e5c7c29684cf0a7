"""The list of what is tried on a real Slurm: each line is one pattern, drawn anew for each seed.

A run over as many seeds as there are patterns and releases meets each step between two commands, each
of our processes, each daemon that we depend on and each person who may interfere, on each release.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pattern:
    """``events``: a place (see `places.place`) and what is done there (see `deeds.DEEDS`; ``lag``: the
    command waits some seconds first). ``long``: nobody is there until Slurm's own begin time has
    passed. ``everybody``: the watchdog dies with everything. ``absent``: only it is left."""

    kind: str
    lab: str
    events: tuple[tuple[str, ...], ...]
    deployment: str = "up"
    long: bool = False
    everybody: bool = False
    absent: bool = False


def _on(lab: str, deployment: str = "up") -> _Lines:
    return _Lines(lab, deployment)


@dataclass(frozen=True, slots=True)
class _Lines:
    lab: str
    deployment: str

    def crash(self, *events: tuple[str, ...], **more: bool) -> Pattern:
        return Pattern("crash", self.lab, events, self.deployment, **more)

    def hang(self, *events: tuple[str, ...], **more: bool) -> Pattern:
        return Pattern("hang", self.lab, events, self.deployment, **more)

    def node(self, *events: tuple[str, ...], **more: bool) -> Pattern:
        return Pattern("node", self.lab, events, self.deployment, **more)


_USUAL, _SHORT, _STORMY = _on("usual"), _on("short"), _on("stormy")
_APART, _SHORT_APART = _on("usual", "apart"), _on("short", "apart")
_ELSEWHERE, _SHORT_ELSEWHERE = _on("usual", "elsewhere"), _on("short", "elsewhere")
ALL = "kill all"

PATTERNS: tuple[Pattern, ...] = (
    # Everything is killed at each step of a recovery.
    _USUAL.crash(("time fault", ALL)),
    _USUAL.hang(("time requeue", ALL)),
    _USUAL.crash(("before requeue", ALL)),
    _USUAL.crash(("instead requeue", ALL)),
    _USUAL.crash(("after requeue", ALL)),
    _USUAL.crash(("before update", ALL)),
    _USUAL.crash(("instead update", ALL)),
    _USUAL.crash(("after update", ALL)),
    _USUAL.hang(("before requeue", ALL)),
    _USUAL.hang(("after requeue", ALL), long=True, everybody=True),
    _USUAL.crash(("before look", ALL)),
    _USUAL.crash(("after look", ALL)),
    _USUAL.crash(("written advice", ALL)),
    _USUAL.crash(("written journal", ALL)),
    _USUAL.crash(("written planned", ALL)),
    _USUAL.crash(("seen successor", ALL)),
    _USUAL.crash(("written held", ALL)),
    _USUAL.hang(("before accounting", ALL)),
    _USUAL.crash(("seen successor runs", ALL)),
    _USUAL.crash(("written outcome", ALL)),
    _USUAL.crash(("time fault", ALL), ("time start", ALL)),
    # The same where requeue-holds are taken.
    _SHORT.crash(("after requeuehold", ALL), absent=True),
    _SHORT.crash(("after requeuehold", ALL), long=True, everybody=True),
    _SHORT.crash(("before requeuehold", ALL)),
    _SHORT.crash(("instead requeuehold", ALL)),
    _SHORT.hang(("after requeuehold", ALL)),
    _SHORT.crash(("after update", ALL)),
    _SHORT.crash(("before release", ALL)),
    _SHORT.crash(("after release", ALL)),
    _SHORT.crash(("lost requeuehold",), ("before unfence", ALL)),
    _SHORT.crash(("lost requeuehold",), ("after unfence", ALL)),
    _SHORT.crash(("time requeue", ALL), ("time start", ALL)),
    # One process alone.
    _APART.crash(("before requeue", "kill controller")),
    _APART.crash(("after requeue", "kill controller"), ("time requeue", "kill gateway")),
    _APART.crash(("before update", "kill controller")),
    _APART.crash(("time fault", "kill manager"), ("time fault", "kill watcher")),
    _APART.hang(("after requeue", "kill watchdog", "kill controller")),
    _SHORT_APART.crash(("after requeuehold", "kill watchdog")),
    _SHORT.crash(("after requeuehold", "kill watchdog"), ("before update", ALL)),
    _ELSEWHERE.crash(("before requeue", "kill gateway")),
    _ELSEWHERE.crash(("after requeue", "kill gateway")),
    _ELSEWHERE.hang(("after update", "kill controller")),
    _SHORT_ELSEWHERE.crash(("after requeuehold", "kill gateway", "kill controller")),
    # Replies are lost, commands take effect late.
    _USUAL.crash(("lost requeue",), ("time requeue", ALL)),
    _USUAL.crash(("lost update",)),
    _SHORT.crash(("lost requeuehold",)),
    _USUAL.crash(("before requeue", ALL, "late")),
    # The job ends, or people act, between our look and our command.
    _USUAL.hang(("before requeue", "job completes"), ("time requeue", ALL)),
    _USUAL.hang(("before requeue", "job completes"), ("before cancel", ALL)),
    _USUAL.hang(("before requeue", "owner cancels"), ("after cancel", ALL)),
    _SHORT.hang(("before requeuehold", "job completes")),
    _SHORT.hang(("before requeuehold", "owner cancels"), ("time requeue", ALL)),
    _USUAL.crash(("before requeue", "operator requeues")),
    _USUAL.hang(("before requeue", "operator requeues", ALL)),
    _USUAL.hang(("before requeue", "operator requeueholds")),
    _USUAL.crash(("before requeue", "owner forbids requeueing")),
    _USUAL.crash(("seen successor", "operator holds")),
    _USUAL.crash(("before update", "operator holds"), ("time requeue", ALL)),
    _USUAL.crash(("after requeue", "operator cancels")),
    _USUAL.crash(("before update", "owner cancels")),
    _USUAL.crash(("before update", "owner excludes")),
    _USUAL.crash(("seen successor", "owner excludes"), ("before update", ALL)),
    _USUAL.crash(("seen successor", "owner holds"), ("time requeue", ALL)),
    _USUAL.crash(("seen successor", "operator releases", "operator starts")),
    _USUAL.crash(("seen successor runs", "operator requeues")),
    _SHORT.crash(("after requeuehold", "operator holds")),
    _SHORT.crash(("before release", "operator holds")),
    _SHORT.crash(("after requeuehold", "owner releases")),
    _SHORT.crash(("after requeuehold", "owner cancels", ALL)),
    # Our own database, our own disk, our own host.
    _USUAL.crash(("time fault", "database locked")),
    _USUAL.crash(("after requeue", "database locked")),
    _USUAL.crash(("before requeue", "disk full")),
    _SHORT.crash(("after requeuehold", "disk full")),
    _USUAL.crash(("after requeue", "state moved")),
    _USUAL.hang(("before requeue", "freeze us")),
    # What befalls a whole cluster.
    _STORMY.crash(("before requeue", "slurmctld hangs")),
    _STORMY.hang(("before requeue", "slurmctld hangs", ALL)),
    _STORMY.crash(("after requeue", "slurmctld hangs briefly")),
    _STORMY.crash(("before update", "slurmctld hangs")),
    _STORMY.crash(("before requeue", "lag", "slurmctld killed right after")),
    _STORMY.hang(("before requeue", "slurmctld killed right after")),
    _STORMY.crash(("before update", "slurmctld killed")),
    _STORMY.hang(("after update", "slurmctld killed", ALL)),
    _STORMY.crash(("before requeue", "lag", "slurmctld stopped", ALL)),
    _STORMY.crash(("time fault", "slurmdbd stopped")),
    _STORMY.hang(("after requeue", "slurmdbd killed", ALL)),
    _STORMY.hang(("before requeue", "slurmdbd hangs", "job completes")),
    _STORMY.crash(("after requeue", "mariadbd stopped")),
    _STORMY.crash(("before requeue", "munged stopped")),
    _STORMY.hang(("after requeue", "munged stopped", ALL)),
    _STORMY.node(("time running", "node killed")),
    _STORMY.node(("time running", "node killed"), ("seen successor", ALL)),
    _STORMY.node(("time running", "node set down"), ("seen successor", ALL)),
    # More of the above.
    _USUAL.crash(("seen successor", "operator excludes"), ("after update", ALL)),
    _USUAL.hang(("before requeue", "operator holds")),
    _USUAL.crash(("before requeue", "owner opts out")),
    _ELSEWHERE.crash(("before update", "kill gateway")),
    _SHORT.crash(("before update", "database locked")),
    _USUAL.hang(("after requeue", "disk full"), ("before update", ALL)),
    _STORMY.crash(("after update", "slurmdbd hangs", "slurmctld stopped")),
)
