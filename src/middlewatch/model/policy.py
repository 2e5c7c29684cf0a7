"""What the site allows: budgets, what to restart on, how long to wait.

Part of every decision's frozen inputs, so it is one record with a version of its own.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Policy:
    """Durations in seconds. ``version`` is the digest of the values (made by who loads them).

    ``attempts_without_checkpoint``: our converged restarts in a row that brought no new complete
    checkpoint, after which restarting stops. ``max_restarts`` bounds all of them for one job.
    ``restarts_without_progress``: our restarts in a row that were *not recovered*: none passed the
    step that was lost before it, and they ended alike (the same class, or the same step).
    ``seen_after_end_s``: an attempt that had ended longer ago than this when it was first seen is
    history, which somebody may have dealt with: it is not restarted.
    ``silence_floor_s``: no silence between steps that is shorter than this is an alarm; beyond it the
    limit is learnt from the job. The limits of the phases say from when on a silence counts against
    a job; an alarm, upon which nothing is done, comes after a share of them
    (`middlewatch.detection.limits`). ``launch_limit_s``: a job runs and has never printed anything.
    ``first_step_limit_s``: silence before the first step; ``compile_limit_s`` while it says that it
    compiles; ``evaluation_limit_s`` and ``checkpoint_limit_s``: silence in an evaluation or a save
    that the job announced, until it has shown how long its own take; ``shutdown_limit_s``: silence
    behind the last step, when the process should end.
    ``unseen_limit_s``: a running job whose output cannot be read for longer than this is an issue.
    ``act_on_silence_partitions``: where all partitions of a job are among them, its silence alone
    is enough to act, as ``act_on_silence`` says it for all.
    ``parent_settles_s``: a job that another one waits for and that did not complete counts as ended for
    good no sooner than this after its end was learnt: until then evidence may come that restarts it.
    ``min_spare_nodes``: usable nodes that a partition must keep beyond what the job needs.
    """

    version: str = "default"
    attempts_without_checkpoint: int = 3
    restarts_without_progress: int = 2
    max_restarts: int = 20
    restart_on_time_limit: bool = False
    restart_on_preemption: bool = False
    restart_after_person_cancelled: bool = False
    restart_on_application_failure: bool = True
    act_on_silence: bool = False
    act_on_silence_partitions: tuple[str, ...] = ()
    act_on_slow: bool = False
    act_on_numbers: bool = False
    seen_after_end_s: float = 60.0
    max_exclusions: int = 8
    min_spare_nodes: int = 0
    advice_age_limit_s: float = 3600.0
    drain_wait_s: float = 2.0
    grace_floor_s: float = 30.0
    silence_floor_s: float = 55.0
    launch_limit_s: float = 900.0
    first_step_limit_s: float = 1800.0
    compile_limit_s: float = 3600.0
    evaluation_limit_s: float = 3600.0
    checkpoint_limit_s: float = 1800.0
    shutdown_limit_s: float = 1200.0
    unseen_limit_s: float = 120.0
    parent_settles_s: float = 60.0
    signal_cap: int = 100
