"""What a slurmrestd can do depends on its release, and it says itself what it has.

Its own description lists the interfaces that it serves; the newest that we know is spoken. What an
interface lacks is refused before it is sent, with a sentence: requeues before 26.05's v0.0.45, and,
on 22.05, the fence, which that one answers with success and does not do. Two traps of newer ones:
an empty list of nodes to exclude is answered with success and changes nothing (an empty text clears
it), and ``DELETE …?flags=FEDERATION_REQUEUE`` cancels. Tried on 22.05.8, 24.11.5 and 26.05.5.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from middlewatch.adapters.slurm.words import checked_job_id, checked_node
from middlewatch.model.action import Action, ActionKind
from middlewatch.ports.errors import Refused, Unreadable

OLDEST = "v0.0.38"
KNOWN = ("v0.0.45", "v0.0.44", "v0.0.43", "v0.0.42", "v0.0.41", "v0.0.40", OLDEST)
"""Interfaces that we speak, the newest first."""

_NO_REQUEUE = (
    "slurmrestd of this release cannot requeue (26.05's can): use Slurm's commands, here or by SSH"
)
_NO_FENCE = "slurmrestd of this release cannot change whether a job may be requeued"
_NO_TASKS = "slurmrestd changes whole jobs by their number, not {}"
_NOW = {"set": True, "infinite": False, "number": 1}
"""A begin time that is past; slurmctld makes it the present."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """One interface, for example ``v0.0.42``, and whether it requeues, describes slurm.conf and
    keeps accounting (22.05's tells wrong exit codes: it counts as none)."""

    interface: str
    requeues: bool = False
    tells_conf: bool = False
    accounts: bool = False

    @property
    def old(self) -> bool:
        """Whether it is 22.05's, which spells most things in another way."""
        return self.interface == OLDEST

    def path(self, rest: str, plugin: str = "slurm") -> str:
        return f"/{plugin}/{self.interface}/{rest}"


def spoken(description: Mapping[str, Any], only: str | None = None) -> Dialect:
    """The newest interface that both sides know, or the one wanted. Raises `Unreadable` where
    there is none, or for what is no description."""
    paths = description.get("paths")
    if not isinstance(paths, Mapping):
        raise Unreadable("slurmrestd does not describe itself: no paths at /openapi/v3")
    served = {part for path in paths for part in str(path).split("/") if part.startswith("v0.0.")}
    for interface in (only,) if only else KNOWN:
        if interface in served:
            return Dialect(
                interface,
                requeues=f"/slurm/{interface}/jobs/requeue" in paths,
                tells_conf=f"/slurm/{interface}/conf" in paths,
                accounts=interface != OLDEST and f"/slurmdb/{interface}/job/{{job_id}}" in paths,
            )
    raise Unreadable(
        f"slurmrestd serves {', '.join(sorted(served)) or 'nothing'}; "
        f"we know {only or ', '.join(reversed(KNOWN))}"
    )


def request(dialect: Dialect, action: Action) -> tuple[str, str, dict[str, Any] | None]:
    """Method, path and body of an action. Raises `Refused` for what this interface cannot do."""
    job = checked_job_id(action.job_id)
    whole = job.isdigit()
    if not whole and (dialect.old or action.kind is not ActionKind.CANCEL):
        raise Refused(_NO_TASKS.format(job))
    match action.kind:
        case ActionKind.REQUEUE | ActionKind.REQUEUE_HOLD:
            if not dialect.requeues:
                raise Refused(_NO_REQUEUE)
            held = action.kind is ActionKind.REQUEUE_HOLD
            flags = {"flags": ["Hold", "SpecialExit"]} if held else {}
            return "POST", dialect.path("jobs/requeue"), {"jobs": [job], **flags}
        case ActionKind.RELEASE:
            return "POST", dialect.path(f"job/{job}"), {"hold": False}
        case ActionKind.CANCEL:
            return "DELETE", dialect.path(f"job/{job}"), None
        case ActionKind.UPDATE:
            fields = _old_fields(action) if dialect.old else _fields(action)
            if not fields:
                raise Refused(f"an update of job {job} that changes nothing")
            return "POST", dialect.path(f"job/{job}"), fields


def _old_fields(action: Action) -> dict[str, Any]:
    if action.requeueable is not None:
        raise Refused(_NO_FENCE)
    fields: dict[str, Any] = {}
    if action.exclusions is not None:
        fields["exclude_nodes"] = ",".join(checked_node(node) for node in action.exclusions)
    if action.start_now:
        fields["begin_time"] = "now"
    return fields


def _fields(action: Action) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if action.exclusions is not None:
        fields["excluded_nodes"] = [checked_node(node) for node in action.exclusions] or ""
    if action.start_now:
        fields["begin_time"] = _NOW
    if action.requeueable is not None:
        fields["requeue"] = action.requeueable
    return fields
