"""The scheduler port through slurmrestd, with a token: no command, no munge and no slurm.conf here.

What it shows is quoted JSON, so nothing in it can be forged; what it can change depends on the
release. No slurmrestd before 26.05 can requeue, none tells slurmctld's time-outs, and 22.05's takes
``requeue`` in an update, answers that all is well, and changes nothing. Whatever cannot be done is
refused before it is sent, with a sentence; the rest is one request each. Tried on 22.05.8.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import pwd
import re
import socket
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from middlewatch.adapters.slurm import detail as details
from middlewatch.adapters.slurm.actions import is_refusal
from middlewatch.adapters.slurm.restjob import view_of
from middlewatch.adapters.slurm.words import checked_job_id, checked_node
from middlewatch.model.action import Action, ActionKind, Answered, CommandResult
from middlewatch.model.answer import Absent, Answer, Known, Unknown
from middlewatch.model.identity import ClusterId
from middlewatch.model.scheduler import (
    AccountingRecord,
    ActsFor,
    ClusterFacts,
    JobDetail,
    JobView,
    PartitionView,
    Snapshot,
)
from middlewatch.ports.clock import Clock
from middlewatch.ports.errors import PortError, Refused, Unreachable, Unreadable

VERSION = "v0.0.38"
"""The newest of the interfaces that 22.05's slurmrestd has."""
_LARGEST = 256 * 1024 * 1024
_NO_SUCH_JOB = 2017
_LIST = re.compile(r"([A-Za-z0-9._-]*)\[([0-9,-]+)\]")
_BUSY_OR_IDLE = frozenset({"idle", "mixed", "allocated"})
_HARMLESS = frozenset({"PLANNED", "COMPLETING", "CLOUD", "POWERED_DOWN", "POWERING_UP"})
_NO_REQUEUE = "slurmrestd of this release cannot requeue: use Slurm's commands, here or by SSH"
_NO_FENCE = "slurmrestd of this release cannot change whether a job may be requeued"


@dataclass(frozen=True, slots=True)
class RestTarget:
    """``url`` is ``http://host:port``, ``https://…`` or ``unix:/path``. ``cluster_name`` is the
    name that every job must bear: slurmrestd itself says it nowhere. Seconds as in slurm.conf."""

    url: str
    user: str
    token_file: str
    cluster_name: str
    begin_delay_s: float = 121.0
    message_timeout_s: float = 10.0

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> RestTarget:
        return cls(**json.loads(text))


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class RestScheduler:
    """Implements `ports.scheduler.Scheduler`. May be shared by threads: each call has a
    connection of its own. ``query_deadline_s`` bounds each of its waits. With ``own_jobs`` the
    listing holds those of the token's user alone."""

    def __init__(
        self,
        environment: ClusterId,
        target: RestTarget,
        clock: Clock,
        *,
        query_deadline_s: float,
        own_jobs: bool = False,
    ) -> None:
        self.cluster = environment
        self._target = target
        self._clock = clock
        self._deadline_s = query_deadline_s
        self._own_jobs = own_jobs

    def facts(self) -> Answer[ClusterFacts]:
        now = self._clock.now()
        try:
            body = self._get("ping")
        except PortError as error:
            return Unknown(str(error), now)
        pings = [ping for ping in _records(body, "pings") if ping.get("ping") == "UP"]
        if not pings:
            return Unknown("slurmrestd says that slurmctld is not up", now)
        target = self._target
        return Known(
            ClusterFacts(
                name=target.cluster_name,
                version=_release(body),
                begin_delay_s=target.begin_delay_s,
                message_timeout_s=target.message_timeout_s,
                min_job_age_s=300.0,
                kill_wait_s=30.0,
            ),
            now,
        )

    def acts_for(self) -> Answer[ActsFor]:
        """See `ports.scheduler.Scoped`. What the token's user may do, slurmrestd does not tell."""
        name, now = self._target.user, self._clock.now()
        try:
            uid = pwd.getpwnam(name).pw_uid
        except KeyError:
            if self._own_jobs:
                return Unknown(
                    f"{name[:64]!r} is no user of this machine: its number is needed", now
                )
            uid = -1
        return Known(ActsFor(uid, name, everybody=not self._own_jobs), now)

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
            rows = [view_of(job) for job in _records(self._get("jobs"), "jobs")]
        except PortError as error:
            return Unknown(str(error), now)
        name = self._target.cluster_name
        strangers = {row.cluster for row in rows} - {name}
        if strangers:
            said = ", ".join(sorted(strangers))[:80]
            return Unknown(f"slurmrestd lists jobs of {said}, not of {name}", now)
        jobs: tuple[JobView, ...] = tuple(
            row.view
            for row in rows
            if not row.component
            and (
                row.view.job_id in wanted
                if wanted is not None
                else not self._own_jobs or row.view.user == self._target.user
            )
        )
        whose = self.acts_for() if self._own_jobs else None
        if isinstance(whose, Unknown):
            return whose
        only = whose.value.uid if isinstance(whose, Known) else None
        return Known(Snapshot(name, now, jobs, only), now)

    def detail(self, job_id: str) -> Answer[JobDetail]:
        now = self._clock.now()
        try:
            wanted = checked_job_id(job_id)
            body = self._get("jobs")
            text = json.dumps({"jobs": body.get("jobs", [])})
            if not any(details.named(job) == wanted for job in _records(body, "jobs")):
                return Absent(now)
            return Known(details.from_json(text, wanted, self.hostnames), now)
        except PortError as error:
            return Unknown(f"detail of job {job_id[:20]}: {error}", now)

    def accounting(self, job_id: str) -> Answer[tuple[AccountingRecord, ...]]:
        return Unknown("accounting is not read through slurmrestd", self._clock.now())

    def partitions(self) -> Answer[tuple[PartitionView, ...]]:
        now = self._clock.now()
        nodes: dict[str, list[str]] = {}
        usable: dict[str, list[str]] = {}
        try:
            for node in _records(self._get("nodes"), "nodes"):
                name = checked_node(str(node.get("name", "")))
                flags = {str(flag).upper() for flag in node.get("state_flags") or ()}
                works = node.get("state") in _BUSY_OR_IDLE and flags <= _HARMLESS
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
        began = self._clock.now()
        try:
            verb, path, body = _request(action)
        except Refused as error:
            return CommandResult(Answered.REFUSED, (), None, str(error), began, began)
        argv = (verb, f"/slurm/{VERSION}/{path}", *([json.dumps(body)] if body else []))
        answered, text = Answered.DONE, ""
        try:
            _, answer = self._send(verb, path, body, deadline_s)
            errors = _errors(answer)
            if errors:
                text = "; ".join(errors)[:500]
                refused = all(is_refusal(error) for error in errors)
                answered = Answered.REFUSED if refused else Answered.NO_ANSWER
        except PortError as error:
            answered, text = Answered.NO_ANSWER, str(error)[:500]
        code = 0 if answered is Answered.DONE else None
        return CommandResult(answered, argv, code, text, began, self._clock.now())

    def _get(self, path: str) -> dict[str, Any]:
        status, body = self._send("GET", path, None, self._deadline_s)
        errors = _errors(body)
        if status != 200 or errors:
            raise Unreachable(f"slurmrestd answered {status}: {'; '.join(errors)[:300]}")
        return body

    def _send(
        self, verb: str, path: str, body: Mapping[str, Any] | None, deadline_s: float
    ) -> tuple[int, dict[str, Any]]:
        target = self._target
        try:
            token = Path(target.token_file).read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise Unreachable(
                f"the token in {target.token_file} cannot be read: {error}"
            ) from error
        headers = {"X-SLURM-USER-NAME": target.user, "X-SLURM-USER-TOKEN": token}
        connection = _connection(target.url, deadline_s)
        # A time-out bounds each wait; an answer that comes in drops has many of them.
        cut = threading.Timer(deadline_s, _cut, (connection,))
        cut.daemon = True
        cut.start()
        try:
            sent = None if body is None else json.dumps(body)
            if sent is not None:
                headers["Content-Type"] = "application/json"
            connection.request(verb, f"/slurm/{VERSION}/{path}", sent, headers)
            response = connection.getresponse()
            data = response.read(_LARGEST)
            answer = json.loads(data)
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(f"no answer from slurmrestd at {target.url}: {error}") from error
        except (ValueError, RecursionError) as error:
            raise Unreadable(f"{target.url} answered with no JSON; is it slurmrestd?") from error
        finally:
            cut.cancel()
            connection.close()
        if not isinstance(answer, dict):
            raise Unreadable(f"{target.url} answered with JSON that is no object")
        return response.status, answer


