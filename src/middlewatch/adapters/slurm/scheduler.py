"""The scheduler port on a real Slurm, through its command line.

Everything that is read here is either whole and unforgeable or it is `Unknown`, with the reason;
every change is one command, answered, refused or without an answer. Standard library only: the
watchdog uses the same adapter when everything else is dead.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from datetime import timedelta

from middlewatch.adapters.slurm import actions, cluster, detail, many
from middlewatch.adapters.slurm.command import Commands, Finished
from middlewatch.adapters.slurm.components import whole_jobs
from middlewatch.adapters.slurm.hostlist import HostLists
from middlewatch.adapters.slurm.listing import Row, listing_argv, read_listing
from middlewatch.adapters.slurm.reach import Reach
from middlewatch.adapters.slurm.words import NOTHING, checked_job_id, lacking, meant
from middlewatch.model.action import Action, Answered, CommandResult
from middlewatch.model.answer import Absent, Answer, Known, Unknown
from middlewatch.model.identity import ClusterId
from middlewatch.model.scheduler import (
    AccountingRecord,
    ActsFor,
    ClusterFacts,
    JobDetail,
    JobScope,
    JobView,
    PartitionView,
    Snapshot,
)
from middlewatch.ports.clock import Clock
from middlewatch.ports.errors import PortError, Refused

_LOST = (
    "PrivateData=jobs hides jobs from this user now, whose level in Slurm showed them before: give it "
    "back, or start anew"
)
_SILENTLY_IGNORED = "Invalid job format specification"


class SlurmScheduler:
    """Implements `ports.scheduler.Scheduler`. May be shared by threads.

    ``query_deadline_s`` kills a look that takes longer. ``facts_age_s`` is how long the cluster's
    own description may be reused to name a snapshot and to judge whether a listing is filtered.
    ``scope`` says whose jobs are meant: with `JobScope.OWN` the listing holds those of the commands'
    own user alone, and is complete for them also where PrivateData hides the others. With
    ``lists_all_shown`` a user whose scope was found out to be its own lists the jobs of others as
    well, where Slurm shows them: to look, no right is needed.
    """

    def __init__(
        self,
        environment: ClusterId,
        commands: Commands,
        clock: Clock,
        *,
        query_deadline_s: float = 30.0,
        facts_age_s: float = 30.0,
        scope: JobScope = JobScope.AUTO,
        lists_all_shown: bool = False,
    ) -> None:
        self.cluster = environment
        self._commands = commands
        self._clock = clock
        self._deadline_s = query_deadline_s
        self._facts_age = timedelta(seconds=facts_age_s)
        self._reach = Reach(commands, self._ask, clock, scope)
        self._lists_all_shown = lists_all_shown and scope is JobScope.AUTO
        self._hosts = HostLists(commands, query_deadline_s)
        self._lock = threading.Lock()
        self._facts: Known[ClusterFacts] | None = None
        self._config: dict[str, str] = {}
        self._listed: int | None = None
        """Jobs in the last full listing, if there was one."""
        self._showed_others = False
        """Whether the last full listing of everybody's jobs held one of another user."""

    # -------------------------------------------------------------------------- the cluster

    def facts(self) -> Answer[ClusterFacts]:
        done = self._ask(cluster.CONFIG_ARGV)
        if done.exit_code != 0:
            return many.unknown(done)
        try:
            config = cluster.read_config(done.stdout)
            found = Known(cluster.facts_from(config), done.started_at)
        except PortError as error:
            return Unknown(f"scontrol show config: {error}", done.started_at)
        with self._lock:
            self._facts = found
            self._config = config
        return found

    def partitions(self) -> Answer[tuple[PartitionView, ...]]:
        done = self._ask(cluster.NODES_ARGV)
        if done.exit_code != 0:
            return many.unknown(done)
        try:
            return Known(cluster.read_partitions(done.stdout, self.hostnames), done.started_at)
        except PortError as error:
            return Unknown(str(error), done.started_at)

    def hostnames(self, node_list: str) -> tuple[str, ...]:
        return self._hosts.expand(node_list)

    # ----------------------------------------------------------------------------- the jobs

    def listing(self) -> Answer[Snapshot]:
        return self._snapshot(())

    def look(self, job_ids: Sequence[str]) -> Answer[Snapshot]:
        try:
            wanted = tuple(dict.fromkeys(checked_job_id(job_id) for job_id in job_ids))
        except Refused as error:
            return Unknown(str(error), self._clock.now())
        if not wanted:
            facts = self._recent_facts()
            if not isinstance(facts, Known):
                return Unknown(_why(facts), self._clock.now())
            return Known(Snapshot(facts.value.name, facts.as_of, ()), facts.as_of)
        return self._snapshot(wanted)

    def acts_for(self) -> Answer[ActsFor]:
        """Whose jobs these commands are used for. See `ports.scheduler.Scoped`."""
        facts = self._recent_facts()
        if not isinstance(facts, Known):
            return Unknown(_why(facts), self._clock.now())
        with self._lock:
            config = self._config
        return self._reach.acts_for(config)

    def _only_uid(self, facts: ClusterFacts) -> int | None:
        """The user whose jobs alone are listed, where it is not everybody's."""
        whose = self.acts_for()
        if not isinstance(whose, Known) or whose.value.everybody:
            return None
        all_shown = "jobs" not in facts.private_data
        return None if all_shown and self._lists_all_shown else whose.value.uid

    def _snapshot(self, wanted: tuple[str, ...]) -> Answer[Snapshot]:
        facts = self._recent_facts()
        if not isinstance(facts, Known):
            return Unknown(_why(facts), self._clock.now())
        only = self._only_uid(facts.value)
        hidden = "" if only is not None else self._filtered(facts.value)
        if hidden:
            return Unknown(hidden, self._clock.now())
        rows = self._rows(wanted, only)
        if not isinstance(rows, Known):
            return Unknown(_why(rows), self._clock.now())
        name = facts.value.name
        strangers = {row.cluster for row in rows.value} - {name} - NOTHING
        if strangers:
            return Unknown(
                f"squeue lists jobs of {', '.join(sorted(strangers))[:80]}, "
                f"while slurmctld calls itself {name}",
                rows.as_of,
            )
        jobs = tuple(
            row.view
            for row in whole_jobs(rows.value)
            if (meant(row.view.job_id, wanted) if wanted else only is None or row.view.uid == only)
        )
        if "jobs" in facts.value.private_data:
            hidden = self._hidden_since(wanted, jobs, only)
            if hidden:
                return Unknown(hidden, rows.as_of)
        if not wanted:
            self._listed = len(rows.value)
        return Known(Snapshot(name, rows.as_of, jobs, only), rows.as_of)

    def _hidden_since(
        self, wanted: tuple[str, ...], jobs: tuple[JobView, ...], only: int | None
    ) -> str:
        """Why what is missing may be hidden since a moment ago, or nothing. A level that is taken
        away hides all that is others' at once, and what is hidden looks as if it were gone."""
        if only is not None:
            # A listing says for whom it is complete; of a job that is looked at nobody knows whose.
            return _LOST if lacking(jobs, wanted) and self._reach.lost else ""
        user = self._commands.user()
        others = any(user is None or view.uid != user[0] for view in jobs)
        lacks = lacking(jobs, wanted) if wanted else self._showed_others and not others
        if lacks:
            with self._lock:
                config = self._config
            sees_all = self._reach.privileged_now(config)
            if not isinstance(sees_all, Known):
                return f"PrivateData=jobs may hide jobs from this user now: {_why(sees_all)}"
            if not sees_all.value:
                return _LOST
        if not wanted:
            self._showed_others = others
        return ""

    def _rows(
        self, wanted: tuple[str, ...], only_uid: int | None = None
    ) -> Answer[tuple[Row, ...]]:
        done = self._ask(listing_argv(wanted, only_uid))
        if done.exit_code != 0:
            if len(wanted) == 1 and many.no_such_job(done):
                return Known((), done.started_at)
            return many.unknown(done)
        if _SILENTLY_IGNORED in done.stderr:
            return Unknown(f"squeue does not know a column: {done.said}", done.started_at)
        try:
            return Known(read_listing(done.stdout), done.started_at)
        except PortError as error:
            return Unknown(str(error), done.started_at)

    def detail(self, job_id: str) -> Answer[JobDetail]:
        try:
            wanted = checked_job_id(job_id)
        except Refused as error:
            return Unknown(str(error), self._clock.now())
        facts = self._recent_facts()
        if not isinstance(facts, Known):
            return Unknown(_why(facts), self._clock.now())
        read: Callable[[str], Answer[JobDetail]] = self._detail_by_fields
        if cluster.version_tuple(facts.value.version) >= detail.JSON_SINCE:
            read = self._detail_by_json
        try:
            return read(wanted)
        except PortError as error:
            return Unknown(f"detail of job {wanted}: {error}", self._clock.now())

    def _detail_by_json(self, job_id: str) -> Answer[JobDetail]:
        # Not `scontrol show job --json`: for an unknown job that prints an empty list with exit
        # code 0, which could as well be no answer at all.
        done = self._ask(("squeue", "--local", "-a", "--states=all", "-j", job_id, "--json"))
        if many.no_such_job(done):
            return Absent(done.started_at)
        if done.exit_code != 0:
            return many.unknown(done)
        return Known(detail.from_json(done.stdout, job_id, self.hostnames), done.started_at)

    def _detail_by_fields(self, job_id: str) -> Answer[JobDetail]:
        if self._listed is not None and self._listed <= many.SHORT:
            # The JSON of a short queue costs less than a question for each field. It proves no
            # absence, and is asked for again where it cannot be read.
            found = self.details((job_id,)).get(job_id)
            if isinstance(found, Known):
                return found
        before = self._rows((job_id,))
        if not isinstance(before, Known):
            return before
        if not before.value:
            return Absent(before.as_of)
        if len(before.value) > 1:
            # A heterogeneous job, or an array some of whose tasks were split off: a listing of
            # one field has several lines then, which its user's text could imitate.
            return self._detail_by_full_json(job_id)
        row = before.value[0]
        values: dict[str, str] = {}
        for name, flag, field in detail.FIELDS:
            # By its own record number, so that exactly one job can be in the answer, except for
            # an array's last task, whose number is also that of the whole array.
            asked = job_id if "_" in job_id else row.raw_id
            done = self._ask(detail.field_argv(asked, flag, field))
            if many.no_such_job(done):
                return Absent(done.started_at)
            if done.exit_code != 0 or _SILENTLY_IGNORED in done.stderr:
                return many.unknown(done)
            values[name] = detail.field_value(done.stdout, flag)
        by_operator = detail.hold_by_row(row)
        if by_operator is None:
            by_operator = self._hold_by_json(row.raw_id)
        written = detail.Written(**values)
        return Known(detail.from_fields(row, written, by_operator, self.hostnames), before.as_of)

    def _detail_by_full_json(self, job_id: str) -> Answer[JobDetail]:
        done = self._ask(("squeue", "--local", "-a", "--json"))
        if done.exit_code != 0:
            return many.unknown(done)
        return Known(detail.from_json(done.stdout, job_id, self.hostnames), done.started_at)

    def _hold_by_json(self, raw_id: str) -> bool | None:
        """Asked only for a held job: this release's JSON lists all jobs, whatever is asked."""
        done = self._ask(("squeue", "--local", "-a", "-j", raw_id, "--json"))
        if done.exit_code != 0:
            return None
        try:
            return detail.hold_in_json(done.stdout, raw_id)
        except PortError:
            return None

    def details(self, job_ids: Sequence[str]) -> dict[str, Answer[JobDetail]]:
        """See `ports.scheduler.ManyAtOnce`."""
        wanted, facts = many.nameable(job_ids), self._recent_facts()
        if not isinstance(facts, Known):
            return dict.fromkeys(wanted, Unknown(_why(facts), self._clock.now()))
        version = cluster.version_tuple(facts.value.version)
        return many.details(self._ask, wanted, version, self._listed or 0, self.hostnames)

    def accounting(self, job_id: str) -> Answer[tuple[AccountingRecord, ...]]:
        try:
            wanted = checked_job_id(job_id)
        except Refused as error:
            return Unknown(str(error), self._clock.now())
        return self.accountings((wanted,))[wanted]

    def accountings(
        self, job_ids: Sequence[str]
    ) -> dict[str, Answer[tuple[AccountingRecord, ...]]]:
        """See `ports.scheduler.ManyAtOnce`."""
        facts = self._recent_facts()
        # Without facts (slurmctld is down, accounting is not) the oldest release is assumed:
        # fewer fields, and exit codes that are not believed.
        version = cluster.version_tuple(facts.value.version) if isinstance(facts, Known) else ()
        return many.accountings(self._ask, many.nameable(job_ids), version)

    # -------------------------------------------------------------------------- the changes

    def perform(self, action: Action, deadline_s: float) -> CommandResult:
        try:
            argv = actions.action_argv(action)
        except Refused as error:
            now = self._clock.now()
            return CommandResult(Answered.REFUSED, (), None, str(error), now, now)
        done = self._commands.run(argv, deadline_s, changing=True)
        return CommandResult(
            answered=actions.answer_of(done),
            argv=argv,
            exit_code=done.exit_code,
            text=done.said,
            started_at=done.started_at,
            ended_at=done.ended_at,
        )

    # ---------------------------------------------------------------------------- the means

    def _ask(self, argv: Sequence[str]) -> Finished:
        return self._commands.run(argv, self._deadline_s)

    def _recent_facts(self) -> Answer[ClusterFacts]:
        with self._lock:
            recent = self._facts
        if recent is not None and self._clock.now() - recent.as_of <= self._facts_age:
            return recent
        return self.facts()

    def _filtered(self, facts: ClusterFacts) -> str:
        """Why a listing of everybody's jobs is not complete, or nothing."""
        if "jobs" not in facts.private_data:
            return ""
        with self._lock:
            config = self._config
        sees_all = self._reach.privileged(config)
        if not isinstance(sees_all, Known):
            return f"PrivateData=jobs may hide jobs from this user: {_why(sees_all)}"
        if sees_all.value:
            return ""
        return (
            "PrivateData=jobs hides other users' jobs from this user: run as SlurmUser, give it "
            "AdminLevel=Operator (sacctmgr modify user … set adminlevel=Operator), or set "
            'slurm.scope = "own" for its own jobs alone'
        )


def _why(answer: Answer[object]) -> str:
    return (
        answer.why if isinstance(answer, Unknown) else "the scheduler describes itself not at all"
    )
