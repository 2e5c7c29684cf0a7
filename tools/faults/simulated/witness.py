"""What really happened: every command as it took effect, every start, every outcome as it was written.

The witness sees the world itself, not what anybody was told of it. Whatever a rule forbids is noted
at the moment at which it happens, with the rule's name; what only the end shows is `judge`'s.

Nobody can exclude a change that comes between a look and the command that follows from it: Slurm has no
conditional command. What crossed a command in that way (it was not there a second and a half before the
command was sent) is counted apart, and so is what a client did that stood still between its last
check and its sending.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from middlewatch.lab.simulated import EPOCH, Place, Program, SimulatedCluster
from middlewatch.lab.simulated.program import Start
from middlewatch.lab.simulated.records import Job
from middlewatch.model.action import Action, ActionKind
from middlewatch.model.advice import Advice, DesiredState, Disposition
from middlewatch.model.identity import AttemptId
from middlewatch.model.optin import JobMode, read_comment
from middlewatch.model.scheduler import ENDED, JobState
from tools.faults.simulated.told import Deed, Finding, Seen, Sent

CROSSES = timedelta(seconds=1.5)
"""What is newer than this when a command is sent, no look could be asked to show."""
REQUEUES = (ActionKind.REQUEUE, ActionKind.REQUEUE_HOLD)
ENVIRONMENT = "sim"
MAX_HOLD_S = 150.0
"""Beyond the longest begin time, as it is where nobody has set it otherwise."""
WATCHDOG_MAX_HOLD_S = 200.0
HOLDS_S = {
    "our requeue-hold stands": MAX_HOLD_S,
    "our exclusions have made it impossible": WATCHDOG_MAX_HOLD_S,
    "fence": 30.0,
}
"""How long each thing of ours may stand, from when it was announced."""


Attempt = tuple[int, int]
"""A job (told apart from others that had its number) and a restart count."""


@dataclass
class Witness:
    """``own_exclusions`` are users' own lists with the moment of their last change; ``touched``
    are moments of the last change by people, by job and kind."""

    cluster: SimulatedCluster
    deeds: list[Deed] = field(default_factory=list)
    found: list[Finding] = field(default_factory=list)
    apart: Counter[str] = field(default_factory=Counter)
    trace: list[str] | None = None
    own_exclusions: dict[int, frozenset[str]] = field(default_factory=dict)
    excluded_at: dict[int, datetime] = field(default_factory=dict)
    held_at: dict[int, datetime] = field(default_factory=dict)
    comment_at: dict[int, datetime] = field(default_factory=dict)
    advice: dict[tuple[AttemptId, int], Advice] = field(default_factory=dict)
    """Every generation as it was last acknowledged."""
    audit: dict[str, str] = field(default_factory=dict)
    """Acknowledged audit events by idempotency key or a number of ours: type."""
    intents: set[str] = field(default_factory=set)
    frozen_jobs: set[int] = field(default_factory=set)
    started: dict[Attempt, tuple[datetime, bool]] = field(default_factory=dict)
    """When each attempt began, and whether it was we who had let it go."""
    revived: dict[Attempt, str] = field(default_factory=dict)
    requeued: Counter[Attempt] = field(default_factory=Counter)
    rolled_back_at: datetime | None = None
    held: dict[Attempt, datetime] = field(default_factory=dict)
    hung: set[Attempt] = field(default_factory=set)
    dependents: dict[int, list[str]] = field(default_factory=dict)
    overshot: set[Attempt] = field(default_factory=set)
    """Attempts that a late requeue of ours has made of another than the one it was meant for."""
    followed: dict[Attempt, list[str]] = field(default_factory=dict)
    """Attempts that our requeue made of one whose end had let other jobs of the chain go."""
    release_by: dict[tuple[int, str], datetime] = field(default_factory=dict)
    """By when what of ours stands on a job has to be gone, by job and what `stands_on` says."""
    happened: Counter[str] = field(default_factory=Counter)
    """Everything that was drawn and came to pass, by kind."""
    stopped: set[Attempt] = field(default_factory=set)
    """Attempts that people have cancelled, whatever slurmctld still knows of it."""
    fenced: set[int] = field(default_factory=set)
    """Jobs whose Requeue=0 is ours, as far as is known."""
    _lineages: dict[int, int] = field(default_factory=dict)
    _kept: list[object] = field(default_factory=list)

    # ------------------------------------------------------------------------------ naming

    def lineage(self, job: Job) -> int:
        """A number for the job itself, whatever its own number: its accounting tells it apart."""
        key = id(job.records)
        if key not in self._lineages:
            self._lineages[key] = len(self._lineages) + 1
            self._kept.append(job.records)  # or its identity could be given to another list
        return self._lineages[key]

    def target(self, advice: Advice) -> Attempt | None:
        """The attempt that the advice is about, as the world has it."""
        jobs = [*self.cluster.forgotten.get(advice.job_id, ())]
        present = self.cluster.jobs.get(advice.job_id)
        if present is not None:
            jobs.append(present)
        for job in reversed(jobs):
            if any(record.submitted_at == advice.submitted_at for record in job.records):
                return self.lineage(job), advice.attempt_index
        return None

    def say(self, text: str) -> None:
        if self.trace is not None:
            seconds = (self.cluster.now - EPOCH).total_seconds()
            self.trace.append(f"{seconds:9.3f}  {text}")

    def note(self, count: str, text: str) -> None:
        self.found.append(Finding(count, self.cluster.now, text))
        self.say(f"!! {count}: {text}")

    def happen(self, kind: str) -> None:
        self.happened[kind] += 1

    def set_apart(self, name: str, text: str) -> None:
        self.apart[name] += 1
        self.say(f"   ({name}: {text})")

    def rolled_back(self) -> None:
        """slurmctld has come back from an older state: what it has forgotten has not happened."""
        self.rolled_back_at = self.cluster.now
        reached = {self.lineage(job): job.restarts for job in self.cluster.jobs.values()}
        for attempt in [*self.requeued]:
            if reached.get(attempt[0], attempt[1]) <= attempt[1]:
                del self.requeued[attempt]
        for memory in (self.revived, self.started):
            for attempt in [a for a in memory if reached.get(a[0], a[1]) < a[1]]:
                memory.pop(attempt)
        self.deeds = [d for d in self.deeds if reached.get(d.lineage, d.restarts) >= d.restarts]

    # --------------------------------------------------------------------- what of ours stands

    def stands_on(self, job: Job) -> str:
        """What of ours keeps that job waiting, or fenced; empty: nothing."""
        lineage = self.lineage(job)
        if not any(d.ours and d.lineage == lineage for d in self.deeds):
            return ""
        # Without its mark it is somebody's who requeued the job after us, or with our hold on it.
        if job.pending and job.requeue_held and job.special_exit and job.hold == "user":
            return "our requeue-hold stands"
        own = self.own_exclusions.get(lineage, frozenset())
        if job.pending and job.hold == "constraints":
            left = len(set(self.cluster.nodes) - own)
            if set(job.excluded) - own and left >= job.node_count:
                return "our exclusions have made it impossible"
        if not job.requeue and lineage in self.fenced:
            return "fence"
        return ""

    def active(self) -> bool:
        """Whether any advice still needs work, as far as the store has acknowledged it."""
        newest = {advice.attempt_id: advice for advice in self.advice.values()}
        return any(advice.active for advice in newest.values())

    def ours_stands(self) -> bool:
        return any(
            self.stands_on(job) for job in self.cluster.jobs.values() if job.state not in ENDED
        )

    # ----------------------------------------------------------------------------- programs

    def started_by(self, start: Start) -> Start:
        """The same program, whose beginnings are seen."""

        def begin(place: Place) -> Program:
            self._begins(place)
            return start(place)

        return begin

    def _begins(self, place: Place) -> None:
        job = self.cluster.jobs[place.job_id]
        attempt = (self.lineage(job), place.restarts)
        ours = self._let_go_by_us(attempt)
        self.started[attempt] = (self.cluster.now, ours)
        self.say(f"job {place.job_id} attempt {place.restarts} begins on {','.join(place.nodes)}")
        # What Slurm has already started something beside is no more our doing.
        alive = [
            run
            for run in self.cluster.runs.get(place.job_id, ())
            if not run.dead and run.restarts == place.restarts - 1
        ]
        if ours and attempt in self.followed and attempt[0] not in self.frozen_jobs:
            text = f"job {place.job_id}: let go although {self.followed[attempt]} had taken over"
            self.note("two_live_trainings", text)
        if alive and ours and attempt[0] not in self.frozen_jobs:
            text = f"job {place.job_id}: attempt {place.restarts} was let go while an earlier one lived"
            self.note("two_live_trainings", text)
        elif alive:
            self.set_apart("orphans_beside_slurms_own_restart", f"job {place.job_id}")

    def _let_go_by_us(self, attempt: Attempt) -> bool:
        for deed in reversed(self.deeds):
            if (deed.lineage, deed.restarts) == attempt and deed.lets_go and not deed.refusal:
                return deed.ours
        return False

    # ------------------------------------------------------------------------------- people

    def people_did(
        self, by: str, what: str, before: Job | None, refusal: str, **about: bool
    ) -> None:
        """An operator or an owner did something; ``about`` says what it changed."""
        job_id = before.job_id if before is not None else "?"
        self.say(f"{by}: {what} {job_id}{' -> ' + refusal if refusal else ''}")
        if before is None:
            return
        lineage, now = self.lineage(before), self.cluster.now
        lets_go = about.get("lets_go", False)
        deed = Deed(now, by, what, job_id, refusal, False, lineage, before.restarts, lets_go)
        self.deeds.append(deed)
        if refusal:
            return
        if what.startswith("cancels"):
            self.stopped.add((lineage, before.restarts))
        job = self.cluster.jobs.get(job_id)
        if about.get("exclusions") and job is not None:
            self.own_exclusions[lineage] = frozenset(job.excluded)
            self.excluded_at[lineage] = now
        if job is not None and before.requeue != job.requeue:
            self.fenced.discard(lineage)
        if about.get("holds"):
            self.held_at[lineage] = now
        if about.get("comment"):
            self.comment_at[lineage] = now

    # --------------------------------------------------------------------------------- ours

    def carried_out(
        self, sent: Sent, action: Action, before: Job | None, after: Job | None, refusal: str
    ) -> None:
        """A command of ours has reached slurmctld."""
        words = " ".join(
            [
                action.kind.value,
                action.job_id,
                "" if action.exclusions is None else f"exclude={','.join(action.exclusions)}",
                "start-now" if action.start_now else "",
                "" if action.requeueable is None else f"requeue={int(action.requeueable)}",
            ]
        )
        late = (self.cluster.now - sent.at).total_seconds()
        self.say(
            f"{sent.sender}: {words} [{action.why}] (sent {late:.2f} s ago)"
            f"{' -> ' + refusal if refusal else ''}{' FROZEN' if sent.frozen else ''}"
        )
        if before is None:
            return
        lineage = self.lineage(before)
        lets_go = action.start_now or action.kind is ActionKind.RELEASE
        self.deeds.append(
            Deed(
                self.cluster.now,
                sent.sender,
                action.kind.value,
                action.job_id,
                refusal,
                True,
                lineage,
                before.restarts,
                lets_go,
            )
        )
        if refusal or after is None or same(before, after):
            return
        if sent.frozen:
            self.frozen_jobs.add(lineage)
            if action.kind in REQUEUES:
                self._revives(before)
            self.set_apart("frozen_leader_actions", words)
            self._exclusions(sent, before, after, crossed=True)
            return
        self._announce(sent, action, lineage)
        if before.requeue != after.requeue:
            (self.fenced.discard if after.requeue else self.fenced.add)(lineage)
        self._hold(sent, before, after)
        self._exclusions(sent, before, after)
        if action.kind in REQUEUES:
            self._requeue(sent, action, before)
        elif action.kind is ActionKind.CANCEL:
            self._cancel(sent, before)
        else:
            self._change(sent, action, before)
        self._foreign(sent, action, before)

    def _announce(self, sent: Sent, action: Action, lineage: int) -> None:
        """By when it has to be gone, as its sender wrote into the journal."""
        if not sent.sender.startswith("controller") or sent.intent is None:
            return
        stands = {
            "our requeue-hold stands": action.kind is ActionKind.REQUEUE_HOLD,
            "our exclusions have made it impossible": action.exclusions is not None,
            "fence": action.requeueable is False,
        }
        for why, is_so in stands.items():
            if is_so:
                by = sent.intent.started_at + timedelta(seconds=HOLDS_S[why])
                self.release_by[(lineage, why)] = max(by, sent.at)

    def _hold(self, sent: Sent, before: Job, after: Job) -> None:
        if before.hold != "admin" or after.hold == "admin" or after.state in ENDED:
            return
        since = self.held_at.get(self.lineage(before))
        text = f"job {before.job_id}: {sent.sender} undid an operator's hold"
        if since is not None and since > sent.at - CROSSES:
            self.set_apart("operator_holds_crossed", text)
        else:
            self.note("operator_holds_undone", text)

    def _exclusions(self, sent: Sent, before: Job, after: Job, *, crossed: bool = False) -> None:
        lineage = self.lineage(before)
        own = self.own_exclusions.get(lineage, frozenset())
        lost = own & set(before.excluded) - set(after.excluded)
        if not lost:
            return
        self.own_exclusions[lineage] = own - lost
        since = self.excluded_at.get(lineage)
        text = f"job {before.job_id}: {sent.sender} removed the user's own {sorted(lost)}"
        if crossed or (since is not None and since > sent.at - CROSSES):
            self.set_apart("user_exclusions_crossed", text)
        else:
            self.note("user_exclusions_lost", text)

    def _advice_of(self, sent: Sent) -> Advice | None:
        if sent.intent is None:
            return None
        return self.advice.get((sent.intent.attempt_id, sent.intent.generation))

    def _requeue(self, sent: Sent, action: Action, before: Job) -> None:
        advice = self._advice_of(sent)
        target = None if advice is None else self.target(advice)
        here = (self.lineage(before), before.restarts)
        if advice is None or target is None:
            self.note("stale_actions", f"job {before.job_id}: a requeue that no advice asked for")
            return
        ended = advice.status is not None and advice.status.terminal
        if ended and advice.status is not None and here[0] == target[0]:
            text = f"job {before.job_id}: our requeue took effect after {advice.status.reason}"
            self.note("outcome_while_held", text)
        self._revives(before)
        if here != target:
            self.overshot.add((here[0], here[1] + 1))
            self._wrong_attempt(sent, before, target, "a requeue")
            return
        self.requeued[target] += 1
        if self.requeued[target] > 1:
            text = f"job {before.job_id}: attempt {target[1]} was requeued twice by us"
            self.note("double_successors", text)
        if before.running and here not in self.hung:
            self.note("wrong_kills", f"job {before.job_id}: we requeued an attempt that trained")
        waiting = self.dependents.get(here[0], [])
        gone_on = [
            other
            for other in waiting
            if (job := self.cluster.jobs.get(other)) is not None and job.started_at is not None
        ]
        if gone_on:
            self.followed[(here[0], here[1] + 1)] = gone_on

    def _revives(self, before: Job) -> None:
        """A requeue has reached an attempt that may have been over on purpose."""
        over = before.after_completing if before.completing else before.state
        successor = (self.lineage(before), before.restarts + 1)
        if over is JobState.COMPLETED:
            self.revived[successor] = "completed"
        elif over is JobState.CANCELLED and before.cancelled_by is not None:
            self.revived[successor] = "cancelled"

    def _wrong_attempt(self, sent: Sent, before: Job, target: Attempt, what: str) -> None:
        here = (self.lineage(before), before.restarts)
        looked = sent.looked
        was_right = looked is not None and (self.lineage(looked), looked.restarts) == target
        text = f"job {before.job_id}: {what} for attempt {target[1]} hit attempt {before.restarts}"
        if here[0] != target[0] and not was_right:
            self.note("foreign_actions", text + " of another job")
        elif not was_right:
            self.note("stale_actions", text)
        elif before.running and self.started.get(here, (None, False))[1]:
            # What we had let go ourselves was ended by a command that we had sent before that.
            self.note("double_successors", text)
        else:
            self.set_apart("stale_actions_crossed", text)

    def _cancel(self, sent: Sent, before: Job) -> None:
        advice = self._advice_of(sent)
        target = None if advice is None else self.target(advice)
        here = (self.lineage(before), before.restarts)
        if advice is None or target is None:
            self.note("stale_actions", f"job {before.job_id}: a cancel that no advice asked for")
            return
        if advice.desired is DesiredState.TERMINATED:
            if here != target:
                self._wrong_attempt(sent, before, target, "a cancel")
            return
        successor = (target[0], target[1] + 1)
        if here != successor and here not in self.revived:
            self._wrong_attempt(sent, before, successor, "a cancel")
        elif here not in self.revived and here in self.followed:
            if before.running:
                self.note("wrong_kills", f"job {before.job_id}: we cancelled a successor that ran")
        elif here not in self.revived and (here[0], here[1] - 1) in self.stopped:
            # slurmctld came back from a state before a person's cancel, and we have kept to it.
            self.set_apart("cancels_that_slurmctld_forgot", f"job {before.job_id}")
        elif here not in self.revived and self._requeued_by_people(here):
            self.set_apart("people_requeued_beside_us", f"job {before.job_id}: and we cancelled it")
        elif here not in self.revived:
            self.note(
                "wrong_kills", f"job {before.job_id}: we cancelled a successor that is wanted"
            )
        elif before.running and sent.looked is not None and not sent.looked.pending:
            self.note("wrong_kills", f"job {before.job_id}: we cancelled a successor that ran")

    def _requeued_by_people(self, attempt: Attempt) -> bool:
        """Whether people, and no command of ours, made that attempt."""
        before = (attempt[0], attempt[1] - 1)
        return any(
            not deed.ours and deed.what.startswith("requeues") and not deed.refusal
            for deed in self.deeds
            if (deed.lineage, deed.restarts) == before
        )

    def _change(self, sent: Sent, action: Action, before: Job) -> None:
        advice = self._advice_of(sent)
        if sent.sender.startswith("watchdog"):
            return
        target = None if advice is None else self.target(advice)
        if advice is None or target is None:
            self.note(
                "stale_actions", f"job {before.job_id}: {action.kind} that no advice asked for"
            )
            return
        if advice.desired is DesiredState.RESTARTED:
            target = (target[0], target[1] + 1)
        here = (self.lineage(before), before.restarts)
        if here != target and here not in self.overshot:
            self._wrong_attempt(sent, before, target, action.kind.value)

    def _foreign(self, sent: Sent, action: Action, before: Job) -> None:
        lineage = self.lineage(before)
        if sent.sender.startswith("watchdog"):
            if not any(d.ours and d.lineage == lineage for d in self.deeds[:-1]):
                text = f"job {before.job_id}: the watchdog acted on a job that is none of ours"
                self.note("foreign_actions", text)
            return
        if action.kind not in REQUEUES:
            return
        mode = read_comment(before.comment, ENVIRONMENT).effective(ENVIRONMENT)
        since = self.comment_at.get(lineage)
        crossed = since is not None and since > sent.at - CROSSES
        if sent.looked is not None and self.lineage(sent.looked) != lineage:
            crossed = True  # the number was given to another job on the way (see `_wrong_attempt`)
        if mode is not JobMode.ACTION and not crossed:
            text = f"job {before.job_id}: requeued although its opt-in is {mode.value}"
            self.note("foreign_actions", text)

    # ----------------------------------------------------------------------------- outcomes

    def wrote(self, advice: Advice, seen: Seen) -> None:
        """An advice was acknowledged by the store; ``seen`` is what its controller last saw."""
        key = (advice.attempt_id, advice.generation)
        before = self.advice.get(key)
        self.advice[key] = advice
        status = advice.status
        ended_before = before is not None and before.status is not None and before.status.terminal
        if status is None:
            self.say(
                f"advice {advice.job_id}-{advice.attempt_index} g{advice.generation}: "
                f"{advice.desired.value} exclude {','.join(advice.exclusions)}"
            )
            return
        self.say(
            f"advice {advice.job_id}-{advice.attempt_index} g{advice.generation}: "
            f"{status.disposition.value} {status.reason.value}: {status.detail}"
        )
        if not status.terminal or ended_before:
            return
        target = self.target(advice)
        if target is None:
            return
        if target[0] not in self.frozen_jobs:
            self._ends_held(advice, target)
        if status.disposition is Disposition.CONVERGED:
            self._converged(advice, target, seen)

    def _ends_held(self, advice: Advice, target: Attempt) -> None:
        job = self.cluster.jobs.get(advice.job_id)
        if job is None or advice.desired is not DesiredState.RESTARTED or not job.pending:
            return
        here = (self.lineage(job), job.restarts)
        if here != (target[0], target[1] + 1) or not self.requeued[target]:
            return
        if job.requeue_held and job.hold == "user":
            self.note("outcome_while_held", f"job {job.job_id}: our requeue-hold stands")
        window = timedelta(seconds=self.cluster.config.begin_delay_s)
        ours = job.eligible_at is not None and job.eligible_at == job.submitted_at + window
        if ours and job.eligible_at is not None and job.eligible_at > self.cluster.now:
            self.note("outcome_while_held", f"job {job.job_id}: our begin time stands")

    def _converged(self, advice: Advice, target: Attempt, seen: Seen) -> None:
        """Where it stands, the look tells; what it carries, only the question about that job."""
        text = f"advice {advice.job_id}-{advice.attempt_index} g{advice.generation}: "
        looked = seen.looked.get(advice.job_id)
        if advice.desired is not DesiredState.RESTARTED:
            wrong = self._not_as_desired(advice, target, looked, seen.detailed.get(advice.job_id))
            if wrong:
                self.note("false_converged", f"{text}{advice.desired.value}, and {wrong}")
            return
        if looked is None or self.lineage(looked) != target[0]:
            self.note("false_converged", text + "there was no such job at its last look")
            return
        if looked.restarts != target[1] + 1:
            self.note("false_converged", text + f"the look showed attempt {looked.restarts}")
        if looked.pending and looked.held:
            self.note("false_converged", text + "the successor was held")
        possible = set(self.cluster.nodes) - self.own_exclusions.get(target[0], frozenset())
        room = len(possible - set(advice.exclusions)) >= looked.node_count
        asked = seen.detailed.get(advice.job_id)
        carries = set(asked.excluded) | set(asked.required) if asked is not None else set()
        missing = set(advice.exclusions) - carries
        if missing and room:
            self.note("false_converged", text + f"the successor does not exclude {sorted(missing)}")

    def _not_as_desired(
        self, advice: Advice, target: Attempt, looked: Job | None, asked: Job | None
    ) -> str:
        """What is wrong with an outcome about exactly one attempt; empty: nothing."""
        here = None if looked is None else (self.lineage(looked), looked.restarts)
        match advice.desired:
            case DesiredState.TERMINATED:
                if looked is None:
                    return ""
                over = looked.state in ENDED and not looked.completing
                return "" if here == target and over else "it has not ended"
            case DesiredState.RELEASED:
                if looked is None or here != target:
                    return "the look shows another attempt, or none"
                return "it is held" if looked.pending and looked.held else ""
            case DesiredState.CONSTRAINED:
                if asked is None or (self.lineage(asked), asked.restarts) != target:
                    return "it was not asked about"
                missing = set(advice.exclusions) - set(asked.excluded) - set(asked.required)
                room = len(set(self.cluster.nodes) - set(advice.exclusions)) >= asked.node_count
                return f"it does not exclude {sorted(missing)}" if missing and room else ""
            case _:
                return ""


def same(before: Job, after: Job) -> bool:
    """Whether a command changed nothing (a release of what is not held, a cancel of what is over)."""
    return (
        before.state,
        before.completing,
        before.restarts,
        before.hold,
        before.excluded,
        before.requeue,
        before.eligible_at,
    ) == (
        after.state,
        after.completing,
        after.restarts,
        after.hold,
        after.excluded,
        after.requeue,
        after.eligible_at,
    )
