"""up, the single roles and the watchdog: start, say what there is, run until asked to stop."""

from __future__ import annotations

import functools
import os
import socket
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from middlewatch import __version__
from middlewatch.cli import show
from middlewatch.cli.failure import Exit
from middlewatch.cli.session import Session, with_session
from middlewatch.wiring.settings import GatewaySettings

if TYPE_CHECKING:
    from middlewatch.wiring.loading import Loaded
    from middlewatch.wiring.up import Started

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("--mode", "deployment.mode", {"metavar": "MODE", "help": "monitor (default) or action."}),
    (
        "--acknowledge-scheduler-actions",
        "deployment.acknowledge_scheduler_actions",
        {"is_flag": True, "default": None, "help": "Needed before any job is changed."},
    ),
    (
        "--environment",
        "deployment.environment",
        {"metavar": "NAME", "help": "This cluster's name in opt-ins."},
    ),
    (
        "--partitions",
        "deployment.partitions",
        {"metavar": "A,B", "help": "Partitions whose jobs may be changed; * for all."},
    ),
    ("--bind", "gateway.bind", {"metavar": "ADDRESS", "help": "Address to serve on."}),
    (
        "--port",
        "gateway.port",
        {"metavar": "PORT", "help": f"Port to serve on ({GatewaySettings().port}); 0: a free one."},
    ),
    ("--tls-cert", "gateway.tls_cert", {"metavar": "FILE", "help": "Certificate chain (PEM)."}),
    ("--tls-key", "gateway.tls_key", {"metavar": "FILE", "help": "Its key (PEM)."}),
    (
        "--tls-terminated-elsewhere",
        "gateway.tls_terminated_elsewhere",
        {"is_flag": True, "default": None, "help": "A proxy in front of us speaks TLS."},
    ),
    (
        "--insecure",
        "gateway.insecure",
        {"is_flag": True, "default": None, "help": "No authentication: demos only."},
    ),
    ("--log-format", "log.format", {"metavar": "FORMAT", "help": "auto, human, json, logfmt."}),
    ("--log-level", "log.level", {"metavar": "LEVEL", "help": "debug, info, warning, error."}),
)


def with_flags(function: F) -> F:
    """Add the flags that set something, and put them into the session."""

    @functools.wraps(function)
    def command(session: Session, **given: Any) -> Any:
        for option, name, _ in _OPTIONS:
            value = given.pop(option.removeprefix("--").replace("-", "_"))
            if value is not None:
                session.flags[name] = value
        return function(session, **given)

    wrapped: Any = command
    for option, _, details in reversed(_OPTIONS):
        wrapped = click.option(option, **details)(wrapped)
    result: F = wrapped
    return result


@click.command()
@with_session(json=False)
@with_flags
@click.option("--no-watchdog", is_flag=True, help="Do not start the watchdog.")
def up(session: Session, *, no_watchdog: bool) -> int:
    """Run everything in one process, and the watchdog beside it. Ctrl-C stops it in order.

    Begins in monitor mode: nothing is changed, advice is recorded as what it would have done.

    \b
    Examples:
      mw up
      mw up --mode action --acknowledge-scheduler-actions --partitions gpu
    """
    if no_watchdog:
        session.flags["watchdog.enabled"] = False
    return _run(session, None)


def _role(name: str, text: str) -> click.Command:
    @click.command(name, help=text)
    @with_session(json=False)
    @with_flags
    def command(session: Session) -> int:
        return _run(session, name)

    return command


gateway = _role("gateway", "Serve the API alone, over the state of the state directory.")


@click.command()
@with_session(json=False)
@with_flags
@click.option("--name", metavar="NAME", help="Of a further watcher; the first one has none.")
def watcher(session: Session, *, name: str | None) -> int:
    """Find attempts, read their logs, store signals; nothing else.

    Beside `mw up`, or another watcher, on the same state directory: with a name. They share the
    jobs; each has a core of its own to search logs with.
    """
    if name is not None:
        session.flags["watcher.name"] = name
    return _run(session, "watcher")


