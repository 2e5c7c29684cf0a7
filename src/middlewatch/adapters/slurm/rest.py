"""The scheduler port through slurmrestd, with a token: no command, no munge and no slurm.conf here.

What it shows is quoted JSON, so nothing in it can be forged. What it can change and tell depends on
the release (`restdialect`), which is asked once: 26.05's can do all that we need, 24.11's all but
requeue, 22.05's neither that nor the fence. Whatever cannot be done is refused before it is sent,
with a sentence; the rest is one request each.
"""

from __future__ import annotations

import json
import pwd
import re
import threading
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from middlewatch.adapters.slurm import cluster, restcall, restdialect
from middlewatch.adapters.slurm import detail as details
from middlewatch.adapters.slurm.actions import is_refusal
from middlewatch.adapters.slurm.restaccounting import records_of
from middlewatch.adapters.slurm.restbody import cluster_in, conf_in, records_in, release_in
from middlewatch.adapters.slurm.restcall import RestTarget
from middlewatch.adapters.slurm.restdialect import Dialect
from middlewatch.adapters.slurm.restjob import view_of
from middlewatch.adapters.slurm.restreach import RestReach
from middlewatch.adapters.slurm.words import checked_job_id, checked_node, lacking, meant
from middlewatch.model.action import Action, ActionKind, Answered, CommandResult
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
from middlewatch.ports.errors import PortError, Refused, Unreachable, Unreadable

__all__ = ["RestScheduler", "RestTarget"]

_NO_SUCH_JOB = "Invalid job id specified"
_NO_SUCH_USER = "Nothing found with query"
"""So 22.05's says, with a status of 500; newer ones have an empty list."""
_ENDED_ALREADY = frozenset({_NO_SUCH_JOB, "Job/step already completing or completed"})
_SINGLY = 4
"""Up to so many jobs are looked at one by one; for more a listing of all costs slurmctld less."""
_CONF_FOR = timedelta(seconds=30)
_NOBODY = -2
"""``only_uid`` where the number of our user is not known: complete for nobody's jobs."""
_LIST = re.compile(r"([A-Za-z0-9._-]*)\[([0-9,-]+)\]")
_BUSY_OR_IDLE = frozenset({"idle", "mixed", "allocated"})
_HARMLESS = frozenset({"PLANNED", "COMPLETING", "CLOUD", "POWERED_DOWN", "POWERING_UP"})


