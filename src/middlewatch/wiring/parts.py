"""What the services of one process share, made once from the settings."""

from __future__ import annotations

import hashlib
import os
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from middlewatch.adapters.clock.system import SystemClock
from middlewatch.adapters.journal.file import FileJournal
from middlewatch.model.answer import Known, Unknown
from middlewatch.model.gates import Deployment
from middlewatch.ports.clock import Clock
from middlewatch.ports.errors import PortError, Refused, Unreachable
from middlewatch.ports.journal import Journal
from middlewatch.ports.remote import ControllerStore
from middlewatch.ports.scheduler import Scheduler
from middlewatch.ports.store import Store
from middlewatch.wiring.looking import acts_for, cluster_of, scheduler_of
from middlewatch.wiring.places import Places
from middlewatch.wiring.settings import Settings

if TYPE_CHECKING:
    from middlewatch.adapters.api.client import ApiClient
    from middlewatch.adapters.api.control import RemoteStore

MACHINE_ID = Path("/etc/machine-id")
WAIT_S = 2.0
"""How long one question for hints may stay open; a stop waits for it."""
SILENT_PAUSE_S = 2.0
UNCHANGED_PAUSE_S = 0.1


class Service(Protocol):
    def tick(self, now: datetime) -> object: ...


@dataclass(frozen=True, slots=True)
class Parts:
    """One process's means. ``holder`` names it where it takes a lease: the same name after a
    restart on the same machine and state directory, whose lock lets only one process be it at a time, so
    that a restarted process goes on at once instead of waiting for its own lease to run out."""

    settings: Settings
    places: Places
    clock: Clock
    here: Store | None
    """The store itself; a controller elsewhere has none."""
    control: ControllerStore
    """What a controller works with: the store, or a gateway that keeps it."""
    scheduler: Scheduler
    journal: Journal
    holder: str

    @property
    def store(self) -> Store:
        """The store itself. Raises `Refused` in a process that works through a gateway."""
        if self.here is None:
            raise Refused("controller.gateway is set: only a controller works through a gateway")
        return self.here

    def close(self) -> None:
        """Let go of the store, or of the connections to the gateway that keeps it."""
        for kept in (self.here, self.control):
            close = getattr(kept, "close", None)
            if close is not None:
                close()


def made(settings: Settings, places: Places, scheduler: Scheduler | None = None) -> Parts:
    """The parts; opens (and upgrades) the store. Raises the store's errors."""
    clock = SystemClock()
    store: Store | None = None
    if settings.controller.gateway:
        control: ControllerStore = remote_store(settings)
    else:
        from middlewatch.adapters.sql.store import open_store

        control = store = open_store(places.database)
    return Parts(
        settings=settings,
        places=places,
        clock=clock,
        here=store,
        control=control,
        scheduler=scheduler or scheduler_of(settings, clock),
        journal=FileJournal(places.state),
        holder=holder_name(places.state / "holder", clock, this_machine()),
    )


def remote_store(settings: Settings) -> RemoteStore:
    """The store behind the gateway of the settings. Raises `Refused` for a token that cannot be
    read."""
    from middlewatch.adapters.api.client import ApiClient
    from middlewatch.adapters.api.control import RemoteStore

    given = settings.controller
    path = Path(given.token_file).expanduser()
    try:
        token = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"controller.token_file {path} cannot be read: {error}") from error

    def connect() -> ApiClient:
        ca_file = Path(given.ca_file).expanduser() if given.ca_file else None
        timeout_s = settings.client.timeout_s
        return ApiClient(url=given.gateway, token=token, ca_file=ca_file, timeout_s=timeout_s)

    return RemoteStore(connect, cluster_of(settings))


class Hints:
    """Wakes a controller elsewhere when there is other advice; losing a hint costs time alone."""

    def __init__(self, store: RemoteStore, wake: Callable[[], None]) -> None:
        self._store = store
        self._wake = wake
        self._known = ""

    def tick(self, now: datetime) -> float:
        """Seconds until the next question: none after an answer, some after none."""
        try:
            found = self._store.wait(self._known, WAIT_S)
        except PortError:
            return SILENT_PAUSE_S  # the controller's own loop says so
        if found == self._known:
            # A gateway whose places for waiting are all taken answers at once.
            return UNCHANGED_PAUSE_S
        self._known = found
        self._wake()
        return 0.0


def this_machine(machine_id: Path = MACHINE_ID, name: str = "") -> str:
    """A mark that this machine keeps and another has not: of its systemd's number, where it has
    one, and its name, because a machine that was cloned may have kept the number."""
    try:
        number = machine_id.read_bytes().strip()
    except OSError:
        number = b""
    # The number itself is to be kept from whoever may read a lease.
    told = number + b" " + os.fsencode(name or socket.gethostname())
    return hashlib.sha256(told).hexdigest()[:12]


def holder_name(path: Path, clock: Clock, machine: str) -> str:
    """This state directory's name as a holder of leases, made at its first start on ``machine``. A
    copy on another one gets a name of its own: both would lead otherwise."""
    try:
        kept = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        kept = ""
    if kept.endswith(f"-{machine}"):
        return kept
    name = f"{socket.gethostname().partition('.')[0]}-{clock.token(6)}-{machine}"
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w", encoding="ascii", errors="replace") as file:
        file.write(name + "\n")
    return name


class Ownership:
    """Which cluster is ours, by the name that it gave itself when we first met.

    A controller that finds itself talking to another cluster than the one it was set up for must
    not act, so the name is kept with the state (or set), and compared at each look.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._lock = threading.Lock()
        self._name = parts.settings.deployment.cluster_name
        self._note = f"cluster_name/{parts.settings.deployment.environment}"

    def name(self) -> str:
        """Raises `Unreachable` while the scheduler has never yet said it."""
        with self._lock:
            if not self._name:
                self._name = self._parts.control.note(self._note) or self._first_seen()
            return self._name

    def deployment(self) -> Deployment:
        """The site's side of the gates. Raises `Unreachable`."""
        given = self._parts.settings.deployment
        return Deployment(
            cluster=cluster_of(self._parts.settings),
            owned_cluster_name=self.name(),
            mode=given.mode,
            acknowledge_scheduler_actions=given.acknowledge_scheduler_actions,
            partitions=given.partitions,
            only_for=acts_for(self._parts.scheduler),
        )

    def _first_seen(self) -> str:
        match self._parts.scheduler.facts():
            case Known(value=facts):
                self._parts.control.put_notes(((self._note, facts.name),))
                return facts.name
            case Unknown(why=why):
                raise Unreachable(f"the cluster has not said its name yet: {why}")
            case _:
                raise Unreachable("the cluster has not said its name yet")


class Late:
    """A service that can only be made once something outside has answered; made at its first
    tick, and tried again at each until it is."""

    def __init__(self, make: Callable[[], Service]) -> None:
        self._make = make
        self.service: Service | None = None

    def tick(self, now: datetime) -> object:
        if self.service is None:
            self.service = self._make()
        return self.service.tick(now)

    def finish(self, now: datetime) -> None:
        """Let a service that has something to write before it goes write it."""
        finish = getattr(self.service, "finish", None)
        if finish is not None:
            finish(now)
