"""A heterogeneous job as the one job that it is to everybody but Slurm.

Slurm keeps a record of each component, and each can be held, end or be cancelled by itself; but a
requeue, a release and an update that name the leader reach all of them. So what is shown of the job
is what holds for all its components together, and where they do not stand alike that is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from middlewatch.adapters.slurm.listing import Row
from middlewatch.model.scheduler import JobDetail, JobState, JobView


def whole_jobs(rows: Iterable[Row]) -> tuple[Row, ...]:
    """The rows with each heterogeneous job as one, in the place of its leader."""
    found: list[Row] = []
    components: dict[str, list[JobView]] = {}
    for row in rows:
        if row.component:
            components.setdefault(row.view.job_id, []).append(row.view)
        else:
            found.append(row)
    return tuple(
        replace(row, view=together(row.view, components.get(row.view.job_id, ())))
        if row.view.heterogeneous
        else row
        for row in found
    )


def together(leader: JobView, others: Sequence[JobView]) -> JobView:
    """The leader's row with what its other components add: a hold on one holds the job, a
    component that still ends keeps it ending."""
    every = (leader, *others)
    held = next((view for view in every if view.held), leader)
    eligible = [view.eligible_at for view in every]
    known = [moment for moment in eligible if moment is not None]
    return replace(
        leader,
        flags=frozenset().union(*(view.flags for view in every)),
        reason=held.reason,
        priority=held.priority,
        eligible_at=max(known) if len(known) == len(every) else None,
        node_list=",".join(view.node_list for view in every if view.node_list),
        required_node_list=",".join(v.required_node_list for v in every if v.required_node_list),
        node_count=sum(view.node_count for view in every),
        partitions=tuple(dict.fromkeys(name for view in every for name in view.partitions)),
        requeueable=_all(view.requeueable for view in every),
        apart=_apart(leader, others),
    )


def _apart(leader: JobView, others: Sequence[JobView]) -> str:
    if not others:
        return "its other components are not shown"
    for number, view in enumerate(others, start=1):
        if _stand(view) != _stand(leader):
            return (
                f"component {number} of {len(others) + 1} is {view.state.value} while the leader is "
                f"{leader.state.value}"
            )
    return ""


def _stand(view: JobView) -> tuple[JobState, int]:
    return view.state, view.restarts


def with_components(leader: JobDetail, others: Sequence[JobDetail]) -> JobDetail:
    """The leader's detail with the nodes that any component excludes or requires."""
    every = (leader, *others)
    lists = {frozenset(one.excluded_nodes) for one in every}
    return replace(
        leader,
        excluded_nodes=tuple(sorted(frozenset().union(*lists))),
        required_nodes=tuple(dict.fromkeys(n for one in every for n in one.required_nodes)),
        requeueable=_all(one.requeueable for one in every),
        held_by_operator=_any(one.held_by_operator for one in every),
        uneven=len(lists) > 1,
    )


def _all(values: Iterable[bool | None]) -> bool | None:
    known = list(values)
    if False in known:
        return False
    return None if None in known else True


def _any(values: Iterable[bool | None]) -> bool | None:
    known = list(values)
    if True in known:
        return True
    return None if None in known else False
