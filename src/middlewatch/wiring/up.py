"""One process, from its lock to its clean stop: everything (`up`), or one role alone.

At a stop the order matters: first nothing new is begun, then what we hold is let go, then the
watchdog may know that we are gone, and only then the API falls silent. What cannot be let go in
time is left to the watchdog, and said.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NoReturn

from middlewatch.ports.errors import PortError, Refused
from middlewatch.ports.scheduler import Scheduler
from middlewatch.reconciliation.holds import standing
from middlewatch.wiring import build, places
from middlewatch.wiring.loading import Loaded
from middlewatch.wiring.parts import Hints, Late, Ownership, Parts, made, remote_store
from middlewatch.wiring.presence import UpMark
from middlewatch.wiring.runner import Loop, Runner
from middlewatch.wiring.watchdog_supervision import Guard, Guarded, WatchdogSupervisor

if TYPE_CHECKING:
    from middlewatch.services.gateway.server import Gateway

HOUSEKEEPING_S = 2.0
KEEPING_S = 600.0
KEEPING_AGAIN_S = 1.0
"""Between two rounds over what has aged, and while there is more of it."""
DRAIN_PAUSE_S = 0.3
CLUSTER_NAME_S = 0.7


class Role(StrEnum):
    GATEWAY = "gateway"
    WATCHER = "watcher"
    MANAGER = "manager"
    CONTROLLER = "controller"


EVERYTHING = frozenset(Role)


@dataclass(frozen=True, slots=True)
class Started:
    """What there is to tell about a process that is ready."""

    places: places.Places
    url: str
    grpc: str
    first_token: str
    cluster: str
    watchdog: Guarded | None


class Process:
    """One running process. ``scheduler`` replaces the Slurm of the settings (tests, the demo)."""

    def __init__(
        self,
        loaded: Loaded,
        roles: frozenset[Role] = EVERYTHING,
        *,
        environ: Mapping[str, str] | None = None,
        scheduler: Scheduler | None = None,
    ) -> None:
        self._loaded = loaded
        self._settings = loaded.settings
        self._roles = roles
        self._environ = os.environ if environ is None else environ
        self._given_scheduler = scheduler
        self._log: Any = None
        self._locks: list[places.Lock] = []
        self._where: places.Places | None = None
        self._parts: Parts | None = None
        self._gateway: Gateway | None = None
        self._runner: Runner | None = None
        self._late: dict[Role, Late] = {}
        self._mark: UpMark | None = None
        self._supervisor: WatchdogSupervisor | None = None
        self._guarded: Guarded | None = None
        self._silent = False

    # ------------------------------------------------------------------------------- the start

    def start(self) -> Started:
        """Everything, up to being ready. Raises `AlreadyRunning`, `PortError`; then nothing is
        left running, except a watchdog that has something to guard."""
        try:
            return self._start()
        except BaseException:
            self._leave_no_watchdog()
            self._abandon()
            raise

    def _start(self) -> Started:
        if self._settings.controller.gateway and self._roles != {Role.CONTROLLER}:
            raise Refused("controller.gateway is set: only a controller works through a gateway")
        self._where = where = places.prepared(self._settings, self._environ)
        self._take_locks(where)
        if Role.GATEWAY in self._roles:
            # A killed one's: whoever waits for this file waits for us.
            where.address.unlink(missing_ok=True)
        guard = self._guard(where) if Role.CONTROLLER in self._roles else None
        # The log and the database cost most of a start; the watchdog's process starts meanwhile.
        import structlog

        from middlewatch.wiring import logs

        logs.configure(self._settings.log)
        self._log = structlog.get_logger("middlewatch")
        self._parts = parts = made(self._settings, where, self._given_scheduler)
        owned = Ownership(parts)
        self._runner = runner = Runner(parts.clock, self._loops(parts, owned), self._log)
        if Role.GATEWAY in self._roles:
            self._gateway = build.gateway(parts, self.ages, lambda: runner.wake(Role.MANAGER))
            self._gateway.start()
        runner.start()
        if guard is not None:
            self._guarded = guard()
            self._tell_guard()
        if self._gateway is not None:
            # Whoever waits for us to be ready waits for this file.
            _write_private(where.address, self._gateway.url + "\n")
        self._log.info("started", roles=sorted(self._roles), mode=self._settings.deployment.mode)
        return Started(
            places=where,
            url=self._gateway.url if self._gateway else "",
            grpc=(self._gateway.grpc_address or "") if self._gateway else "",
            first_token=(self._gateway.first_token or "") if self._gateway else "",
            cluster=self._cluster_name(parts),
            watchdog=self._guarded,
        )

    def _leave_no_watchdog(self) -> None:
        """A start that failed is no death: a watchdog without anything to guard may go."""
        if self._mark is None:
            return
        from middlewatch.adapters.clock.system import SystemClock

        with contextlib.suppress(OSError):
            self._mark.stopped(SystemClock().now())

    def _take_locks(self, where: places.Places) -> None:
        names = [self._named(role) for role in Role if role in self._roles]
        if self._roles == EVERYTHING:
            names.insert(0, "up")
        for name in names:
            self._locks.append(places.Lock(where.lock(name), name))

    def _named(self, role: Role) -> str:
        """Of watchers there may be several, each with a name of its own."""
        name = self._settings.watcher.name if role is Role.WATCHER else ""
        return f"{role.value}-{name}" if name else role.value

    def _guard(self, where: places.Places) -> Callable[[], Guarded] | None:
        """Start looking after the watchdog beside the rest of the start; the answer comes later."""
        from middlewatch.adapters.clock.system import SystemClock

        clock = SystemClock()
        self._mark = UpMark(where.state)
        self._mark.beat(clock.now())
        if not self._settings.watchdog.enabled:
            return None
        self._supervisor = supervisor = WatchdogSupervisor(
            build.watchdog_spec(self._settings, where.state)
        )
        answers: list[Guarded] = []
        thread = threading.Thread(
            target=lambda: answers.append(supervisor.ensure(clock.now())), name="guard", daemon=True
        )
        thread.start()

        def answer() -> Guarded:
            thread.join()
            return answers[0] if answers else Guarded(Guard.OFF, problem="it could not be started")

        return answer

    def _loops(self, parts: Parts, owned: Ownership) -> list[Loop]:
        log = self._log
        makers: dict[Role, tuple[Callable[[], Any], float]] = {
            Role.WATCHER: (
                lambda: build.watcher(parts, log, self._hint(Role.MANAGER)),
                parts.settings.watcher.interval_s,
            ),
            Role.MANAGER: (
                lambda: build.manager(parts, owned, log, self._hint(Role.CONTROLLER)),
                parts.settings.manager.interval_s,
            ),
            Role.CONTROLLER: (
                lambda: build.controller(parts, owned, log),
                parts.settings.controller.interval_s,
            ),
        }
        loops = []
        for role, (make, interval_s) in makers.items():
            if role in self._roles:
                self._late[role] = late = Late(make)
                again_s = parts.settings.controller.again_s
                loops.append(Loop(role.value, late.tick, interval_s, again_s, finish=late.finish))
        if Role.MANAGER in self._roles:
            keeper = build.keeper(parts, log)
            loops.append(Loop("keeper", keeper.tick, KEEPING_S, KEEPING_AGAIN_S))
        if parts.here is None:
            hints = Hints(remote_store(parts.settings), self._hint(Role.CONTROLLER))
            loops.append(Loop("hints", hints.tick, 1.0))
        return loops

    def _hint(self, role: Role) -> Callable[[], None]:
        def hint() -> None:
            if self._runner is not None:
                self._runner.wake(role.value)

        return hint

    def _cluster_name(self, parts: Parts) -> str:
        """The owned cluster's name; at the first start its first answer is awaited, not long."""
        given = self._settings.deployment
        until = parts.clock.monotonic() + CLUSTER_NAME_S
        while True:
            name = given.cluster_name
            with contextlib.suppress(PortError):  # a gateway may be away; it is asked again later
                name = name or parts.control.note(f"cluster_name/{given.environment}") or ""
            if name or Role.CONTROLLER not in self._roles or parts.clock.monotonic() >= until:
                return name
            parts.clock.sleep(0.05)

    def ages(self) -> dict[str, float | None]:
        """Seconds since each loop's last completed tick; None for one that has completed none."""
        if self._runner is None or self._parts is None:
            return {}
        now = self._parts.clock.monotonic()
        return {
            pulse.name: None if pulse.last is None else now - pulse.last
            for pulse in self._runner.pulses()
        }

    # ----------------------------------------------------------------------------- while it runs

    def look_after(self) -> None:
        """One round of housekeeping: our own sign of life, and the watchdog's."""
        if self._parts is None or self._runner is None:
            return
        now = self._parts.clock.now()
        if self._gateway is not None and not self._gateway.running and not self._silent:
            self._silent = True
            self._log.error("gateway_silent", note="the API has ended; recoveries go on")
        try:
            if self._mark is not None and not self._runner.stuck():
                self._mark.beat(now)
            if self._supervisor is not None:
                before = self._guarded
                self._guarded = self._supervisor.ensure(now)
                if before is None or before != self._guarded:
                    self._tell_guard()
        except OSError as error:
            self._log.error("no_sign_of_life", error=str(error))

    def _tell_guard(self) -> None:
        if self._guarded is None:
            return
        if self._guarded.guard is Guard.OFF:
            self._log.error("watchdog_missing", error=self._guarded.problem)
        else:
            self._log.info("watchdog", guard=self._guarded.guard.value, pid=self._guarded.pid)

    @property
    def displaced(self) -> bool:
        """Whether the state directory was removed or replaced under us: then what we write is
        read by nobody, and somebody else may begin where we believe to be alone."""
        return not all(lock.stands() for lock in self._locks)

    def give_up(self) -> NoReturn:
        """Leave as if killed, touching none of the files that lie there now."""
        self._log.error(
            "state_directory_gone",
            note="it was removed or replaced while in use: leaving at once; start again",
        )
        os._exit(1)

    # -------------------------------------------------------------------------------- the stop

    def stop(self, hurry: Callable[[], bool] = lambda: False) -> bool:
        """Stop in order. True where nothing of ours is left standing; ``hurry`` says that
        somebody asked twice, and ends the waiting."""
        if self._parts is None or self._runner is None:
            self._abandon()
            return True
        late = self._runner.stop(Role.MANAGER.value, Role.CONTROLLER.value)
        clean = self._drained(hurry) if Role.CONTROLLER in self._roles else True
        self._runner.stop()
        if Role.CONTROLLER.value not in late:
            self._resign()
        if self._mark is not None:
            # Also where something is left: the watchdog lets that go, and leaves after it.
            with contextlib.suppress(OSError):
                self._mark.stopped(self._parts.clock.now())
        self._log.info("stopped", clean=clean)
        self._abandon()
        return clean

    def _drained(self, hurry: Callable[[], bool]) -> bool:
        late = self._late.get(Role.CONTROLLER)
        controller = late.service if late else None
        drain = getattr(controller, "drain", None)
        if drain is None or self._parts is None:
            # It never came to life, so it holds nothing; an earlier one's holds are the
            # watchdog's, which is not told that all is well.
            return not self._parts_hold()
        clock = self._parts.clock
        until = clock.monotonic() + self._settings.controller.drain_limit_s
        while True:
            try:
                if drain(clock.now()):
                    return True
            except PortError as error:
                self._log.warning("drain_failed", error=str(error))
            if hurry() or clock.monotonic() >= until:
                self._log.error(
                    "left_standing",
                    note="something of ours still stands: the watchdog goes on",
                )
                return False
            self.look_after()
            clock.sleep(DRAIN_PAUSE_S)

    def _resign(self) -> None:
        """Another controller need not wait until our lease has run out. (One whose last round did
        not end keeps it: a command of its may be running.)"""
        late = self._late.get(Role.CONTROLLER)
        resign = getattr(late.service if late else None, "resign", None)
        if resign is None:
            return
        try:
            resign()
        except PortError as error:
            self._log.warning("lease_kept", error=str(error), note="it runs out by itself")

    def _parts_hold(self) -> bool:
        try:
            if self._parts is None:
                return False
            owed = standing(self._parts.journal.entries())
            # Exclusions alone keep nobody waiting while their job runs.
            return any(one.hold or one.window or one.fence for one in owed)
        except PortError:
            return True

    def _abandon(self) -> None:
        if self._runner is not None:
            self._runner.stop()
        if self._gateway is not None:
            self._gateway.stop()
            self._gateway = None
            if self._where is not None:
                self._where.address.unlink(missing_ok=True)
        if self._parts is not None:
            self._parts.close()
            self._parts = None
        for lock in self._locks:
            lock.release()
        self._locks = []