class RestScheduler:
    """Implements `ports.scheduler.Scheduler`. May be shared by threads: each call has a
    connection of its own. ``query_deadline_s`` bounds each of its waits. ``scope`` says
    whose jobs are meant: with `JobScope.OWN` the listing holds those of the token's user alone; so
    it does for an ordinary user with `JobScope.AUTO`, unless it ``lists_all_shown``: to look, no
    right is needed. Where slurmrestd may hide the jobs of others, a snapshot is complete for this
    user's alone. ``interface`` is used instead of the newest that
    both sides know."""

    def __init__(
        self,
        environment: ClusterId,
        target: RestTarget,
        clock: Clock,
        *,
        query_deadline_s: float,
        scope: JobScope = JobScope.AUTO,
        lists_all_shown: bool = False,
        interface: str | None = None,
    ) -> None:
        self.cluster = environment
        self._target = target
        self._clock = clock
        self._deadline_s = query_deadline_s
        self._scope = scope
        self._lists_all_shown = lists_all_shown and scope is JobScope.AUTO
        self._reach = RestReach(target.user, lambda path: self._get(path, "slurmdb"), clock)
        self._conf: tuple[dict[str, str], datetime] | None = None
        self._showed_others = False
        """Whether the last listing that was complete for all held a job of another user."""
        self._interface = interface
        self._lock = threading.Lock()
        self._dialect: Dialect | None = None

    def facts(self) -> Answer[ClusterFacts]:
        now = self._clock.now()
        try:
            if self._spoken().tells_conf:
                return Known(cluster.facts_from(self._read_conf()), now)
            body = self._get("ping")
        except PortError as error:
            return Unknown(str(error), now)
        pings = [ping for ping in records_in(body, "pings") if _answers(ping)]
        if not pings:
            return Unknown("slurmrestd says that slurmctld is not up", now)
        target = self._target
        return Known(
            ClusterFacts(
                name=cluster_in(body) or target.cluster_name,
                version=release_in(body),
                begin_delay_s=target.begin_delay_s,
                message_timeout_s=target.message_timeout_s,
                min_job_age_s=300.0,
                kill_wait_s=30.0,
            ),
            now,
        )

    def acts_for(self) -> Answer[ActsFor]:
        """See `ports.scheduler.Scoped`. Where nobody tells the level of the token's user, or its
        number, it counts as everybody's: slurmctld refuses what it may not do."""
        name, now = self._target.user, self._clock.now()
        uid = _uid(name)
        if self._scope is JobScope.OWN:
            if uid is None:
                why = f"{name[:64]!r} is no user of this machine: its number is needed"
                return Unknown(why, now)
            return Known(ActsFor(uid, name, everybody=False), now)
        if self._scope is JobScope.ALL:
            return Known(ActsFor(-1 if uid is None else uid, name, everybody=True), now)
        try:
            level = self._reach.privileged(self._recent_conf())
        except PortError as error:
            return Unknown(str(error), now)
        ordinary = isinstance(level, Known) and not level.value
        everybody = uid is None or not ordinary
        return Known(ActsFor(-1 if uid is None else uid, name, everybody=everybody), now)

    def listing(self) -> Answer[Snapshot]:
        return self._snapshot(None)

    def look(self, job_ids: Sequence[str]) -> Answer[Snapshot]:
        now = self._clock.now()
        try:
            wanted = {checked_job_id(job_id) for job_id in job_ids}
        except Refused as error:
            return Unknown(str(error), now)
        return self._snapshot(wanted)

    def _snapshot(self, wanted: set[str] | None) -> Answer[Snapshot]:
        now = self._clock.now()
        try:
            told, records = self._jobs(wanted)
            rows = [view_of(job) for job in records]
        except PortError as error:
            return Unknown(str(error), now)
        name = self._target.cluster_name
        strangers = ({row.cluster for row in rows} | told) - {name}
        if strangers:
            said = ", ".join(sorted(strangers))[:80]
            return Unknown(f"slurmrestd speaks for {said}, not of {name}", now)
        whose = self.acts_for()
        if not isinstance(whose, Known):
            return Unknown(whose.why if isinstance(whose, Unknown) else "no answer", now)
        own = not (whose.value.everybody or self._lists_all_shown)
        us = self._target.user
        jobs: tuple[JobView, ...] = tuple(
            row.view
            for row in rows
            if not row.component
            and (
                meant(row.view.job_id, wanted)
                if wanted is not None
                else not own or row.view.user == us
            )
        )
        try:
            whole = self._shows_all(wanted, jobs, own)
        except PortError as error:
            return Unknown(str(error), now)
        if whole:
            return Known(Snapshot(name, now, jobs), now)
        uid = _uid(us)
        return Known(Snapshot(name, now, jobs, _NOBODY if uid is None else uid), now)

    def _shows_all(self, wanted: set[str] | None, jobs: tuple[JobView, ...], own: bool) -> bool:
        """Whether nobody's jobs were left out of these. Raises `PortError` where that is to be asked
        and there is no answer, and where what is missing may be hidden since a moment ago."""
        if self._scope is JobScope.OWN:
            return False
        conf = self._recent_conf()
        hidden = self._reach.hidden(conf)
        others = any(view.user != self._target.user for view in jobs)
        lacks = self._showed_others and not others if wanted is None else lacking(jobs, wanted)
        if hidden or own:
            lost = wanted is not None and lacks and self._reach.lost
            if hidden and (lost or (conf and self._scope is JobScope.ALL)):
                raise Unreachable(hidden)
            return False
        if lacks and (hidden := self._reach.hidden_now(conf)):
            raise Unreachable(hidden)
        if wanted is None:
            self._showed_others = others
        return True

    def hidden(self) -> str:
        """Why slurmrestd may hide jobs of others from the token's user, or nothing. Raises
        `PortError` where it does not answer."""
        return "" if self._scope is JobScope.OWN else self._reach.hidden(self._recent_conf())

    def _recent_conf(self) -> dict[str, str]:
        """slurm.conf as it was told within the last half minute; empty for whoever tells none."""
        if not self._spoken().tells_conf:
            return {}
        with self._lock:
            kept = self._conf
        if kept is not None and timedelta(0) <= self._clock.now() - kept[1] <= _CONF_FOR:
            return kept[0]
        return self._read_conf()

    def _read_conf(self) -> dict[str, str]:
        now = self._clock.now()
        conf = conf_in(self._get("conf"))
        with self._lock:
            self._conf = (conf, now)
        return conf

    def _jobs(self, wanted: set[str] | None) -> tuple[set[str], list[dict[str, Any]]]:
        """Clusters that the answers name, and the records: of all jobs, or at least of those."""
        if wanted is None or len(wanted) > _SINGLY or self._spoken().old:
            body = self._get("jobs")
            return {cluster_in(body)} - {""}, records_in(body, "jobs")
        told: set[str] = set()
        found: dict[str, dict[str, Any]] = {}
        for job_id in sorted(wanted) or ("",):
            body = self._get(f"job/{job_id}") if job_id else self._get("ping")
            told.add(cluster_in(body))
            for job in records_in(body, "jobs") if job_id else ():
                found[details.named(job)] = job
        return told - {""}, list(found.values())

    def detail(self, job_id: str) -> Answer[JobDetail]:
        now = self._clock.now()
        try:
            wanted = checked_job_id(job_id)
            _, records = self._jobs({wanted})
            if not any(details.named(job) == wanted for job in records):
                return Absent(now)
            text = json.dumps({"jobs": records})
            return Known(details.from_json(text, wanted, self.hostnames), now)
        except PortError as error:
            return Unknown(f"detail of job {job_id[:20]}: {error}", now)

    def accounting(self, job_id: str) -> Answer[tuple[AccountingRecord, ...]]:
        now = self._clock.now()
        try:
            wanted = checked_job_id(job_id)
            if not self._spoken().accounts:
                return Unknown("this slurmrestd's accounting is not believed and not read", now)
            number = wanted.partition("_")[0].partition("+")[0]
            body = self._get(f"job/{number}", plugin="slurmdb")
            return Known(records_of(records_in(body, "jobs"), wanted), now)
        except PortError as error:
            return Unknown(f"accounting of job {job_id[:20]}: {error}", now)

    def partitions(self) -> Answer[tuple[PartitionView, ...]]:
        now = self._clock.now()
        nodes: dict[str, list[str]] = {}
        usable: dict[str, list[str]] = {}
        try:
            for node in records_in(self._get("nodes"), "nodes"):
                name = checked_node(str(node.get("name", "")))
                state = node.get("state")
                words = [str(word).upper() for word in state] if isinstance(state, list) else []
                base = words[0].lower() if words else state
                flags = {str(flag).upper() for flag in node.get("state_flags") or ()}
                works = base in _BUSY_OR_IDLE and flags | set(words[1:]) <= _HARMLESS
                for partition in node.get("partitions") or ():
                    nodes.setdefault(str(partition), []).append(name)
                    if works:
                        usable.setdefault(str(partition), []).append(name)
        except PortError as error:
            return Unknown(str(error), now)
        views = (PartitionView(n, tuple(a), tuple(usable.get(n, ()))) for n, a in nodes.items())
        return Known(tuple(views), now)

    def hostnames(self, node_list: str) -> tuple[str, ...]:
        """Plain lists and one pair of brackets: nothing here expands what Slurm alone can."""
        names: list[str] = []
        for part in filter(None, re.split(r"[,\s]+(?![^\[]*\])", node_list.strip())):
            match = _LIST.fullmatch(part)
            names += _expanded(match[1], match[2]) if match else [part]
        try:
            return tuple(dict.fromkeys(checked_node(name) for name in names))
        except Refused as error:
            raise Unreadable(f"{node_list[:120]!r} is not expanded here: {error}") from error

    # ---------------------------------------------------------------------------- the changes

    def perform(self, action: Action, deadline_s: float) -> CommandResult:
        began, begin = self._clock.now(), self._clock.monotonic()
        try:
            known = self._spoken(min(deadline_s, self._deadline_s))
            verb, path, body = restdialect.request(known, action)
        except Refused as error:
            return CommandResult(Answered.REFUSED, (), None, str(error), began, began)
        except PortError as error:
            said = f"not sent, its interfaces could not be asked for: {error}"[:500]
            return CommandResult(Answered.NO_ANSWER, (), None, said, began, self._clock.now())
        argv = (verb, path, *([json.dumps(body)] if body else []))
        answered, text = Answered.DONE, ""
        try:
            left = max(0.1, begin + deadline_s - self._clock.monotonic())
            answer = restcall.send(self._target, verb, path, body, left)
            answered, text = _meant(action, answer)
        except PortError as error:
            answered, text = Answered.NO_ANSWER, str(error)[:500]
        code = 0 if answered is Answered.DONE else None
        return CommandResult(answered, argv, code, text, began, self._clock.now())

    def requeues(self) -> bool:
        """Whether this slurmrestd can restart a job. Raises `PortError` where it does not answer."""
        return self._spoken().requeues

    def _spoken(self, deadline_s: float | None = None) -> Dialect:
        """The interface that is spoken, asked for once. Raises what asking raises."""
        with self._lock:
            known = self._dialect
        if known is None:
            wait = self._deadline_s if deadline_s is None else deadline_s
            answer = restcall.send(self._target, "GET", "/openapi/v3", None, wait)
            if answer.status != 200:
                raise Unreachable(_said(answer))
            known = restdialect.spoken(answer.body, self._interface)
            with self._lock:
                self._dialect = known
        return known

    def _get(self, path: str, plugin: str = "slurm") -> dict[str, Any]:
        """The answer's body; an empty list for a job that slurmctld does not know, and for a user
        that accounting does not."""
        asked = self._spoken().path(path, plugin)
        answer = restcall.send(self._target, "GET", asked, None, self._deadline_s)
        if path.startswith("job/") and answer.errors == (_NO_SUCH_JOB,):
            return {**answer.body, "jobs": []}
        if path.startswith("user/") and answer.errors == (_NO_SUCH_USER,):
            return {**answer.body, "users": []}
        if answer.status == 404:
            with self._lock:
                self._dialect = None  # another release may answer there now
        if answer.status != 200 or answer.errors:
            raise Unreachable(_said(answer))
        return answer.body


