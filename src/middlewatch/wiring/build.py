"""From settings to services: the one place where services meet adapters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from middlewatch.model.sharing import pool_of
from middlewatch.wiring.looking import cluster_of
from middlewatch.wiring.parts import Ownership, Parts, Service
from middlewatch.wiring.settings import Settings, Transport, watchdog_config
from middlewatch.wiring.transport import rest_target, watchdog_target
from middlewatch.wiring.watchdog_process import WatchdogSpec

if TYPE_CHECKING:
    from middlewatch.ports.clock import Clock
    from middlewatch.services.controller.controller import Controller
    from middlewatch.services.gateway.server import Gateway
    from middlewatch.services.keeper import Keeper
    from middlewatch.services.watcher import Watcher
    from middlewatch.services.watcher.health import Health

Ages = Callable[[], Mapping[str, float | None]]
Hint = Callable[[], None]


def gateway(parts: Parts, ages: Ages, wake: Hint) -> Gateway:
    """The API, not yet started. ``wake`` is called when something new was stored."""
    from middlewatch.services.gateway import server
    from middlewatch.services.gateway.access import Listen, SocketOthers

    given = parts.settings.gateway
    listen = Listen(
        host=given.bind,
        port=given.port,
        grpc_port=given.grpc_port or None,
        tls_certificate=given.tls_cert or None,
        tls_key=given.tls_key or None,
        tls_terminated_elsewhere=given.tls_terminated_elsewhere,
        insecure=given.insecure,
        mode=parts.settings.deployment.mode,
    )
    settings = server.GatewaySettings(
        listen=listen,
        token_file=parts.places.token,
        socket=parts.places.socket,
        socket_others=SocketOthers(given.socket_others.value),
        signal_cap=parts.settings.policy.signal_cap,
        policy=parts.settings.policy,
    )
    return server.Gateway(
        settings, parts.store, parts.clock, cluster_of(parts.settings), ages=ages, wake=wake
    )


def controller(parts: Parts, owned: Ownership, log: Any) -> Controller:
    """Raises `Unreachable` while it is not known which cluster is ours."""
    from middlewatch.services.controller.controller import Controller, ControllerConfig

    def failed(what: str, error: Exception) -> None:
        log.error("advice_failed", advice=what, error=str(error))

    given = parts.settings
    return Controller(
        store=parts.control,
        scheduler=parts.scheduler,
        journal=parts.journal,
        clock=parts.clock,
        deployment=owned.deployment(),
        policy=given.policy,
        holder=parts.holder,
        config=ControllerConfig(
            deadline_s=given.slurm.command_deadline_s,
            lease_s=given.controller.lease_s,
            max_hold_s=given.controller.max_hold_s,
        ),
        on_error=failed,
        on_lead=lambda text: log.info("leadership", holder=parts.holder, state=text),
    )


def manager(parts: Parts, owned: Ownership, log: Any, hint: Hint) -> Service:
    """``hint`` is called after new advice. Raises `Unreachable` while it is not known which
    cluster is ours."""
    from middlewatch.services.manager.manager import Manager

    return Manager(
        store=parts.store,
        scheduler=parts.scheduler,
        deployment=owned.deployment(),
        policy=parts.settings.policy,
        on_advice=hint,
        on_error=lambda attempt, error: log.error(
            "evaluation_failed", attempt=attempt, error=str(error)
        ),
    )


def watcher(parts: Parts, log: Any, hint: Hint) -> Service:
    """``hint`` is called after a tick that stored something."""
    from middlewatch.adapters.hints.file import HintFile
    from middlewatch.adapters.logs import FileLogs, RecordCodec, room_for_files
    from middlewatch.adapters.logstores import StoreLogs
    from middlewatch.adapters.scan import OwnPatterns
    from middlewatch.adapters.scan.catalogue import read_loops
    from middlewatch.adapters.scan.engine import Engine, NoEngineError, engine_of, scanner_for
    from middlewatch.services.watcher import Watch, Watcher
    from middlewatch.services.watcher.health import Health
    from middlewatch.services.watcher.settings import WatcherSettings
    from middlewatch.services.watcher.share import Part
    from middlewatch.wiring.evidence import evidence
    from middlewatch.wiring.hinting import hint_path
    from middlewatch.wiring.loading import BadSettings, Problem
    from middlewatch.wiring.logsource import sources
    from middlewatch.wiring.memory import collect_rarely
    from middlewatch.wiring.patterns import catalogue_of

    collect_rarely()
    # Whose lock has this name as well: no two processes have it at the same time.
    name = "-".join(filter(None, (parts.holder, parts.settings.watcher.name)))
    catalogue, loops = catalogue_of(parts.settings.watcher), read_loops()
    try:
        engine = Engine(parts.settings.watcher.engine.value)
        scanner, loop_scanner = scanner_for(catalogue, engine), scanner_for(loops, engine)
    except NoEngineError as error:
        raise BadSettings([Problem("watcher.engine", str(error))]) from error
    log.info("scanning", engine=engine_of(scanner).value, patterns=len(catalogue.patterns))
    logs, places = sources(parts.settings.logs, FileLogs(hold=room_for_files()), parts.clock)
    service = Watcher(
        store=parts.store,
        scheduler=parts.scheduler,
        logs=logs,
        places=places,
        neighbours=logs if isinstance(logs, StoreLogs) else None,
        scanner=scanner,
        loops=loop_scanner,
        patterns={**catalogue.by_id(), **loops.by_id()},
        codec=RecordCodec(Watch),
        policy=parts.settings.policy,
        settings=WatcherSettings(
            listing_shortest_s=parts.settings.watcher.listing_shortest_s,
            listing_longest_s=parts.settings.watcher.listing_longest_s,
        ),
        hinted=HintFile(hint_path(parts.settings, parts.places.state)).came,
        clock=parts.clock,
        own=OwnPatterns(),
        evidence=evidence(parts.settings.metrics, parts.clock),
        share=Part(
            parts.store,
            pool_of("watcher", parts.scheduler.cluster),
            name,
            parts.settings.watcher.lease_s,
            parts.clock,
        ),
    )
    return WatcherEdge(service, Health(parts.store, name), parts.clock, log, hint)


def keeper(parts: Parts, log: Any) -> KeeperEdge:
    from middlewatch.model.retention import Retention
    from middlewatch.services.keeper import Keeper

    given = parts.settings.retention
    return KeeperEdge(Keeper(parts.store, Retention(given.evidence_s, given.attempts_s)), log)


class KeeperEdge:
    """The keeper with its voice: what went is said when there is no more of it."""

    def __init__(self, keeper: Keeper, log: Any) -> None:
        self._keeper = keeper
        self._log = log

    def tick(self, now: datetime) -> object:
        report = self._keeper.tick(now)
        if report.swept is not None:
            swept = report.swept
            self._log.info("aged_out", attempts=swept.attempts, evidence_of=swept.evidence_of)
        return report


class WatcherEdge:
    """The watcher with its voice: what goes wrong with a job is said when it begins, not at each
    tick that it lasts; whoever waits for signals is woken; how the watcher is, is left in the store."""

    def __init__(
        self, watcher: Watcher, health: Health, clock: Clock, log: Any, hint: Hint
    ) -> None:
        self._watcher = watcher
        self._health = health
        self._clock = clock
        self._log = log
        self._hint = hint
        self._said: frozenset[str] = frozenset()
        self._shared: tuple[int, float] = (1, 1.0)

    def tick(self, now: datetime) -> object:
        began = self._clock.monotonic()
        report = self._watcher.tick(now)
        took_s = self._clock.monotonic() - began
        if report.something_new:
            self._hint()
        if (shared := (report.watchers, report.share)) != self._shared:
            self._log.info("sharing", watchers=report.watchers, share=f"{report.share:.0%}")
            self._shared = shared
        troubles = frozenset(report.errors)
        if report.listing_unknown is not None:
            troubles |= {f"the scheduler cannot be seen: {report.listing_unknown}"}
        for trouble in sorted(troubles - self._said):
            self._log.warning("watching_hindered", error=trouble)
        for trouble in sorted(self._said - troubles):
            self._log.info("watching_again", error=trouble)
        self._said = troubles
        self._health.add(report, took_s, self._clock.now())
        return report.behind > 0

    def finish(self, now: datetime) -> None:
        """Write the places in the logs that were not written yet: they need not be read again."""
        self._watcher.finish(now)


def watchdog_spec(settings: Settings, parts_state: Any) -> WatchdogSpec:
    """What the watchdog's process is told."""
    return WatchdogSpec(
        state_dir=parts_state,
        environment=settings.deployment.environment,
        mode=settings.watchdog.mode,
        config=watchdog_config(settings),
        look_deadline_s=settings.slurm.look_deadline_s,
        up_grace_s=settings.watchdog.up_grace_s,
        bin_dir=settings.slurm.bin_dir,
        slurm_conf=settings.slurm.conf,
        ssh=watchdog_target(settings).to_json()
        if settings.slurm.transport is Transport.SSH
        else "",
        rest=rest_target(settings).to_json()
        if settings.slurm.transport is Transport.SLURMRESTD
        else "",
    )
