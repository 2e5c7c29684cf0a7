"""The store port over SQL: transactions in, records out.

Nothing is decided here. Each method is one transaction: `apply` and the few small writes take the
write lock from their first statement to their last, every read sees one committed state.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence as Seq
from datetime import datetime
from pathlib import Path

from sqlalchemy import Connection

from middlewatch.adapters.sql import advice as _advice
from middlewatch.adapters.sql import ageing as _ageing
from middlewatch.adapters.sql import read as _read
from middlewatch.adapters.sql import recoveries as _recoveries
from middlewatch.adapters.sql import sharing as _sharing
from middlewatch.adapters.sql import signals as _signals
from middlewatch.adapters.sql import small as _small
from middlewatch.adapters.sql import trail as _trail
from middlewatch.adapters.sql.engine import WAIT_S, Database
from middlewatch.adapters.sql.place import network_mount, private_directory
from middlewatch.adapters.sql.upgrade import bring_up_to_date
from middlewatch.adapters.sql.write import last_number, write
from middlewatch.model.action import ActionRecord
from middlewatch.model.advice import Advice, Status
from middlewatch.model.attempt import Attempt
from middlewatch.model.audit import AuditEvent
from middlewatch.model.change import Applied, Change, Decision, Lease, WatchState
from middlewatch.model.identity import AttemptId, ClusterId
from middlewatch.model.issue import Issue, Verdict
from middlewatch.model.milestone import Milestone, Operation, Sequence
from middlewatch.model.recovery import Recovery
from middlewatch.model.retention import Aged, Cutoffs
from middlewatch.model.sharing import Sharing
from middlewatch.model.signal import Progress, Signal
from middlewatch.ports.errors import PortError, Refused
from middlewatch.ports.store import (
    AttemptFilter,
    AuditFilter,
    RecoveryFilter,
    TokenRecord,
    Workflow,
)

_SQLITE = "sqlite:///"


def open_store(
    where: str | Path,
    *,
    wait_s: float = WAIT_S,
    clock: Callable[[], datetime] | None = None,
) -> SqlStore:
    """Open the store at a path or an ``sqlite:///…`` URL, making and upgrading it as needed.

    ``wait_s`` bounds how long a write waits for other writers. ``clock`` takes the place of the
    database's own (virtual time); all who open one store must give the same. Raises `Refused` for
    a place that will not do (another database, a network file system, somebody else's directory),
    `Unreadable` for a file that is not ours, `Unreachable` where the disk does not let us.
    """
    path = _path(where)
    mount = network_mount(path.parent)
    if mount is not None:
        raise Refused(
            f"{path} lies on {mount.kind} (mounted at {mount.point}), where a database is not "
            "safe; name a directory on a local disk"
        )
    private_directory(path.parent)
    database = Database(path, wait_s=wait_s)
    try:
        bring_up_to_date(database)
    except BaseException:
        database.close()
        raise
    return SqlStore(database, clock)


def _path(where: str | Path) -> Path:
    text = str(where)
    if text.startswith(_SQLITE):
        text = text.removeprefix(_SQLITE)
    elif "://" in text:
        kind = text.partition("://")[0]
        raise Refused(f"{kind} is no database that this version keeps its state in; use a path")
    if not text or text == ":memory:":
        raise Refused("the state needs a file to outlive the process; name a path")
    return Path(text).expanduser().absolute()


class SqlStore:
    """Implements `middlewatch.ports.store.Store`. One object serves all threads of a process;
    several processes may open the same file."""

    def __init__(self, database: Database, clock: Callable[[], datetime] | None = None) -> None:
        self.database = database
        self._clock = clock

    def close(self) -> None:
        self.database.close()

    def apply(self, change: Change) -> Applied:
        with self.database.write() as connection:
            return write(connection, change)

    # attempts

    def attempt(self, attempt_id: AttemptId) -> Attempt | None:
        with self.database.read() as connection:
            return _read.attempt(connection, attempt_id)

    def attempts_of_job(self, cluster: ClusterId, job_id: str) -> tuple[Attempt, ...]:
        with self.database.read() as connection:
            return _read.attempts_of_job(connection, cluster, job_id)

    def attempt_by_index(self, job_id: str, attempt_index: int) -> Attempt | None:
        with self.database.read() as connection:
            return _read.attempt_by_index(connection, job_id, attempt_index)

    def live_attempts(self, cluster: ClusterId) -> tuple[Attempt, ...]:
        with self.database.read() as connection:
            return _read.live_attempts(connection, cluster)

    def attempts(self, where: AttemptFilter, offset: int, limit: int) -> tuple[Attempt, ...]:
        with self.database.read() as connection:
            return _read.attempts(connection, where, offset, limit)

    def workflows(self, offset: int, limit: int) -> tuple[Workflow, ...]:
        with self.database.read() as connection:
            return _read.workflows(connection, offset, limit)

    def workflow(self, workflow_id: str) -> Workflow | None:
        with self.database.read() as connection:
            return next(iter(_read.workflows(connection, 0, 1, workflow_id)), None)

    # watching

    def watch_state(self, attempt_id: AttemptId) -> WatchState | None:
        with self.database.read() as connection:
            return _read.watch_state(connection, attempt_id)

    def progress(self, attempt_id: AttemptId) -> Progress | None:
        with self.database.read() as connection:
            return _read.progress(connection, attempt_id)

    def progress_of(self, attempt_ids: Seq[AttemptId]) -> dict[AttemptId, Progress]:
        with self.database.read() as connection:
            return _read.progress_of(connection, attempt_ids)

    def signals(
        self, attempt_id: AttemptId, after: int = 0, limit: int = 1000
    ) -> tuple[tuple[int, Signal], ...]:
        with self.database.read() as connection:
            return _read.signals(connection, attempt_id, after, limit)

    def signals_after(self, after: int, limit: int = 1000) -> tuple[tuple[int, Signal], ...]:
        with self.database.read() as connection:
            return _read.signals(connection, None, after, limit)

    def capped_counts(self, attempt_id: AttemptId) -> dict[str, int]:
        with self.database.read() as connection:
            return _signals.capped_counts(connection, attempt_id)

    # decisions

    def issues(self, attempt_id: AttemptId | None, offset: int, limit: int) -> tuple[Issue, ...]:
        with self.database.read() as connection:
            return _read.issues(connection, attempt_id, offset, limit)

    def verdicts(self, attempt_id: AttemptId) -> tuple[Verdict, ...]:
        with self.database.read() as connection:
            return _read.verdicts(connection, attempt_id)

    def decisions(self, attempt_id: AttemptId) -> tuple[Decision, ...]:
        with self.database.read() as connection:
            return _read.decisions(connection, attempt_id)

    def advice(self, attempt_id: AttemptId) -> Advice | None:
        with self.database.read() as connection:
            return _advice.advice(connection, attempt_id)

    def advice_of(self, attempt_ids: Seq[AttemptId]) -> dict[AttemptId, Advice]:
        with self.database.read() as connection:
            return _advice.advice_of(connection, attempt_ids)

    def advice_of_job(self, cluster: ClusterId, job_id: str) -> tuple[Advice, ...]:
        with self.database.read() as connection:
            return _advice.advice_of_job(connection, cluster, job_id)

    def advice_page(
        self, only_active: bool, after: int, limit: int, owner: ClusterId | None = None
    ) -> tuple[tuple[int, Advice], ...]:
        with self.database.read() as connection:
            return _advice.advice_page(connection, only_active, after, limit, owner)

    def generations(self, attempt_id: AttemptId) -> tuple[Advice, ...]:
        with self.database.read() as connection:
            return _advice.generations(connection, attempt_id)

    def statuses(self, attempt_id: AttemptId) -> tuple[Status, ...]:
        with self.database.read() as connection:
            return _advice.statuses(connection, attempt_id)

    def actions(self, attempt_id: AttemptId) -> tuple[ActionRecord, ...]:
        with self.database.read() as connection:
            return _read.actions(connection, attempt_id)

    def placed(self, attempt_id: AttemptId) -> tuple[ActionRecord, ...]:
        with self.database.read() as connection:
            return _read.placed(connection, attempt_id)

    def sequence(
        self, scheduler: str, environment: str, job_id: str, index: int, operation: Operation
    ) -> Sequence | None:
        with self.database.read() as connection:
            return _read.sequence(
                connection, ClusterId(scheduler, environment), job_id, index, operation
            )

    def sequence_by_id(self, sequence_id: str) -> Sequence | None:
        with self.database.read() as connection:
            return _read.sequence_by_id(connection, sequence_id)

    def milestones(self, sequence_id: str) -> tuple[Milestone, ...]:
        with self.database.read() as connection:
            return _read.milestones(connection, sequence_id)

    # recoveries

    def recovery(self, recovery_id: str) -> Recovery | None:
        with self.database.read() as connection:
            return _recoveries.recovery(connection, recovery_id)

    def recoveries(
        self, where: RecoveryFilter, before: int, limit: int
    ) -> tuple[tuple[int, Recovery], ...]:
        with self.database.read() as connection:
            return _recoveries.recoveries(connection, where, before, limit)

    def settled_recoveries(
        self, after: int, limit: int, cluster: ClusterId | None = None
    ) -> tuple[tuple[int, Recovery], ...]:
        with self.database.read() as connection:
            return _recoveries.settled_recoveries(connection, after, limit, cluster)

    # audit

    def audit(
        self,
        where: AuditFilter,
        after: int,
        limit: int,
        *,
        descending: bool = False,
        backwards: bool = False,
    ) -> tuple[AuditEvent, ...]:
        with self.database.read() as connection:
            return _trail.audit(
                connection, where, after, limit, descending=descending, backwards=backwards
            )

    def last_audit_number(self) -> int:
        with self.database.read() as connection:
            return last_number(connection)

    # leases, tokens, small facts

    def acquire_lease(self, name: str, holder: str, ttl_s: float, now: datetime) -> Lease | None:
        with self.database.write() as connection:
            return _small.acquire_lease(connection, name, holder, ttl_s, now)

    def release_lease(self, lease: Lease) -> None:
        with self.database.write() as connection:
            _small.release_lease(connection, lease)

    def leases(self) -> tuple[Lease, ...]:
        with self.database.read() as connection:
            return _small.leases(connection)

    def sharing(self, pool: str) -> Sharing:
        with self.database.read() as connection:
            return _sharing.sharing(connection, pool, self._now(connection))

    def share_out(
        self,
        pool: str,
        holder: str,
        term_s: float,
        take: Seq[int] = (),
        give: Seq[int] = (),
    ) -> Sharing:
        with self.database.write() as connection:
            return _sharing.share_out(
                connection,
                pool,
                holder,
                term_s=term_s,
                now=self._now(connection),
                take=take,
                give=give,
            )

    def leave(self, pool: str, holder: str) -> None:
        with self.database.write() as connection:
            _sharing.leave(connection, pool, holder)

    def _now(self, connection: Connection) -> datetime:
        return self.database.moment(connection) if self._clock is None else self._clock()

    def add_token(self, token: TokenRecord) -> None:
        with self.database.write() as connection:
            _small.add_token(connection, token)

    def tokens(self) -> tuple[TokenRecord, ...]:
        with self.database.read() as connection:
            return _small.tokens(connection)

    def note(self, name: str) -> str | None:
        with self.database.read() as connection:
            return _small.note(connection, name)

    def notes(self, prefix: str) -> tuple[tuple[str, str], ...]:
        with self.database.read() as connection:
            return _small.notes(connection, prefix)

    def put_notes(self, notes: Seq[tuple[str, str]]) -> None:
        with self.database.write() as connection:
            _small.put_notes(connection, notes)

    def age_out(self, before: Cutoffs, limit: int) -> Aged:
        with self.database.read() as connection:
            found = _ageing.aged(connection, before, limit)
        with self.database.write() as connection:
            return _ageing.let_go(connection, found, before)

    def healthy(self) -> bool:
        try:
            with self.database.write() as connection:
                _small.beat(connection)
            with self.database.read() as connection:
                last_number(connection)
        except PortError:
            return False
        return True
