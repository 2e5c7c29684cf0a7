"""The commands that change something: how they are written, and what their answers mean.

A client's error does not say that nothing was done: with a hanging slurmctld every changing
command fails after ten seconds and takes effect later. So an answer counts as a refusal only where
each line of it is one with which slurmctld itself is known to decline; everything else that is not
success is no answer.
"""

from __future__ import annotations

import re

from middlewatch.adapters.slurm.command import Finished
from middlewatch.adapters.slurm.words import checked_job_id, checked_node
from middlewatch.model.action import Action, ActionKind, Answered
from middlewatch.ports.errors import Refused

_REFUSALS = (
    "Access/permission denied",
    "Invalid user id",
    "Invalid job id specified",
    "Invalid node name specified",
    "Job has already finished",
    "Job/step already completing or completed",
    "Job is no longer pending execution",
    "Job is pending execution",
    "Requested operation is presently disabled",
    "Job not heterogeneous job leader",
    "Job is in held state, pending scheduler release",
    "Changes to job priority are not persistent, change nice instead",
    "Requested node configuration is not available",
    "Only batch jobs are accepted or processed",
)
_SAID = "|".join(re.escape(text) for text in _REFUSALS)
_REFUSAL = re.compile(
    rf"(?:{_SAID})(?: for job [0-9_+\[\],-]+)?"
    rf"|slurm_suspend error: ?(?:{_SAID})"
    rf"|[0-9]+_[0-9\[\],%-]+: (?:{_SAID})"
    rf"|scancel: error: Kill job error on job id [0-9_+]+: (?:{_SAID})"
    r"|Update of this parameter is not supported: .*"
    r"|Request aborted"
    r"|middlewatch-gate: refused: .*"
    r"|scontrol: error: Option .* does not accept \[\+\|-\]= syntax"
)


LONGEST_LIST = 120_000
"""Characters of a list of nodes. Linux takes no argument of 131,072 bytes or more."""


def action_argv(action: Action) -> tuple[str, ...]:
    """The command of an action. Raises `Refused` for a job number or a node name that must not
    reach a command line, and for an update that changes nothing."""
    job = checked_job_id(action.job_id)
    match action.kind:
        case ActionKind.REQUEUE:
            return ("scontrol", "requeue", job)
        case ActionKind.REQUEUE_HOLD:
            return ("scontrol", "requeuehold", "State=SpecialExit", job)
        case ActionKind.RELEASE:
            return ("scontrol", "release", job)
        case ActionKind.CANCEL:
            return ("scancel", job)
        case ActionKind.UPDATE:
            fields = _fields(action)
            if not fields:
                raise Refused(f"an update of job {job} that changes nothing")
            return ("scontrol", "update", f"jobid={job}", *fields)


def _fields(action: Action) -> tuple[str, ...]:
    """One request, so that all of it is done or none."""
    fields: list[str] = []
    if action.exclusions is not None:
        nodes = ",".join(checked_node(node) for node in action.exclusions)
        if len(nodes) > LONGEST_LIST:
            raise Refused(
                f"{len(action.exclusions)} nodes to exclude do not fit into one command: shorten the "
                f"job's own --exclude to fewer than about {LONGEST_LIST // 16} nodes"
            )
        fields.append(f"ExcNodeList={nodes}")
    if action.start_now:
        fields.append("StartTime=now")
    if action.requeueable is not None:
        fields.append(f"Requeue={int(action.requeueable)}")
    return tuple(fields)


def is_refusal(line: str) -> bool:
    """Whether slurmctld is known to decline with these words."""
    return _REFUSAL.fullmatch(line.strip()) is not None


def answer_of(done: Finished) -> Answered:
    """Done, refused by slurmctld, or no answer."""
    if done.exit_code == 0:
        return Answered.DONE
    if done.exit_code is None or done.exit_code < 0:
        return Answered.NO_ANSWER
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    if lines and all(_REFUSAL.fullmatch(line) for line in lines):
        return Answered.REFUSED
    return Answered.NO_ANSWER