manager = _role("manager", "Turn signals into issues, verdicts and advice; nothing else.")


@click.command()
@with_session(json=False)
@with_flags
@click.option("--gateway", metavar="URL", help="Ask this gateway instead of the store.")
@click.option("--token-file", metavar="FILE", help="Token for it, with the scope controller.")
@click.option("--ca-file", metavar="FILE", help="Authorities to trust for it (PEM).")
def controller(session: Session, **given: str | None) -> int:
    """Carry out advice; nothing else. Starts the watchdog as well.

    With --gateway it works from another machine: it asks that gateway and reports to it, by outgoing
    connections alone, and has its journal and its watchdog beside itself.

    \b
      mw controller --gateway https://mw.example.org:8642 --token-file /etc/middlewatch/token
    """
    for name, value in given.items():
        if value is not None:
            session.flags[f"controller.{name}"] = value
    return _run(session, "controller")


@click.command()
@with_session(json=False)
@click.option("--mode", metavar="MODE", help="action (default) or monitor.")
def watchdog(session: Session, *, mode: str | None) -> int:
    """Let go what we hold too long, and nothing else; needs neither gateway nor store."""
    if mode is not None:
        session.flags["watchdog.mode"] = mode
    from middlewatch.wiring import places, watchdog_process
    from middlewatch.wiring.build import watchdog_spec

    loaded = session.loaded()
    where = places.prepared(loaded.settings, os.environ)
    return watchdog_process.main(watchdog_spec(loaded.settings, where.state).argv())


def _run(session: Session, role: str | None) -> int:
    loaded = session.loaded()
    from middlewatch.wiring import up as process

    roles = process.EVERYTHING if role is None else frozenset({process.Role(role)})
    clean = process.run(
        process.Process(loaded, roles),
        lambda started: _ready(loaded, started, role),
        lambda: _stopping(role),
    )
    if not clean:
        show.note("something of ours still stands; the watchdog goes on and lets it go in time")
    return Exit.OK


def _stopping(role: str | None) -> None:
    if sys.stderr.isatty() and role in {None, "controller"}:
        show.note("stopping: first letting go what we hold (Ctrl-C again: do not wait)")


def _ready(loaded: Loaded, started: Started, role: str | None) -> None:
    settings = loaded.settings
    mode = settings.deployment.mode.value.upper()
    what = (
        "reads Slurm and logs, never changes a job"
        if mode == "MONITOR"
        else "may restart jobs that opted in"
    )
    host = socket.gethostname().partition(".")[0]
    show.say(f"middlewatch {__version__} {role or 'up'} on {host}: {mode} mode, {what}")
    partitions = ", ".join(settings.deployment.partitions) or "none"
    cluster = started.cluster or "(has not said its name yet)"
    show.say(
        f"  cluster   {cluster}, environment {settings.deployment.environment}, "
        f"partitions allowed: {partitions}"
    )
    show.say(f"  state     {started.places.state}")
    if started.places.notice:
        show.say(f"            {started.places.notice}")
    files = ", ".join(map(str, loaded.files)) or "no file found, defaults (mw config show)"
    show.say(f"  settings  {files}")
    if started.url:
        show.say(f"  api       {started.url}   socket {started.places.socket}")
    if started.grpc:
        show.say(f"  grpc      {started.grpc}")
    if started.first_token:
        show.say(f"  token     {started.first_token}")
        show.say(f"            shown once; kept for you in {started.places.token}")
    if started.watchdog is not None:
        guard = started.watchdog
        state = f"process {guard.pid}" if guard.pid else f"MISSING: {guard.problem}"
        show.say(f"  watchdog  {state}, mode {settings.watchdog.mode.value}")
    for caution in loaded.cautions:
        show.say(f"  CAUTION   {caution}")
    if role is None:
        show.say("  next      mw jobs      (stop with Ctrl-C)")
    sys.stdout.flush()