def _write_private(path: Any, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)


@contextlib.contextmanager
def signals() -> Iterator[Callable[[float | None], int]]:
    """Count requests to stop (SIGTERM, SIGINT, SIGHUP) from here on. The yielded function waits for as
    many seconds, or until one comes (None: not at all), and returns how many have come.

    A signal handler may interrupt anything, so it only writes to a pipe.
    """
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    count = 0

    def wait(seconds: float | None) -> int:
        nonlocal count
        ready, _, _ = select.select([reader], [], [], 0 if seconds is None else seconds)
        if ready:
            count += len(os.read(reader, 64))
        return count

    def came(_number: int, _frame: object) -> None:
        with contextlib.suppress(OSError):
            os.write(writer, b"x")

    numbers = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        # Under nohup the end of the terminal is meant to be nothing.
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, came) for number in numbers}
    try:
        yield wait
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reader)
        os.close(writer)


def run(
    process: Process,
    ready: Callable[[Started], None],
    stopping: Callable[[], None] = lambda: None,
) -> bool:
    """Start, tell, look after, and stop when asked; whether the stop was a clean one."""
    with signals() as asked:
        started = process.start()
        ready(started)
        while not asked(HOUSEKEEPING_S):
            if process.displaced:
                process.give_up()
            process.look_after()
        stopping()
        return process.stop(hurry=lambda: asked(None) > 1)
