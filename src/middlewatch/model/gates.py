"""Everything that must be true before a command may change a job, each by name.

A gate that was closed when a decision was written stays closed for that decision for ever, so the
gates are values that can be frozen into it; and they are read again before each action.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from middlewatch.model.attempt import Attempt
from middlewatch.model.identity import ClusterId
from middlewatch.model.optin import JobMode
from middlewatch.model.scheduler import ActsFor, JobState


class Mode(StrEnum):
    MONITOR = "monitor"
    ACTION = "action"


class GateName(StrEnum):
    DEPLOYMENT_MODE = "deployment_mode"
    ACKNOWLEDGED = "acknowledge_scheduler_actions"
    JOB_OPT_IN = "job_opt_in"
    PARTITION_ALLOWLIST = "partition_allowlist"
    OWNERSHIP = "ownership"
    CLASS_OPT_IN = "class_opt_in"
    JOB_OWNER = "job_owner"
    DEPENDENCIES = "dependencies"


@dataclass(frozen=True, slots=True)
class Gate:
    name: GateName
    open: bool
    detail: str


def closed_midway(gate: Gate) -> str:
    """How an outcome says that a gate closed while its advice was open."""
    return f"gate {gate.name.value} has closed: {gate.detail}"


def closed_by(sentence: str, name: GateName) -> bool:
    """Whether an outcome's sentence (`closed_midway`) says that of this gate."""
    return sentence.startswith(f"gate {name.value} has closed: ")


@dataclass(frozen=True, slots=True)
class Gates:
    gates: tuple[Gate, ...]

    @property
    def open(self) -> bool:
        return bool(self.gates) and all(gate.open for gate in self.gates)

    def first_closed(self) -> Gate | None:
        return next((gate for gate in self.gates if not gate.open), None)


@dataclass(frozen=True, slots=True)
class Deployment:
    """The site's side of the gates. An empty allowlist allows no partition; ``*`` allows all.

    ``owned_cluster_name`` is the scheduler's own name for itself as it was at set-up. Where
    ``only_for`` is set, it acts for that user's jobs alone.
    ``rolled_back`` says who took the deployment back to monitor mode and why, where somebody did
    (see `rollback`): then ``mode`` is not in force.
    """

    cluster: ClusterId
    owned_cluster_name: str
    mode: Mode = Mode.MONITOR
    acknowledge_scheduler_actions: bool = False
    partitions: tuple[str, ...] = ()
    rolled_back: str = ""
    only_for: ActsFor | None = None


CLASSES_WITH_OWN_OPT_IN = frozenset({"slow_node", "slow_input", "slow_fabric", "slow_job"})


def gates_for(
    deployment: Deployment, attempt: Attempt, seen_cluster_name: str | None, failure_class: str = ""
) -> Gates:
    """The gates as they stand now. ``seen_cluster_name`` is None where nobody could look."""
    allowed = deployment.partitions
    outside = [p for p in attempt.partitions if "*" not in allowed and p not in allowed]
    mode = attempt.opt_in.effective(deployment.cluster.environment)
    owned = (
        attempt.cluster == deployment.cluster
        and seen_cluster_name is not None
        and seen_cluster_name == deployment.owned_cluster_name
    )
    gates = [
        Gate(
            GateName.DEPLOYMENT_MODE,
            deployment.mode is Mode.ACTION and not deployment.rolled_back,
            f"rolled back to monitor {deployment.rolled_back}"
            if deployment.rolled_back
            else f"deployment mode is {deployment.mode.value}",
        ),
        Gate(
            GateName.ACKNOWLEDGED,
            deployment.acknowledge_scheduler_actions,
            "acknowledgeSchedulerActions is "
            + ("true" if deployment.acknowledge_scheduler_actions else "false"),
        ),
        Gate(GateName.JOB_OPT_IN, mode is JobMode.ACTION, f"the job's opt-in is {mode.value}"),
        Gate(
            GateName.PARTITION_ALLOWLIST,
            bool(attempt.partitions) and not outside,
            f"partitions {', '.join(attempt.partitions) or '(none seen)'}; "
            f"allowed: {', '.join(allowed) or 'none'}",
        ),
        Gate(
            GateName.OWNERSHIP,
            owned,
            f"advice for {attempt.cluster.scheduler}/{attempt.cluster.environment}, cluster calls "
            f"itself {seen_cluster_name or 'nothing (not seen)'}, "
            f"this controller owns {deployment.owned_cluster_name or 'none'}",
        ),
    ]
    if deployment.only_for is not None and not deployment.only_for.everybody:
        us = deployment.only_for
        gates.append(
            Gate(
                GateName.JOB_OWNER,
                attempt.uid == us.uid,
                f"the job belongs to {_user(attempt.user, attempt.uid)}; this controller acts for "
                f"the jobs of {_user(us.user, us.uid)} alone",
            )
        )
    if attempt.let_go_after and attempt.held and attempt.state is JobState.PENDING:
        gates.append(
            Gate(GateName.DEPENDENCIES, declares_as_decided(attempt), _declared_now(attempt))
        )
    if failure_class in CLASSES_WITH_OWN_OPT_IN:
        gates.append(
            Gate(
                GateName.CLASS_OPT_IN,
                attempt.opt_in.slow_restart,
                f"class {failure_class} needs restartOnSlow: true in the job's comment",
            )
        )
    return Gates(tuple(gates))


def declares_as_decided(attempt: Attempt) -> bool:
    """Whether all that a held job now declares to wait for was done when its release was decided. Its
    owner may write something else until it runs; who declares nothing lets nobody release it."""
    now = attempt.opt_in
    if now.depends_on_wrong or not now.depends_on:
        return False
    return set(now.depends_on) <= set(attempt.let_go_after)


def _declared_now(attempt: Attempt) -> str:
    decided = ", ".join(one.text for one in attempt.let_go_after)
    now = ", ".join(one.text for one in attempt.opt_in.depends_on)
    wrong = "; ".join(attempt.opt_in.depends_on_wrong)
    return (
        f"its release was decided for {decided}; its comment declares {wrong or now or 'nothing'}"
    )


def _user(name: str, uid: int) -> str:
    if uid < 0:
        return f"{name or 'somebody'} (not seen)"
    return f"{name} ({uid})" if name else f"uid {uid}"