def _uid(name: str) -> int | None:
    """The number of that user on this machine, if it is one of it."""
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return None


def _meant(action: Action, answer: restcall.Answer) -> tuple[Answered, str]:
    """What an answer to a change means."""
    text = "; ".join(answer.errors)[:500]
    if action.kind is ActionKind.CANCEL and answer.errors and set(answer.errors) <= _ENDED_ALREADY:
        return Answered.DONE, text  # as scancel has it
    if answer.errors:
        refused = all(is_refusal(error) for error in answer.errors)
        return (Answered.REFUSED if refused else Answered.NO_ANSWER), text
    if answer.status != 200:
        return Answered.NO_ANSWER, _said(answer)
    return Answered.DONE, ""


def _said(answer: restcall.Answer) -> str:
    return f"slurmrestd answered {answer.status}: {'; '.join(answer.errors)[:300]}"


def _answers(ping: Mapping[str, Any]) -> bool:
    return "UP" in (ping.get("ping"), ping.get("pinged"))


def _expanded(prefix: str, ranges: str) -> list[str]:
    found: list[str] = []
    for one in ranges.split(","):
        first, dash, last = one.partition("-")
        if not (first.isdigit() and (not dash or last.isdigit())):
            raise Unreadable(f"{one[:40]!r} is no range of nodes")
        numbers = range(int(first), int(last or first) + 1)
        if len(numbers) > 10_000:
            raise Unreadable(f"{one[:40]!r} names too many nodes")
        found += [f"{prefix}{number:0{len(first)}d}" for number in numbers]
    return found