def _cut(connection: http.client.HTTPConnection) -> None:
    """End a connection that another thread waits on."""
    if connection.sock is not None:
        with contextlib.suppress(OSError):
            connection.sock.shutdown(socket.SHUT_RDWR)


def _connection(url: str, timeout_s: float) -> http.client.HTTPConnection:
    if url.startswith("unix:"):
        return _UnixConnection(url.removeprefix("unix:"), timeout_s)
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    return kind(parts.hostname or "", parts.port, timeout=timeout_s)


def _request(action: Action) -> tuple[str, str, dict[str, Any] | None]:
    job = checked_job_id(action.job_id)
    if not job.isdigit():
        raise Refused(f"slurmrestd of this release knows whole jobs by their number, not {job}")
    match action.kind:
        case ActionKind.REQUEUE | ActionKind.REQUEUE_HOLD:
            raise Refused(_NO_REQUEUE)
        case ActionKind.RELEASE:
            return "POST", f"job/{job}", {"hold": False}
        case ActionKind.CANCEL:
            return "DELETE", f"job/{job}", None
        case ActionKind.UPDATE:
            if action.requeueable is not None:
                raise Refused(_NO_FENCE)
            fields: dict[str, Any] = {}
            if action.exclusions is not None:
                fields["exclude_nodes"] = ",".join(checked_node(n) for n in action.exclusions)
            if action.start_now:
                fields["begin_time"] = "now"
            if not fields:
                raise Refused(f"an update of job {job} that changes nothing")
            return "POST", f"job/{job}", fields


def _records(body: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    found = body.get(name)
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise Unreadable(f"slurmrestd's answer has no list of {name}")
    return found


def _errors(body: Mapping[str, Any]) -> list[str]:
    found = body.get("errors") or []
    return [
        str(each.get("error") or each.get("description") or each)
        if isinstance(each, dict)
        else str(each)
        for each in found
    ]


def _release(body: Mapping[str, Any]) -> str:
    meta = body.get("meta")
    for key in ("Slurm", "slurm"):
        known = meta.get(key) if isinstance(meta, dict) else None
        if isinstance(known, dict) and isinstance(known.get("release"), str):
            return str(known["release"])
    raise Unreadable("slurmrestd does not say its release")


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
