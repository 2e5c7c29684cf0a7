"""What schedules on a real Slurm and in the simulation are both judged by, under the same names."""

from __future__ import annotations

BREACHES = (
    "double_successors",
    "two_live_trainings",
    "held_forever",
    "outcome_while_held",
    "stale_actions",
    "foreign_actions",
    "revived_completed_left",
    "revived_cancelled_left",
    "operator_holds_undone",
    "user_exclusions_lost",
    "false_converged",
    "lost_advice",
    "lost_audit",
    "wrong_kills",
    "fences_left",
    "unconverged",
)
"""All of these must be 0; docs/faults.md says what each counts."""
NO_BREACHES = (
    "revived_then_undone",
    "frozen_leader_actions",
    "revived_and_started_by_slurm",
    "operator_holds_crossed",
    "user_exclusions_crossed",
    "stale_actions_crossed",
    "orphans_beside_slurms_own_restart",
)
"""What happened and is no breach: counted, so that it can be seen how much was tried."""
