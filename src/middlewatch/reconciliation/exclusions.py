"""Which nodes a job shall avoid, united with what its user wants, and shortened where that
makes the job impossible.

Slurm replaces the whole list at each update, keeps it as typed, and turns a job that no node can
satisfy into one that waits for ever. So lists are compared as sets, the user's own entries always
stay, and only entries of ours are ever taken back.
"""

from __future__ import annotations

from middlewatch.model.scheduler import JobDetail, JobView
from middlewatch.reconciliation.situation import Situation


def required(situation: Situation, detail: JobDetail) -> tuple[str, ...]:
    """The advice's exclusions that can apply: a node that the user asks for by name cannot be
    excluded (Slurm would hold the job for ever), and one list would overwrite several."""
    if detail.uneven:
        return ()
    wanted = set(situation.advice.exclusions) - set(detail.required_nodes)
    shortened = last_shortened(situation)
    if shortened is not None:
        wanted &= set(shortened)
    return tuple(sorted(wanted))


def carried(situation: Situation, detail: JobDetail) -> bool:
    """Whether the job carries every exclusion that can apply."""
    return set(required(situation, detail)) <= set(detail.excluded_nodes)


def united(situation: Situation, detail: JobDetail) -> tuple[str, ...]:
    """The list to set: what stands there (the user's and ours) and what the advice adds."""
    return tuple(sorted(set(detail.excluded_nodes) | set(required(situation, detail))))


def users_own(situation: Situation, detail: JobDetail) -> tuple[str, ...]:
    """The user's part of the list: whatever the journal does not call ours. A job that it has no
    line about carries nothing of ours, also where the advice names the same node as its user."""
    ours = situation.our_exclusions or ()
    return tuple(sorted(set(detail.excluded_nodes) - set(ours)))


SHORTENED = "shorten our exclusions: "


def last_shortened(situation: Situation) -> tuple[str, ...] | None:
    """The list that we last shortened to for this generation, or None."""
    for record in reversed(situation.actions):
        if record.generation != situation.advice.generation:
            continue
        if record.action.exclusions is not None and record.action.why.startswith(SHORTENED):
            return record.action.exclusions
    return None


def impossible(view: JobView) -> bool:
    """Slurm has found that no node can satisfy the job and has put it aside."""
    return view.held and view.reason.replace(" ", "_") == "BadConstraints"


def shortened(situation: Situation, view: JobView, detail: JobDetail) -> tuple[str, ...] | None:
    """A shorter list that lets the job start again, or None where nothing of ours is in it.

    Keeps as many of ours as the usable nodes of the partition can spare where those are known,
    otherwise drops half of ours at a time.
    """
    own = set(users_own(situation, detail))
    ours = sorted(set(detail.excluded_nodes) - own)
    if not ours:
        return None
    keep = len(ours) // 2
    if situation.partition_nodes is not None:
        free = len(set(situation.partition_nodes) - own)
        keep = max(0, min(keep, free - max(1, view.node_count)))
    return tuple(sorted(own | set(ours[:keep])))
